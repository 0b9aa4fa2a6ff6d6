//! The request as a pod gets it, and the connection that it takes.

use super::Edge;
use crate::gate::Opened;
use crate::headers::{self, Origin};
use crate::tunnel::handshake::CONNECT;
use pingora::http::RequestHeader;
use pingora::protocols::TcpKeepalive;
use pingora::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};
use std::borrow::Cow;
use std::time::Duration;

/// Requests without a body at once over one connection to a pod that speaks HTTP/2; then there is another
/// one.
const POD_STREAMS: u32 = 100;
/// Time between two PINGs on such a connection, so that one that leads nowhere is noticed.
const POD_PING: Duration = Duration::from_secs(30);
/// Bytes of an answer that such a pod may send ahead of what its client takes: as many as are kept of one
/// in HTTP/1.
const POD_WINDOW: u32 = 64 * 1024;
/// What each request adds to the window of its connection, in bytes. More than its own, so that there is
/// room for it though nobody takes any of the others; and half of it is what its answer may cost beside that
/// in memory where it comes in frames of a few bytes, of which the library counts 256 each, and ends a
/// connection for too many.
const POD_SHARE: u32 = 2 * 1024 * 1024;

/// Longest wait for a pod that takes nothing of a request: while it lasts, its client is not looked
/// after.
const POD_WRITE: Duration = Duration::from_secs(3600);

impl Edge {
    /// Makes what was `sent` a request for a pod, of what is `left` of it once the headers of one hop
    /// are gone.
    pub(super) fn shape(
        &self,
        sent: &RequestHeader,
        left: &RequestHeader,
        opened: &Opened,
        client: Option<std::net::IpAddr>,
        strip_prefix: bool,
        identity: bool,
    ) -> pingora::Result<RequestHeader> {
        let prefix = opened.prefix();
        let target = target(sent, prefix.as_deref().filter(|_| strip_prefix));
        let origin = Origin {
            host: &opened.host,
            scheme: self.gate.console.scheme(),
            client,
        };
        let caller = identity.then_some(&opened.caller.caller);
        let auth = &self.gate.auth;
        headers::towards_pod(sent, left, &target, auth, origin, caller, prefix.as_deref())
    }
}

/// The target as the pod gets it: without the prefix, and never in absolute form.
fn target<'a>(request: &'a RequestHeader, prefix: Option<&str>) -> Cow<'a, [u8]> {
    let raw = request.raw_path();
    let origin_form = if raw.starts_with(b"/") || raw == b"*" {
        raw
    } else {
        let path = request.uri.path_and_query();
        path.map_or(b"/".as_slice(), |path| path.as_str().as_bytes())
    };
    let inside = prefix.and_then(|prefix| origin_form.strip_prefix(prefix.as_bytes()));
    inside.map_or(Cow::Borrowed(origin_form), rooted)
}

/// A path of its own: the path of an extra port needs no slash behind it.
fn rooted(rest: &[u8]) -> Cow<'_, [u8]> {
    match rest.first() {
        Some(b'/') => Cow::Borrowed(rest),
        _ => Cow::Owned([b"/", rest].concat()),
    }
}

pub(super) fn peer(address: std::net::SocketAddr, idle: Duration) -> HttpPeer {
    let mut peer = HttpPeer::new(address, false, String::new());
    peer.options.connection_timeout = Some(CONNECT);
    peer.options.total_connection_timeout = Some(CONNECT);
    peer.options.write_timeout = Some(POD_WRITE);
    peer.options.idle_timeout = Some(idle);
    // Answers may be silent for as long as they like; a node that is gone is noticed by this. If it had
    // not taken yet what was sent, by the system's retransmissions, or with the pod's object.
    peer.options.tcp_keepalive = Some(TcpKeepalive {
        idle: Duration::from_secs(15),
        interval: Duration::from_secs(5),
        count: 3,
        // It would also end the connections of pods that are there and do not read.
        user_timeout: Duration::ZERO,
    });
    // WebSockets are relayed by us; nothing else is upgraded.
    peer.options.http_upstream_request_policy = HttpUpstreamRequestPolicy::deny_upgrades();
    peer
}

/// Has a pod spoken to in HTTP/2, which is to be known before: nothing is negotiated in clear
/// (RFC 9113, section 3.3). A request with a body gets a connection of its own: an application that does
/// not read one takes the window of a whole connection with it.
pub(super) fn speak_http2(peer: &mut HttpPeer, uploads: bool) {
    let streams = if uploads { 1 } else { POD_STREAMS };
    peer.options.set_http_version(2, 2);
    // Pools are told apart by this, too.
    peer.options.max_h2_streams = streams as usize;
    peer.options.h2_ping_interval = Some(POD_PING);
    peer.options.h2_stream_window_size = Some(POD_WINDOW);
    peer.options.h2_connection_window_size = Some(streams * POD_SHARE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_does_not_read_is_waited_for() {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let options = peer(address, Duration::from_secs(4)).options;
        let keepalive = options.tcp_keepalive.unwrap();
        assert_eq!(keepalive.user_timeout, Duration::ZERO);
        assert!(options.write_timeout.is_some_and(|most| most >= POD_WRITE));
    }

    #[test]
    fn a_prefix_goes_and_a_slash_stays() {
        for (sent, prefix, wanted) in [
            ("/api/x?y", Some("/api"), "/x?y"),
            ("/api/", Some("/api"), "/"),
            ("/api", Some("/api"), "/"),
            ("/api?y=/z", Some("/api"), "/?y=/z"),
            ("/api//x", Some("/api"), "//x"),
            ("/api/%2F;a/../b", Some("/api"), "/%2F;a/../b"),
            ("/route/dev/api/x", Some("/route/dev/api"), "/x"),
            ("/api/x", None, "/api/x"),
        ] {
            let request = RequestHeader::build("GET", sent.as_bytes(), None).unwrap();
            let target = target(&request, prefix);
            assert_eq!(std::str::from_utf8(&target).unwrap(), wanted, "{sent}");
        }
    }
}
