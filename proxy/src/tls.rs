//! TLS towards clients: which certificate, by the name that a client asks for, and certificates that are
//! read again when their files change.

mod certificates;
mod files;
mod metrics;
mod reload;

use crate::accept::wire::Wire;
use pingora::protocols::tls::SslDigest;
use rustls::ServerConfig;
use rustls::crypto::ring::Ticketer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

pub use certificates::{Bad, Certificate};
pub use files::{Source, Unreadable};
pub use metrics::{Handshake, TlsMetrics};
pub use reload::Store;

/// Protocols that are offered, the better one first (RFC 7301).
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Sets connections up.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    store: Arc<Store>,
    metrics: TlsMetrics,
}

/// A connection that is set up.
pub struct Secured {
    /// What bytes go over from now on.
    pub wire: Wire,
    /// What was agreed on.
    pub digest: Arc<SslDigest>,
    /// Whether that is HTTP/2.
    pub http2: bool,
    /// What the client was shown.
    pub shown: Shown,
}

/// By what certificate a client knows that it speaks with us.
#[derive(Debug, Clone)]
pub struct Shown {
    store: Arc<Store>,
    /// `None`: it did not say whom it wants.
    certificate: Option<Arc<Certificate>>,
}

impl Tls {
    /// With the certificates of `store`.
    ///
    /// # Errors
    /// The library has none of its ciphers.
    pub fn new(store: Arc<Store>, metrics: TlsMetrics) -> Result<Self, rustls::Error> {
        // TLS 1.2 and 1.3, which is what the library has.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Resolver(store.clone())));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        config.ticketer = Ticketer::new()?;
        // Early data could be repeated by anybody who saw it (RFC 8470).
        config.max_early_data_size = 0;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            store,
            metrics,
        })
    }

    /// Sets a connection up, over which a handshake has begun. `None`: the client cannot or will not, or
    /// takes longer than `most`.
    pub async fn accept(&self, tcp: TcpStream, most: Duration) -> Option<Secured> {
        let stream = match timeout(most, self.acceptor.accept(tcp)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                self.metrics.handshake(Handshake::Failed);
                return None;
            }
            Err(_) => {
                self.metrics.handshake(Handshake::TimedOut);
                return None;
            }
        };
        self.metrics.handshake(Handshake::Done);
        let (_, session) = stream.get_ref();
        let cipher = session.negotiated_cipher_suite();
        let cipher = cipher.and_then(|suite| suite.suite().as_str());
        let version = session.protocol_version();
        let version = version.and_then(|version| version.as_str());
        let digest = SslDigest::new(
            cipher.unwrap_or_default(),
            version.unwrap_or_default(),
            None,
            None,
            Vec::new(),
        );
        let http2 = session.alpn_protocol() == PROTOCOLS.first().copied();
        let asked = session.server_name();
        let certificate = asked.map(|name| self.store.current().pick(Some(name)).clone());
        Some(Secured {
            shown: Shown {
                store: self.store.clone(),
                certificate,
            },
            digest: Arc::new(digest),
            http2,
            wire: Wire::Tls(Box::new(stream)),
        })
    }
}

tokio::task_local! {
    static SHOWN: Shown;
}

/// What the client was shown whose request the task carries in which this is called; `None`: nothing,
/// or TLS ends elsewhere.
#[must_use]
pub fn shown() -> Option<Shown> {
    SHOWN.try_with(Shown::clone).ok()
}

impl Shown {
    /// Has [`shown`] tell it while `connection` is served. Tasks that serve its streams do so anew.
    pub async fn during<F: Future>(self, connection: F) -> F::Output {
        SHOWN.scope(self, connection).await
    }

    /// Whether a request for `host` came over the connection of another one (RFC 9110, section 15.5.20):
    /// the certificate that its client asked for does not stand for that host, and another one here
    /// does. A client that named no host, as balancers do, knows what it does.
    #[must_use]
    pub fn is_misdirected(&self, host: &str) -> bool {
        let host = without_port(host);
        self.certificate
            .as_ref()
            .is_some_and(|shown| !shown.covers(host) && self.store.current().find(host).is_some())
    }
}

/// A host without its port; an IPv6 address keeps its brackets.
fn without_port(host: &str) -> &str {
    let end = host.rfind(']').map_or(0, |bracket| bracket + 1);
    let port = host.get(end..).and_then(|rest| rest.find(':'));
    port.and_then(|port| host.get(..end + port)).unwrap_or(host)
}

/// Shows each client the certificate that it asks for.
#[derive(Debug)]
struct Resolver(Arc<Store>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current().pick(hello.server_name()).key.clone())
    }
}
