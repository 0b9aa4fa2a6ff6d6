//! `GET /api/v1/events`: what changes, as server-sent events.
//!
//! Ends when what proves the caller does, or the process; whoever reconnects gets a new snapshot, so
//! event ids would say nothing.

use super::auth::Until;
use crate::service::{Event, Service};
use axum::Extension;
use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use futures::stream;
use http::{HeaderName, HeaderValue, header};
use nogoo9_model::access::Caller;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Comments that keep the connection known to be alive, well under the proxy's patience.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// After which time a browser that lost the stream comes back.
const RETRY: Duration = Duration::from_secs(2);

pub(super) async fn events(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    Extension(Until(end)): Extension<Until>,
    Extension(stop): Extension<CancellationToken>,
) -> Response {
    let subscription = match service.subscribe(&caller, end).await {
        Ok(subscription) => subscription,
        Err(error) => return error.into_response(),
    };
    let told = stream::unfold(subscription, |mut subscription| async {
        let event = subscription.next().await?;
        Some((written(&event), subscription))
    });
    let hello = stream::once(async { Ok(sse::Event::default().retry(RETRY)) });
    let stream = hello.chain(told).take_until(stop.cancelled_owned());
    let mut response = Sse::new(stream)
        .keep_alive(KeepAlive::new().interval(HEARTBEAT))
        .into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // For what may stand in front of the proxy: nothing may collect events before it passes them on.
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

fn written(event: &Event) -> Result<sse::Event, axum::Error> {
    sse::Event::default().event(event.name()).json_data(event)
}
