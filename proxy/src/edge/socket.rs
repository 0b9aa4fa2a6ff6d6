//! WebSockets: handshake with a pod, then out of Pingora and into our relay.

use super::Edge;
use super::context::Context;
use super::find::Search;
use super::personal::Revoked;

use crate::buffers;
use crate::busy::Busy;
use crate::gate::Opened;
use crate::headers::{self, Mapping};
use crate::metrics::{By, Class, Refused, RequestLabels, SocketEnd, Sockets};
use crate::reply::{Html, Reply};
use crate::retry::MAX_REPEATS;
use crate::route::Mode;
use crate::sessions::{End, Entered};
use crate::table::Backend;
use crate::tunnel::handshake::{Answer, HandshakeError, connect, handshake, switched};
use crate::tunnel::refusal::Body;
use crate::tunnel::relay::{Ended, Outcome, Terms, relay};
use crate::tunnel::request::fault;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use pingora::http::ResponseHeader;
use pingora::protocols::Stream;
use pingora::protocols::http::ServerSession;
use pingora::proxy::Session;
use pingora::{Error, ErrorType};
use std::future::Future;
use std::io::{Cursor, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Longest wait for a client to take the 101.
const FIRST_WRITE: Duration = Duration::from_secs(10);
/// Most of a path that an open socket keeps for the log, in bytes.
const MAX_LOGGED_PATH: usize = 1024;

/// A socket that both sides have agreed on.
struct Socket {
    pod: TcpStream,
    head: Box<ResponseHeader>,
    early: Bytes,
    entered: Entered,
    busy: Option<Busy>,
    /// Returns once what opened it has ended.
    expiry: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Returns once the session that opened it is over, or it is its caller's no more.
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Returns once the token that opened it was revoked.
    revoked: Revoked,
    idle: Option<Duration>,
    story: Story,
}

/// What is told of a socket once it has ended.
struct Story {
    workspace: Arc<str>,
    /// Name of the extra port, if it is for one.
    port: Option<Arc<str>>,
    backend: Arc<Backend>,
    /// As much of it as is logged.
    path: Box<str>,
    started: Instant,
    metrics: Sockets,
}

impl Edge {
    /// Opens a WebSocket to a pod, waiting for one if need be. Always answers the client.
    pub(super) async fn socket(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        mut opened: Opened,
        mut search: Search,
    ) -> pingora::Result<bool> {
        let client = ctx.client;
        let body = !session.as_downstream_mut().is_body_empty();
        if let Some(fault) = fault(session.req_header(), body) {
            self.metrics.sockets.refused(fault.into());
            return self.reply(session, ctx, &Reply::not_a_socket(fault)).await;
        }
        let mut repeats = 0;
        loop {
            let (backend, entered) = match self.find(session, ctx, &mut opened, &mut search).await {
                Ok(found) => found,
                Err(why) => return self.not_served(session, ctx, &opened, why).await,
            };
            let Some(address) = opened.address(&backend) else {
                return Error::err_in(ErrorType::InternalError);
            };
            if backend.speaks_http2(address) {
                // It would take a handshake for nonsense.
                self.metrics.sockets.refused(Refused::Protocol);
                return self.reply(session, ctx, &Reply::no_sockets()).await;
            }
            let pod = match connect(address).await {
                Ok(pod) => pod,
                Err(error) => {
                    tracing::debug!(%error, pod = backend.name, "a pod cannot be reached");
                    search.attempts.failed(&backend.uid);
                    self.metrics.retries.inc();
                    continue;
                }
            };
            let going = ctx.busy.as_ref().map_or(1, Busy::going);
            buffers::towards_pod(pod.as_raw_fd(), going);
            if !opened.workspace.route().reaches(&backend) {
                // It went while it was dialled, and its address may be another's by now.
                search.attempts.changed();
                self.metrics.retries.inc();
                continue;
            }
            let sent = session.req_header();
            let mut left = sent.clone();
            headers::drop_hop_by_hop(&mut left);
            let request = self.shape(
                sent,
                &left,
                &opened,
                client,
                backend.strip_prefix,
                backend.identity_headers,
            )?;
            let answered = tokio::select! {
                answered = handshake(pod, &request) => answered,
                why = entered.ended() => match why {
                    // Whatever becomes of a connection to a pod that is gone.
                    End::Restart => Err(HandshakeError::Io(ErrorKind::ConnectionAborted.into())),
                    End::Shutdown | End::Expired | End::Idle => {
                        return self.reply(session, ctx, &Reply::stopping(opened.html)).await;
                    }
                },
                // Nothing may come before the answer.
                came = session.as_downstream_mut().read_body_or_idle(true) => {
                    let gone = came.is_err_and(|error| *error.etype() == ErrorType::ConnectionClosed);
                    return self.too_early(session, ctx, gone).await;
                }
            };
            let answer = match answered {
                Ok(answer) => answer,
                // A handshake only reads, so another pod may be asked; the pod that broke off may be
                // ending at this moment.
                Err(HandshakeError::Io(error))
                    if repeats < MAX_REPEATS && self.may_repeat(&opened) =>
                {
                    tracing::debug!(%error, pod = backend.name, "a pod broke off a handshake");
                    repeats += 1;
                    // It had a pod; if there is none any more, it has as much time as one that arrives.
                    search.patience.restart(Instant::now(), &self.holds.bounds);
                    search.attempts.failed(&backend.uid);
                    self.metrics.retries.inc();
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, pod = backend.name, "a WebSocket handshake failed");
                    self.metrics.sockets.refused(Refused::Answer);
                    return self
                        .reply(session, ctx, &Reply::bad_gateway(Html::No))
                        .await;
                }
            };
            let (mut head, rest) = match answer {
                Answer::Refused { head, body } => (head, Err(body)),
                Answer::Switched { pod, head, early } => (head, Ok((pod, early))),
            };
            let address = address.to_string();
            let prefix = opened.prefix();
            let mapping = prefix.as_deref().map(|prefix| Mapping {
                prefix,
                stripped: backend.strip_prefix,
                shared: opened.mode == Mode::Path,
                host: &opened.host,
                pod: &address,
            });
            headers::from_pod(&mut head, mapping)?;
            self.pass_on(&mut head, ctx)?;
            return match rest {
                Err(body) => {
                    ctx.refused_by = Some((opened.workspace.id.clone(), backend));
                    refused(session, head, body).await
                }
                Ok((pod, early)) => {
                    Self::holds(&opened, &backend, &entered);
                    let request = session.req_header();
                    let over = self.over(request, &opened, Some(backend.clone()));
                    let (clock, ends) = (self.clock.clone(), self.ends(&opened.caller));
                    let expiry = Box::pin(async move { clock.sleep_until(ends).await });
                    let revoked = self.revoked(request);
                    let path = logged(request.uri.path()).into();
                    let socket = Socket {
                        pod,
                        head,
                        early,
                        entered,
                        busy: ctx.busy.take(),
                        expiry,
                        over,
                        revoked,
                        idle: self.socket_idle,
                        story: Story {
                            workspace: opened.workspace.id.clone(),
                            port: opened.extra.map(|extra| extra.name),
                            backend,
                            path,
                            started: ctx.started,
                            metrics: self.metrics.sockets.clone(),
                        },
                    };
                    self.tunnel(session, ctx, socket).await
                }
            };
        }
    }

    /// Ends a request whose client went, or sent frames, before it had an answer.
    async fn too_early(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        gone: bool,
    ) -> pingora::Result<bool> {
        session.set_keepalive(None);
        if gone {
            return Ok(true);
        }
        self.metrics.sockets.refused(Refused::Early);
        self.reply(session, ctx, &Reply::bad_request()).await
    }

    /// Takes the client's connection out of Pingora and relays in a task of its own.
    async fn tunnel(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        socket: Socket,
    ) -> pingora::Result<bool> {
        ctx.tunnelled = true;
        let labels = |class| RequestLabels { by: By::Pod, class };
        let Some(client) = take(session).await else {
            self.metrics.sockets.refused(Refused::Early);
            self.metrics
                .requests
                .get_or_create(&labels(Class::ClientError))
                .inc();
            socket.story.tell(400, None);
            return Ok(true);
        };
        self.metrics
            .requests
            .get_or_create(&labels(Class::Success))
            .inc();
        self.metrics.sockets.opened.inc();
        self.sockets.spawn(run(client, socket));
        Ok(true)
    }
}

