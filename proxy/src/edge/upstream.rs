//! The request as a pod gets it, and the connection that it takes.

use super::Edge;
use crate::gate::Opened;
use crate::headers::{self, Origin};
use crate::tunnel::handshake::CONNECT;
use pingora::http::RequestHeader;
use pingora::protocols::TcpKeepalive;
use pingora::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};
use std::time::Duration;

impl Edge {
    /// Makes a client's request one for a pod.
    pub(super) fn shape(
        &self,
        request: &mut RequestHeader,
        opened: &Opened,
        client: Option<std::net::IpAddr>,
        strip_prefix: bool,
        identity: bool,
    ) -> pingora::Result<()> {
        let prefix = opened.prefix();
        if let Some(target) = target(request, prefix.as_deref().filter(|_| strip_prefix)) {
            request.set_raw_path(&target)?;
        }
        let origin = Origin {
            host: &opened.host,
            scheme: self.gate.console.scheme(),
            client,
        };
        let caller = identity.then_some(&opened.caller.caller);
        headers::towards_pod(request, &self.gate.auth, origin, caller, prefix.as_deref())
    }
}

/// The target as the pod gets it: without the prefix, and never in absolute form. `None`: as it is.
fn target(request: &RequestHeader, prefix: Option<&str>) -> Option<Vec<u8>> {
    let raw = request.raw_path();
    let origin_form: &[u8] = if raw.starts_with(b"/") || raw == b"*" {
        raw
    } else {
        request
            .uri
            .path_and_query()
            .map_or(b"/".as_slice(), |path| path.as_str().as_bytes())
    };
    match prefix {
        Some(prefix) => origin_form.strip_prefix(prefix.as_bytes()).map(rooted),
        None if origin_form.len() == raw.len() => None,
        None => Some(origin_form.to_vec()),
    }
}

/// A path of its own: the path of an extra port needs no slash behind it.
fn rooted(rest: &[u8]) -> Vec<u8> {
    match rest.first() {
        Some(b'/') => rest.to_vec(),
        _ => [b"/", rest].concat(),
    }
}

pub(super) fn peer(address: std::net::SocketAddr, idle: Duration) -> HttpPeer {
    let mut peer = HttpPeer::new(address, false, String::new());
    peer.options.connection_timeout = Some(CONNECT);
    peer.options.total_connection_timeout = Some(CONNECT);
    peer.options.write_timeout = Some(Duration::from_secs(60));
    peer.options.idle_timeout = Some(idle);
    // Answers may be silent for as long as they like; a node that is gone is noticed by this.
    peer.options.tcp_keepalive = Some(TcpKeepalive {
        idle: Duration::from_secs(15),
        interval: Duration::from_secs(5),
        count: 3,
        user_timeout: Duration::from_secs(30),
    });
    // WebSockets are relayed by us; nothing else is upgraded.
    peer.options.http_upstream_request_policy = HttpUpstreamRequestPolicy::deny_upgrades();
    peer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_goes_and_a_slash_stays() {
        for (sent, prefix, wanted) in [
            ("/api/x?y", Some("/api"), Some("/x?y")),
            ("/api/", Some("/api"), Some("/")),
            ("/api", Some("/api"), Some("/")),
            ("/api?y=/z", Some("/api"), Some("/?y=/z")),
            ("/api//x", Some("/api"), Some("//x")),
            ("/api/%2F;a/../b", Some("/api"), Some("/%2F;a/../b")),
            ("/route/dev/api/x", Some("/route/dev/api"), Some("/x")),
            ("/api/x", None, None),
        ] {
            let request = RequestHeader::build("GET", sent.as_bytes(), None).unwrap();
            let target = target(&request, prefix);
            let target = target.map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(target.as_deref(), wanted, "{sent}");
        }
    }
}
