//! The admin listener: /livez, /readyz, /metrics, and what a binary adds to it.

mod guard;
mod ready;
mod tasks;

use std::{future::IntoFuture as _, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use guard::bearer;
pub use ready::{Check, Readiness};
pub use tasks::Tasks;

/// Content type of the OpenMetrics text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long open admin requests may take to finish once stopping.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// The routes of an admin listener. Merge more routes in, behind [`bearer`] if they show
/// anything of users.
///
/// - `/livez`: 200 as long as the process can answer.
/// - `/readyz`: 200 `ok`, or 503 with one line `name: reason` per check that is not green; then one
///   line `name: value` per figure that is shown beside ([`Readiness::show`]).
/// - `/metrics`: OpenMetrics text.
pub fn router(readiness: Readiness, metrics: Arc<Registry>) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz).with_state(readiness))
        .route("/metrics", get(scrape).with_state(metrics))
}

async fn readyz(State(readiness): State<Readiness>) -> Response {
    let waiting = readiness.waiting();
    let lines = |pairs: &[(&str, String)]| -> String {
        let line = |(name, text): &(&str, String)| format!("{name}: {text}\n");
        pairs.iter().map(line).collect()
    };
    let shown = lines(&readiness.shown());
    if waiting.is_empty() {
        return format!("ok\n{shown}").into_response();
    }
    let red = lines(&waiting);
    (StatusCode::SERVICE_UNAVAILABLE, format!("{red}{shown}")).into_response()
}

async fn scrape(State(metrics): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &metrics) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "metrics cannot be encoded");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Serves until `stop` is cancelled, then gives open requests 2 s.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let server = axum::serve(listener, router)
        .with_graceful_shutdown(stop.clone().cancelled_owned())
        .into_future();
    tokio::select! {
        done = server => done,
        () = async { stop.cancelled().await; tokio::time::sleep(STOP_GRACE).await } => Ok(()),
    }
}
