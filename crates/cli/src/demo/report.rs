//! What the users saw, act by act, and what of it is a problem.

use std::fmt;

use nogoo9_load::{EchoReport, HttpReport, SocketTotals};
use serde::Serialize;

use super::edge::EdgeReport;
use super::users::{Closed, Fate};

/// The phase before the first upgrade.
pub(super) const BEFORE: &str = "before";
/// The phase from the first upgrade to the last.
pub(super) const DURING: &str = "during";
/// The phase after the last upgrade.
pub(super) const AFTER: &str = "after";

/// What an act shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    /// What the proxy adds: the same load through it and straight to the pod
    Edge,
    /// Upgrades of one workspace, each pod beside the one before
    SideBySide,
    /// Upgrades of a workspace whose volume two pods cannot share
    Recreate,
    /// Many workspaces at once, as an administrator upgrades them
    Bulk,
}

impl Mode {
    /// How the API calls an upgrade of that kind.
    pub(super) const fn as_upgrade(self) -> &'static str {
        match self {
            Self::Recreate => "recreate",
            Self::Edge | Self::SideBySide | Self::Bulk => "side-by-side",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Edge => "edge",
            Self::SideBySide => "side-by-side",
            Self::Recreate => "recreate",
            Self::Bulk => "bulk",
        })
    }
}

/// One upgrade of one workspace. Moments are microseconds on the clock of its act's HTTP report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpgradeReport {
    pub(super) workspace: String,
    pub(super) operation_id: String,
    pub(super) pod_name: String,
    pub(super) previous_pod_name: String,
    /// The template was edited, the upgrade is being asked for.
    pub(super) started_us: u64,
    /// The call returned.
    pub(super) answered_us: u64,
    /// The first answer of the new pod was complete.
    pub(super) first_answer_us: Option<u64>,
    /// From the last answer of the old pod to the first one of the new; 0: they overlapped.
    pub(super) switch_us: Option<u64>,
    /// The operation said that the new pod had taken over.
    pub(super) committed_us: u64,
    /// All sockets had been closed and opened again.
    pub(super) moved_us: u64,
    /// The operation was over: the old pod was gone.
    pub(super) done_us: u64,
}

impl UpgradeReport {
    /// Seconds from its start to a moment.
    pub(super) fn seconds_until(&self, moment_us: u64) -> f64 {
        std::time::Duration::from_micros(moment_us.saturating_sub(self.started_us)).as_secs_f64()
    }
}

/// The one operation of an act that has only one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Bulk {
    pub(super) operation_id: String,
    pub(super) max_parallel: u16,
    pub(super) started_us: u64,
    pub(super) done_us: u64,
}

/// What an act finds out beside the load and the sockets.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) upgrades: Vec<UpgradeReport>,
    pub(super) bulk: Option<Bulk>,
    /// Requests that the proxy held and then sent to a pod.
    pub(super) held: u64,
}

/// One act's report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActReport {
    pub(super) mode: Mode,
    pub(super) workspaces: usize,
    /// What anybody could have noticed and should not; empty: nothing.
    problems: Vec<String>,
    /// Requests that the proxy held for a pod to come, and then sent to it.
    pub(super) held: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bulk: Option<Bulk>,
    pub(super) upgrades: Vec<UpgradeReport>,
    pub(super) http: HttpReport,
    pub(super) sockets: Vec<SocketReport>,
    pub(super) socket_totals: SocketTotals,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SocketReport {
    pub(super) opened_in: &'static str,
    pub(super) fate: Fate,
    #[serde(flatten)]
    pub(super) report: EchoReport,
}

/// What an act yields.
pub(super) enum Played {
    Edge(Box<EdgeReport>),
    Upgrades(Box<ActReport>),
}

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DemoReport {
    /// The problems of all acts.
    pub(super) problems: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) edge: Option<EdgeReport>,
    pub(super) acts: Vec<ActReport>,
}

impl DemoReport {
    /// Adds what an act yielded.
    pub(super) fn add(&mut self, played: Played) {
        match played {
            Played::Edge(edge) => {
                self.problems.extend(edge.problems());
                self.edge = Some(*edge);
            }
            Played::Upgrades(act) => {
                let problems = act.problems.iter();
                self.problems
                    .extend(problems.map(|problem| format!("{}: {problem}", act.mode)));
                self.acts.push(*act);
            }
        }
    }

    /// Requests made in all acts.
    pub(super) fn requests(&self) -> u64 {
        self.acts.iter().map(|act| act.http.requests).sum()
    }
}

impl ActReport {
    pub(super) fn new(
        mode: Mode,
        workspaces: usize,
        facts: Facts,
        http: HttpReport,
        sockets: Vec<Closed>,
        mut problems: Vec<String>,
    ) -> Self {
        problems.extend(failures(&http));
        let mut upgrades = facts.upgrades;
        for upgrade in &mut upgrades {
            let new = http.label(&upgrade.pod_name);
            let old = http.label(&upgrade.previous_pod_name);
            upgrade.first_answer_us = new.map(|pod| pod.first_seen_us);
            upgrade.switch_us = new
                .zip(old)
                .map(|(new, old)| new.first_seen_us.saturating_sub(old.last_seen_us));
            if new.is_none() {
                problems.push(format!("no request reached {}", upgrade.pod_name));
            }
            if old.is_some_and(|pod| pod.last_sent_us > upgrade.committed_us) {
                problems.push(format!(
                    "requests reached {} although {} had taken over",
                    upgrade.previous_pod_name, upgrade.pod_name
                ));
            }
        }
        let sockets: Vec<_> = sockets
            .into_iter()
            .map(|closed| SocketReport {
                opened_in: closed.opened_in,
                fate: closed.fate,
                report: closed.report,
            })
            .collect();
        Self {
            mode,
            workspaces,
            problems,
            held: facts.held,
            bulk: facts.bulk,
            upgrades,
            socket_totals: sockets.iter().map(|socket| &socket.report).collect(),
            http,
            sockets,
        }
    }

    /// The median of a figure of its upgrades, in seconds.
    pub(super) fn median(&self, figure: impl Fn(&UpgradeReport) -> Option<u64>) -> Option<f64> {
        let mut all: Vec<u64> = self.upgrades.iter().filter_map(figure).collect();
        all.sort_unstable();
        let middle = *all.get(all.len() / 2)?;
        Some(std::time::Duration::from_micros(middle).as_secs_f64())
    }
}

/// Failed requests, in words.
pub(super) fn failures(http: &HttpReport) -> Vec<String> {
    if http.failures == 0 {
        return Vec::new();
    }
    let mut problems = vec![format!(
        "{} of {} requests failed",
        http.failures, http.requests
    )];
    problems.extend(http.samples.iter().map(|sample| {
        format!(
            "request {} ({}, {:.3} s after the start, connection {}): {}: {}",
            sample.sequence,
            sample.phase,
            std::time::Duration::from_micros(sample.sent_us).as_secs_f64(),
            sample.connection,
            sample.kind,
            sample.detail,
        )
    }));
    problems
}

#[cfg(test)]
mod tests;
