//! The console: `ui/`, built by `make ui`, and the headers that keep it to itself.
//!
//! Its addresses are its own: whatever a browser navigates to and nobody else answers is the
//! console's page, which then knows what to show. Everything else unknown stays a JSON 404.

mod assets;

use super::App;
use super::auth::Proof;
use super::reply::{self, no_store};
use crate::personal::Credential;
use axum::Router;
use axum::extract::{Path, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};

/// Where the page says whether somebody is signed in, so that it need not ask before it shows
/// anything. The build leaves it as it is.
const SIGNED_IN: &str = r#"data-signed-in="unknown""#;
/// First segments of paths that are never the console's.
const NOT_OURS: [&str; 5] = ["api", "auth", "mcp", ".well-known", ".nogoo9"];

pub(super) fn router(app: App) -> Router {
    let policy = policy(&app);
    let guard = from_fn(move |request, next: Next| {
        let policy = policy.clone();
        async move { guard(next.run(request).await, policy) }
    });
    Router::new()
        .route("/", get(index))
        .route("/assets/{*path}", get(hashed))
        .route("/theme.js", get(|headers| named("theme.js", headers)))
        .route("/favicon.svg", get(|headers| named("favicon.svg", headers)))
        .fallback(fallback)
        .layer(guard)
        .with_state(app)
}

/// Nothing from elsewhere, nothing inline, in nobody's frame. Forms may end at the issuer, since
/// signing out leads there.
fn policy(app: &App) -> Option<HeaderValue> {
    let issuer = app.issuer.origin().ascii_serialization();
    HeaderValue::from_str(&format!(
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
         img-src 'self'; font-src 'self'; form-action 'self' {issuer}; \
         frame-ancestors 'none'; base-uri 'none'"
    ))
    .ok()
}

fn guard(mut response: Response, policy: Option<HeaderValue>) -> Response {
    let headers = response.headers_mut();
    if let Some(policy) = policy {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        (
            "permissions-policy",
            "camera=(), geolocation=(), microphone=()",
        ),
    ] {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    response
}

/// The page, at `/` and at every address that a browser navigates to.
async fn index(State(app): State<App>, method: Method, headers: HeaderMap) -> Response {
    let Some(page) = assets::read("index.html").await else {
        return no_store(
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "The console is not built: run `make ui`",
            )
                .into_response(),
        );
    };
    let (proof, session) = app.auth.prove_session(&method, &headers).await;
    let signed_in = matches!(proof, Proof::Caller(_, Credential::Session, _));
    let page = String::from_utf8_lossy(&page).replace(
        SIGNED_IN,
        if signed_in {
            r#"data-signed-in="yes""#
        } else {
            r#"data-signed-in="no""#
        },
    );
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    let mut response = no_store((kind, page).into_response());
    app.auth.pass_on(&session, &mut response).await;
    response
}

async fn fallback(state: State<App>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let first = uri.path().split('/').nth(1).unwrap_or_default();
    let ours = !NOT_OURS.contains(&first) && matches!(method, Method::GET | Method::HEAD);
    if ours && navigates(&headers) {
        index(state, method, headers).await
    } else {
        reply::not_found()
    }
}

/// Whether the request is a browser's that wants a page.
fn navigates(headers: &HeaderMap) -> bool {
    let value = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    match value(&HeaderName::from_static("sec-fetch-mode")) {
        Some(mode) => mode == "navigate",
        None => value(&header::ACCEPT).is_some_and(|accept| accept.contains("text/html")),
    }
}

/// A file whose name changes with its content.
async fn hashed(Path(path): Path<String>, headers: HeaderMap) -> Response {
    asset(
        &format!("assets/{path}"),
        "public, max-age=31536000, immutable",
        &headers,
    )
    .await
}

/// A file that keeps its name.
async fn named(name: &'static str, headers: HeaderMap) -> Response {
    asset(name, "public, max-age=300", &headers).await
}

async fn asset(path: &str, caching: &'static str, headers: &HeaderMap) -> Response {
    // The build puts a compressed copy beside what is worth it.
    let small = if accepts_brotli(headers) {
        assets::read(&format!("{path}.br")).await
    } else {
        None
    };
    let encoded = small.is_some();
    let body = match small {
        Some(body) => Some(body),
        None => assets::read(path).await,
    };
    let Some(body) = body else {
        return reply::not_found();
    };
    let mut response = (
        [
            (header::CONTENT_TYPE, assets::kind(path)),
            (header::CACHE_CONTROL, caching),
            (header::VARY, "accept-encoding"),
        ],
        body,
    )
        .into_response();
    if encoded {
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
    }
    response
}

fn accepts_brotli(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|one| {
            let (name, weight) = one.split_once(';').unwrap_or((one, ""));
            name.trim() == "br" && weight.trim() != "q=0"
        })
}
