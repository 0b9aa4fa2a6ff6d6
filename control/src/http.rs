//! The HTTP surface: JSON API, events, MCP, login and the console, behind one set of limits.

mod absent;
mod api;
mod auth;
mod events;
mod personal;
mod reply;
mod resource;
mod step_up;
mod ui;
mod watch;

pub use auth::{Auth, Proof, Until, any_caller, authority, bearer_caller};
pub use resource::Resource;
pub use watch::watched;

use crate::mcp;
use crate::service::Service;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::{Extension, Router};
use http::{HeaderValue, header};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use url::Url;

/// Largest body of an API or form request, in bytes.
const MAX_BODY: usize = 64 * 1024;
/// Longest time that a request may take: over the longest wait, under the proxy's patience.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Everything that the routes need.
#[derive(Clone)]
pub struct App {
    /// Commands and queries.
    pub service: Service,
    /// Who is calling.
    pub auth: Auth,
    /// URL of the console.
    pub public: Url,
    /// Issuer, to which signing out may lead.
    pub issuer: Url,
    /// Cancelled when the process stops.
    pub stop: CancellationToken,
}

/// All routes but login's: merge those in.
pub fn router(app: App) -> Router {
    let (mcp, tools) = mcp::endpoint(app.service.clone(), &app.public, app.stop.clone());
    let scoped = step_up::StepUp {
        auth: app.auth.clone(),
        tools,
    };
    let mcp = Router::new()
        .route_service("/mcp", mcp)
        .layer(from_fn_with_state(scoped, step_up::step_up))
        .layer(from_fn_with_state(app.auth.clone(), bearer_caller));
    let api = api::router(app.service.clone())
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn(timeout))
        .layer(Extension(app.stop.clone()))
        .layer(from_fn_with_state(app.auth.clone(), any_caller));
    Router::new()
        .nest("/api/v1", api)
        .merge(mcp)
        .merge(resource::router(app.auth.resource().clone()))
        .merge(absent::router(app.clone()).layer(from_fn(timeout)))
        .merge(personal::router(app.clone()).layer(from_fn(timeout)))
        .merge(ui::router(app).layer(from_fn(timeout)))
}

/// What wraps every route, login's too.
pub fn limits(router: Router) -> Router {
    router
        .layer(from_fn(no_sniff))
        .layer(CatchPanicLayer::new())
}

async fn timeout(request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    match tokio::time::timeout(TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => reply::timed_out(),
    }
}

async fn no_sniff(request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}
