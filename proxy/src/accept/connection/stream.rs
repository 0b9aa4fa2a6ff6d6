//! A connection as a stream of Pingora's: what it reads and writes there, what it asks of one, and the
//! way back from its stream to our connection.

use super::Connection;
use async_trait::async_trait;
use bytes::{Buf as _, BytesMut};
use pingora::protocols::http::ServerSession;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use pingora::proxy::Session;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Notes that a request has come to our hooks.
pub fn reached(session: &Session) {
    if let ServerSession::H1(client) = session.as_downstream()
        && let Some(connection) = of(client.stream())
    {
        connection.noted.store(true, Ordering::Relaxed);
    }
}

/// Whether the request's body cannot be told from what follows it.
#[must_use]
pub fn is_lost(client: &ServerSession) -> bool {
    matches!(client, ServerSession::H1(client) if of(client.stream()).is_some_and(|connection| connection.due.is_lost()))
}

/// Has the body of a request read in pieces of at most so many bytes.
pub fn read_at_once(stream: &Stream, piece: usize) {
    if let Some(connection) = of(stream) {
        connection.piece.store(piece, Ordering::Relaxed);
    }
}

fn of(stream: &Stream) -> Option<&Connection> {
    // Of what is in the box, not of the box.
    (**stream).as_any().downcast_ref()
}

/// Lets everything through from now on, over a connection that was taken out of Pingora. Also says how
/// many bytes the client has sent already that were not read yet.
#[must_use]
pub fn release(stream: Stream) -> (Stream, usize) {
    if of(&stream).is_none() {
        return (stream, 0);
    }
    match take(stream) {
        Some(mut connection) => {
            let waiting = connection.release();
            (connection, waiting)
        }
        // Looked at above.
        None => (Box::new(std::io::Cursor::new(Vec::new())), 0),
    }
}

/// The connection that Pingora had; `None`: it was none of ours.
#[must_use]
pub fn take(stream: Stream) -> Option<Box<Connection>> {
    stream.into_any().downcast().ok()
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.wire.buffer().is_empty() || this.wire.get_ref().holds_back() {
            // Whoever waits for the client has said all for now: a part of an answer, however small,
            // arrives before the next one is there.
            if let Poll::Ready(Err(error)) = Pin::new(&mut this.wire).poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
        }
        if this.due.is_over() {
            // Who reads looks whether the client is still there.
            return this.poll_left(cx);
        }
        while this.buffer.is_empty() && this.due.ahead() == 0 && !this.due.is_lost() {
            if ready!(this.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        if this.buffer.is_empty() && !this.due.is_lost() {
            let room = this.due.ahead().min(*this.piece.get_mut());
            let came = ready!(this.poll_part(cx, buf, room))?;
            let filled = buf.filled();
            let came = filled.get(filled.len() - came..).unwrap_or_default();
            this.due.take(came);
            return Poll::Ready(Ok(()));
        }
        let most = buf.remaining().min(this.buffer.len());
        let came = this.due.take(this.buffer.get(..most).unwrap_or_default());
        if came == 0 && this.due.is_lost() {
            let why = "it cannot be told where the body ends";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        buf.put_slice(this.buffer.get(..came).unwrap_or_default());
        this.buffer.advance(came);
        if this.buffer.is_empty() {
            // Nobody needs its memory while a body flows, or while the connection is idle.
            this.buffer = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.answered = true;
        if this.instead.is_none() {
            this.instead = this.other(buf);
        }
        let Some(instead) = &mut this.instead else {
            return Pin::new(&mut this.wire).poll_write(cx, buf);
        };
        // All of it, before what was written counts as taken.
        while !instead.is_empty() {
            let taken = ready!(Pin::new(&mut this.wire).poll_write(cx, instead))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            instead.advance(taken);
        }
        this.instead = None;
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.answered = true;
        Pin::new(&mut this.wire).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_shutdown(cx)
    }
}

#[async_trait]
impl Shutdown for Connection {
    async fn shutdown(&mut self) {
        if let Err(error) = AsyncWriteExt::shutdown(self).await {
            tracing::debug!(%error, "a connection was closed before its end");
        }
    }
}

impl UniqueID for Connection {
    fn id(&self) -> UniqueIDType {
        self.wire.get_ref().id()
    }
}

impl Ssl for Connection {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.tls.clone()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        Some(self.alpn.clone())
    }
}

impl Peek for Connection {}

impl GetTimingDigest for Connection {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        vec![Some(TimingDigest {
            established_ts: self.established,
            ..TimingDigest::default()
        })]
    }
}

impl GetProxyDigest for Connection {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for Connection {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        Some(self.socket.clone())
    }
}
