//! Routes, and what all of them need: the right Host, and CORS where scripts may read.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};

use super::{Provider, authorize, metadata, register, signin, token};

/// No request here is larger.
const MAX_BODY: usize = 16 * 1024;
/// Names what a token is for.
const RESOURCE: &str = "resource";

pub(super) fn router(provider: Arc<Provider>) -> Router {
    // Read by scripts of MCP clients in browsers; none of these takes a cookie.
    let scripted = Router::new()
        .route(
            "/.well-known/openid-configuration",
            get(metadata::discovery),
        )
        .route(
            "/.well-known/oauth-authorization-server",
            get(metadata::discovery),
        )
        .route("/jwks", get(metadata::jwks))
        .route("/token", post(token::token))
        .route("/register", post(register::register))
        .route("/userinfo", get(token::userinfo).post(token::userinfo))
        .layer(from_fn(cors));
    let pages = Router::new()
        .route("/", get(metadata::about))
        .route("/authorize", get(authorize::authorize))
        .route("/sign-in", post(signin::sign_in))
        .route("/end-session", get(signin::end_session));
    scripted
        .merge(pages)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn_with_state(Arc::clone(&provider), own_host))
        .with_state(provider)
}

/// Refuses requests for another host: a page whose name was rebound to loopback must not
/// talk to us as if it were this site.
async fn own_host(State(p): State<Arc<Provider>>, request: Request, next: Next) -> Response {
    let wanted = p.issuer.split_once("://").map_or("", |(_, rest)| rest);
    let named = request
        .headers()
        .get(header::HOST)
        .and_then(|value| value.to_str().ok())
        .or_else(|| request.uri().authority().map(|a| a.as_str()));
    if named.is_none_or(|host| !host.eq_ignore_ascii_case(wanted)) {
        let text = format!("this is {}; use that address\n", p.issuer);
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    next.run(request).await
}

async fn cors(request: Request, next: Next) -> Response {
    let preflight = request.method() == Method::OPTIONS;
    let mut reply = if preflight {
        StatusCode::NO_CONTENT.into_response()
    } else {
        next.run(request).await
    };
    let headers = reply.headers_mut();
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        HeaderValue::from_static("*"),
    );
    if preflight {
        headers.insert(
            header::ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("GET, POST"),
        );
        headers.insert(
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("authorization, content-type, mcp-protocol-version"),
        );
        headers.insert(
            header::ACCESS_CONTROL_MAX_AGE,
            HeaderValue::from_static("600"),
        );
    }
    reply
}

/// The pairs of a query or form; `None` if a name comes twice (RFC 6749, 3.1). Only `resource` may
/// (RFC 8707, 2); several of them become one that nobody knows, since a token is for one alone.
pub(super) fn parameters(text: &[u8]) -> Option<BTreeMap<String, String>> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(text) {
        // An empty value counts as absent (same section), but still as given.
        let value = value.into_owned();
        match found.entry(name.into_owned()) {
            Entry::Vacant(place) => {
                place.insert(value);
            }
            Entry::Occupied(first) if first.key() == RESOURCE => {
                let all = first.into_mut();
                all.push(' ');
                all.push_str(&value);
            }
            Entry::Occupied(_) => return None,
        }
    }
    found.retain(|_, value| !value.is_empty());
    Some(found)
}
