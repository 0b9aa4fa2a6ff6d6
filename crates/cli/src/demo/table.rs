//! The report as people read it: a sentence and a table an act.

use std::fmt;

use nogoo9_load::{LatencySummary, Table};

use super::edge::EdgeReport;
use super::report::{ActReport, DemoReport, Mode, SocketReport};
use super::users::Fate;

impl fmt::Display for DemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(edge) = &self.edge {
            write!(f, "\n{}\n\n{}", sentence_of_edge(edge), table_of_edge(edge))?;
        }
        for act in &self.acts {
            write!(f, "\n{}\n\n{}", sentence(act), table(act))?;
        }
        Ok(())
    }
}

/// What was done, and the figures that are of the whole act.
fn sentence(act: &ActReport) -> String {
    let seconds = |figure: Option<f64>| figure.map_or("?".to_owned(), |s| format!("{s:.1} s"));
    let (upgrades, held) = (act.upgrades.len(), act.held);
    match act.mode {
        Mode::Edge | Mode::SideBySide => format!(
            "Side by side: {upgrades} upgrades of one workspace; the new pod took over after {}, the old one was gone after {} (medians).",
            seconds(act.median(|u| Some(u.committed_us.saturating_sub(u.started_us)))),
            seconds(act.median(|u| Some(u.done_us.saturating_sub(u.started_us)))),
        ),
        Mode::Recreate => format!(
            "Recreation: {upgrades} upgrades of a workspace whose volume two pods cannot share; from the old pod's last answer to the new one's first it took {} (median), for which {held} requests were held.",
            seconds(act.median(|u| u.switch_us)),
        ),
        Mode::Bulk => {
            let bulk = act.bulk.as_ref();
            let took = bulk.map(|bulk| {
                std::time::Duration::from_micros(bulk.done_us.saturating_sub(bulk.started_us))
                    .as_secs_f64()
            });
            format!(
                "All at once: {} workspaces, at most {} at a time; all were upgraded after {}.",
                act.workspaces,
                bulk.map_or(0, |bulk| bulk.max_parallel),
                seconds(took),
            )
        }
    }
}

fn table(act: &ActReport) -> Table {
    let mut table = Table::new([
        "",
        "requests",
        "failed",
        "p50",
        "p99",
        "max",
        "sockets kept",
        "sent back",
        "lines typed",
        "lost",
    ]);
    let mut row = |name: &str,
                   requests: u64,
                   failures: u64,
                   latency: &LatencySummary,
                   sockets: &[&SocketReport]| {
        let fated = |fate| sockets.iter().filter(|socket| socket.fate == fate).count();
        let [kept, back, typed, lost] = if sockets.is_empty() {
            ["-"; 4].map(ToOwned::to_owned)
        } else {
            let sum = |figure: fn(&SocketReport) -> u64| -> u64 {
                sockets.iter().map(|socket| figure(socket)).sum()
            };
            [
                format!("{} of {}", fated(Fate::Kept), sockets.len()),
                fated(Fate::SentBack).to_string(),
                sum(|socket| socket.report.sent).to_string(),
                sum(|socket| socket.report.lost).to_string(),
            ]
        };
        table.row([
            name.to_owned(),
            requests.to_string(),
            failures.to_string(),
            milliseconds(latency.p50_us),
            milliseconds(latency.p99_us),
            milliseconds(latency.max_us),
            kept,
            back,
            typed,
            lost,
        ]);
    };
    for phase in &act.http.phases {
        let sockets = act.sockets.iter();
        let sockets: Vec<_> = sockets.filter(|s| s.opened_in == phase.phase).collect();
        row(
            &phase.phase,
            phase.requests,
            phase.failures,
            &phase.latency,
            &sockets,
        );
    }
    let sockets: Vec<_> = act.sockets.iter().collect();
    row(
        "total",
        act.http.requests,
        act.http.failures,
        &act.http.latency,
        &sockets,
    );
    table
}

fn sentence_of_edge(edge: &EdgeReport) -> String {
    format!(
        "The edge: {} requests a second through the proxy and as many straight to the pod at the same time; then as many as possible, by turns.",
        edge.rate
    )
}

fn table_of_edge(edge: &EdgeReport) -> Table {
    let mut table = Table::new([
        "",
        "requests",
        "failed",
        "p50",
        "p99",
        "max",
        "most a second",
    ]);
    for (name, path) in [("straight", &edge.straight), ("proxied", &edge.proxied)] {
        let latency = &path.http.latency;
        table.row([
            name.to_owned(),
            path.http.requests.to_string(),
            path.http.failures.to_string(),
            milliseconds(latency.p50_us),
            milliseconds(latency.p99_us),
            milliseconds(latency.max_us),
            path.most_per_second.to_string(),
        ]);
    }
    table
}

fn milliseconds(us: u64) -> String {
    format!("{}.{:02} ms", us / 1000, us % 1000 / 10)
}
