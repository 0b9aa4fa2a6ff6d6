//! WebSockets: handshake with a pod, then out of Pingora and into our relay.

use super::Edge;
use super::context::Context;
use super::personal::Revoked;
use super::pick::Picked;
use crate::dial::Attempts;
use crate::gate::Opened;
use crate::headers::{self, Mapping};
use crate::hold::Patience;
use crate::metrics::{By, Class, RequestLabels};
use crate::reply::Reply;
use crate::sessions::{End, Entered, Kind};
use crate::table::Backend;
use crate::tunnel::handshake::{Answer, HandshakeError, connect, handshake, switched};
use crate::tunnel::relay::{Outcome, relay};
use bytes::Bytes;
use http::StatusCode;
use pingora::http::ResponseHeader;
use pingora::protocols::Stream;
use pingora::protocols::http::ServerSession;
use pingora::proxy::Session;
use std::future::Future;
use std::io::Cursor;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Longest wait for a client to take the 101.
const FIRST_WRITE: Duration = Duration::from_secs(10);

/// A socket that both sides have agreed on.
struct Socket {
    pod: TcpStream,
    head: Box<ResponseHeader>,
    early: Bytes,
    backend: Arc<Backend>,
    entered: Entered,
    opened: Opened,
    /// Returns once what opened it has ended.
    expiry: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Returns once the session that opened it is over, or it is its caller's no more.
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Returns once the token that opened it was revoked.
    revoked: Revoked,
    started: Instant,
}

impl Edge {
    /// Opens a WebSocket to a pod, waiting for one if need be. Always answers the client.
    pub(super) async fn socket(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        opened: Opened,
        mut attempts: Attempts,
        mut patience: Patience,
    ) -> pingora::Result<bool> {
        let client = ctx.client;
        let mut broke = false;
        loop {
            let picked = self
                .pick(
                    session.as_downstream_mut(),
                    &opened,
                    Kind::Socket,
                    &mut attempts,
                    &mut patience,
                )
                .await;
            let (backend, entered) = match picked {
                Picked::Pod(backend, entered) => (backend, entered),
                other => return self.not_served(session, ctx, &opened, &other).await,
            };
            let pod = match connect(backend.address).await {
                Ok(pod) => pod,
                Err(error) => {
                    tracing::debug!(%error, pod = backend.name, "a pod cannot be reached");
                    attempts.failed(&backend.uid);
                    self.metrics.retries.inc();
                    continue;
                }
            };
            let mut request = session.req_header().clone();
            headers::drop_hop_by_hop(&mut request);
            self.shape(
                &mut request,
                &opened,
                client,
                backend.strip_prefix,
                backend.identity_headers,
            )?;
            let answer = match handshake(pod, &request).await {
                Ok(answer) => answer,
                // A handshake only reads, so another pod may be asked; the pod that broke off may be
                // ending at this moment.
                Err(HandshakeError::Io(error)) if !patience.is_over(Instant::now()) || !broke => {
                    tracing::debug!(%error, pod = backend.name, "a pod broke off a handshake");
                    if !broke {
                        // It had a pod; if there is none any more, it has as much time as one that
                        // arrives.
                        patience.restart(Instant::now(), &self.holds.bounds);
                        broke = true;
                    }
                    attempts.failed(&backend.uid);
                    self.metrics.retries.inc();
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, pod = backend.name, "a WebSocket handshake failed");
                    return self.reply(session, ctx, &Reply::bad_gateway(false)).await;
                }
            };
            let (mut head, rest) = match answer {
                Answer::Refused { head, body } => (head, Err(body)),
                Answer::Switched { pod, head, early } => (head, Ok((pod, early))),
            };
            let address = backend.address.to_string();
            let prefix = opened.prefix();
            let mapping = prefix.as_deref().map(|prefix| Mapping {
                prefix,
                stripped: backend.strip_prefix,
                host: &opened.host,
                pod: &address,
            });
            headers::from_pod(&mut head, mapping)?;
            self.pass_on(&mut head, ctx)?;
            return match rest {
                Err(body) => refused(session, head, body).await,
                Ok((pod, early)) => {
                    let started = ctx.started;
                    let request = session.req_header();
                    let over = self.over(request, &opened);
                    let (clock, ends) = (self.clock.clone(), self.ends(&opened.caller));
                    let expiry = Box::pin(async move { clock.sleep_until(ends).await });
                    let revoked = self.revoked(request);
                    ctx.tunnelled = true;
                    self.tunnel(
                        session,
                        Socket {
                            pod,
                            head,
                            early,
                            backend,
                            entered,
                            opened,
                            expiry,
                            over,
                            revoked,
                            started,
                        },
                    )
                    .await
                }
            };
        }
    }

    /// Takes the client's connection out of Pingora and relays in a task of its own.
    async fn tunnel(&self, session: &mut Session, socket: Socket) -> pingora::Result<bool> {
        let labels = |class| RequestLabels { by: By::Pod, class };
        let Some(client) = take(session).await else {
            self.metrics
                .requests
                .get_or_create(&labels(Class::ClientError))
                .inc();
            return Ok(true);
        };
        self.metrics
            .requests
            .get_or_create(&labels(Class::Success))
            .inc();
        self.metrics.sockets.inc();
        let ended = self.metrics.sockets_ended.clone();
        self.sockets.spawn(async move {
            if let Outcome::ByUs(_) = run(client, socket).await {
                ended.inc();
            }
        });
        Ok(true)
    }
}

