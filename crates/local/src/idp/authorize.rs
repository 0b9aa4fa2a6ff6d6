//! The authorisation request: checked, then answered by the sign-in page.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{Provider, http::parameters, now, page, scope, signin, users};

/// A request that was found good. It travels, signed, through the sign-in form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AuthorizeRequest {
    pub(super) client_id: String,
    /// What the application calls itself, if nobody else vouches for it.
    pub(super) name: Option<String>,
    /// Whether an operator named the application, so that its id says who it is.
    pub(super) trusted: bool,
    /// Whether it gets a refresh token.
    pub(super) refreshes: bool,
    pub(super) redirect_uri: String,
    pub(super) state: Option<String>,
    pub(super) nonce: Option<String>,
    pub(super) challenge: String,
    pub(super) scope: String,
}

/// What `invalid_target` means here (RFC 8707).
pub(super) const ONE_RESOURCE: &str =
    "tokens are issued for one resource, and for no more than one at a time";

/// Why a request was refused.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// To the person: the client or where to go back to is not known, so nobody may be
    /// sent anywhere.
    Page(String),
    /// To the client, by redirect.
    Redirect {
        uri: String,
        state: Option<String>,
        error: &'static str,
        description: &'static str,
    },
}

pub(super) async fn authorize(
    State(p): State<Arc<Provider>>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    let Some(query) = parameters(query.as_bytes()) else {
        return refuse_page("A parameter is given twice.");
    };
    match check(&p, &query).await {
        Ok(request) => {
            let hint = query.get("login_hint").and_then(|hint| users::find(hint));
            match signin::seal(&p, &request, now()) {
                Ok(sealed) => page::sign_in(&request, &p.audience, &sealed, hint).into_response(),
                Err(error) => {
                    tracing::error!(%error, "sign-in form cannot be signed");
                    StatusCode::INTERNAL_SERVER_ERROR.into_response()
                }
            }
        }
        Err(Refusal::Page(text)) => refuse_page(&text),
        Err(Refusal::Redirect {
            uri,
            state,
            error,
            description,
        }) => {
            let answer = [("error", error), ("error_description", description)];
            send_back(&p, &uri, state.as_deref(), &answer)
        }
    }
}

fn refuse_page(text: &str) -> Response {
    (StatusCode::BAD_REQUEST, page::refusal(text)).into_response()
}

/// Redirects to the client; `iss` guards against mix-up (RFC 9207).
pub(super) fn send_back(
    p: &Provider,
    uri: &str,
    state: Option<&str>,
    answer: &[(&str, &str)],
) -> Response {
    let Ok(mut url) = Url::parse(uri) else {
        return refuse_page("The registered redirect URI is no URL.");
    };
    url.query_pairs_mut()
        .extend_pairs(answer)
        .extend_pairs(state.map(|state| ("state", state)))
        .append_pair("iss", &p.issuer);
    Redirect::to(url.as_str()).into_response()
}

async fn check(
    p: &Provider,
    query: &BTreeMap<String, String>,
) -> Result<AuthorizeRequest, Refusal> {
    let get = |name: &str| query.get(name).map(String::as_str);
    let client_id = get("client_id").unwrap_or_default();
    let client = p.application(client_id).await.map_err(Refusal::Page)?;
    let redirect_uri = get("redirect_uri").unwrap_or_default();
    if !client.may_return_to(redirect_uri) {
        let text = format!(
            "“{redirect_uri}” is not a redirect URI of {client_id}. It must be exactly one of: {}",
            client.redirect_uris.join(", ")
        );
        return Err(Refusal::Page(text));
    }
    let state = query.get("state").cloned();
    let refuse = |error, description| {
        Err(Refusal::Redirect {
            uri: redirect_uri.to_owned(),
            state: state.clone(),
            error,
            description,
        })
    };
    if get("response_type") != Some("code") {
        return refuse("unsupported_response_type", "only response_type=code");
    }
    if !matches!(get("response_mode"), None | Some("query")) {
        return refuse("invalid_request", "only response_mode=query");
    }
    let challenge = get("code_challenge").unwrap_or_default();
    if get("code_challenge_method") != Some("S256") || !is_s256(challenge) {
        return refuse(
            "invalid_request",
            "PKCE with code_challenge_method=S256 is required",
        );
    }
    if get("request").is_some() {
        return refuse("request_not_supported", "request objects are not supported");
    }
    if get("resource").is_some_and(|resource| resource != p.audience) {
        return refuse("invalid_target", ONE_RESOURCE);
    }
    if get("prompt").is_some_and(|prompt| prompt.split(' ').any(|word| word == "none")) {
        return refuse("login_required", "nobody stays signed in here");
    }
    Ok(AuthorizeRequest {
        client_id: client_id.to_owned(),
        name: client.name,
        trusted: client.named_beforehand,
        refreshes: client.refreshes,
        redirect_uri: redirect_uri.to_owned(),
        state: state.clone(),
        nonce: query.get("nonce").cloned(),
        challenge: challenge.to_owned(),
        scope: scope::known(get("scope")),
    })
}

/// Whether it has the form of a base64url SHA-256 (RFC 7636, 4.2).
fn is_s256(challenge: &str) -> bool {
    challenge.len() == 43
        && challenge
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}
