//! `/api/v1`: the JSON API, a thin adapter over the service.

mod look;
mod operations;
mod sessions;
mod templates;
mod tokens;

use super::events::events;
use super::reply::{bad_body, bad_query, json, method_not_allowed, not_found};
use crate::service::{DeleteWorkspace, KeepUntil, ListWorkspaces, Service, SpawnWorkspace};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use http::StatusCode;
use nogoo9_model::access::Caller;
use serde::Deserialize;

/// The verified caller, put there by the middleware.
type By = Extension<Caller>;

/// The routes below `/api/v1`. [`Caller`] must be among the extensions of every request.
pub(super) fn router(service: Service) -> Router {
    Router::new()
        .route("/workspaces", get(list).post(spawn))
        .route("/workspaces/{id}", get(workspace).delete(delete))
        .route("/workspaces/{id}/start", post(start))
        .route("/workspaces/{id}/stop", post(stop))
        .route("/workspaces/{id}/upgrade", post(upgrade))
        .route("/workspaces/{id}/rollback", post(rollback))
        .route("/workspaces/{id}/not-before", put(keep_until))
        .merge(look::router())
        .merge(operations::router())
        .merge(sessions::router())
        .merge(templates::router())
        .merge(tokens::router())
        .route("/capabilities", get(capabilities))
        .route("/events", get(events))
        .fallback(|| async { not_found() })
        .method_not_allowed_fallback(|| async { method_not_allowed() })
        .with_state(service)
}

async fn list(
    State(service): State<Service>,
    Extension(caller): By,
    query: Result<Query<ListWorkspaces>, QueryRejection>,
) -> Response {
    match query {
        Ok(Query(query)) => json(service.list_workspaces(&caller, &query).await),
        Err(rejection) => bad_query(&rejection),
    }
}

async fn workspace(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
) -> Response {
    json(service.get_workspace(&caller, &id).await)
}

async fn spawn(
    State(service): State<Service>,
    Extension(caller): By,
    body: Result<Json<SpawnWorkspace>, JsonRejection>,
) -> Response {
    let Json(body) = match body {
        Ok(body) => body,
        Err(rejection) => return bad_body(&rejection),
    };
    match service.spawn_workspace(&caller, body).await {
        Ok(workspace) => {
            let mut response = json(Ok(workspace));
            *response.status_mut() = StatusCode::CREATED;
            response
        }
        Err(error) => error.into_response(),
    }
}

async fn start(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
) -> Response {
    json(service.start_workspace(&caller, &id).await)
}

async fn stop(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
) -> Response {
    json(service.stop_workspace(&caller, &id).await)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeleteQuery {
    #[serde(default)]
    delete_data: bool,
    #[serde(default)]
    release: bool,
}

async fn delete(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
    query: Result<Query<DeleteQuery>, QueryRejection>,
) -> Response {
    let Query(query) = match query {
        Ok(query) => query,
        Err(rejection) => return bad_query(&rejection),
    };
    let args = DeleteWorkspace {
        id,
        delete_data: query.delete_data,
        release: query.release,
    };
    json(service.delete_workspace(&caller, &args).await)
}

async fn upgrade(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
) -> Response {
    json(service.upgrade_workspace(&caller, &id).await)
}

async fn rollback(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
) -> Response {
    json(service.rollback_workspace(&caller, &id).await)
}

async fn keep_until(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
    body: Result<Json<KeepUntil>, JsonRejection>,
) -> Response {
    match body {
        Ok(Json(body)) => json(service.keep_until(&caller, &id, &body).await),
        Err(rejection) => bad_body(&rejection),
    }
}

async fn capabilities(State(service): State<Service>, Extension(caller): By) -> Response {
    json(Ok(service.get_capabilities(&caller)))
}
