//! Templates: looking at them, and writing them.

use super::super::reply::{bad_body, json};
use super::By;
use crate::service::{CreateTemplate, Service, UpdateTemplate};
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub(super) fn router() -> Router<Service> {
    Router::new()
        .route("/templates", get(list).post(create))
        .route("/templates/{name}", get(one).put(update).delete(delete))
}

async fn list(State(service): State<Service>, Extension(caller): By) -> Response {
    json(service.list_templates(&caller).await)
}

async fn one(
    State(service): State<Service>,
    Extension(caller): By,
    Path(name): Path<String>,
) -> Response {
    json(service.get_template(&caller, &name).await)
}

async fn create(
    State(service): State<Service>,
    Extension(caller): By,
    body: Result<Json<CreateTemplate>, JsonRejection>,
) -> Response {
    let Json(args) = match body {
        Ok(body) => body,
        Err(rejection) => return bad_body(&rejection),
    };
    match service.create_template(&caller, &args).await {
        Ok(created) => {
            let mut response = json(Ok(created));
            *response.status_mut() = StatusCode::CREATED;
            response
        }
        Err(error) => error.into_response(),
    }
}

/// [`UpdateTemplate`] without its name, which the address has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Change {
    #[serde(default)]
    spec: Option<Map<String, Value>>,
    #[serde(default)]
    claims: Option<Vec<Map<String, Value>>>,
    #[serde(default)]
    parameters: Option<Map<String, Value>>,
    #[serde(default)]
    settings: Option<BTreeMap<String, String>>,
    #[serde(default)]
    expected_version: Option<String>,
}

async fn update(
    State(service): State<Service>,
    Extension(caller): By,
    Path(name): Path<String>,
    body: Result<Json<Change>, JsonRejection>,
) -> Response {
    let Json(change) = match body {
        Ok(body) => body,
        Err(rejection) => return bad_body(&rejection),
    };
    let args = UpdateTemplate {
        name,
        spec: change.spec,
        claims: change.claims,
        parameters: change.parameters,
        settings: change.settings,
        expected_version: change.expected_version,
    };
    json(service.update_template(&caller, &args).await)
}

async fn delete(
    State(service): State<Service>,
    Extension(caller): By,
    Path(name): Path<String>,
) -> Response {
    json(service.delete_template(&caller, &name).await)
}
