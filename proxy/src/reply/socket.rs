//! What requests for a WebSocket get that none can be opened by.

use super::Reply;
use crate::tunnel::request::{Fault, SEC_WEBSOCKET_VERSION, VERSION};
use http::StatusCode;
use http::header::UPGRADE;

impl Reply {
    /// A request for a WebSocket to a workspace that speaks HTTP/2 alone.
    #[must_use]
    pub fn no_sockets() -> Self {
        let message =
            "This workspace speaks HTTP/2 alone (workspace-protocol: h2c), and has no WebSockets.";
        Self::error(StatusCode::NOT_IMPLEMENTED, "not_supported", message)
    }

    /// A request for a WebSocket that is no proper one (RFC 6455, sections 4.2.2 and 4.4).
    #[must_use]
    pub fn not_a_socket(fault: Fault) -> Self {
        let (status, message) = match fault {
            Fault::Version => (
                StatusCode::UPGRADE_REQUIRED,
                "WebSockets are spoken in version 13 here.",
            ),
            Fault::Key => (
                StatusCode::BAD_REQUEST,
                "A request for a WebSocket needs exactly one Sec-WebSocket-Key.",
            ),
            Fault::Body => (
                StatusCode::BAD_REQUEST,
                "A request for a WebSocket has no body.",
            ),
        };
        let reply = Self::error(status, "invalid_request", message);
        if fault == Fault::Version {
            return reply
                .with(UPGRADE.as_str(), "websocket")
                .with(SEC_WEBSOCKET_VERSION, VERSION);
        }
        reply
    }
}
