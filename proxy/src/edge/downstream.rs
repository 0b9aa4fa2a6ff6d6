//! A client's connection, as Pingora hands it to us for a request.

use super::Edge;
use crate::busy::Busy;
use crate::strict::{self, Flaw};
use crate::{accept, buffers};
use http::{Method, StatusCode, Version};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::http::ServerSession;
use pingora::proxy::Session;
use std::time::Duration;

/// Longest wait for a client that takes nothing of its answer: as long as for a pod that takes nothing of
/// a request. Somebody may pause a download over lunch.
const CLIENT_WRITE: Duration = Duration::from_secs(3600);
/// Longest silence in the rest of a body that nobody wants, since the request is answered.
const REST: Duration = Duration::from_secs(60);

/// Sets how long a client may take for its request and its answer. A body may pause for as long as it
/// likes: a client that is gone is noticed by the system.
pub(super) fn begin(session: &mut Session) {
    session.set_read_timeout(None);
    session.set_write_timeout(Some(CLIENT_WRITE));
}

/// The same, once the request is answered: what is left of it stands between the client and its next
/// one.
pub(super) fn end(session: &mut Session) {
    session.set_read_timeout(Some(REST));
}

/// Whether an answer has no body (RFC 9110, section 6.4.1).
pub(super) fn is_bodiless(request: &RequestHeader, answer: &ResponseHeader) -> bool {
    let without = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
    let status = answer.status;
    request.method == Method::HEAD || status.is_informational() || without.contains(&status)
}

/// Bounds what waits of what a client sends, by how much goes on in its workspace. Over HTTP/2 streams have
/// windows.
pub(super) fn bound(session: &Session, busy: &Busy) {
    if let ServerSession::H1(client) = session.as_downstream() {
        buffers::from_client(client.stream().id(), busy.going());
        accept::read_at_once(client.stream(), buffers::piece(busy.going()));
    }
}

impl Edge {
    /// Sees to it that a request is read in one way only, and answered so that its client understands.
    ///
    /// # Errors
    /// What is wrong with the request's head.
    pub(super) fn read(&self, session: &mut Session) -> Result<(), Flaw> {
        let downstream = session.as_downstream_mut();
        if downstream.req_header().version == Version::HTTP_10 {
            // It knows no informational answers (RFC 9110, section 15.2).
            downstream.set_ignore_info_resp(true);
        }
        match downstream.as_http1() {
            Some(http1) => strict::check(&http1.get_headers_raw_bytes(), http1.req_header()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_may_pause_until_its_request_is_answered() {
        let (served, _client) = tokio::io::duplex(64);
        let mut session = Session::new_h1(Box::new(served));
        begin(&mut session);
        assert_eq!(session.get_read_timeout(), None);
        assert_eq!(session.get_write_timeout(), Some(CLIENT_WRITE));
        end(&mut session);
        assert_eq!(session.get_read_timeout(), Some(REST));
    }
}
