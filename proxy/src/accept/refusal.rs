//! What a client is told whose request has not come to the edge.

use super::connection::{Connection, Lost};
use super::head::Unacceptable;
use crate::metrics::By;
use crate::metrics::accept::Refused;
use http::StatusCode;

/// What is counted.
pub(super) fn reason(lost: Lost) -> Refused {
    match lost {
        Lost::Silent => Refused::Silent,
        Lost::Slow => Refused::Slow,
        Lost::NotHttp2 | Lost::Unacceptable(Unacceptable::Malformed | Unacceptable::Method) => {
            Refused::Malformed
        }
        Lost::Unacceptable(Unacceptable::Target) => Refused::Target,
        Lost::Unacceptable(Unacceptable::Section) => Refused::Headers,
    }
}

/// What is answered; `None`: nothing, since nothing was asked (RFC 9110, section 15.5.9: a server may
/// close a connection that is not used), or nobody would understand it.
pub(super) fn status(lost: Lost) -> Option<StatusCode> {
    match lost {
        Lost::Silent | Lost::NotHttp2 => None,
        Lost::Slow => Some(StatusCode::REQUEST_TIMEOUT),
        Lost::Unacceptable(why) => Some(why.status()),
    }
}

/// Writes the line of the access log.
pub(super) fn tell(connection: &Connection, status: StatusCode, lost: Lost) {
    tracing::info!(
        target: "access",
        client = ?connection.client(),
        status = status.as_u16(),
        by = ?By::Proxy,
        reason = ?reason(lost),
        "not a request"
    );
}

/// The answer as it goes over the wire; the connection closes after it.
pub(super) fn answer(status: StatusCode, message: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {} {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{message}\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default(),
        message.len() + 1,
    )
    .into_bytes()
}
