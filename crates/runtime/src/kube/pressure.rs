//! How long the API server wants to be left alone: `Retry-After` of replies that say "too many
//! requests" or "not now".
//!
//! The client passes such replies on as errors, without their headers; so a layer below it notes
//! what they ask for, and whoever can wait does.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::{HeaderMap, Request, Response, StatusCode, header};
use tower::{Layer, Service};

/// The longest that is waited, whatever a reply asks for.
const MOST: Duration = Duration::from_secs(30);

/// What the API server has asked for. Cheap to clone and to read; clones share it.
#[derive(Clone, Debug)]
pub struct Pressure(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    /// Until when, in milliseconds since `start`.
    until: AtomicU64,
}

impl Pressure {
    /// None yet.
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            start: Instant::now(),
            until: AtomicU64::new(0),
        }))
    }

    /// How much longer the API server wants to be left alone; at most 30 s, mostly nothing.
    pub fn left(&self) -> Duration {
        let until = Duration::from_millis(self.0.until.load(Ordering::Relaxed));
        until.saturating_sub(self.0.start.elapsed())
    }

    fn note(&self, wait: Duration) {
        let until = self.0.start.elapsed().saturating_add(wait.min(MOST));
        let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.0.until.fetch_max(until, Ordering::Relaxed);
    }
}

impl Default for Pressure {
    fn default() -> Self {
        Self::new()
    }
}

/// Feeds a [`Pressure`].
#[derive(Clone)]
pub(super) struct PressureLayer(Pressure);

impl PressureLayer {
    pub(super) fn new(pressure: Pressure) -> Self {
        Self(pressure)
    }
}

impl<S> Layer<S> for PressureLayer {
    type Service = PressureService<S>;

    fn layer(&self, inner: S) -> PressureService<S> {
        PressureService {
            inner,
            pressure: self.0.clone(),
        }
    }
}

/// See [`PressureLayer`].
pub(super) struct PressureService<S> {
    inner: S,
    pressure: Pressure,
}

impl<S, A, B> Service<Request<A>> for PressureService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let reply = self.inner.call(request);
        let pressure = self.pressure.clone();
        Box::pin(async move {
            let reply = reply.await?;
            if let Some(wait) = asked(reply.status(), reply.headers()) {
                pressure.note(wait);
            }
            Ok(reply)
        })
    }
}

/// How long a reply asks to be left alone.
fn asked(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let busy = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    // Kubernetes writes seconds; the other form of the header is a date.
    let after = headers.get(header::RETRY_AFTER).filter(|_| busy)?;
    let seconds = after.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(after: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::RETRY_AFTER, after.parse().unwrap())])
    }

    #[test]
    fn what_replies_ask_for() {
        let seconds = |n| Some(Duration::from_secs(n));
        for (status, after, expected) in [
            (429, "1", seconds(1)),
            (503, " 7 ", seconds(7)),
            (200, "5", None),
            (500, "5", None),
            (429, "Sun, 06 Nov 1994 08:49:37 GMT", None),
            (429, "-1", None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(asked(status, &headers(after)), expected, "{status} {after}");
        }
        assert_eq!(
            asked(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()),
            None
        );
    }

    #[test]
    fn the_longest_counts_and_nobody_waits_for_ever() {
        let pressure = Pressure::new();
        assert_eq!(pressure.left(), Duration::ZERO);
        pressure.note(Duration::from_secs(20));
        pressure.note(Duration::from_secs(1));
        assert!(pressure.left() > Duration::from_secs(1));
        pressure.note(Duration::from_secs(1_000_000));
        assert!(pressure.left() <= MOST);
    }
}