/// As much of a path as is kept for the log.
fn logged(path: &str) -> &str {
    path.get(..path.floor_char_boundary(MAX_LOGGED_PATH))
        .unwrap_or(path)
}

/// The client's connection, and a dummy in its place. `None` if the client sent something before it
/// had the 101, which no client may, or is gone.
async fn take(session: &mut Session) -> Option<Stream> {
    let dummy = ServerSession::new_http1(Box::new(Cursor::new(Vec::new())));
    let taken = std::mem::replace(session.as_downstream_mut(), dummy);
    let ServerSession::H1(mut taken) = taken else {
        return None;
    };
    // Whatever it says of the connection, it asked for one that goes on, and has it now.
    taken.req_header_mut().remove_header(&CONNECTION);
    // Only with these two is what the client sent too early handed out rather than lost.
    taken.set_server_keepalive(Some(60));
    taken.set_pipelining_enabled(true);
    // A handshake has no body; one that is announced all the same is not waited for any longer.
    let left = tokio::time::timeout(FIRST_WRITE, taken.reuse()).await;
    let (stream, early) = left.ok()?.ok().flatten()?.into_parts();
    let (mut stream, waiting) = crate::accept::release(stream);
    let early = early.is_some_and(|early| !early.is_empty());
    if early || waiting > 0 || has_sent(&mut stream).await {
        let refusal = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let _ = tokio::time::timeout(FIRST_WRITE, stream.write_all(refusal)).await;
        let _ = tokio::time::timeout(FIRST_WRITE, stream.shutdown()).await;
        return None;
    }
    Some(stream)
}

