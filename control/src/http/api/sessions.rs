//! The caller's own browser sessions.

use super::super::auth::BySession;
use super::super::reply::json;
use super::By;
use crate::personal::Credential;
use crate::service::Service;
use axum::Router;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use axum::routing::{delete, get};
use nogoo9_model::name::session_id;

pub(super) fn router() -> Router<Service> {
    Router::new()
        .route("/sessions", get(list).delete(end_others))
        .route("/sessions/{id}", delete(end))
}

async fn list(
    State(service): State<Service>,
    Extension(caller): By,
    Extension(session): Extension<BySession>,
) -> Response {
    let current = session.sid.as_deref();
    json(service.list_sessions(&caller, current).await)
}

async fn end(
    State(service): State<Service>,
    Extension(caller): By,
    Extension(by): Extension<Credential>,
    Extension(session): Extension<BySession>,
    Path(id): Path<String>,
) -> Response {
    let ended = service.end_session(&caller, by, &id).await;
    let current = session.sid.as_deref().map(session_id);
    let own = ended.is_ok() && current.as_ref() == Some(&id);
    let mut response = json(ended);
    if own {
        session.take_away(&mut response);
    }
    response
}

async fn end_others(
    State(service): State<Service>,
    Extension(caller): By,
    Extension(by): Extension<Credential>,
    Extension(session): Extension<BySession>,
) -> Response {
    let current = session.sid.as_deref();
    json(service.end_other_sessions(&caller, by, current).await)
}
