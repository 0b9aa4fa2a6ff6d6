//! The page for an address from which too many sign-ins have failed.

use super::page::Trouble;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

/// 429 in place of a failed sign-in's answer, whose cookies stay: what was spent is spent.
pub(crate) fn too_many(instead_of: &Response, seconds: u64) -> Response {
    let wait = if seconds == 1 {
        "Wait a second and try again.".to_owned()
    } else {
        format!("Wait {seconds} seconds and try again.")
    };
    let page = Trouble {
        title: "Too many sign-ins have failed",
        what: "Many sign-ins from your network address failed within a minute, this one among them.",
        todo: &wait,
        detail: None,
        again: "/auth/login",
    };
    let mut response = page.answer(StatusCode::TOO_MANY_REQUESTS, &[]);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    for cookie in instead_of.headers().get_all(header::SET_COOKIE) {
        headers.append(header::SET_COOKIE, cookie.clone());
    }
    response
}
