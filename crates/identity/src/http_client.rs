//! The HTTP client for calls to an identity provider, and whom it trusts.

use reqwest::Certificate;
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for a whole answer.
const TIMEOUT: Duration = Duration::from_secs(8);

/// The certificate authorities that may vouch for a provider: the public ones, which are built in,
/// and those that an installation adds with `--issuer-ca-file`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots(Option<Arc<[u8]>>);

impl Roots {
    /// The public ones, and the certificates of a PEM document. Whoever read the document from a
    /// file has checked it: here, what is no certificate only fails the calls.
    #[must_use]
    pub fn and_pem(pem: &[u8]) -> Self {
        Self(Some(pem.into()))
    }
}

/// A client for calls to `peer`: with timeouts, without redirects (an answer from elsewhere is not
/// the provider's answer), and past any proxy of the environment when `peer` is on loopback.
///
/// # Errors
/// The TLS configuration could not be made.
pub fn http_client(peer: &Url, roots: &Roots) -> Result<reqwest::Client, reqwest::Error> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // The binaries choose theirs in main; a second choice is refused and changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("nogoo9/", env!("CARGO_PKG_VERSION")));
    if let Some(pem) = &roots.0 {
        for root in Certificate::from_pem_bundle(pem)? {
            builder = builder.add_root_certificate(root);
        }
    }
    if is_loopback(peer) {
        builder = builder.no_proxy();
    }
    builder.build()
}

/// Whether a URL's host is this machine's loopback interface.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}
