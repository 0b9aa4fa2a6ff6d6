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
mod tests {
    use super::super::meter::{Meter, PREFACE, Rates, kind};
    use super::*;
    use crate::accept::head::Bounds;
    use pingora::apps::ReusedHttpStream;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::mpsc;

    #[tokio::test(start_paused = true)]
    async fn a_client_is_asked_only_in_silence_and_whatever_it_says_is_an_answer() {
        const EVERY: Duration = Duration::from_secs(30);
        let (served, mut client) = tokio::io::duplex(64 * 1024);
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let begin = [PREFACE, &settings].concat();
        client.write_all(&begin).await.unwrap();
        let mut connection = h2::server::handshake(served).await.unwrap();
        let pings = connection.ping_pong();
        tokio::spawn(async move {
            let _: Option<Result<(http::Request<h2::RecvStream>, _), _>> =
                connection.accept().await;
        });
        // It answers no PING.
        let asked = Arc::<AtomicUsize>::default();
        let count = asked.clone();
        tokio::spawn(async move {
            let (mut meter, mut bytes) = (Meter::of_server(), [0; 1024]);
            while let Ok(came @ 1..) = client.read(&mut bytes).await {
                meter.feed(&bytes[..came], |frame| {
                    count.fetch_add(usize::from(frame.kind == kind::PING), Ordering::SeqCst);
                });
            }
        });
        let active = Arc::<Active>::default();
        let request = active.begin();
        let heard = Heard::now();
        let alive = tokio::spawn(alive(pings, active.clone(), heard.clone(), EVERY));
        for _ in 0..20 {
            sleep(EVERY / 2).await;
            heard.note();
        }
        assert_eq!(asked.load(Ordering::SeqCst), 0);
        // Each time it is asked, it says something else.
        for _ in 0..20 {
            sleep(EVERY + PONG / 2).await;
            heard.note();
            assert_eq!(asked.load(Ordering::SeqCst), 1, "once at a time");
        }
        assert!(!alive.is_finished());
        // Without a request it may say nothing, and with one it may not.
        drop(request);
        sleep(100 * EVERY).await;
        assert!(!alive.is_finished());
        let _request = active.begin();
        sleep(2 * EVERY + 2 * PONG).await;
        assert!(alive.is_finished());
    }

    /// What becomes of requests that wait for ever.
    struct Stuck(mpsc::UnboundedSender<&'static str>);

    /// Says so when a request has ended.
    struct Ends(mpsc::UnboundedSender<&'static str>);

    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.send("ended");
        }
    }

    #[async_trait::async_trait]
    impl HttpServerApp for Stuck {
        async fn process_new_http(
            self: &Arc<Self>,
            _session: ServerSession,
            _: &ShutdownWatch,
        ) -> Option<ReusedHttpStream> {
            let _ends = Ends(self.0.clone());
            let _ = self.0.send("begun");
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_does_not_look_at_its_client_ends_some_time_after_it() {
        const LONG: Duration = Duration::from_secs(180);
        let limits = Limits {
            streams: 10,
            bounds: Bounds {
                target: 100,
                section: 1000,
                fields: 10,
            },
            rates: Rates {
                resets: 10,
                control: 10,
            },
            idle: LONG,
            ping: Duration::ZERO,
            window: 65_535,
            shared: false,
        };
        let (said, mut says) = mpsc::unbounded_channel();
        let app = Arc::new(Stuck(said));
        let (served, client) = tokio::io::duplex(64 * 1024);
        let (_leave, leaving) = tokio::sync::watch::channel(false);
        let serving = async move {
            let metrics = Http2Metrics::default();
            serve(&app, Box::new(served), leaving, &limits, &metrics).await;
        };
        let serving = tokio::spawn(serving);
        let (mut requests, connection) = h2::client::handshake(client).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = http::Request::get("http://localhost/").body(()).unwrap();
        let _answer = requests.send_request(request, true).unwrap();
        assert_eq!(says.recv().await, Some("begun"));
        // While it is there, it may take its time.
        assert!(timeout(10 * LONG, says.recv()).await.is_err());
        connection.abort();
        serving.await.unwrap();
        assert!(says.try_recv().is_err(), "it may be about to end");
        assert_eq!(timeout(LONG, says.recv()).await, Ok(Some("ended")));
    }
}
