//! The loop over one connection.

use super::Limits;
use super::meter::Excess;
use super::metered::{Heard, Metered};
use super::metrics::{End, HeadLabels, Http2Metrics, Open};
use super::stream;
use crate::accept::connection::ALLOW;
use crate::accept::head::Unacceptable;
use crate::metrics::By;
use crate::reply::Reply;
use crate::tls;
use bytes::Bytes;
use h2::{Ping, PingPong, Reason};
use http::{Method, header};
use pingora::apps::HttpServerApp;
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::{H2Accept, HttpSession, handshake};
use pingora::protocols::{Digest, Stream};
use pingora::server::ShutdownWatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

type Connection = h2::server::Connection<Stream, Bytes>;

/// Longest wait for a client to begin.
const BEGIN: Duration = Duration::from_secs(10);
/// Longest wait for the answer to a PING.
const PONG: Duration = Duration::from_secs(20);
/// Longest wait for a client to take its GOAWAY and leave.
const LEAVE: Duration = Duration::from_secs(5);
/// How many times the streams that may be open may be under way: those that a client called off count
/// for nothing in HTTP/2, and end here a moment later.
const UNDER_WAY: usize = 2;

/// Serves a connection until it ends. Never longer than [`LEAVE`] after it has lost its right to.
pub async fn serve<A>(
    app: &Arc<A>,
    stream: Stream,
    mut shutdown: ShutdownWatch,
    limits: &Limits,
    metrics: &Http2Metrics,
) where
    A: HttpServerApp + Send + Sync + 'static,
{
    let _open = Open::new(metrics);
    let digest = Arc::new(Digest {
        ssl_digest: stream.get_ssl_digest(),
        timing_digest: stream.get_timing_digest(),
        proxy_digest: stream.get_proxy_digest(),
        socket_digest: stream.get_socket_digest(),
    });
    let (stream, mut exceeds, heard) = Metered::new(stream, limits.rates);
    let begun = timeout(BEGIN, handshake(Box::new(stream), Some(limits.options()))).await;
    let Ok(Ok(mut connection)) = begun else {
        metrics.ended(End::Handshake);
        return;
    };
    // Ends with this function, however that ends.
    let over = CancellationToken::new();
    let _over = over.clone().drop_guard();
    let active = Arc::<Active>::default();
    let most = UNDER_WAY.saturating_mul(usize::try_from(limits.streams).unwrap_or(usize::MAX));
    let mut malformed = 0;
    // Once it has been told to leave: how that is to be counted.
    let mut leaving: Option<End> = None;
    if *shutdown.borrow() {
        connection.graceful_shutdown();
        leaving = Some(End::Stopped);
    }
    let pings = connection.ping_pong();
    let mut alive = std::pin::pin!(alive(pings, active.clone(), heard, limits.ping));
    let end = loop {
        // Told to leave, it may end what it has begun, and then has a moment to go.
        let unused = match leaving {
            Some(_) => LEAVE,
            None => limits.idle,
        };
        let accepted = tokio::select! {
            biased;
            changed = shutdown.changed(), if leaving.is_none() => {
                connection.graceful_shutdown();
                leaving = Some(End::Stopped);
                if changed.is_err() {
                    tracing::debug!("nobody is left to say when to stop");
                }
                continue;
            }
            excess = exceeds.wait_for(Option::is_some) => {
                let excess = excess.ok().and_then(|excess| *excess);
                break match excess {
                    Some(Excess::Resets) => End::Resets,
                    Some(Excess::Control) | None => End::Control,
                };
            }
            () = &mut alive => break End::Silent,
            () = idle(&active, unused) => {
                if let Some(end) = leaving {
                    break end;
                }
                connection.graceful_shutdown();
                leaving = Some(End::Idle);
                continue;
            }
            accepted = HttpSession::from_h2_conn(&mut connection, digest.clone()) => accepted,
        };
        match accepted {
            Ok(Some(H2Accept::Session(mut session))) => {
                if active.count() >= most {
                    metrics.refused.inc();
                    session.shutdown_with_reason(Reason::REFUSED_STREAM);
                    continue;
                }
                let guard = active.begin();
                if let Some(why) = limits.refusal(session.req_header()) {
                    let status = why.status().as_u16();
                    let heads = metrics.heads.get_or_create(&HeadLabels { status });
                    heads.inc();
                    let answer = async move {
                        let _guard = guard;
                        refuse(session, why).await;
                    };
                    // On its own: what it writes is sent by this loop.
                    tokio::spawn(stream::run(answer, over.clone()));
                    continue;
                }
                let (app, shutdown) = (app.clone(), shutdown.clone());
                let request = async move {
                    let _guard = guard;
                    let session = ServerSession::new_http2(session);
                    app.process_new_http(session, &shutdown).await;
                };
                let request = stream::run(request, over.clone());
                match tls::shown() {
                    Some(shown) => tokio::spawn(shown.during(request)),
                    None => tokio::spawn(request),
                };
            }
            Ok(Some(H2Accept::Rejected)) => {
                malformed += 1;
                if malformed >= limits.malformed() {
                    break End::Malformed;
                }
            }
            Ok(None) => break leaving.unwrap_or(End::Closed),
            Err(error) => break broken(&error),
        }
    };
    metrics.ended(end);
    let reason = match end {
        End::Resets | End::Control | End::Malformed => Reason::ENHANCE_YOUR_CALM,
        End::Silent | End::Idle => Reason::NO_ERROR,
        End::Closed | End::Handshake | End::Calm | End::Protocol | End::Stopped => return,
    };
    tracing::debug!(?end, "an HTTP/2 connection is ended");
    connection.abrupt_shutdown(reason);
    let _ = timeout(LEAVE, closed(&mut connection)).await;
}

