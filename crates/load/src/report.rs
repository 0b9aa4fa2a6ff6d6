//! What an HTTP run saw. Plain data, stable as JSON; moments are microseconds on the
//! clock of the run's [`crate::Phases`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::table::{grouped, human};
use crate::{FailureKind, LatencySummary, Mark, SliceReport, Table};

/// Everything an HTTP run saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpReport {
    /// When the run started.
    pub started_us: u64,
    /// When its last request ended, or the snapshot was taken.
    pub ended_us: u64,
    /// Requests that ended, well or not.
    pub requests: u64,
    /// Those that failed.
    pub failures: u64,
    /// Those, by reason.
    pub failures_by_kind: BTreeMap<FailureKind, u64>,
    /// Requests sent again on a fresh connection after the server had closed an idle one;
    /// see [`crate::Stale`]. They are no failures unless the second try was one.
    pub stale_retries: u64,
    /// Those of `stale_retries` of which no byte had left.
    pub stale_unsent: u64,
    /// TCP connections opened.
    pub connections_opened: u64,
    /// Bytes of answer bodies.
    pub body_bytes: u64,
    /// The most by which a request left after it was due: large values with short
    /// latencies mean that there were too few connections for the rate.
    pub max_lag_us: u64,
    /// Latency of all successful requests; see [`crate::Schedule::counts_from`].
    pub latency: LatencySummary,
    /// The same by phase, in the order in which phases were first entered. A request
    /// belongs to the phase in which it started.
    pub phases: Vec<PhaseReport>,
    /// Width of the slices, in microseconds.
    #[serde(default)]
    pub slice_us: u64,
    /// The run over time, without the slices in which nothing started.
    #[serde(default)]
    pub slices: Vec<SliceReport>,
    /// Successful answers by label, in the order in which labels first came.
    pub labels: Vec<LabelReport>,
    /// Successful answers in which no label was found, or beyond the bound on labels.
    pub unlabelled: u64,
    /// The first failures, in full.
    pub samples: Vec<FailureSample>,
    /// Failures that are not among the samples.
    pub samples_omitted: u64,
    /// What the controller remarked.
    pub marks: Vec<Mark>,
    /// Remarks dropped for want of room.
    pub marks_omitted: u64,
}

/// One phase of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseReport {
    /// Its name.
    pub phase: String,
    /// Requests that started in it.
    pub requests: u64,
    /// Those that failed.
    pub failures: u64,
    /// Latency of the others.
    pub latency: LatencySummary,
}

/// The answers that bore one label (a pod's name, a version).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelReport {
    /// The label.
    pub label: String,
    /// Successful answers that bore it.
    pub answers: u64,
    /// The place of the first among all the run's requests, by end, from 1.
    pub first_sequence: u64,
    /// The place of the last.
    pub last_sequence: u64,
    /// When the earliest of these requests was sent.
    pub first_sent_us: u64,
    /// When the latest of these requests was sent: "no request sent after T reached the
    /// old pod" is `last_sent_us <= T`.
    pub last_sent_us: u64,
    /// When the first of these answers was complete.
    pub first_seen_us: u64,
    /// When the last of these answers was complete.
    pub last_seen_us: u64,
}

/// One failed request, in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureSample {
    /// Its place among all the run's requests, by end, from 1.
    pub sequence: u64,
    /// The phase in which it started.
    pub phase: String,
    /// Why it counts as failed.
    pub kind: FailureKind,
    /// When it was sent.
    pub sent_us: u64,
    /// When it had failed.
    pub ended_us: u64,
    /// Which of the run's connections carried it.
    pub connection: usize,
    /// The connection had carried a request before.
    pub reused: bool,
    /// What happened, in words.
    pub detail: String,
}

impl HttpReport {
    /// The report of one phase.
    #[must_use]
    pub fn phase(&self, name: &str) -> Option<&PhaseReport> {
        self.phases.iter().find(|p| p.phase == name)
    }

    /// What is known of one label.
    #[must_use]
    pub fn label(&self, label: &str) -> Option<&LabelReport> {
        self.labels.iter().find(|l| l.label == label)
    }

    /// When a remark was made, in microseconds.
    #[must_use]
    pub fn marked_us(&self, text: &str) -> Option<u64> {
        self.marks.iter().find(|m| m.text == text).map(|m| m.at_us)
    }

    /// Requests, failures and latency by phase, and in all.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new([
            "", "requests", "failed", "p50", "p90", "p99", "p99.9", "max",
        ]);
        let mut row = |name: &str, requests, failures, l: &LatencySummary| {
            table.row([
                name.to_owned(),
                grouped(requests),
                grouped(failures),
                human(l.p50_us),
                human(l.p90_us),
                human(l.p99_us),
                human(l.p999_us),
                human(l.max_us),
            ]);
        };
        for p in &self.phases {
            row(&p.phase, p.requests, p.failures, &p.latency);
        }
        row("total", self.requests, self.failures, &self.latency);
        table
    }
}
