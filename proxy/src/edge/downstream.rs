//! A client's connection, as Pingora hands it to us for a request.

use super::Edge;
use crate::strict::{self, Flaw};
use http::Version;
use pingora::proxy::Session;

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
