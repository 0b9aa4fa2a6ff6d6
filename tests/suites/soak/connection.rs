//! An HTTP connection through one of the proxies, whose ends are told apart.

use super::LONG;
use super::doors::{Doors, Life};
use anyhow::Context as _;
use bytes::Bytes;
use futures::Stream;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// Body of a request.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// None.
pub(super) fn empty() -> Body {
    Empty::new().boxed_unsync()
}

/// Of these parts, in chunks.
pub(super) fn chunks(parts: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    StreamBody::new(parts.map(|part| Ok(Frame::data(part)))).boxed_unsync()
}

/// A connection.
pub(super) struct Connection {
    pub(super) life: Arc<Life>,
    /// Requests that it has carried.
    pub(super) used: u32,
    sender: SendRequest<Body>,
    _driver: AbortOnDropHandle<()>,
}

impl Connection {
    /// A new one.
    pub(super) async fn open(doors: &Doors) -> anyhow::Result<Self> {
        let way = doors.connect().await?;
        let (sender, driver) = http1::handshake(TokioIo::new(way.stream)).await?;
        let driver = tokio::spawn(async move {
            // What ends it reaches the request that it was for.
            let _ended = driver.await;
        });
        Ok(Self {
            life: way.life,
            used: 0,
            sender,
            _driver: AbortOnDropHandle::new(driver),
        })
    }

    /// Whether it can be used again.
    pub(super) async fn is_open(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a request, returns the head of the answer.
    pub(super) async fn ask(
        &mut self,
        request: Request<Body>,
    ) -> anyhow::Result<Response<Incoming>> {
        self.used += 1;
        let asked = tokio::time::timeout(LONG, self.sender.send_request(request));
        asked
            .await
            .context("no answer in time")?
            .map_err(|error| anyhow::anyhow!("no answer: {error:?}"))
    }

    /// Sends a request, returns status, head and body of the whole answer.
    pub(super) async fn whole(
        &mut self,
        request: Request<Body>,
    ) -> anyhow::Result<(http::response::Parts, Bytes)> {
        let (head, body) = self.ask(request).await?.into_parts();
        let body = tokio::time::timeout(LONG, body.collect()).await;
        let body = body
            .context("no whole answer in time")?
            .map_err(|error| anyhow::anyhow!("cut off after a {}: {error:?}", head.status))?;
        Ok((head, body.to_bytes()))
    }
}
