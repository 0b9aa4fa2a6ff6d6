//! What the users saw: everything as JSON, the essence as one table.

use std::fmt;

use nogoo9_load::{EchoReport, HttpReport, LatencySummary, SocketTotals, Table};
use serde::Serialize;

/// The phase before the first upgrade.
pub(super) const BEFORE: &str = "before";
/// The phase from the first upgrade to the last.
pub(super) const DURING: &str = "during";
/// The phase after the last upgrade.
pub(super) const AFTER: &str = "after";

/// One upgrade. Moments are microseconds on the clock of the HTTP report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpgradeReport {
    pub(super) number: u32,
    pub(super) operation_id: String,
    pub(super) pod_name: String,
    pub(super) previous_pod_name: String,
    /// The template was edited, the upgrade is being asked for.
    pub(super) started_us: u64,
    /// The call returned.
    pub(super) answered_us: u64,
    /// The first answer of the new pod was complete.
    pub(super) first_answer_us: Option<u64>,
    /// The operation said that the new pod had taken over.
    pub(super) committed_us: u64,
    /// All sockets had been closed by their users and opened again.
    pub(super) moved_us: u64,
    /// The operation was over: the old pod was gone.
    pub(super) done_us: u64,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DemoReport {
    /// What anybody could have noticed; empty: nothing.
    pub(super) problems: Vec<String>,
    upgrades: Vec<UpgradeReport>,
    http: HttpReport,
    sockets: Vec<SocketReport>,
    socket_totals: SocketTotals,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SocketReport {
    opened_in: &'static str,
    #[serde(flatten)]
    report: EchoReport,
}

impl DemoReport {
    pub(super) fn new(
        mut upgrades: Vec<UpgradeReport>,
        http: HttpReport,
        sockets: Vec<(&'static str, EchoReport)>,
        mut problems: Vec<String>,
    ) -> Self {
        if http.failures > 0 {
            problems.push(format!(
                "{} of {} requests failed",
                http.failures, http.requests
            ));
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
        }
        for upgrade in &mut upgrades {
            upgrade.first_answer_us = http.label(&upgrade.pod_name).map(|pod| pod.first_seen_us);
            if upgrade.first_answer_us.is_none() {
                problems.push(format!("no request reached {}", upgrade.pod_name));
            }
            let late = http
                .label(&upgrade.previous_pod_name)
                .is_some_and(|pod| pod.last_sent_us > upgrade.committed_us);
            if late {
                problems.push(format!(
                    "requests reached {} although {} had taken over",
                    upgrade.previous_pod_name, upgrade.pod_name
                ));
            }
        }
        let sockets: Vec<_> = sockets
            .into_iter()
            .map(|(opened_in, report)| SocketReport { opened_in, report })
            .collect();
        let socket_totals = sockets.iter().map(|socket| &socket.report).collect();
        Self {
            problems,
            upgrades,
            http,
            sockets,
            socket_totals,
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            "",
            "requests",
            "failed",
            "p50",
            "p99",
            "max",
            "sockets kept",
            "lines typed",
            "lost",
        ]);
        let mut row = |name: &str,
                       requests: u64,
                       failures: u64,
                       latency: &LatencySummary,
                       sockets: SocketTotals| {
            let [kept, typed, lost] = match sockets.opened {
                0 => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
                opened => [
                    format!("{} of {opened}", sockets.kept),
                    sockets.sent.to_string(),
                    sockets.lost.to_string(),
                ],
            };
            table.row([
                name.to_owned(),
                requests.to_string(),
                failures.to_string(),
                milliseconds(latency.p50_us),
                milliseconds(latency.p99_us),
                milliseconds(latency.max_us),
                kept,
                typed,
                lost,
            ]);
        };
        for phase in &self.http.phases {
            let sockets = self
                .sockets
                .iter()
                .filter(|socket| socket.opened_in == phase.phase);
            let totals = sockets.map(|socket| &socket.report).collect();
            row(
                &phase.phase,
                phase.requests,
                phase.failures,
                &phase.latency,
                totals,
            );
        }
        row(
            "total",
            self.http.requests,
            self.http.failures,
            &self.http.latency,
            self.socket_totals,
        );
        table
    }
}

impl fmt::Display for DemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.table())
    }
}

fn milliseconds(us: u64) -> String {
    format!("{}.{:02} ms", us / 1000, us % 1000 / 10)
}
