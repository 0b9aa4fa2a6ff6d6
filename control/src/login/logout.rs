//! Signing out: the session ends on all hosts, its cookie goes, and the provider is told if it wants
//! to know.

use super::page::Trouble;
use super::{Login, reply};
use crate::cluster::ClusterError;
use crate::session::end;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use nogoo9_identity::cookie;
use nogoo9_identity::origin::cookie_counts;
use nogoo9_model::name::session_id;
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
    if let Err(error) = end_all_here(&login, &headers).await {
        tracing::error!(%error, "a session could not be ended");
        return Trouble {
            title: "You are signed out of the console only",
            what: "Workspaces that are open in this browser may stay open, since the end of your \
                   session could not be written down.",
            todo: "Sign in and out again in a moment, or close the workspaces.",
            detail: None,
            again: "/auth/login",
        }
        .answer(StatusCode::SERVICE_UNAVAILABLE, &gone);
    }
    match login.provider.leave(&login.config.public_url).await {
        Some(there) => reply::redirect(there.as_str(), &gone),
        None => reply::redirect("/", &gone),
    }
}

/// Ends every session that the request has a cookie of: more than one only where somebody planted
/// another.
async fn end_all_here(login: &Login, headers: &HeaderMap) -> Result<(), ClusterError> {
    let host = login.config.console_host();
    for token in cookie::values(headers, login.config.cookies().session()) {
        let Ok(found) = login.verify(token, host) else {
            continue;
        };
        let Some(sid) = &found.sid else { continue };
        let id = session_id(sid);
        end(&login.cluster, &id, login.now()).await?;
        tracing::info!(
            target: "audit",
            action = "session.end",
            sub = found.caller.sub,
            session = id,
            reason = "signed out",
            result = "ok",
            "session ended"
        );
    }
    Ok(())
}
