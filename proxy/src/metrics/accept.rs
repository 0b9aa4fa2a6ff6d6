//! What is counted of connections, before there is a request. Labels come from closed sets.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Why a connection was closed without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Refused {
    /// There are too many.
    Total,
    /// There are too many of this client.
    Client,
    /// A trusted proxy did not send the header of the PROXY protocol, or not in time.
    ProxyHeader,
    /// Nothing came in time, on a new connection or between two requests.
    Silent,
    /// The head of a request did not come in time (408).
    Slow,
    /// It was no request (400).
    Malformed,
    /// The target was too long (414).
    Target,
    /// The headers were too large or too many (431).
    Headers,
}

/// Labels of such a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusedLabels {
    /// Why.
    pub reason: Refused,
}

/// Labels of an answer that Pingora gave without asking us.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AloneLabels {
    /// Its status.
    pub status: &'static str,
}

/// Counters of connections. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    accepted: Counter,
    refused: Family<RefusedLabels, Counter>,
    alone: Family<AloneLabels, Counter>,
}

impl Metrics {
    /// Counts that `registry` shows.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        registry.register(
            "connections_accepted",
            "Connections of clients",
            this.accepted.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections that were closed without a request, by reason",
            this.refused.clone(),
        );
        registry.register(
            "answered_below",
            "Answers to HTTP/1 requests that were refused before the proxy's own rules, by status",
            this.alone.clone(),
        );
        this
    }

    /// Notes a connection.
    pub fn accepted(&self) {
        self.accepted.inc();
    }

    /// Notes one that was closed.
    pub fn refused(&self, reason: Refused) {
        self.refused.get_or_create(&RefusedLabels { reason }).inc();
    }

    /// Notes an answer that Pingora gave without asking us.
    pub fn alone(&self, status: u16) {
        let status = match status {
            400 => "400",
            405 => "405",
            _ => "other",
        };
        self.alone.get_or_create(&AloneLabels { status }).inc();
    }
}
