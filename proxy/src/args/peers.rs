//! The flag that names other proxies.

use nogoo9_runtime::args::Admin;
use nogoo9_runtime::config::Problems;
use url::Url;

/// `admin`: this proxy's own admin listener, as far as it could be read.
pub(super) fn peers(
    texts: &[String],
    admin: Option<&Admin>,
    problems: &mut Problems,
) -> Option<Vec<String>> {
    if !texts.is_empty() && admin.is_some_and(|admin| admin.token.is_none()) {
        let why =
            "needs --admin-token-file: proxies answer each other by the token that they share";
        problems.add("peers", why);
        return None;
    }
    let peers: Vec<Option<String>> = texts
        .iter()
        .map(|text| {
            let peer = peer(text.trim());
            if peer.is_none() {
                let why = format!("'{text}' is not HOST:PORT, as in proxy-admin.edge.svc:9019");
                problems.add("peers", why);
            }
            peer
        })
        .collect();
    peers.into_iter().collect()
}

fn peer(text: &str) -> Option<String> {
    // Read as part of an address, so that names and IPv6 are what they are elsewhere.
    let url = Url::parse(&format!("http://{text}/")).ok()?;
    let bare = url.path() == "/" && url.username().is_empty() && url.password().is_none();
    let (_, port) = text.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let host = url.host_str()?;
    (bare && port != 0 && !text.contains(['/', '?', '#', '@'])).then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_host_and_a_port() {
        for (text, wanted) in [
            ("127.0.0.1:9019", Some("127.0.0.1:9019")),
            ("[::1]:9019", Some("[::1]:9019")),
            ("proxy-admin.edge.svc:80", Some("proxy-admin.edge.svc:80")),
            ("proxy-admin", None),
            ("proxy-admin:", None),
            ("proxy-admin:0", None),
            (":9019", None),
            ("[::1]", None),
            ("http://proxy:9019", None),
            ("proxy:9019/x", None),
            ("a@proxy:9019", None),
            ("", None),
        ] {
            assert_eq!(peer(text).as_deref(), wanted, "{text}");
        }
    }
}