/// Answers as over HTTP/1, and leaves a line.
async fn refuse(mut session: HttpSession, why: Unacceptable) {
    let status = why.status();
    let client = session.client_addr().and_then(|client| client.as_inet());
    tracing::info!(
        target: "access",
        client = ?client.map(std::net::SocketAddr::ip),
        status = status.as_u16(),
        by = ?By::Proxy,
        "not a request"
    );
    let mut answer = Reply::text(status, &why.to_string());
    if why == Unacceptable::Method {
        answer = answer.with(header::ALLOW.as_str(), ALLOW);
    }
    match timeout(LEAVE, tell(&mut session, answer)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the client went before the answer"),
        Err(_) => tracing::debug!("the client did not take the answer"),
    }
}

async fn tell(session: &mut HttpSession, answer: Reply) -> pingora::Result<()> {
    let bodiless = session.req_header().method == Method::HEAD;
    session.write_response_header(answer.head()?, bodiless)?;
    if bodiless {
        return Ok(());
    }
    session.write_body(answer.body, true).await
}

/// How an error of the library is counted.
fn broken(error: &pingora::Error) -> End {
    let Some(error) = error.root_cause().downcast_ref::<h2::Error>() else {
        return End::Closed;
    };
    match error.reason() {
        _ if error.is_io() || error.is_remote() => End::Closed,
        Some(Reason::ENHANCE_YOUR_CALM) => End::Calm,
        Some(Reason::NO_ERROR) | None => End::Closed,
        Some(_) => End::Protocol,
    }
}

async fn closed(connection: &mut Connection) {
    let _ = std::future::poll_fn(|cx| connection.poll_closed(cx)).await;
}

/// Returns once the client does not say that it is there. It is asked while it has requests open and is
/// silent: a stream without events does not show by itself that nobody is left to read it. Whatever it
/// sends is an answer: on a slow way what it was asked stands behind much else.
async fn alive(pings: Option<PingPong>, active: Arc<Active>, heard: Heard, every: Duration) {
    let Some(mut pings) = pings.filter(|_| !every.is_zero()) else {
        return std::future::pending().await;
    };
    // Whether its answer to a PING is still to come: it is asked once at a time.
    let mut asked = false;
    loop {
        let silent = heard.at() + every;
        if Instant::now() < silent {
            sleep_until(silent).await;
            continue;
        }
        if active.count() == 0 {
            sleep(every).await;
            continue;
        }
        if !asked && pings.send_ping(Ping::opaque()).is_err() {
            return;
        }
        let since = Instant::now();
        match timeout(PONG, std::future::poll_fn(|cx| pings.poll_pong(cx))).await {
            Ok(Ok(_)) => asked = false,
            Ok(Err(_)) => return,
            Err(_) if heard.at() > since => asked = true,
            Err(_) => return,
        }
    }
}

/// Returns once nothing was under way for so long.
async fn idle(active: &Active, time: Duration) {
    while active.count() != 0 {
        active.none.notified().await;
    }
    sleep(time).await;
}

/// Requests of a connection that are under way.
#[derive(Debug, Default)]
struct Active {
    count: AtomicUsize,
    none: Notify,
}

impl Active {
    fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    fn begin(self: &Arc<Self>) -> Guard {
        self.count.fetch_add(1, Ordering::AcqRel);
        Guard(self.clone())
    }
}

/// One of them.
#[derive(Debug)]
struct Guard(Arc<Active>);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
