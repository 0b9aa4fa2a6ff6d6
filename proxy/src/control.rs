//! Where control is: an address that may be a name whose addresses change.

use arc_swap::ArcSwapOption;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// How often a name is looked up anew.
const LOOK_UP_EVERY: Duration = Duration::from_secs(5);
/// Longest wait for a name server.
const LOOK_UP: Duration = Duration::from_secs(5);
/// Longest wait for a connection; control is one hop away.
const CONNECT: Duration = Duration::from_secs(2);

/// Why an answer of control's is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoilt {
    /// Its connection ended before it did.
    BrokeOff,
    /// It is longer than any that is meant.
    TooLong,
}

impl Spoilt {
    /// In words for logs.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::BrokeOff => "its answer broke off",
            Self::TooLong => "its answer is too long",
        }
    }
}

/// All of an answer, of `most` bytes at most.
///
/// # Errors
/// It broke off, or is longer.
pub(crate) async fn body(mut answer: reqwest::Response, most: usize) -> Result<Vec<u8>, Spoilt> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|_| Spoilt::BrokeOff)? {
        if body.len() + chunk.len() > most {
            return Err(Spoilt::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Control's address at the moment. Clones share it.
#[derive(Debug, Clone)]
pub struct Control {
    name: Option<Arc<str>>,
    port: u16,
    address: Arc<ArcSwapOption<SocketAddr>>,
}

impl Control {
    /// From `--control-url`, which is plain http: on loopback, or behind NetworkPolicy in a cluster.
    #[must_use]
    pub fn new(url: &Url) -> Self {
        let port = url.port_or_known_default().unwrap_or(80);
        let (name, fixed) = match url.host() {
            Some(Host::Ipv4(ip)) => (None, Some(IpAddr::V4(ip))),
            Some(Host::Ipv6(ip)) => (None, Some(IpAddr::V6(ip))),
            Some(Host::Domain(name)) => (Some(Arc::from(name)), None),
            None => (None, None),
        };
        let address = fixed.map(|ip| Arc::new(SocketAddr::new(ip, port)));
        Self {
            name,
            port,
            address: Arc::new(ArcSwapOption::new(address)),
        }
    }

    /// What asks control: a client for questions of the proxy's own. How long an answer may take is
    /// whoever asks to say.
    pub(crate) fn client() -> reqwest::ClientBuilder {
        reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            // The way to control is inside the cluster.
            .no_proxy()
            .user_agent(concat!("nogoo9-proxy/", env!("CARGO_PKG_VERSION")))
    }

    /// The address, once it is known.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address.load().as_deref().copied()
    }

    /// Looks the name up, again and again. The last answer stays in use while there is none.
    pub async fn follow(self) {
        let Some(name) = self.name.clone() else {
            return;
        };
        loop {
            let found =
                tokio::time::timeout(LOOK_UP, tokio::net::lookup_host((&*name, self.port))).await;
            match found.map(|answer| answer.map(|mut all| all.next())) {
                Ok(Ok(Some(address))) => self.address.store(Some(Arc::new(address))),
                Ok(Ok(None)) | Err(_) => {
                    tracing::warn!(name = &*name, "control's name has no address");
                }
                Ok(Err(error)) => {
                    tracing::warn!(name = &*name, %error, "control's name cannot be looked up");
                }
            }
            tokio::time::sleep(LOOK_UP_EVERY).await;
        }
    }
}
