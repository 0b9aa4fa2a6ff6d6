//! What a proxy asks for its callers: what a workspace without pods is doing, and to start it. Not
//! reachable from outside. The caller's own credential comes along and is verified here, bound to the
//! host that the browser asked, so nothing rests on who is asking.

use super::App;
use super::auth::Proof;
use super::reply::{json, not_found, refused, unproven};
use crate::personal::Credential;
use crate::service::{Page, ServiceError};
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use nogoo9_model::access::{Caller, Denied};
use percent_encoding::percent_decode_str;

const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const AT: HeaderName = HeaderName::from_static(nogoo9_model::absent::AT);
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(super) fn router(app: App) -> Router {
    Router::new()
        .route("/.nogoo9/absent/{id}", get(look))
        .route("/.nogoo9/start/{id}", post(start))
        .with_state(app)
}

async fn look(
    State(app): State<App>,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let by = match prove(&app, &id, &method, &headers).await {
        Ok(by) => by,
        Err(response) => return response,
    };
    answer(app.service.look_at_absent(&by.caller, &id, &by.page).await)
}

async fn start(
    State(app): State<App>,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let by = match prove(&app, &id, &method, &headers).await {
        Ok(by) => by,
        Err(response) => return response,
    };
    // A cookie is sent by itself; a button of the page's own says so.
    if by.via == Credential::Session && !is_same_origin(&headers, app.public.scheme(), &by.host) {
        return refused(
            StatusCode::FORBIDDEN,
            "forbidden",
            "Start it from its own page, or from the console",
        );
    }
    answer(app.service.start_absent(&by.caller, &id, &by.page).await)
}

/// A verified caller on a host that the workspace is opened at.
struct By {
    caller: Caller,
    via: Credential,
    host: String,
    page: Page,
}

async fn prove(app: &App, id: &str, method: &Method, headers: &HeaderMap) -> Result<By, Response> {
    let name = if headers.contains_key(FORWARDED_HOST) {
        &FORWARDED_HOST
    } else {
        &header::HOST
    };
    let host = only(headers, name).map(str::to_ascii_lowercase);
    let place = host.and_then(|host| {
        let origin = app.service.links().origin(&host, id)?;
        Some((host, origin))
    });
    let Some((host, origin)) = place else {
        return Err(not_found());
    };
    match app.auth.prove_on(method, headers, &host).await {
        Proof::Caller(caller, via, _) => Ok(By {
            caller,
            via,
            host,
            page: Page {
                origin,
                path: path(headers),
            },
        }),
        Proof::Nothing => Err(app.auth.unauthorized(None)),
        Proof::Refused(error) => Err(app.auth.unauthorized(Some(error))),
        Proof::Unavailable => Err(unproven()),
    }
}

/// The path that was asked for; of a proxy that says none, the workspace's first page.
fn path(headers: &HeaderMap) -> String {
    let said = only(headers, &AT).unwrap_or("%2F");
    percent_decode_str(said).decode_utf8_lossy().into_owned()
}

/// Not theirs is not there.
fn answer<T: serde::Serialize>(result: Result<T, ServiceError>) -> Response {
    match result {
        Err(ServiceError::Denied(Denied::AccessDenied)) => not_found(),
        Err(error) => error.into_response(),
        Ok(told) => json(Ok(told)),
    }
}

/// Whether a page of `host` sent the request: the browser vouches for it by at least one header, and
/// by none against it.
fn is_same_origin(headers: &HeaderMap, scheme: &str, host: &str) -> bool {
    let site = headers
        .contains_key(FETCH_SITE)
        .then(|| only(headers, &FETCH_SITE) == Some("same-origin"));
    let origin = headers
        .contains_key(header::ORIGIN)
        .then(|| only(headers, &header::ORIGIN) == Some(&format!("{scheme}://{host}")));
    match (site, origin) {
        (None, None) => false,
        (site, origin) => site.unwrap_or(true) && origin.unwrap_or(true),
    }
}

/// A header's value if it occurs once; an ambiguous request is nobody's.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    if all.next().is_some() {
        return None;
    }
    first.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_the_pages_own() {
        let own = "http://dev.localhost:9009";
        for (site, origin, counts) in [
            (Some("same-origin"), Some(own), true),
            (Some("same-origin"), None, true),
            (None, Some(own), true),
            (None, None, false),
            (Some("none"), None, false),
            (Some("none"), Some(own), false),
            (Some("same-site"), Some(own), false),
            (Some("same-origin"), Some("null"), false),
            (
                Some("same-origin"),
                Some("http://other.localhost:9009"),
                false,
            ),
            (
                Some("same-origin"),
                Some("https://dev.localhost:9009"),
                false,
            ),
            (None, Some("null"), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(site) = site {
                headers.insert(FETCH_SITE, site.parse().unwrap());
            }
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(
                is_same_origin(&headers, "http", "dev.localhost:9009"),
                counts,
                "{site:?} {origin:?}"
            );
        }
    }
}
