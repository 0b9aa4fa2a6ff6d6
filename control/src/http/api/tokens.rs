//! Personal access tokens.

use super::super::reply::{bad_body, json};
use super::By;
use crate::personal::Credential;
use crate::service::{CreateToken, Service};
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use axum::{Json, Router};
use http::StatusCode;

pub(super) fn router() -> Router<Service> {
    Router::new()
        .route("/tokens", get(list).post(create))
        .route("/tokens/{id}", delete(revoke))
}

async fn list(
    State(service): State<Service>,
    Extension(caller): By,
    Extension(by): Extension<Credential>,
) -> Response {
    json(service.list_tokens(&caller, by).await)
}

async fn create(
    State(service): State<Service>,
    Extension(caller): By,
    Extension(by): Extension<Credential>,
    body: Result<Json<CreateToken>, JsonRejection>,
) -> Response {
    let Json(args) = match body {
        Ok(body) => body,
        Err(rejection) => return bad_body(&rejection),
    };
    match service.create_token(&caller, by, &args).await {
        Ok(created) => {
            let mut response = json(Ok(created));
            *response.status_mut() = StatusCode::CREATED;
            response
        }
        Err(error) => error.into_response(),
    }
}

async fn revoke(
    State(service): State<Service>,
    Extension(caller): By,
    Extension(by): Extension<Credential>,
    Path(id): Path<String>,
) -> Response {
    json(service.revoke_token(&caller, by, &id).await)
}
