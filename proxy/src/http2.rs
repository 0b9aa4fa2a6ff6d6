//! HTTP/2 connections of clients: what one may cost, and when it ends.
//!
//! The streams are Pingora's, and frames are the `h2` library's. The loop over a connection is ours,
//! since Pingora's has no keep-alive, ends an idle connection without a word, and knows no bound on
//! what a client may ask for and call off again. Who sees to what:
//!
//! | | by |
//! |---|---|
//! | streams at once, size of a header list, CONTINUATION frames, streams reset before they were looked at, streams that the client makes us reset, small and empty DATA frames | `h2`, by [`Limits::options`] |
//! | requests that are called off, frames that carry nothing | [`meter`] |
//! | requests that are no requests, requests still under way though called off, idle time, a client that is gone | [`serve()`] |
//! | what a request may be | Pingora, when it takes a stream; then the gate, as for HTTP/1 |

pub mod meter;
mod metered;
mod metrics;
mod serve;
mod stream;

use crate::accept::head::{Bounds, Unacceptable};
use http::Method;
use meter::Rates;
use pingora::http::RequestHeader;
use pingora::protocols::http::v2::server::{H2Options, default_h2_options};
use std::time::Duration;

pub use metrics::Http2Metrics;
pub use serve::serve;
pub use stream::{Cut, current};

/// Streams that one client called off before we looked at them, at once.
const UNSEEN_RESETS: usize = 20;
/// Bytes of one answer that wait in memory for its client.
const SEND_BUFFER: usize = 64 * 1024;
/// Fields of a head that have no line over HTTP/1.
const PSEUDO: usize = 4;
/// What HTTP/2 counts a field beyond its name and value, in bytes.
const OVERHEAD: usize = 32;
/// Bytes of a header line beside name and value.
const SEPARATORS: usize = 4;
/// How many streams' windows make up the connection's of one client.
const WINDOWS: u32 = 4;
/// Largest window (RFC 9113, section 6.9.1).
const LARGEST_WINDOW: u32 = (1 << 31) - 1;
/// Requests on one connection that are none. Pingora's own bound, which its own loop has.
const MALFORMED: u32 = 32;
/// How many times as often as one client's a connection that many share may bring what ends it: nobody
/// knows whose it is, and it is everybody who loses it.
const MANY: u32 = 100;

/// HTTP/2 as the accept layer takes it.
#[derive(Debug, Clone)]
pub struct Http2 {
    /// Whether it is also spoken without TLS (`--h2c`).
    pub clear: bool,
    /// What one connection may cost.
    pub limits: Limits,
    /// What one may that many clients share, as a balancer's.
    pub shared: Limits,
    /// What is counted.
    pub metrics: Http2Metrics,
}

/// What one connection may cost.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests at once.
    pub streams: u32,
    /// How large the head of a request may be, as over HTTP/1.
    pub bounds: Bounds,
    /// What may come how often.
    pub rates: Rates,
    /// How long it may be open without a request.
    pub idle: Duration,
    /// Silence after which a client with open requests is asked whether it is there; zero: never.
    pub ping: Duration,
    /// Bytes that a client may send ahead of what is read of one request's body.
    pub window: u32,
    /// Whether many clients share it.
    pub shared: bool,
}

impl Limits {
    /// The same for a connection that many clients share: what one of them does, or its workspace, is not
    /// to end it, nor to stop the others.
    #[must_use]
    pub fn shared(&self) -> Self {
        let rates = Rates {
            resets: self.rates.resets.saturating_mul(MANY),
            control: self.rates.control.saturating_mul(MANY),
        };
        Self {
            rates,
            shared: true,
            ..self.clone()
        }
    }

    /// Requests in its life that may be none.
    fn malformed(&self) -> u32 {
        if self.shared {
            MALFORMED * MANY
        } else {
            MALFORMED
        }
    }

    /// For the `h2` library. They begin with Pingora's own, whose bounds hold where none is set here.
    #[must_use]
    pub fn options(&self) -> H2Options {
        let mut options = default_h2_options();
        let resets = usize::try_from(self.rates.resets).unwrap_or(usize::MAX);
        let (windows, unseen) = match self.shared {
            // There is room for each, though none of the others is read.
            true => (
                self.streams,
                usize::try_from(self.streams).unwrap_or(usize::MAX),
            ),
            false => (WINDOWS, UNSEEN_RESETS),
        };
        let window = self.window.saturating_mul(windows).min(LARGEST_WINDOW);
        options
            .max_concurrent_streams(self.streams)
            .max_header_list_size(self.header_list())
            .max_pending_accept_reset_streams(unseen)
            // In the life of a connection: what a client of good will never has.
            .max_local_error_reset_streams(Some(resets))
            .max_send_buffer_size(SEND_BUFFER)
            .initial_window_size(self.window)
            .initial_connection_window_size(window);
        options
    }

    /// Bytes of a request's headers as HTTP/2 counts them, 32 a field on top (RFC 9113, section 6.5.2).
    /// What is within all of the bounds fits; the bounds themselves are judged when all is read.
    fn header_list(&self) -> u32 {
        let Bounds {
            target,
            section,
            fields,
        } = self.bounds;
        let fields = (fields + PSEUDO).saturating_mul(OVERHEAD);
        let list = target.saturating_add(section).saturating_add(fields);
        u32::try_from(list).unwrap_or(u32::MAX)
    }

    /// How a head is refused that is none over HTTP/1, or larger than it may be.
    pub(super) fn refusal(&self, head: &RequestHeader) -> Option<Unacceptable> {
        let section = head.headers.iter();
        let section = section.map(|(name, value)| name.as_str().len() + value.len() + SEPARATORS);
        let path = head.raw_path();
        let whole_server = head.method == Method::OPTIONS && path == b"*";
        if head.method == Method::CONNECT {
            // The library would refuse it too, and not say what is allowed.
            Some(Unacceptable::Method)
        } else if !path.starts_with(b"/") && !whole_server {
            // The library takes a query without a path, and an asterisk for any method (RFC 9113,
            // section 8.3.1): over HTTP/1 neither is a target.
            Some(Unacceptable::Malformed)
        } else if path.len() > self.bounds.target {
            Some(Unacceptable::Target)
        } else if head.headers.len() > self.bounds.fields
            || section.sum::<usize>() > self.bounds.section
        {
            Some(Unacceptable::Section)
        } else {
            None
        }
    }
}
