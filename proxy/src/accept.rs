//! What happens to a client's connection before there is a request: our accept loop, and what stands
//! between the socket and Pingora.
//!
//! In order: it is counted ([`count`]); a trusted proxy says whose it is ([`proxy_protocol`]); its
//! client is counted; what it goes over is set up ([`wire`]); and each head of an HTTP/1 request is
//! awaited, with its deadlines and bounds ([`head`], [`connection`]), before Pingora is asked.

mod broken;
pub mod chunks;
pub mod connection;
pub mod count;
pub mod head;
pub mod linger;
mod listener;
pub mod proxy_protocol;
mod refusal;
mod told;
pub mod wire;

use crate::busy;
use crate::edge::Edge;
use crate::endless;
use crate::http2::{self, Http2};
use crate::metrics::accept::{Metrics, Refused};
use crate::tls::Tls;
use connection::{Came, Connection, Deadlines, Lost, Speaks};
use count::{Admitted, Connections, Full};
use head::Bounds;
use linger::{LINGER, Lingering};
use nogoo9_runtime::client::TrustedProxies;
use pingora::apps::{HttpPersistentSettings, HttpServerApp};
use pingora::protocols::UniqueID as _;
use pingora::protocols::http::ServerSession;
use pingora::protocols::tls::SslDigest;
use pingora::proxy::HttpProxy;
use pingora::server::ShutdownWatch;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::Wire;

#[cfg(test)]
pub(crate) use broken::LOOK_EVERY;
pub use broken::broken;
pub use connection::{is_lost, reached, read_at_once, release};
pub use listener::bind;

/// Longest wait after `accept` has failed, for files to be closed.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a client is waited for that was let in just before the listener closed.
const NEWCOMER: Duration = Duration::from_secs(2);

/// What clients may do before there is a request.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Whether trusted proxies say whose a connection is (`--proxy-protocol`).
    pub proxy_protocol: bool,
    /// Whether others may listen on the same address (`--reuse-port`).
    pub reuse_port: bool,
    /// Most open connections; `None`: any number.
    pub connections: Option<NonZeroUsize>,
    /// Most open connections of one client; `None`: any number.
    pub connections_each: Option<NonZeroUsize>,
    /// How long a client may take.
    pub deadlines: Deadlines,
    /// How large a head may be.
    pub bounds: Bounds,
    /// How much may go on in one workspace.
    pub busy: busy::Bounds,
    /// Largest body of a request, in bytes; `None`: any.
    pub max_body: Option<NonZeroU64>,
}

/// How the accept layer is told to stop.
#[derive(Debug, Clone)]
pub struct Stops {
    /// The proxy will stop: answers say that their connection closes.
    pub leaving: ShutdownWatch,
    /// It stops: nothing new is taken, and connections between two requests close.
    pub closing: CancellationToken,
}

/// What an acceptor is made of.
pub struct Parts<A = HttpProxy<Edge>> {
    /// What requests are given to.
    pub app: Arc<A>,
    /// What clients may do before there is a request.
    pub limits: Limits,
    /// Who may say whose a connection is.
    pub trusted: TrustedProxies,
    /// How HTTP/2 is spoken.
    pub http2: Http2,
    /// TLS; `None`: it ends in front of us.
    pub tls: Option<Tls>,
    /// The open connections.
    pub connections: Connections,
    /// What is counted.
    pub metrics: Metrics,
    /// How it is told to stop.
    pub stops: Stops,
}

/// Takes connections and serves them.
pub struct Acceptor<A = HttpProxy<Edge>> {
    parts: Parts<A>,
    tasks: TaskTracker,
    lingering: Lingering,
}

