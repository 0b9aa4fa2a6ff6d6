//! What is counted of HTTP/2 connections.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum End {
    /// The client closed it, or it broke.
    Closed,
    /// It did not begin as HTTP/2 does.
    Handshake,
    /// It had no request for too long.
    Idle,
    /// The client did not answer a PING.
    Silent,
    /// Too many requests were called off.
    Resets,
    /// Too many frames carried nothing.
    Control,
    /// Too many requests were none.
    Malformed,
    /// The library had enough: CONTINUATION frames, empty frames, resets that the client brought about.
    Calm,
    /// It broke the rules of HTTP/2.
    Protocol,
    /// This proxy stops.
    Stopped,
}

/// Labels of a connection that ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EndLabels {
    /// How.
    pub end: End,
}

/// Labels of a head that is refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HeadLabels {
    /// With what status.
    pub status: u16,
}

/// Counters of HTTP/2.
#[derive(Debug, Clone, Default)]
pub struct Http2Metrics {
    /// Connections that are open.
    pub open: Gauge,
    /// Connections that ended.
    pub ended: Family<EndLabels, Counter>,
    /// Requests refused since so many were under way that the client had called off.
    pub refused: Counter,
    /// Requests refused for their heads.
    pub heads: Family<HeadLabels, Counter>,
}

impl Http2Metrics {
    /// Registers them.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let this = Self::default();
        let registry = registry.sub_registry_with_prefix("nogoo9_proxy");
        registry.register(
            "http2_connections_open",
            "Open HTTP/2 connections of clients",
            this.open.clone(),
        );
        registry.register(
            "http2_connections",
            "HTTP/2 connections of clients that ended, by how",
            this.ended.clone(),
        );
        registry.register(
            "http2_streams_refused",
            "HTTP/2 requests refused while too many that were called off had not ended",
            this.refused.clone(),
        );
        registry.register(
            "http2_heads_refused",
            "HTTP/2 requests refused since their heads are none over HTTP/1, or too large, by status",
            this.heads.clone(),
        );
        this
    }

    /// Notes how a connection ended.
    pub(super) fn ended(&self, end: End) {
        self.ended.get_or_create(&EndLabels { end }).inc();
    }
}

/// An open connection, counted for as long as it lives.
#[derive(Debug)]
pub(super) struct Open(Gauge);

impl Open {
    pub(super) fn new(metrics: &Http2Metrics) -> Self {
        metrics.open.inc();
        Self(metrics.open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
