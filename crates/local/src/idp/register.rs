//! Dynamic client registration (RFC 7591), open to whoever reaches this provider: what is registered
//! may send people here and get codes for its own redirect URIs, and nothing else.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::json;

use super::{Provider, clients::is_redirect_uri, documents::MAX_URIS, now};

/// Longest name of an application, in characters.
const MAX_NAME: usize = 100;

/// What of the wishes counts; the rest is ignored (RFC 7591, section 2).
#[derive(Deserialize)]
struct Wishes {
    #[serde(default)]
    redirect_uris: Vec<String>,
    client_name: Option<String>,
    grant_types: Option<Vec<String>>,
}

pub(super) async fn register(State(p): State<Arc<Provider>>, body: Bytes) -> Response {
    let wishes: Wishes = match serde_json::from_slice(&body) {
        Ok(wishes) => wishes,
        Err(error) => return refuse("invalid_client_metadata", &error.to_string()),
    };
    let uris = wishes.redirect_uris;
    if !(1..=MAX_URIS).contains(&uris.len()) || !uris.iter().all(|uri| is_redirect_uri(uri)) {
        let text = format!(
            "1 to {MAX_URIS} redirect_uris, each https or on this machine, without credentials or fragment"
        );
        return refuse("invalid_redirect_uri", &text);
    }
    let name = wishes.client_name.filter(|name| !name.trim().is_empty());
    if name.as_ref().is_some_and(|n| n.chars().count() > MAX_NAME) {
        let text = format!("client_name of at most {MAX_NAME} characters");
        return refuse("invalid_client_metadata", &text);
    }
    let asked = wishes.grant_types;
    let asks = |grant: &str| {
        asked
            .as_ref()
            .is_some_and(|all| all.iter().any(|one| one == grant))
    };
    if asked.is_some() && !asks("authorization_code") {
        return refuse(
            "invalid_client_metadata",
            "grant_types with authorization_code",
        );
    }
    let refreshes = asks("refresh_token");
    let now = now();
    let id = match p
        .registrations
        .add(name.clone(), uris.clone(), refreshes, now)
    {
        Ok(id) => id,
        Err(error) => {
            tracing::error!(%error, "client cannot be registered");
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
    };
    tracing::info!(client = id, "client registered itself");
    let mut grants = vec!["authorization_code"];
    grants.extend(refreshes.then_some("refresh_token"));
    // Public, whatever was wished for: the server may replace that (section 3.2.1).
    let mut answer = json!({
        "client_id": id,
        "client_id_issued_at": now,
        "redirect_uris": uris,
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    if let (Some(name), Some(answer)) = (name, answer.as_object_mut()) {
        answer.insert("client_name".to_owned(), name.into());
    }
    (StatusCode::CREATED, NO_STORE, Json(answer)).into_response()
}

const NO_STORE: [(header::HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

fn refuse(error: &str, description: &str) -> Response {
    let body = json!({ "error": error, "error_description": description });
    (StatusCode::BAD_REQUEST, NO_STORE, Json(body)).into_response()
}
