//! A client's connection: from one request to the next.
//!
//! Heads of HTTP/1 requests are read here, by [`Connection::next`], before Pingora gets them: so their
//! bounds and deadlines are ours, and a connection that is idle, or slow with its head, costs no more
//! than its socket and what it has sent. What belongs to the request after it is kept back until
//! that is awaited: so a client may send several at once, one after another is answered, and a client
//! that leaves meanwhile is still noticed.

mod amend;
mod due;
mod stream;

use super::chunks::Chunks;
use super::count::Admitted;
use super::head::{Body, Bounds, Head, Scanner, Unacceptable};
use super::linger::{self, Lingering};
use super::wire::Wire;
use crate::hold;
use crate::metrics::By;
use crate::metrics::accept::Metrics;
use bytes::BytesMut;
use due::Due;
use pingora::protocols::l4::socket::SocketAddr as Address;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::{ALPN, SocketDigest};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead as _, AsyncWrite as _, AsyncWriteExt as _, BufWriter, ReadBuf};
use tokio::time::Instant;

pub use amend::ALLOW;
pub use stream::{is_lost, reached, read_at_once, release, take};

/// Write buffer, in bytes: one packet.
const WRITE_BUFFER: usize = 1460;
/// What is read at once while a head comes, in bytes: most are shorter.
const CHUNK: usize = 2048;
/// What is kept of a client's next requests while one is answered, in bytes. What is beyond it stays in
/// the system's buffers.
const AHEAD: usize = 16 * 1024;
/// What HTTP/2 begins with (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a client may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// To the first byte on a new connection.
    pub first: Duration,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// Between two requests.
    pub idle: Duration,
}

/// What a connection may begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
    /// Either; its first bytes tell (h2c with prior knowledge).
    Either,
}

/// What has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// The head of an HTTP/1 request.
    Request,
    /// The preface of HTTP/2.
    Http2,
    /// Nothing: the client has closed the connection, or it broke.
    Nothing,
}

/// Why nothing more is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Not a single byte came in time.
    #[error("nothing came in time")]
    Silent,
    /// A part of a head came, and the rest not in time.
    #[error("The request took too long to arrive.")]
    Slow,
    /// The head is not taken.
    #[error(transparent)]
    Unacceptable(#[from] Unacceptable),
    /// It was to be HTTP/2 and is not.
    #[error("this is not HTTP/2")]
    NotHttp2,
}

/// A connection from its first request on.
pub struct Connection {
    /// Returns once a client has left that has sent more than is kept. Ends before the socket does that
    /// it watches.
    left: Option<Left>,
    wire: BufWriter<Wire>,
    /// What has come and was not handed on yet.
    buffer: BytesMut,
    /// What may be handed on before the next head is awaited.
    due: Due,
    /// Whether a request was handed on, and not all that comes: so it is known what of it is unread.
    lingers: bool,
    /// Whether its request has a body.
    uploads: bool,
    /// Whether something of the answer was written.
    answered: bool,
    /// Whether the head of the answer is still to be written, informational ones apart.
    awaits_head: bool,
    /// What is left of what goes out in place of what Pingora writes.
    instead: Option<BytesMut>,
    lingering: Lingering,
    /// Whether the request has come to our hooks, or its answer was noted: Pingora answers some alone.
    noted: AtomicBool,
    /// How much of a body is read at once.
    piece: AtomicUsize,
    metrics: Metrics,
    alpn: ALPN,
    tls: Option<Arc<SslDigest>>,
    socket: Arc<SocketDigest>,
    established: SystemTime,
    /// Whatever becomes of the connection, it counts for as long as it is open.
    admitted: Option<Admitted>,
}

