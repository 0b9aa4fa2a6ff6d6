//! What control asks, `/routes` and `/sessions`, and what other proxies ask, `/holding`: all behind the
//! shared token.

use crate::affinity::{SessionKey, is_past};
use crate::peers::{self, Asked, Said};
use crate::sessions::Sessions;
use crate::table::{Backend, Route, Table};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use nogoo9_model::wire;
use nogoo9_runtime::admin::bearer;
use nogoo9_runtime::secret::Secret;
use serde::Deserialize;
use std::sync::Arc;
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

/// The three routes.
pub fn router(table: Table, sessions: Sessions, token: Option<Secret>) -> Router {
    let routes = Router::new()
        .route("/routes", get(routes))
        .route("/sessions", get(open))
        .route(peers::PATH, post(holding))
        .with_state(Facts { table, sessions });
    bearer(routes, token)
}

async fn routes(State(facts): State<Facts>) -> Json<wire::Routes> {
    Json(facts.table.to_wire())
}

/// One that has not listed all pods yet may be about to route to any of them: it says so, and
/// counts as one that gives no answer.
async fn open(
    State(facts): State<Facts>,
    Query(which): Query<Which>,
) -> Result<Json<wire::Sessions>, (StatusCode, &'static str)> {
    if !facts.table.is_complete() {
        let why = "this proxy has not listed all pods yet\n";
        return Err((StatusCode::SERVICE_UNAVAILABLE, why));
    }
    // The route first: see the module `sessions` for why the order matters.
    let workspace = facts.table.get(&which.workspace);
    let route = workspace.as_ref().map(|workspace| workspace.route());
    fence(Ordering::SeqCst);
    let route = route.as_deref();
    let uid = |pod: &Arc<Backend>| pod.uid.to_string();
    Ok(Json(wire::Sessions {
        active: route.and_then(Route::active).map(uid),
        spare: route.into_iter().flat_map(Route::spare).map(uid).collect(),
        ..facts.sessions.to_wire(&which.workspace)
    }))
}

/// What of a session is open here; see the module [`crate::peers`].
async fn holding(
    State(facts): State<Facts>,
    Json(asked): Json<Asked>,
) -> Result<Json<Said>, (StatusCode, &'static str)> {
    let Some(session) = SessionKey::from_hex(&asked.session) else {
        return Err((StatusCode::BAD_REQUEST, "session is none\n"));
    };
    // The route first, as above.
    let workspace = facts.table.get(&asked.workspace);
    let past = workspace.is_some_and(|workspace| is_past(&workspace.route(), &asked.pods));
    fence(Ordering::SeqCst);
    Ok(Json(Said {
        pods: facts.sessions.lend(&asked.workspace, session, &asked.pods),
        past: past && facts.table.is_complete(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn it_vouches_for_nothing_before_all_pods_were_listed() {
        let _already = rustls::crypto::ring::default_provider().install_default();
        let table = Table::new();
        let routes = router(table.clone(), Sessions::new(), Some(Secret::new("token")));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let ask = || async {
            let url = format!("http://{address}/sessions?workspace=dev");
            http.get(url).bearer_auth("token").send().await.unwrap()
        };
        assert_eq!(ask().await.status().as_u16(), 503);
        table.complete();
        let said: wire::Sessions = ask().await.json().await.unwrap();
        assert_eq!(said.version, wire::VERSION);
        assert_eq!((said.active, said.sessions.len()), (None, 0));
    }
}
