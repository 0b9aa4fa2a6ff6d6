//! In front of `/mcp`, for tokens of the provider where scopes count: a call that lacks one is refused
//! by HTTP, with a challenge that names all to ask for. The tool would refuse it too, in an answer that
//! no client's sign-in reads.
//!
//! Personal access tokens get the tool's own refusal: no sign-in would widen them.

use super::auth::Auth;
use super::reply;
use crate::mcp::{MAX_BODY, MAX_REFUSAL, ToolScopes, lacking};
use crate::personal::Credential;
use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{StatusCode, header};
use nogoo9_model::access::Caller;
use std::collections::BTreeSet;

/// What the middleware works with.
#[derive(Clone)]
pub(super) struct StepUp {
    pub(super) auth: Auth,
    pub(super) tools: ToolScopes,
}

pub(super) async fn step_up(
    State(StepUp { auth, tools }): State<StepUp>,
    request: Request,
    next: Next,
) -> Response {
    let Some(granted) = scopes(&request) else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return reply::refused(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "The request is larger than any call of a tool",
        );
    };
    if let Some(needed) = tools.of_call(&body)
        && !granted.contains(needed)
    {
        return auth.resource().insufficient_scope(&granted, needed);
    }
    let response = next.run(Request::from_parts(parts, body.into())).await;
    let (response, refused) = refusal(response).await;
    match refused {
        Some(needed) => auth.resource().insufficient_scope(&granted, needed),
        None => response,
    }
}

/// The scopes of the provider's token behind the request; `None`: no rule about them.
fn scopes(request: &Request) -> Option<BTreeSet<String>> {
    let by_provider = request.extensions().get() == Some(&Credential::Provider);
    let caller: Option<&Caller> = request.extensions().get();
    caller
        .filter(|_| by_provider)
        .and_then(|caller| caller.scopes.clone())
}

/// The answer as it came, and which scope it says is lacking. Which scope a call needs may depend on
/// what it is about.
async fn refusal(response: Response) -> (Response, Option<&'static str>) {
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let size = response.body().size_hint().exact();
    if !is_json || size.is_none_or(|size| size > MAX_REFUSAL) {
        return (response, None);
    }
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, MAX_BODY).await.unwrap_or_default();
    let lacking = lacking(&bytes);
    (Response::from_parts(parts, Body::from(bytes)), lacking)
}
