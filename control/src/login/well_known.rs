//! What is published: our public keys, and where MCP clients get their tokens.

use super::Login;
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use nogoo9_identity::challenge::ProtectedResource;
use std::sync::Arc;

/// Where proxies find the keys that session tokens are signed with.
pub(super) const SESSION_KEYS: &str = "/.well-known/nogoo9-session-keys.json";
/// Metadata of the resource `/mcp` (RFC 9728, section 3.1).
pub(super) const RESOURCE_MCP: &str = "/.well-known/oauth-protected-resource/mcp";

/// Public halves only; changes with a rotation, which is announced a quarter of an hour ahead.
pub(super) async fn session_keys(State(login): State<Arc<Login>>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "public, max-age=60"),
    ];
    (headers, login.keys.jwks()).into_response()
}

/// Readable by pages of any origin: MCP clients that run in a browser need it.
pub(super) async fn protected_resource(State(login): State<Arc<Login>>) -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::CACHE_CONTROL, "public, max-age=300"),
    ];
    let metadata = ProtectedResource::new(&login.config.audience, &login.config.issuer);
    (headers, Json(metadata)).into_response()
}
