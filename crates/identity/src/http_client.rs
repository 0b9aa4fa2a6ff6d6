//! The HTTP client for calls to an identity provider.

use std::time::Duration;
use url::{Host, Url};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for a whole answer.
const TIMEOUT: Duration = Duration::from_secs(8);

/// A client for calls to `peer`: with timeouts, without redirects (an answer from elsewhere is not
/// the provider's answer), and past any proxy of the environment when `peer` is on loopback.
///
/// # Errors
/// The TLS configuration could not be made.
pub fn http_client(peer: &Url) -> Result<reqwest::Client, reqwest::Error> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // The binaries choose theirs in main; a second choice is refused and changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("nogoo9/", env!("CARGO_PKG_VERSION")));
    if is_loopback(peer) {
        builder.no_proxy()
    } else {
        builder
    }
    .build()
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
