//! Answers of login: never stored, never named to the next site.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::Markup;
use sha2::{Digest, Sha256};

/// What a page may do whose one style is `style`: show itself. There is no script and no form.
pub(super) fn policy(style: &str) -> String {
    let hash = data_encoding::BASE64.encode(&Sha256::digest(style.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
}

/// A redirect (303) that sets cookies.
pub(super) fn redirect(to: &str, cookies: &[String]) -> Response {
    let Ok(location) = HeaderValue::from_str(to) else {
        tracing::error!("redirect target is not a header value");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let mut answer = StatusCode::SEE_OTHER.into_response();
    answer.headers_mut().insert(header::LOCATION, location);
    harden(&mut answer);
    set_cookies(&mut answer, cookies);
    answer
}

/// A page, under its [`policy`].
pub(super) fn page(
    status: StatusCode,
    markup: &Markup,
    policy: &str,
    cookies: &[String],
) -> Response {
    let mut answer = (status, Body::from(markup.0.clone())).into_response();
    let headers = answer.headers_mut();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, html);
    match HeaderValue::from_str(policy) {
        Ok(policy) => {
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        Err(_) => tracing::error!("policy is not a header value"),
    }
    for (name, value) in PAGE {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    }
    harden(&mut answer);
    set_cookies(&mut answer, cookies);
    answer
}

/// What pages say beside their policy.
const PAGE: [(HeaderName, &str); 2] = [
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

fn harden(answer: &mut Response) {
    const HEADERS: [(HeaderName, &str); 4] = [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in HEADERS {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
}

fn set_cookies(answer: &mut Response, cookies: &[String]) {
    for cookie in cookies {
        match HeaderValue::from_str(cookie) {
            Ok(value) => {
                answer.headers_mut().append(header::SET_COOKIE, value);
            }
            Err(_) => tracing::error!("cookie is not a header value"),
        }
    }
}
