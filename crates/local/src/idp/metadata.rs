//! Discovery (OpenID Connect Discovery 1.0, RFC 8414) and keys.

use std::sync::Arc;

use axum::{Json, extract::State, http::header, response::IntoResponse};
use serde_json::json;

use super::{Provider, page, scope};

pub(super) async fn discovery(State(p): State<Arc<Provider>>) -> impl IntoResponse {
    let at = |path: &str| format!("{}{path}", p.issuer);
    Json(json!({
        "issuer": p.issuer,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "registration_endpoint": at("/register"),
        "client_id_metadata_document_supported": true,
        "jwks_uri": at("/jwks"),
        "userinfo_endpoint": at("/userinfo"),
        "end_session_endpoint": at("/end-session"),
        "scopes_supported": scope::all(),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "prompt_values_supported": ["none", "login", "select_account", "consent"],
        "claims_supported": ["sub", "iss", "aud", "exp", "iat", "auth_time", "nonce", "roles",
                             "name", "preferred_username", "email", "email_verified"],
        "authorization_response_iss_parameter_supported": true,
    }))
}

pub(super) async fn jwks(State(p): State<Arc<Provider>>) -> impl IntoResponse {
    let keys = json!({ "keys": [p.key.jwk()] });
    ([(header::CACHE_CONTROL, "public, max-age=300")], Json(keys))
}

pub(super) async fn about(State(p): State<Arc<Provider>>) -> impl IntoResponse {
    page::about(&p.issuer)
}
