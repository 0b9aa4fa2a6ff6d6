//! What can go wrong before or around a run. What goes wrong *in* a run is data: see
//! [`crate::FailureKind`].

use std::time::Duration;

/// A load that cannot be set up as described.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The target is not a plain-text `http` (or, for sockets, `ws`) URL with a host.
    #[error("load target must be a plain http:// or ws:// URL with a host, not scheme {scheme:?}")]
    Target {
        /// The scheme that was given. The rest of the URL may hold a secret and is not shown.
        scheme: String,
    },
    /// The rate is not a positive, finite number of events a second.
    #[error("rate must lie above 0 and at most {max} a second, not {rate}")]
    Rate {
        /// What was asked for.
        rate: f64,
        /// The largest rate that is accepted.
        max: f64,
    },
    /// The number of connections is zero or beyond the limit.
    #[error("connections must lie in 1..={max}, not {connections}")]
    Connections {
        /// What was asked for.
        connections: usize,
        /// The largest number that is accepted.
        max: usize,
    },
    /// A header name or value that HTTP does not allow. The value is not shown.
    #[error("header {name:?} has a name or a value that HTTP does not allow")]
    Header {
        /// The header's name.
        name: String,
    },
    /// The request could not be put together.
    #[error("request cannot be built: {0}")]
    Request(#[from] ::http::Error),
    /// The histogram's bounds were refused.
    #[error("histogram cannot be made: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
}

/// A WebSocket that could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Its description is wrong.
    #[error(transparent)]
    Setup(#[from] LoadError),
    /// Nobody accepted the TCP connection in time.
    #[error("cannot connect to {host}: {source}")]
    Connect {
        /// Host and port that were dialled.
        host: String,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// The server answered the handshake with a status other than 101.
    #[error("handshake on {host} was answered with status {status}{}", .body.as_deref().map(|b| format!(": {b}")).unwrap_or_default())]
    Refused {
        /// Host and port that were dialled.
        host: String,
        /// Its status.
        status: u16,
        /// The start of its body, when there was one.
        body: Option<String>,
    },
    /// The handshake broke off or broke the protocol.
    #[error("handshake on {host} failed: {message}")]
    Handshake {
        /// Host and port that were dialled.
        host: String,
        /// What happened.
        message: String,
    },
    /// The deadline for connecting and shaking hands passed.
    #[error("handshake on {host} took longer than {limit:?}")]
    Timeout {
        /// Host and port that were dialled.
        host: String,
        /// The deadline.
        limit: Duration,
    },
}

/// A condition that did not come true in time.
#[derive(Debug, thiserror::Error)]
#[error("waited {waited:?} for {what}; it stands at {at}")]
pub struct WaitError {
    /// What was waited for.
    pub what: String,
    /// For how long.
    pub waited: Duration,
    /// What the state was when the wait ended.
    pub at: String,
}