/// The client's connection, and a dummy in its place. `None` if the client sent something before it
/// had the 101, which no client may, or is gone.
async fn take(session: &mut Session) -> Option<Stream> {
    let dummy = ServerSession::new_http1(Box::new(Cursor::new(Vec::new())));
    let taken = std::mem::replace(session.as_downstream_mut(), dummy);
    let ServerSession::H1(mut taken) = taken else {
        return None;
    };
    // Only with these two is what the client sent too early handed out rather than lost.
    taken.set_server_keepalive(Some(60));
    taken.set_pipelining_enabled(true);
    // A handshake has no body; one that is announced all the same is not waited for any longer.
    let left = tokio::time::timeout(FIRST_WRITE, taken.reuse()).await;
    let (stream, early) = left.ok()?.ok().flatten()?.into_parts();
    let (mut stream, waiting) = crate::accept::release(stream);
    if waiting > 0 || early.is_some_and(|early| !early.is_empty()) {
        let refusal = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let _ = tokio::time::timeout(FIRST_WRITE, stream.write_all(refusal)).await;
        return None;
    }
    Some(stream)
}

async fn run(mut client: Stream, socket: Socket) -> Outcome {
    let Socket {
        pod,
        head,
        early,
        backend,
        entered,
        opened,
        expiry,
        over,
        revoked,
        started,
    } = socket;
    let head = switched(&head);
    let first = async {
        client.write_all(&head).await?;
        client.flush().await
    };
    if !matches!(tokio::time::timeout(FIRST_WRITE, first).await, Ok(Ok(()))) {
        return Outcome::ByClient;
    }
    drop(head);
    let outcome = {
        let relaying = relay(client, pod, early, &entered);
        let mut relaying = std::pin::pin!(relaying);
        tokio::select! {
            outcome = &mut relaying => outcome,
            () = expiry => {
                entered.end(End::Expired);
                relaying.await
            }
            () = over => {
                entered.end(End::Expired);
                relaying.await
            }
            () = revoked => {
                entered.end(End::Expired);
                relaying.await
            }
        }
    };
    tracing::info!(
        target: "access",
        workspace = &*opened.workspace.id,
        pod = backend.name,
        ended = ?outcome,
        milliseconds = started.elapsed().as_millis() as u64,
        "socket"
    );
    outcome
}

/// Hands a pod's refusal on.
async fn refused(
    session: &mut Session,
    mut head: Box<ResponseHeader>,
    body: Bytes,
) -> pingora::Result<bool> {
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        head.set_status(StatusCode::BAD_GATEWAY)?;
    }
    let bodiless = matches!(
        head.status,
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    );
    if !bodiless {
        head.set_content_length(body.len())?;
    }
    session.set_keepalive(None);
    let empty = bodiless || body.is_empty();
    session.write_response_header(head, empty).await?;
    if !empty {
        session.write_response_body(Some(body), true).await?;
    }
    Ok(true)
}
