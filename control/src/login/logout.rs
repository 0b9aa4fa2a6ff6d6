//! Signing out: the session's cookie goes, and the provider is told if it wants to know.

use super::page::Trouble;
use super::{Login, reply};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use nogoo9_identity::origin::cookie_counts;
use std::sync::Arc;

/// `POST /auth/logout`, from our own pages only: nobody is signed out by somebody else's.
pub(super) async fn logout(State(login): State<Arc<Login>>, headers: HeaderMap) -> Response {
    if !cookie_counts(&Method::POST, &headers, login.config.console_host()) {
        return Trouble {
            title: "You are still signed in",
            what: "The request to sign out came from another site.",
            todo: "Sign out on the console itself.",
            detail: None,
            again: "/",
        }
        .answer(StatusCode::FORBIDDEN, &[]);
    }
    let names = login.config.cookies();
    let gone = [names.delete(names.session())];
    match login.provider.leave(&login.config.public_url).await {
        Some(there) => reply::redirect(there.as_str(), &gone),
        None => reply::redirect("/", &gone),
    }
}
