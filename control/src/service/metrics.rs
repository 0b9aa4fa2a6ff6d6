//! Counts of commands and queries, and of what bulks come to, by outcome.

use super::error::ServiceError;
use nogoo9_model::bulk::TargetState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    command: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

/// All labels come from closed sets, so the number of series is bounded.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    calls: Family<Labels, Counter>,
    bulk_targets: Family<ResultLabels, Counter>,
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
        registry.register(
            "nogoo9_control_bulk_targets",
            "Workspaces that bulk upgrades are done with, by result",
            metrics.bulk_targets.clone(),
        );
        metrics
    }

    /// Counts the result of one target of a bulk. One that has none yet is not counted.
    pub(crate) fn bulk_target(&self, state: TargetState) {
        let result = match state {
            TargetState::Pending | TargetState::Running => return,
            TargetState::Succeeded => "succeeded",
            TargetState::Failed => "failed",
            TargetState::Skipped => "skipped",
            TargetState::Cancelled => "cancelled",
        };
        self.bulk_targets
            .get_or_create(&ResultLabels { result })
            .inc();
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
