//! What control asks: `/routes` and `/sessions`, behind the shared token.

use crate::sessions::Sessions;
use crate::table::Table;
use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use nogoo9_model::wire;
use nogoo9_runtime::admin::bearer;
use nogoo9_runtime::secret::Secret;
use serde::Deserialize;
use std::sync::atomic::{Ordering, fence};

#[derive(Debug, Clone)]
struct Facts {
    table: Table,
    sessions: Sessions,
}

#[derive(Debug, Deserialize)]
struct Which {
    workspace: String,
}

/// The two routes.
pub fn router(table: Table, sessions: Sessions, token: Option<Secret>) -> Router {
    let routes = Router::new()
        .route("/routes", get(routes))
        .route("/sessions", get(open))
        .with_state(Facts { table, sessions });
    bearer(routes, token)
}

async fn routes(State(facts): State<Facts>) -> Json<wire::Routes> {
    Json(facts.table.to_wire())
}

async fn open(State(facts): State<Facts>, Query(which): Query<Which>) -> Json<wire::Sessions> {
    // The route first: see the module `sessions` for why the order matters.
    let active = facts
        .table
        .get(&which.workspace)
        .and_then(|workspace| workspace.route().active().map(|pod| pod.uid.to_string()));
    fence(Ordering::SeqCst);
    Json(facts.sessions.to_wire(&which.workspace, active))
}
