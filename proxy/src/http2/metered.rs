//! A client's connection whose HTTP/2 frames are counted both ways.

use super::meter::{Budget, Excess, Meter, Rates};
use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::Instant;

/// Hands no more to the HTTP/2 library, once a client has sent too much of what is for nothing.
#[derive(Debug)]
pub(super) struct Metered {
    inner: Stream,
    received: Meter,
    sent: Meter,
    budget: Budget,
    started: Instant,
    excess: watch::Sender<Option<Excess>>,
    heard: Heard,
}

/// When something came last. Clones say the same.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    started: Instant,
    /// Nanoseconds later.
    last: Arc<AtomicU64>,
}

impl Heard {
    /// Now.
    pub(super) fn now() -> Self {
        Self {
            started: Instant::now(),
            last: Arc::default(),
        }
    }

    /// Something has come.
    pub(super) fn note(&self) {
        let last = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last.store(last, Ordering::Relaxed);
    }

    /// When that was.
    pub(super) fn at(&self) -> Instant {
        self.started + Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }
}

impl Metered {
    /// The connection, where it is said that the client has sent too much, and when it was heard of.
    pub(super) fn new(
        inner: Stream,
        rates: Rates,
    ) -> (Self, watch::Receiver<Option<Excess>>, Heard) {
        let (excess, exceeds) = watch::channel(None);
        let heard = Heard::now();
        let this = Self {
            inner,
            received: Meter::of_client(),
            sent: Meter::of_server(),
            budget: Budget::new(rates),
            started: Instant::now(),
            excess,
            heard: heard.clone(),
        };
        (this, exceeds, heard)
    }

    fn judge(&mut self, bytes: &[u8]) {
        let now = self.started.elapsed();
        let (budget, mut verdict) = (&mut self.budget, Ok(()));
        self.received.feed(bytes, |frame| {
            if verdict.is_ok() {
                verdict = budget.received(frame, now);
            }
        });
        if let Err(excess) = verdict {
            self.excess.send_replace(Some(excess));
        }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.excess.borrow().is_some() {
            // Whoever waits for the excess ends the connection; until then there is nothing to read.
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.inner).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = read {
            let came = buf.filled().get(before..).unwrap_or_default();
            if !came.is_empty() {
                this.heard.note();
            }
            this.judge(came);
            if this.excess.borrow().is_some() {
                buf.set_filled(before);
                return Poll::Pending;
            }
        }
        read
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let written = Pin::new(&mut this.inner).poll_write(cx, buf);
        if let Poll::Ready(Ok(count)) = &written {
            let budget = &mut this.budget;
            this.sent
                .feed(buf.get(..*count).unwrap_or_default(), |frame| {
                    budget.sent(frame);
                });
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let written = Pin::new(&mut this.inner).poll_write_vectored(cx, bufs);
        if let Poll::Ready(Ok(count)) = &written {
            let (budget, mut left) = (&mut this.budget, *count);
            for buf in bufs {
                let part = left.min(buf.len());
                this.sent
                    .feed(buf.get(..part).unwrap_or_default(), |frame| {
                        budget.sent(frame);
                    });
                left -= part;
            }
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[async_trait]
impl Shutdown for Metered {
    async fn shutdown(&mut self) {
        self.inner.shutdown().await;
    }
}

impl UniqueID for Metered {
    fn id(&self) -> UniqueIDType {
        self.inner.id()
    }
}

impl Ssl for Metered {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.inner.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.inner.selected_alpn_proto()
    }
}

impl GetTimingDigest for Metered {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.inner.get_timing_digest()
    }

    fn get_read_pending_time(&self) -> Duration {
        self.inner.get_read_pending_time()
    }

    fn get_write_pending_time(&self) -> Duration {
        self.inner.get_write_pending_time()
    }
}

impl GetProxyDigest for Metered {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.inner.get_proxy_digest()
    }
}

impl GetSocketDigest for Metered {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.inner.get_socket_digest()
    }
}

impl Peek for Metered {}
