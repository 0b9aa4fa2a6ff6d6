//! The loop over one connection.

use super::Http2;
use super::meter::Excess;
use super::metered::Metered;
use super::metrics::{End, Open};
use super::stream;
use crate::tls;
use bytes::Bytes;
use h2::{Ping, PingPong, Reason};
use http::StatusCode;
use pingora::apps::HttpServerApp;
use pingora::http::ResponseHeader;
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::{H2Accept, HttpSession, handshake};
use pingora::protocols::{Digest, Stream};
use pingora::server::ShutdownWatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

type Connection = h2::server::Connection<Stream, Bytes>;

/// Longest wait for a client to begin.
const BEGIN: Duration = Duration::from_secs(10);
/// Longest wait for the answer to a PING.
const PONG: Duration = Duration::from_secs(20);
/// Longest wait for a client to take its GOAWAY and leave.
const LEAVE: Duration = Duration::from_secs(5);
/// Requests on one connection that are none. Pingora's own bound, which its own loop has.
const MALFORMED: u32 = 32;
/// How many times the streams that may be open may be under way: those that a client called off count
/// for nothing in HTTP/2, and end here a moment later.
const UNDER_WAY: usize = 2;

/// Serves a connection until it ends. Never longer than [`LEAVE`] after it has lost its right to.
pub async fn serve<A>(app: &Arc<A>, stream: Stream, mut shutdown: ShutdownWatch, http2: &Http2)
where
    A: HttpServerApp + Send + Sync + 'static,
{
    let Http2 {
        limits, metrics, ..
    } = http2;
    let _open = Open::new(metrics);
    let digest = Arc::new(Digest {
        ssl_digest: stream.get_ssl_digest(),
        timing_digest: stream.get_timing_digest(),
        proxy_digest: stream.get_proxy_digest(),
        socket_digest: stream.get_socket_digest(),
    });
    let (stream, mut exceeds) = Metered::new(stream, limits.rates);
    let begun = timeout(BEGIN, handshake(Box::new(stream), Some(limits.options()))).await;
    let Ok(Ok(mut connection)) = begun else {
        metrics.ended(End::Handshake);
        return;
    };
    let active = Arc::<Active>::default();
    let most = UNDER_WAY.saturating_mul(usize::try_from(limits.streams).unwrap_or(usize::MAX));
    let mut malformed = 0;
    // Once it has been told to leave: how that is to be counted, and how long it may take.
    let mut leaving: Option<(End, Option<Instant>)> = None;
    if *shutdown.borrow() {
        connection.graceful_shutdown();
        leaving = Some((End::Stopped, None));
    }
    let mut alive = std::pin::pin!(alive(connection.ping_pong(), active.clone(), limits.ping));
    let end = loop {
        let left_by = leaving.and_then(|(_, by)| by);
        let accepted = tokio::select! {
            biased;
            changed = shutdown.changed(), if leaving.is_none() => {
                connection.graceful_shutdown();
                leaving = Some((End::Stopped, None));
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
            () = until(left_by), if left_by.is_some() => break End::Idle,
            () = idle(&active, limits.idle), if leaving.is_none() => {
                connection.graceful_shutdown();
                leaving = Some((End::Idle, Some(Instant::now() + LEAVE)));
                continue;
            }
            accepted = HttpSession::from_h2_conn(&mut connection, digest.clone()) => accepted,
        };
        match accepted {
            Ok(Some(H2Accept::Session(mut session))) => {
                if let Some(status) = limits.refusal(session.req_header()) {
                    refuse(&mut session, status);
                    continue;
                }
                if active.count() >= most {
                    metrics.refused.inc();
                    session.shutdown_with_reason(Reason::REFUSED_STREAM);
                    continue;
                }
                let (app, shutdown, guard) = (app.clone(), shutdown.clone(), active.begin());
                let request = async move {
                    let _guard = guard;
                    let session = ServerSession::new_http2(session);
                    app.process_new_http(session, &shutdown).await;
                };
                let request = stream::run(request);
                match tls::shown() {
                    Some(shown) => tokio::spawn(shown.during(request)),
                    None => tokio::spawn(request),
                };
            }
            Ok(Some(H2Accept::Rejected)) => {
                malformed += 1;
                if malformed >= MALFORMED {
                    break End::Malformed;
                }
            }
            Ok(None) => break leaving.map_or(End::Closed, |(end, _)| end),
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

/// Answers without a body.
fn refuse(session: &mut HttpSession, status: StatusCode) {
    let answer = ResponseHeader::build(status, None);
    let told = answer.and_then(|answer| session.write_response_header(Box::new(answer), true));
    if let Err(error) = told {
        tracing::debug!(%error, "the client went before the answer");
    }
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

async fn until(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Returns once the client does not say that it is there. It is asked while it has requests open: a
/// stream without events does not show by itself that nobody is left to read it.
async fn alive(pings: Option<PingPong>, active: Arc<Active>, every: Duration) {
    let Some(mut pings) = pings.filter(|_| !every.is_zero()) else {
        return std::future::pending().await;
    };
    loop {
        sleep(every).await;
        if active.count() == 0 {
            continue;
        }
        if !matches!(timeout(PONG, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
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
