//! What is published: our public keys.

use super::Login;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Where proxies find the keys that session tokens are signed with.
pub(super) const SESSION_KEYS: &str = "/.well-known/nogoo9-session-keys.json";

/// Public halves only; changes with a rotation, which is announced a quarter of an hour ahead.
pub(super) async fn session_keys(State(login): State<Arc<Login>>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "public, max-age=60"),
    ];
    (headers, login.keys.jwks()).into_response()
}
