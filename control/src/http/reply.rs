//! JSON answers.

use super::resource::Lacks;
use crate::personal::Unproven;
use crate::service::ServiceError;
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use nogoo9_identity::TokenError;
use serde::Serialize;
use serde_json::json;

/// Where a page leads its person to sign in, on the console's host.
const SIGN_IN: &str = "/auth/login";
/// Seconds after which it is worth trying again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("2");

impl IntoResponse for ServiceError {
    fn into_response(self) -> Response {
        let body = self.body();
        let mut response = (body.code.status(), Json(&body)).into_response();
        if body.retryable {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if let Some(scope) = body.scope {
            response.extensions_mut().insert(Lacks(scope));
        }
        no_store(response)
    }
}

/// An answer, good or bad, as JSON that no cache keeps.
pub(super) fn json<T: Serialize>(result: Result<T, ServiceError>) -> Response {
    match result {
        Ok(body) => no_store(Json(body).into_response()),
        Err(error) => error.into_response(),
    }
}

/// The body of the request was no such JSON, or the query no such query.
pub(super) fn bad_body(rejection: &JsonRejection) -> Response {
    failure(
        rejection.status(),
        "invalid_argument",
        &rejection.body_text(),
    )
}

pub(super) fn bad_query(rejection: &QueryRejection) -> Response {
    failure(
        rejection.status(),
        "invalid_argument",
        &rejection.body_text(),
    )
}

pub(super) fn not_found() -> Response {
    failure(
        StatusCode::NOT_FOUND,
        "not_found",
        "There is nothing at this address; see /api/v1/workspaces",
    )
}

pub(super) fn method_not_allowed() -> Response {
    failure(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "This address takes other methods",
    )
}

pub(super) fn timed_out() -> Response {
    failure(
        StatusCode::SERVICE_UNAVAILABLE,
        "unavailable",
        "It took too long; try again",
    )
}

pub(super) fn unauthorized(refused: Option<&TokenError>) -> Response {
    let message = match refused {
        Some(error) => {
            format!("The bearer token does not count: {error}. Sign in again for a new one")
        }
        None => "Sign in, or send a bearer token".to_owned(),
    };
    let body = json!({
        "code": "unauthenticated", "message": message, "retryable": false, "signIn": SIGN_IN,
    });
    no_store((StatusCode::UNAUTHORIZED, Json(body)).into_response())
}

/// Whether a token counts cannot be told now.
pub(super) fn unproven() -> Response {
    let mut response = failure(
        StatusCode::SERVICE_UNAVAILABLE,
        "unavailable",
        &Unproven::Unavailable.to_string(),
    );
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, RETRY_AFTER);
    response
}

/// Too many forged credentials came from this address.
pub(super) fn too_many(seconds: u64) -> Response {
    let message = format!(
        "Too many requests from your address had a token or a cookie that does not count, as this one \
         has. Requests with one that counts are not limited; the next other one is heard in {seconds} s"
    );
    let code = "too_many_failures";
    let body = json!({"code": code, "message": message, "retryable": true});
    let mut response = no_store((StatusCode::TOO_MANY_REQUESTS, Json(body)).into_response());
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

pub(super) fn refused(status: StatusCode, code: &str, message: &str) -> Response {
    failure(status, code, message)
}

fn failure(status: StatusCode, code: &str, message: &str) -> Response {
    no_store((status, Json(json!({"code": code, "message": message, "retryable": status == StatusCode::SERVICE_UNAVAILABLE}))).into_response())
}

pub(super) fn no_store(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
