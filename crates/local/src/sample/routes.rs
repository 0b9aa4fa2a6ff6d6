//! The sample's plain HTTP endpoints.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{any, get, post};
use data_encoding::HEXLOWER;
use futures::{Stream, StreamExt, stream};
use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::{Sample, files, grpc, noise, page, shell, sockets};

type Shared = State<Arc<Sample>>;

/// Longest answer of `/slow`, and pause of `/chunks`.
const MAX_WAIT_MS: u64 = 5 * 60 * 1000;
/// Most chunks of `/chunks`.
const MAX_CHUNKS: u64 = 100_000;

/// All routes.
pub(super) fn router(sample: Arc<Sample>) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/assets/{name}", get(page::asset))
        .route("/healthz", get(health))
        .route("/info", get(info))
        .route("/files", get(files::list))
        .route(
            "/files/{name}",
            get(files::get).put(files::put).delete(files::delete),
        )
        .route("/headers", any(headers))
        .route("/events", get(events))
        .route("/upload", post(upload).put(upload))
        .route("/grpc", post(grpc::echo))
        .route("/download", get(noise::download))
        .route("/slow", any(slow))
        .route("/chunks", get(chunks))
        .route("/redirect", get(redirect))
        .route("/landing", get(landing))
        .route("/die", post(die))
        .route("/shell", any(shell::connect))
        .route("/echo", any(sockets::echo))
        .with_state(sample)
}

/// What the second port has: a page that says what the first one answers, and a few endpoints by which to
/// see that all comes through there too.
pub(super) fn docs(sample: Arc<Sample>) -> Router {
    Router::new()
        .route("/", get(page::docs))
        .route("/assets/{name}", get(page::asset))
        .route("/info", get(info))
        .route("/headers", any(headers))
        .route("/events", get(events))
        .route("/upload", post(upload).put(upload))
        .route("/redirect", get(redirect))
        .route("/landing", get(landing))
        .route("/echo", any(sockets::echo))
        .with_state(sample)
}

/// 200 while it can serve: not before it is ready, not once it is asked to end.
async fn health(State(sample): Shared) -> (StatusCode, &'static str) {
    let ready_for = Instant::now().checked_duration_since(sample.ready_at);
    if sample.closing.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "ending\n")
    } else if ready_for.is_none() {
        (StatusCode::SERVICE_UNAVAILABLE, "starting\n")
    } else if is_down(ready_for, sample.config.flap) {
        (StatusCode::SERVICE_UNAVAILABLE, "flapping\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

/// Whether a sample that flaps is in one of its bad spans: every second one.
fn is_down(ready_for: Option<Duration>, flap: Option<Duration>) -> bool {
    let (Some(ready_for), Some(span)) = (ready_for, flap) else {
        return false;
    };
    let spans = ready_for.as_millis().checked_div(span.as_millis());
    spans.is_some_and(|spans| spans % 2 == 1)
}

async fn info(State(sample): Shared) -> Json<Value> {
    let config = &sample.config;
    Json(json!({
        "pod": config.pod,
        "version": config.version,
        "message": config.message,
        "workspace": config.workspace,
    }))
}

/// The request's headers as they arrived: name -> all values, in order.
async fn headers(headers: HeaderMap) -> Json<BTreeMap<String, Vec<String>>> {
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in &headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        seen.entry(name.as_str().to_owned())
            .or_default()
            .push(value);
    }
    Json(seen)
}

/// A clock, once a second, until the client or the pod goes.
async fn events(State(sample): Shared) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let closing = sample.closing.clone().cancelled_owned();
    let clock = stream::unfold((ticks, 0_u64), move |(mut ticks, seq)| {
        let sample = Arc::clone(&sample);
        async move {
            ticks.tick().await;
            let data = json!({
                "pod": sample.config.pod,
                "version": sample.config.version,
                "seq": seq,
                "time": Timestamp::now().to_string(),
            });
            let event = Event::default()
                .id(seq.to_string())
                .retry(Duration::from_secs(1))
                .data(data.to_string());
            Some((Ok(event), (ticks, seq.saturating_add(1))))
        }
    });
    Sse::new(clock.take_until(closing))
}

/// Hashes the body as it streams in.
async fn upload(body: Body) -> Response {
    let mut hash = Sha256::new();
    let mut bytes: u64 = 0;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(chunk) => {
                bytes = bytes.saturating_add(chunk.len() as u64);
                hash.update(&chunk);
            }
            Err(error) => {
                let problem =
                    json!({"error": format!("the body broke off: {error}"), "bytes": bytes});
                return (StatusCode::BAD_REQUEST, Json(problem)).into_response();
            }
        }
    }
    Json(json!({"sha256": HEXLOWER.encode(hash.finalize().as_slice()), "bytes": bytes}))
        .into_response()
}

#[derive(Deserialize)]
struct Slow {
    #[serde(default)]
    ms: u64,
}

async fn slow(State(sample): Shared, Query(Slow { ms }): Query<Slow>) -> Json<Value> {
    let ms = ms.min(MAX_WAIT_MS);
    sleep(Duration::from_millis(ms)).await;
    Json(json!({"pod": sample.config.pod, "version": sample.config.version, "ms": ms}))
}

#[derive(Deserialize)]
struct Chunks {
    #[serde(default = "default_chunks")]
    n: u64,
    #[serde(default)]
    ms: u64,
}

fn default_chunks() -> u64 {
    10
}

/// `chunk 0` to `chunk n-1`, one line each, with a pause before every line but the first.
async fn chunks(Query(Chunks { n, ms }): Query<Chunks>) -> Response {
    let pause = Duration::from_millis(ms.min(MAX_WAIT_MS));
    let lines = stream::iter(0..n.min(MAX_CHUNKS)).then(move |index| async move {
        if index > 0 && !pause.is_zero() {
            sleep(pause).await;
        }
        Ok::<_, Infallible>(Bytes::from(format!("chunk {index}\n")))
    });
    (
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
        Body::from_stream(lines),
    )
        .into_response()
}

/// An absolute path and a cookie for the whole host, which a path prefix must map.
async fn redirect() -> Response {
    let headers = [
        (header::LOCATION, "/landing"),
        (header::SET_COOKIE, "sample=1; Path=/; HttpOnly"),
    ];
    (StatusCode::FOUND, headers).into_response()
}

async fn landing(headers: HeaderMap) -> Json<Value> {
    let cookie = headers
        .get(header::COOKIE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    Json(json!({"landed": true, "cookie": cookie}))
}

/// Ends the process as a crash would, without an answer of its own.
async fn die(State(sample): Shared) -> StatusCode {
    sample.died.cancel();
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_span_is_bad() {
        let at = |ms| Some(Duration::from_millis(ms));
        let down: Vec<bool> = [0, 99, 100, 199, 200, 350]
            .map(|ms| is_down(at(ms), at(100)))
            .into();
        assert_eq!(down, [false, false, true, true, false, true]);
        assert!(!is_down(at(150), None) && !is_down(None, at(100)));
    }
}