impl<A: HttpServerApp + Send + Sync + 'static> Acceptor<A> {
    /// An acceptor of these parts.
    #[must_use]
    pub fn new(parts: Parts<A>) -> Self {
        let tasks = TaskTracker::new();
        Self {
            parts,
            lingering: Lingering::new(tasks.clone()),
            tasks,
        }
    }

    /// Serves until it is told to stop, and then until the last connection has ended.
    pub async fn run(self, listener: TcpListener) {
        let this = Arc::new(self);
        let leaving = async {
            let mut leaving = this.parts.stops.leaving.clone();
            // An error: whoever could say so is gone, which says the same.
            let _ = leaving.wait_for(|leaving| *leaving).await;
            // From now on each request is told so by its session.
            this.parts.app.http_cleanup().await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = this.accept(&listener, this.parts.stops.closing.cancelled()) => {}
            () = leaving => {}
        }
        if listener::turn_away(&listener) {
            this.accept(&listener, tokio::time::sleep(listener::HANDSHAKE))
                .await;
        }
        // Who has been let in by the system already is served.
        listener::drain(listener, |tcp, peer| this.take(tcp, peer));
        this.parts.app.http_cleanup().await;
        this.tasks.close();
        this.tasks.wait().await;
    }

    async fn accept(self: &Arc<Self>, listener: &TcpListener, over: impl Future<Output = ()>) {
        let mut over = pin!(over);
        loop {
            let came = tokio::select! {
                came = listener.accept() => came,
                () = &mut over => return,
            };
            match came {
                Ok((tcp, peer)) => self.take(tcp, peer),
                Err(error) if listener::is_of_one(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "no connection can be taken; is the limit of open files too low?");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn take(self: &Arc<Self>, tcp: TcpStream, peer: SocketAddr) {
        self.parts.metrics.accepted();
        let stands_for_many = self.parts.trusted.trust(peer.ip());
        let admitted = self.parts.connections.admit().and_then(|mut admitted| {
            if !stands_for_many {
                // Here, so that clients are counted in the order in which they came.
                admitted.is_of(peer.ip())?;
            }
            Ok(admitted)
        });
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(full) => return self.refused(full, peer),
        };
        let this = self.clone();
        self.tasks.spawn(async move {
            match stands_for_many && this.parts.limits.proxy_protocol {
                true => Box::pin(this.introduced(tcp, peer, admitted)).await,
                false => this.serve(tcp, peer, admitted).await,
            }
        });
    }

    /// Closed without an answer: one in clear would be noise where TLS begins, and to hear the request
    /// first would cost what the bound is to save.
    fn refused(&self, full: Full, client: SocketAddr) {
        let reason = match full {
            Full::Total => Refused::Total,
            Full::Client => Refused::Client,
        };
        self.parts.metrics.refused(reason);
        tracing::debug!(%client, ?reason, "too many connections");
    }

    /// Serves a connection of which its first bytes tell whose it is.
    async fn introduced(&self, mut tcp: TcpStream, peer: SocketAddr, mut admitted: Admitted) {
        let Some(client) = self.client(&mut tcp, peer).await else {
            return;
        };
        // Another trusted proxy behind the one in front stands for many all the same.
        if !self.parts.trusted.trust(client.ip())
            && let Err(full) = admitted.is_of(client.ip())
        {
            return self.refused(full, client);
        }
        self.serve(tcp, client, admitted).await;
    }

    /// Whose the connection is, as a trusted proxy says; `None`: it does not, and the connection is to be
    /// closed.
    async fn client(&self, tcp: &mut TcpStream, peer: SocketAddr) -> Option<SocketAddr> {
        let told = tokio::time::timeout(self.parts.limits.deadlines.first, told::read(tcp)).await;
        match told {
            Ok(Ok(client)) => Some(client.unwrap_or(peer)),
            Ok(Err(told::Untold::Gone)) => None,
            Ok(Err(told::Untold::Malformed(error))) => {
                self.parts.metrics.refused(Refused::ProxyHeader);
                tracing::warn!(%peer, %error, "a trusted proxy did not say whose its connection is; does it send the PROXY protocol?");
                None
            }
            Err(_) => {
                self.parts.metrics.refused(Refused::ProxyHeader);
                None
            }
        }
    }

    async fn serve(&self, tcp: TcpStream, client: SocketAddr, admitted: Admitted) {
        let Some(tls) = &self.parts.tls else {
            let speaks = match self.parts.http2.clear {
                true => Speaks::Either,
                false => Speaks::Http1,
            };
            let connection = self.connection(Wire::Clear(tcp), client, None, admitted);
            return self.speak(connection, speaks).await;
        };
        if !self.begins(&tcp).await {
            return;
        }
        let most = self.parts.limits.deadlines.head;
        let Some(secured) = Box::pin(tls.accept(tcp, most)).await else {
            return;
        };
        let speaks = match secured.http2 {
            true => Speaks::Http2,
            false => Speaks::Http1,
        };
        let connection = self.connection(secured.wire, client, Some(secured.digest), admitted);
        secured.shown.during(self.speak(connection, speaks)).await;
    }

    /// Whether a handshake of TLS begins in time. A client that leaves is left to it.
    async fn begins(&self, tcp: &TcpStream) -> bool {
        let mut byte = [0];
        tokio::select! {
            _ = tcp.peek(&mut byte) => true,
            () = tokio::time::sleep(self.parts.limits.deadlines.first) => {
                self.parts.metrics.refused(Refused::Silent);
                false
            }
            () = self.closes() => false,
        }
    }

    /// Returns once a client is waited for no longer that has not begun, since nothing new is taken.
    async fn closes(&self) {
        self.parts.stops.closing.cancelled().await;
        // Nobody else hears what it is about to ask.
        tokio::time::sleep(NEWCOMER).await;
    }

    fn connection(
        &self,
        wire: Wire,
        client: SocketAddr,
        tls: Option<Arc<SslDigest>>,
        admitted: Admitted,
    ) -> Connection {
        let (lingering, metrics) = (self.lingering.clone(), self.parts.metrics.clone());
        Connection::new(wire, client, tls, admitted, lingering, metrics)
    }

    /// Serves a connection that is set up.
    async fn speak(&self, connection: Connection, speaks: Speaks) {
        let connection = Box::new(connection);
        let first = self.parts.limits.deadlines.first;
        match self.next(connection, speaks, first, self.closes()).await {
            Some((connection, Came::Request)) => self.http1(connection).await,
            Some((connection, Came::Http2)) => {
                let leaving = self.parts.stops.leaving.clone();
                let Http2 {
                    limits,
                    shared,
                    metrics,
                    ..
                } = &self.parts.http2;
                let client = connection.client();
                let limits = match client.is_some_and(|client| self.parts.trusted.trust(client)) {
                    true => shared,
                    false => limits,
                };
                // Boxed, so that other connections need no room for it.
                let served = http2::serve(&self.parts.app, connection, leaving, limits, metrics);
                Box::pin(served).await;
            }
            Some((_, Came::Nothing)) | None => {}
        }
    }

    /// Serves requests, one after the other, the head of the first of which has come.
    async fn http1(&self, mut connection: Box<Connection>) {
        let mut kept: Option<HttpPersistentSettings> = None;
        loop {
            let (number, uploads) = (connection.id(), connection.uploads());
            let mut session = ServerSession::new_http1(connection);
            match kept {
                Some(kept) => kept.apply_to_session(&mut session),
                None => session.set_keepalive(Some(self.parts.limits.deadlines.idle.as_secs())),
            }
            let serving = self
                .parts
                .app
                .process_new_http(session, &self.parts.stops.leaving);
            let serving = endless::watched(serving);
            let served = match uploads {
                true => broken::unless_broken(number, serving).await,
                false => Some(serving.await),
            };
            let Some(served) = served else {
                // Its request ends here, without the line that it would have had.
                tracing::info!(target: "access", "a request was ended whose client is gone");
                return;
            };
            let Some((stream, persistent)) = served.map(|served| served.consume()) else {
                return;
            };
            let again = connection::take(stream).filter(|again| again.may_go_on());
            let Some(again) = again else { return };
            kept = persistent;
            let idle = self.parts.limits.deadlines.idle;
            let closing = self.parts.stops.closing.cancelled();
            let next = self.next(again, Speaks::Http1, idle, closing);
            match next.await {
                Some((again, Came::Request)) => connection = again,
                _ => return,
            }
        }
    }

    /// Waits for the next request. `None`: there is none, and the connection is closed.
    async fn next(
        &self,
        mut connection: Box<Connection>,
        speaks: Speaks,
        wait: Duration,
        closing: impl Future<Output = ()>,
    ) -> Option<(Box<Connection>, Came)> {
        let Limits {
            deadlines, bounds, ..
        } = &self.parts.limits;
        match connection
            .next(speaks, wait, deadlines, bounds, closing)
            .await
        {
            Ok(came) => Some((connection, came)),
            Err(lost) => {
                self.lost(*connection, lost).await;
                None
            }
        }
    }

    async fn lost(&self, connection: Connection, lost: Lost) {
        self.parts.metrics.refused(refusal::reason(lost));
        let Some(status) = refusal::status(lost) else {
            return;
        };
        refusal::tell(&connection, status, lost);
        let answer = refusal::answer(status, &lost.to_string());
        connection.refuse(&answer, tokio::time::sleep(LINGER)).await;
    }
}

#[cfg(test)]
mod tests;
