//! The layer that reads the API server's `Date` header from every reply.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use http::{Request, Response, header};
use tower::{Layer, Service};

use super::ServerClock;

/// Feeds a [`ServerClock`].
#[derive(Clone)]
pub(super) struct DateLayer(ServerClock);

impl DateLayer {
    pub(super) fn new(clock: ServerClock) -> Self {
        Self(clock)
    }
}

impl<S> Layer<S> for DateLayer {
    type Service = DateService<S>;

    fn layer(&self, inner: S) -> DateService<S> {
        DateService {
            inner,
            clock: self.0.clone(),
        }
    }
}

/// See [`DateLayer`].
pub(super) struct DateService<S> {
    inner: S,
    clock: ServerClock,
}

impl<S, A, B> Service<Request<A>> for DateService<S>
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
        let sent = Instant::now();
        let reply = self.inner.call(request);
        let clock = self.clock.clone();
        Box::pin(async move {
            let reply = reply.await?;
            let date = reply
                .headers()
                .get(header::DATE)
                .and_then(|value| value.to_str().ok())
                .and_then(parse);
            if let Some(date) = date {
                clock.observe(date, sent, Instant::now());
            }
            Ok(reply)
        })
    }
}

/// Unix seconds of an IMF-fixdate, as in `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).
fn parse(text: &str) -> Option<i64> {
    jiff::fmt::rfc2822::parse(text)
        .ok()
        .map(|zoned| zoned.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_http_dates() {
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(parse("yesterday"), None);
    }
}
