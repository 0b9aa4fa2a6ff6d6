//! What is counted of TLS.

use super::certificates::Certificates;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// How a handshake ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Handshake {
    /// The connection is set up.
    Done,
    /// The client could not, or would not.
    Failed,
    /// It took too long.
    TimedOut,
}

/// Labels of a handshake.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HandshakeLabels {
    /// How it ended.
    pub(super) end: Handshake,
}

/// What came of files that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Loaded {
    /// They are in use.
    Taken,
    /// They cannot be used, and those before are.
    Kept,
    /// They cannot be used, and there were none before.
    Unused,
    /// They are gone, and what was read from them is not used any more.
    Removed,
}

/// Labels of files that changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LoadedLabels {
    /// What came of them.
    pub(super) result: Loaded,
}

/// Labels of a certificate: its files' name, of which there are as many as the operator has put there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CertificateLabels {
    /// What its files are called.
    pub(super) certificate: String,
}

/// Counters of TLS.
#[derive(Debug, Clone, Default)]
pub struct TlsMetrics {
    handshakes: Family<HandshakeLabels, Counter>,
    loads: Family<LoadedLabels, Counter>,
    ends: Family<CertificateLabels, Gauge>,
}

impl TlsMetrics {
    /// Registers them.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let this = Self::default();
        let registry = registry.sub_registry_with_prefix("nogoo9_proxy");
        registry.register(
            "tls_handshakes",
            "TLS handshakes with clients, by how they ended",
            this.handshakes.clone(),
        );
        registry.register(
            "certificate_loads",
            "Changes of a certificate's files, by what came of them",
            this.loads.clone(),
        );
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "When each certificate in use ends, in seconds since 1970",
            this.ends.clone(),
        );
        this
    }

    pub(super) fn handshake(&self, end: Handshake) {
        self.handshakes
            .get_or_create(&HandshakeLabels { end })
            .inc();
    }

    pub(super) fn loaded(&self, result: Loaded) {
        self.loads.get_or_create(&LoadedLabels { result }).inc();
    }

    /// Changes of which this came.
    #[cfg(test)]
    pub(super) fn count(&self, result: Loaded) -> u64 {
        self.loads.get_or_create(&LoadedLabels { result }).get()
    }

    pub(super) fn in_use(&self, all: &Certificates) {
        self.ends.clear();
        for certificate in all.all() {
            let labels = CertificateLabels {
                certificate: certificate.name.clone(),
            };
            self.ends.get_or_create(&labels).set(certificate.ends);
        }
    }
}
