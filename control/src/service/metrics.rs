//! Counts of commands and queries, by outcome.

use super::error::ServiceError;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    command: &'static str,
    outcome: &'static str,
}

/// Both labels come from closed sets, so the number of series is bounded.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    calls: Family<Labels, Counter>,
}

impl Metrics {
    /// Counters that `registry` shows.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "nogoo9_control_calls",
            "Commands and queries, by command and outcome: ok, or the code of the error",
            metrics.calls.clone(),
        );
        metrics
    }

    /// Counts one call and hands its result on.
    pub(super) fn count<T>(
        &self,
        command: &'static str,
        result: Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        let outcome = result
            .as_ref()
            .map_or_else(|error| error.code().as_str(), |_| "ok");
        self.calls.get_or_create(&Labels { command, outcome }).inc();
        if let Err(error) = &result {
            tracing::debug!(command, code = outcome, %error, "call failed");
        }
        result
    }
}