/// Whether something is there to be read at this moment.
async fn has_sent(stream: &mut Stream) -> bool {
    let mut byte = [0; 1];
    let mut read = ReadBuf::new(&mut byte);
    std::future::poll_fn(|context| {
        let polled = Pin::new(&mut *stream).poll_read(context, &mut read);
        Poll::Ready(matches!(polled, Poll::Ready(Ok(()))))
    })
    .await
        && !read.filled().is_empty()
}

async fn run(mut client: Stream, socket: Socket) {
    let Socket {
        pod,
        head,
        early,
        entered,
        busy: _busy,
        expiry,
        over,
        revoked,
        idle,
        story,
    } = socket;
    let wire = switched(&head);
    drop(head);
    let first = async {
        client.write_all(&wire).await?;
        client.flush().await
    };
    let written = tokio::time::timeout(FIRST_WRITE, first).await;
    drop(wire);
    if !matches!(written, Ok(Ok(()))) {
        story.tell(101, Some(Ended::NEVER_BEGUN));
        return;
    }
    let terms = Terms {
        session: &entered,
        idle,
        up: &story.metrics.up,
        down: &story.metrics.down,
        mask,
    };
    // Of what the pod takes nothing, the client's end is not read.
    let broken = crate::accept::broken(client.id());
    let ended = {
        let mut relaying = std::pin::pin!(relay(client, pod, early, &terms));
        tokio::select! {
            ended = &mut relaying => ended,
            () = out(expiry, over, revoked) => {
                entered.end(End::Expired);
                relaying.await
            }
            () = broken => {
                // The pod is told as of one that was silent for too long.
                entered.end(End::Idle);
                let outcome = Outcome::ByClient;
                Ended { outcome, ..relaying.await }
            }
        }
    };
    story.tell(101, Some(ended));
}

/// Returns once whoever opened a socket may have it no longer.
async fn out(
    expiry: impl Future<Output = ()>,
    over: impl Future<Output = ()>,
    revoked: impl Future<Output = ()>,
) {
    tokio::select! {
        () = expiry => {}
        () = over => {}
        () = revoked => {}
    }
}

fn mask() -> [u8; 4] {
    let mut key = [0; 4];
    // Without randomness the frame is as good a frame; nobody reads it but the pod.
    let _ = getrandom::fill(&mut key);
    key
}

impl Story {
    /// Counts an end, and leaves its line in the log.
    fn tell(&self, status: u16, ended: Option<Ended>) {
        if let Some(ended) = ended {
            self.metrics.ended(ended.outcome);
        }
        let by = ended.map(|ended| match ended.outcome {
            Outcome::ByPod => "pod",
            Outcome::ByClient => "client",
            Outcome::ByUs(_) => "proxy",
        });
        let reason = ended.map(|ended| SocketEnd::from(ended.outcome));
        tracing::info!(
            target: "access",
            method = "GET",
            path = &*self.path,
            status,
            workspace = &*self.workspace,
            port = self.port.as_deref(),
            pod = self.backend.name,
            up = ended.map(|ended| ended.up),
            down = ended.map(|ended| ended.down),
            code = ended.and_then(|ended| ended.code),
            by,
            reason = reason.map(tracing::field::debug),
            milliseconds = self.started.elapsed().as_millis() as u64,
            "socket"
        );
    }
}

/// Hands a pod's refusal on, as it comes.
async fn refused(
    session: &mut Session,
    mut head: Box<ResponseHeader>,
    mut body: Body,
) -> pingora::Result<bool> {
    session.set_keepalive(None);
    let empty = body.is_empty();
    if !body.has_length() {
        head.remove_header(&CONTENT_LENGTH);
        head.insert_header(TRANSFER_ENCODING, "chunked")?;
    }
    session.write_response_header(head, empty).await?;
    if empty {
        return Ok(true);
    }
    let broke = |error| {
        pingora::Error::because(
            ErrorType::ReadError,
            "a pod's refusal broke off",
            Box::new(error),
        )
    };
    while let Some(piece) = body.next().await.map_err(broke)? {
        session.write_response_body(Some(piece), false).await?;
    }
    session.write_response_body(None, true).await?;
    Ok(true)
}

#[cfg(test)]
mod tests;