type Left = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("wire", &self.wire)
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection of `client`, over which nothing of HTTP has come yet.
    #[must_use]
    pub fn new(
        wire: Wire,
        client: SocketAddr,
        tls: Option<Arc<SslDigest>>,
        admitted: Admitted,
        lingering: Lingering,
        metrics: Metrics,
    ) -> Self {
        let socket = SocketDigest::from_raw_fd(wire.id());
        // Who says that is whom we believe; the socket knows only who connected.
        let _ = socket.peer_addr.set(Some(Address::Inet(client)));
        Self {
            left: None,
            wire: BufWriter::with_capacity(WRITE_BUFFER, wire),
            buffer: BytesMut::new(),
            due: Due::All,
            lingers: false,
            uploads: false,
            answered: false,
            awaits_head: false,
            instead: None,
            lingering,
            noted: AtomicBool::new(true),
            piece: AtomicUsize::new(usize::MAX),
            metrics,
            alpn: ALPN::H1,
            tls,
            socket: Arc::new(socket),
            established: SystemTime::now(),
            admitted: Some(admitted),
        }
    }

    /// Waits for the next request: `first` or `idle` until it begins, then `head` until its head is
    /// whole. Waits no longer for one that has not begun once `closing` returns.
    ///
    /// # Errors
    /// It did not come, or not as it should.
    pub async fn next(
        &mut self,
        speaks: Speaks,
        wait: Duration,
        deadlines: &Deadlines,
        bounds: &Bounds,
        closing: impl Future<Output = ()>,
    ) -> Result<Came, Lost> {
        let mut closing = std::pin::pin!(closing);
        let mut scanner = Scanner::default();
        let mut speaks = speaks;
        let mut begun = has_begun(&self.buffer);
        let mut until = Instant::now() + if begun { deadlines.head } else { wait };
        loop {
            match (speaks, self.preface()) {
                (Speaks::Http2 | Speaks::Either, Some(true)) => {
                    self.alpn = ALPN::H2;
                    self.due = Due::All;
                    return Ok(Came::Http2);
                }
                (Speaks::Http2, Some(false)) => return Err(Lost::NotHttp2),
                (Speaks::Either, Some(false)) => speaks = Speaks::Http1,
                _ => {}
            }
            if speaks == Speaks::Http1
                && let Some(head) = scanner.scan(&self.buffer, bounds)?
            {
                self.hand_on(head);
                return Ok(Came::Request);
            }
            let came = tokio::select! {
                biased;
                came = poll_fn(|cx| self.poll_fill(cx)) => came,
                () = tokio::time::sleep_until(until) => {
                    return Err(if begun { Lost::Slow } else { Lost::Silent });
                }
                () = &mut closing, if !begun => return Ok(Came::Nothing),
            };
            if !matches!(came, Ok(1..)) {
                return Ok(Came::Nothing);
            }
            if !begun && has_begun(&self.buffer) {
                begun = true;
                until = Instant::now() + deadlines.head;
            }
        }
    }

    /// Whether what has come is the preface of HTTP/2; `None`: it may become it.
    fn preface(&self) -> Option<bool> {
        let common = self.buffer.len().min(PREFACE.len());
        if self.buffer.get(..common) != PREFACE.get(..common) {
            return Some(false);
        }
        (common == PREFACE.len()).then_some(true)
    }

    /// From here on the request is Pingora's.
    fn hand_on(&mut self, head: Head) {
        self.uploads = matches!(head.body, Body::Bytes(1..) | Body::Chunked);
        self.due = match head.body {
            Body::Bytes(body) => Due::Bytes(body.saturating_add(head.length as u64)),
            Body::Chunked => Due::Chunks(head.length, Chunks::default()),
            Body::Open => Due::All,
        };
        *self.noted.get_mut() = false;
        *self.piece.get_mut() = usize::MAX;
        // The next one may be watched in another way, and nothing can be watched twice.
        self.left = None;
        self.lingers = true;
        self.answered = false;
        self.awaits_head = true;
    }

    /// Reads what is there into the buffer.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut chunk = [MaybeUninit::uninit(); CHUNK];
        let mut chunk = ReadBuf::uninit(&mut chunk);
        ready!(Pin::new(&mut self.wire).poll_read(cx, &mut chunk))?;
        self.buffer.extend_from_slice(chunk.filled());
        Poll::Ready(Ok(chunk.filled().len()))
    }

    /// Ready once the client has left; what it sends until then belongs to its next requests.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.buffer.len() < AHEAD {
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        // Its end cannot be read up to.
        let socket = self.wire.get_ref().id();
        let left = self
            .left
            .get_or_insert_with(|| Box::pin(hold::gone(socket)));
        ready!(left.as_mut().poll(cx));
        // Whoever asks once more is told the same.
        self.left = None;
        Poll::Ready(Ok(()))
    }

    /// Whether something of the request is unread, or came behind it.
    fn is_unread(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.due.is_over() || !self.buffer.is_empty() {
            return true;
        }
        matches!(self.poll_fill(cx), Poll::Ready(Ok(1..)))
    }

    /// Reads at most `room` bytes, past the buffer.
    fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        let wire = Pin::new(&mut self.wire);
        let before = buf.filled().len();
        if room >= buf.remaining() {
            ready!(wire.poll_read(cx, buf))?;
            return Poll::Ready(Ok(buf.filled().len() - before));
        }
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
        ready!(wire.poll_read(cx, &mut part))?;
        let came = part.filled().len();
        buf.advance(came);
        Poll::Ready(Ok(came))
    }

    /// Whether the request that was handed on has a body.
    #[must_use]
    pub fn uploads(&self) -> bool {
        self.uploads
    }

    /// Whether another request may follow: it is known where the last one ended.
    #[must_use]
    pub fn may_go_on(&self) -> bool {
        self.due.is_over()
    }

    /// Lets everything through from now on, as another protocol needs it. Returns how many bytes the
    /// client has sent already.
    fn release(&mut self) -> usize {
        self.due = Due::All;
        self.lingers = false;
        self.awaits_head = false;
        self.buffer.len()
    }

    /// What goes out in place of what Pingora writes, if that is the head of an answer and to be another
    /// one. Notes the answer to a request that has not come to our hooks.
    fn other(&mut self, written: &[u8]) -> Option<BytesMut> {
        let alone = !std::mem::replace(self.noted.get_mut(), true);
        let status = amend::status(written);
        if alone && let Some(status) = status {
            self.note(status);
        }
        if !std::mem::take(&mut self.awaits_head) {
            return None;
        }
        self.awaits_head = status.is_some_and(|status| status < 200);
        amend::amended(written, alone).map(|other| other.as_slice().into())
    }

    fn note(&self, status: u16) {
        self.metrics.alone(status);
        tracing::info!(
            target: "access",
            client = ?self.client(),
            status,
            by = ?By::Proxy,
            "not a request"
        );
    }

    pub(super) fn client(&self) -> Option<IpAddr> {
        Some(self.socket.peer_addr()?.as_inet()?.ip())
    }

    /// Answers and closes, so that the answer arrives although the client may still be sending: what it
    /// sends is read and dropped for as long as `linger` returns not.
    pub async fn refuse(mut self, answer: &[u8], linger: impl Future<Output = ()>) {
        self.lingers = false;
        let closing = async {
            self.wire.write_all(answer).await?;
            linger::out(&mut self.wire).await
        };
        tokio::select! {
            _ = closing => {}
            () = linger => {}
        }
    }
}

/// Whether a request has begun: an empty line in front of one is none (RFC 9112, section 2.2).
fn has_begun(buffer: &[u8]) -> bool {
    buffer.iter().any(|byte| !matches!(byte, b'\r' | b'\n'))
}

impl Drop for Connection {
    fn drop(&mut self) {
        // As Pingora's own streams do: what was written last goes out, if there is room for it.
        let mut cx = Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut self.wire).poll_flush(&mut cx);
        self.left = None;
        if self.lingers && self.answered && self.is_unread(&mut cx) {
            let given = BufWriter::with_capacity(0, Wire::Given);
            let wire = std::mem::replace(&mut self.wire, given);
            self.lingering.end(wire, self.admitted.take());
        }
    }
}

#[cfg(test)]
mod tests;
