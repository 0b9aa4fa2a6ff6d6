//! What happened to a workspace, and what its containers write.

use super::super::reply::{bad_query, json};
use super::By;
use crate::service::{
    DEFAULT_EVENTS, DEFAULT_LINES, GetWorkspaceEvents, GetWorkspaceLogs, Service,
};
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;

pub(super) fn router() -> Router<Service> {
    Router::new()
        .route("/workspaces/{id}/events", get(events))
        .route("/workspaces/{id}/logs", get(logs))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EventsQuery {
    #[serde(default)]
    limit: Option<u32>,
}

async fn events(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Response {
    let Query(query) = match query {
        Ok(query) => query,
        Err(rejection) => return bad_query(&rejection),
    };
    let args = GetWorkspaceEvents {
        id,
        limit: query.limit.unwrap_or(DEFAULT_EVENTS),
    };
    json(service.get_workspace_events(&caller, &args).await)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LogsQuery {
    #[serde(default)]
    tail_lines: Option<u32>,
    #[serde(default)]
    container: Option<String>,
    #[serde(default)]
    pod: Option<String>,
    #[serde(default)]
    previous: bool,
}

async fn logs(
    State(service): State<Service>,
    Extension(caller): By,
    Path(id): Path<String>,
    query: Result<Query<LogsQuery>, QueryRejection>,
) -> Response {
    let Query(query) = match query {
        Ok(query) => query,
        Err(rejection) => return bad_query(&rejection),
    };
    let args = GetWorkspaceLogs {
        id,
        tail_lines: query.tail_lines.unwrap_or(DEFAULT_LINES),
        container: query.container,
        pod: query.pod,
        previous: query.previous,
    };
    json(service.get_workspace_logs(&caller, &args).await)
}
