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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn latency() -> Value {
        json!({"count": 9, "minUs": 1, "meanUs": 2, "p50Us": 640, "p90Us": 3, "p99Us": 4_125, "p999Us": 5, "maxUs": 60_000})
    }

    fn label(pod: &str, last_sent_us: u64) -> Value {
        json!({"label": pod, "answers": 9, "firstSequence": 1, "lastSequence": 9, "firstSentUs": 1,
               "lastSentUs": last_sent_us, "firstSeenUs": 70, "lastSeenUs": last_sent_us + 1})
    }

    fn http(failures: u64, labels: &[Value]) -> HttpReport {
        let sample = json!({"sequence": 4, "phase": "during", "kind": "resetInBody", "sentUs": 1_500_000,
            "endedUs": 1_600_000, "connection": 3, "reused": true, "detail": "in the body of a 200 OK"});
        let samples = if failures == 0 { vec![] } else { vec![sample] };
        serde_json::from_value(json!({
            "startedUs": 0, "endedUs": 9, "requests": 1234, "failures": failures, "failuresByKind": {},
            "staleRetries": 0, "staleUnsent": 0, "connectionsOpened": 1, "bodyBytes": 0, "maxLagUs": 0,
            "latency": latency(), "labels": labels, "unlabelled": 0, "samples": samples, "samplesOmitted": 0,
            "phases": [{"phase": "before", "requests": 1234, "failures": failures, "latency": latency()}],
            "marks": [], "marksOmitted": 0,
        }))
        .unwrap()
    }

    fn socket(lost: u64) -> EchoReport {
        serde_json::from_value(json!({
            "kind": "echo", "pod": null, "openedUs": 0, "closedUs": 9, "sent": 50, "echoed": 50 - lost, "lost": lost,
            "reordered": 0, "duplicated": 0, "foreign": 0, "foreignSample": null, "roundTrip": latency(),
            "longestGapUs": 0, "longestGapAtUs": 0, "error": null,
            "close": {"by": "client", "code": 1000, "reason": "done"},
        }))
        .unwrap()
    }

    fn upgrade() -> UpgradeReport {
        UpgradeReport {
            number: 1,
            operation_id: "op-1".into(),
            pod_name: "new".into(),
            previous_pod_name: "old".into(),
            started_us: 10,
            answered_us: 20,
            first_answer_us: None,
            committed_us: 100,
            moved_us: 150,
            done_us: 200,
        }
    }

    fn report(failures: u64, labels: &[Value]) -> DemoReport {
        let sockets = vec![(BEFORE, socket(0)), (BEFORE, socket(2))];
        DemoReport::new(vec![upgrade()], http(failures, labels), sockets, Vec::new())
    }

    #[test]
    fn nothing_to_notice() {
        let report = report(0, &[label("old", 100), label("new", 900)]);
        assert_eq!(report.problems, [""; 0]);
        assert_eq!(report.upgrades[0].first_answer_us, Some(70));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["sockets"][1]["openedIn"], "before");
        assert_eq!(json["socketTotals"]["lost"], 2);
    }

    #[test]
    fn what_users_would_notice_is_a_problem_each() {
        let late = report(0, &[label("old", 101), label("new", 900)]);
        assert_eq!(
            late.problems,
            ["requests reached old although new had taken over"]
        );
        let never = report(0, &[label("old", 100)]);
        assert_eq!(never.problems, ["no request reached new"]);
        let failed = report(1, &[label("old", 100), label("new", 900)]);
        assert_eq!(failed.problems.len(), 2);
        assert_eq!(failed.problems[0], "1 of 1234 requests failed");
        assert_eq!(
            failed.problems[1],
            "request 4 (during, 1.500 s after the start, connection 3): reset in the body: in the body of a 200 OK"
        );
    }

    #[test]
    fn one_table() {
        let text = report(0, &[label("old", 100), label("new", 900)]).to_string();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|c| !c.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(
            lines[0],
            [
                "requests",
                "failed",
                "p50",
                "p99",
                "max",
                "sockets kept",
                "lines typed",
                "lost"
            ]
        );
        let row = [
            "1234", "0", "0.64 ms", "4.12 ms", "60.00 ms", "1 of 2", "100", "2",
        ];
        assert_eq!(lines[2], [&["before"][..], &row].concat());
        assert_eq!(lines[3], [&["total"][..], &row].concat());
    }
}
