//! What a proxy asks of a personal access token: whom it speaks for. Not reachable from outside. The
//! token itself is the proof, so nothing rests on who is asking, and nobody learns more than the
//! token says to its bearer anyway.

use super::App;
use super::reply::json;
use crate::personal::Unproven;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::HeaderMap;
use nogoo9_model::personal_token::PATH;

pub(super) fn router(app: App) -> Router {
    Router::new().route(PATH, get(exchange)).with_state(app)
}

async fn exchange(State(app): State<App>, headers: HeaderMap) -> Response {
    match app.auth.prove_personal(&headers).await {
        None => app.auth.unauthorized(None),
        Some(Ok(proven)) => json(Ok(proven)),
        Some(Err(Unproven::Refused(error))) => app.auth.unauthorized(Some(error)),
        Some(Err(Unproven::Unavailable)) => super::reply::unproven(),
    }
}
