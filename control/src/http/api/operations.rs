//! Operations, and what begins and ends those on many workspaces.

use super::super::reply::{bad_body, bad_query, json};
use super::By;
use crate::service::{
    DEFAULT_PAGE, GetOperation, ListOperations, MAX_WAIT, Service, UpgradeAllWorkspaces,
    WaitForOperation,
};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

pub(super) fn router() -> Router<Service> {
    Router::new()
        .route("/upgrade-all", post(upgrade_all))
        .route("/operations", get(operations))
        .route("/operations/{id}", get(operation))
        .route("/operations/{id}/wait", get(wait))
        .route("/operations/{id}/pause", post(pause))
        .route("/operations/{id}/resume", post(resume))
        .route("/operations/{id}/cancel", post(cancel))
        .route("/operations/{id}/retry", post(retry))
}

/// Without a body: all outdated workspaces.
async fn upgrade_all(
    State(service): State<Service>,
    Extension(caller): By,
    body: Result<Option<Json<UpgradeAllWorkspaces>>, JsonRejection>,
) -> Response {
    match body {
        Ok(body) => {
            let Json(args) = body.unwrap_or_default();
            json(service.upgrade_all_workspaces(&caller, &args).await)
        }
        Err(rejection) => bad_body(&rejection),
    }
}

async fn operations(
    State(service): State<Service>,
    Extension(caller): By,
    query: Result<Query<ListOperations>, QueryRejection>,
) -> Response {
    match query {
        Ok(Query(query)) => json(service.list_operations(&caller, &query).await),
        Err(rejection) => bad_query(&rejection),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PageQuery {
    #[serde(default)]
    offset: u32,
    #[serde(default)]
    limit: Option<u32>,
}

async fn operation(
    State(service): State<Service>,
    Extension(caller): By,
    Path(operation_id): Path<String>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Response {
    let Query(query) = match query {
        Ok(query) => query,
        Err(rejection) => return bad_query(&rejection),
    };
    let args = GetOperation {
        operation_id,
        offset: query.offset,
        limit: query.limit.unwrap_or(DEFAULT_PAGE),
    };
    json(service.get_operation(&caller, &args).await)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WaitQuery {
    #[serde(default)]
    seconds: Option<u8>,
    #[serde(default)]
    since_revision: Option<String>,
}

async fn wait(
    State(service): State<Service>,
    Extension(caller): By,
    Path(operation_id): Path<String>,
    query: Result<Query<WaitQuery>, QueryRejection>,
) -> Response {
    let Query(query) = match query {
        Ok(query) => query,
        Err(rejection) => return bad_query(&rejection),
    };
    let wait = WaitForOperation {
        operation_id,
        seconds: query.seconds.unwrap_or(MAX_WAIT),
        since_revision: query.since_revision,
    };
    json(service.wait_for_operation(&caller, &wait).await)
}

async fn pause(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
) -> Response {
    json(service.pause_operation(&caller, &id).await)
}

async fn resume(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
) -> Response {
    json(service.resume_operation(&caller, &id).await)
}

async fn retry(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
) -> Response {
    json(service.retry_operation(&caller, &id).await)
}

async fn cancel(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
) -> Response {
    json(service.cancel_operation(&caller, &id).await)
}
