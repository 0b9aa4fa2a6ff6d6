//! `benches/REPORT.md`: figures as they are, with what is needed to judge them.

use std::fmt::Write as _;

use nogoo9_load::LatencySummary;

use crate::machine::Machine;
use crate::micro::{self, Estimate};
use crate::transitions::{Act, Edge, Transitions};

/// The whole report.
///
/// `earlier`: the figures are an earlier run's, so machine and commit are those of the drawing.
pub(crate) fn report(
    machine: &Machine,
    earlier: bool,
    transitions: &Transitions,
    neighbour: &str,
    micro: &[Estimate],
) -> String {
    let mut out = String::new();
    let written = if earlier {
        "Drawn from the figures of an earlier run,"
    } else {
        "Written by `make bench`"
    };
    // Writing into a string cannot fail.
    let _ = write_report(&mut out, (written, machine), transitions, neighbour, micro);
    out
}

fn write_report(
    out: &mut String,
    (written, machine): (&str, &Machine),
    transitions: &Transitions,
    neighbour: &str,
    micro: &[Estimate],
) -> std::fmt::Result {
    writeln!(out, "# Benchmarks\n")?;
    writeln!(
        out,
        "{written} on {} at commit {}: {}, {} cores, {} GiB, Linux {}; {}; load average before: {}. Load generator, proxy, control, API server, kubelet and all pods share those cores, so the ratios mean more than the figures.\n",
        machine.date,
        machine.commit,
        machine.cpu,
        machine.cores,
        machine.memory_gib,
        machine.system,
        machine.compiler,
        machine.load,
    )?;
    writeln!(out, "## What users see while workspaces are upgraded\n")?;
    writeln!(
        out,
        "Each act keeps up a constant rate, whatever the answers take (open loop): latency counts from the moment at which a request was due, so one that had to wait counts in full, and so do those that were due behind it. Sockets are typed into ten times a second.\n"
    )?;
    if transitions.problems.is_empty() {
        writeln!(
            out,
            "No request failed and nobody noticed what they should not.\n"
        )?;
    } else {
        writeln!(out, "What should not have happened:\n")?;
        for problem in &transitions.problems {
            writeln!(out, "- {}", cell(problem))?;
        }
        writeln!(out)?;
    }
    writeln!(
        out,
        "![Latency over time, with the upgrades marked](results/transitions.svg)\n"
    )?;
    for act in &transitions.acts {
        write_act(out, act)?;
    }
    if let Some(edge) = &transitions.edge {
        write_edge(out, edge)?;
    }
    if !neighbour.is_empty() {
        writeln!(out, "## Next door to a hostile workspace\n")?;
        writeln!(
            out,
            "A workspace answers with headers without end, bad chunks, a 101 that nobody asked for, half-closed connections, single bytes, cookies of the edge's own names, and bytes that are no HTTP, at 200 requests a second. Meanwhile the users of another one ask for small things, as before and after.\n"
        )?;
        writeln!(out, "{}\n", neighbour.trim_end())?;
    }
    if !micro.is_empty() {
        write_micro(out, micro)?;
    }
    writeln!(out, "## Repeat it\n")?;
    writeln!(
        out,
        "`make bench` measures and writes all of this; `make bench-micro` runs the micro-benchmarks alone and compares them with their last run. Everything measured is in [results/transitions.json](results/transitions.json) and [results/micro.json](results/micro.json)."
    )
}

fn write_act(out: &mut String, act: &Act) -> std::fmt::Result {
    writeln!(out, "### {}\n", act.title())?;
    header(
        out,
        &[
            "", "requests", "failed", "p50", "p90", "p99", "p99.9", "max",
        ],
    )?;
    let total = (
        "total",
        act.http.requests,
        act.http.failures,
        &act.http.latency,
    );
    let phases = act.http.phases.iter();
    let rows = phases.map(|p| (p.phase.as_str(), p.requests, p.failures, &p.latency));
    for (name, requests, failures, latency) in rows.chain([total]) {
        let [p50, p90, p99, p999, max] = figures(latency);
        writeln!(
            out,
            "| {name} | {requests} | {failures} | {p50} | {p90} | {p99} | {p999} | {max} |"
        )?;
    }
    writeln!(out)?;
    let took = |moment: fn(&crate::transitions::Upgrade) -> u64| {
        act.median(|upgrade| Some(moment(upgrade).saturating_sub(upgrade.started_us)))
    };
    if let Some(bulk) = &act.bulk {
        let all = bulk.done_us.saturating_sub(bulk.started_us);
        writeln!(out, "- All workspaces were upgraded after {}.", time(all))?;
    } else if let (Some(over), Some(gone)) = (took(|u| u.committed_us), took(|u| u.done_us)) {
        writeln!(
            out,
            "- Medians over the upgrades: the new pod had taken over {} after the call, and all was over after {}.",
            time(over),
            time(gone)
        )?;
    }
    if let Some(switch) = act.median(|upgrade| upgrade.switch_us) {
        writeln!(
            out,
            "- From the old pod's last answer to the new one's first it took {} (median).",
            time(switch)
        )?;
    }
    writeln!(
        out,
        "- The proxy held {} requests and sockets until there was a pod.",
        act.held
    )?;
    let fated = |fate: &str| act.sockets.iter().filter(|s| s.fate == fate).count();
    writeln!(
        out,
        "- Of {} sockets {} were kept until their users closed them, {} were asked to come back and did, {} broke; of {} lines typed {} were lost.\n",
        act.sockets.len(),
        fated("kept"),
        fated("sentBack"),
        fated("broken"),
        act.sockets.iter().map(|s| s.sent).sum::<u64>(),
        act.sockets.iter().map(|s| s.lost).sum::<u64>(),
    )
}

fn write_edge(out: &mut String, edge: &Edge) -> std::fmt::Result {
    writeln!(out, "## What the edge adds\n")?;
    writeln!(
        out,
        "{} requests a second through the proxy (session checked, headers cleaned) and as many straight to the same pod, at the same time; then each way alone, by turns, as fast as the answers come. Other proxies will stand beside these rows.\n",
        edge.rate
    )?;
    header(
        out,
        &[
            "",
            "requests",
            "failed",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "most a second",
        ],
    )?;
    for (name, way) in [
        ("straight to the pod", &edge.straight),
        ("through nogoo9", &edge.proxied),
    ] {
        let [p50, p90, p99, p999, max] = figures(&way.http.latency);
        writeln!(
            out,
            "| {name} | {} | {} | {p50} | {p90} | {p99} | {p999} | {max} | {} |",
            way.http.requests, way.http.failures, way.most_per_second
        )?;
    }
    let (straight, proxied) = (&edge.straight.http.latency, &edge.proxied.http.latency);
    let ratio = |of: fn(&LatencySummary) -> u64| ratio(of(proxied), of(straight));
    writeln!(
        out,
        "| ratio | | | {} | {} | {} | {} | {} | {} |\n",
        ratio(|l| l.p50_us),
        ratio(|l| l.p90_us),
        ratio(|l| l.p99_us),
        ratio(|l| l.p999_us),
        ratio(|l| l.max_us),
        self::ratio(edge.proxied.most_per_second, edge.straight.most_per_second),
    )
}

fn write_micro(out: &mut String, micro: &[Estimate]) -> std::fmt::Result {
    writeln!(out, "## What one request or one event costs\n")?;
    writeln!(
        out,
        "Medians of one call; the columns of a number say how many workspaces the table knows, or how many pods there are to choose from.\n"
    )?;
    let mut groups: Vec<&str> = micro.iter().map(|e| e.group.as_str()).collect();
    groups.dedup();
    for group in groups {
        let of_group: Vec<&Estimate> = micro.iter().filter(|e| e.group == group).collect();
        let (varied, plain): (Vec<_>, Vec<_>) =
            of_group.into_iter().partition(|e| e.value.is_some());
        if !varied.is_empty() {
            let (columns, rows) = micro::rows(&varied);
            header(out, &[&[group][..], &columns].concat())?;
            for (function, estimates) in rows {
                let of = |column: &&str| {
                    estimates
                        .iter()
                        .find(|e| e.value.as_deref() == Some(column))
                };
                let cells = columns
                    .iter()
                    .map(|column| of(column).map_or(String::new(), |e| nanos(e.ns)));
                writeln!(
                    out,
                    "| {function} | {} |",
                    cells.collect::<Vec<_>>().join(" | ")
                )?;
            }
            writeln!(out)?;
        }
        if !plain.is_empty() {
            header(out, &[group, "one call", "95 % between"])?;
            for estimate in plain {
                let (low, high) = estimate.between;
                writeln!(
                    out,
                    "| {} | {} | {} and {} |",
                    estimate.function,
                    nanos(estimate.ns),
                    nanos(low),
                    nanos(high)
                )?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

fn header(out: &mut String, columns: &[&str]) -> std::fmt::Result {
    writeln!(out, "| {} |", columns.join(" | "))?;
    let rules = columns
        .iter()
        .enumerate()
        .map(|(n, _)| if n == 0 { "---" } else { "---:" });
    writeln!(out, "|{}|", rules.collect::<Vec<_>>().join("|"))
}

fn figures(latency: &LatencySummary) -> [String; 5] {
    [
        latency.p50_us,
        latency.p90_us,
        latency.p99_us,
        latency.p999_us,
        latency.max_us,
    ]
    .map(time)
}

/// Text that cannot break out of its line.
fn cell(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
}

/// Microseconds as a person reads them.
pub(crate) fn time(us: u64) -> String {
    // A figure for people: exact beyond any digit that is shown.
    #[allow(clippy::cast_precision_loss)]
    let ms = us as f64 / 1e3;
    match ms {
        _ if ms < 10.0 => format!("{ms:.2} ms"),
        _ if ms < 100.0 => format!("{ms:.1} ms"),
        _ if ms < 1000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.2} s", ms / 1e3),
    }
}

fn nanos(ns: f64) -> String {
    match ns {
        _ if ns < 10.0 => format!("{ns:.1} ns"),
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.2} µs", ns / 1e3),
        _ => format!("{:.2} ms", ns / 1e6),
    }
}

fn ratio(of: u64, to: u64) -> String {
    if to == 0 {
        return "-".to_owned();
    }
    // Figures for people, far below where floats lose digits.
    #[allow(clippy::cast_precision_loss)]
    let ratio = of as f64 / to as f64;
    format!("{ratio:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_for_people() {
        assert_eq!(
            [999, 12_345, 123_456, 1_234_567].map(time),
            ["1.00 ms", "12.3 ms", "123 ms", "1.23 s"]
        );
        assert_eq!(
            [1.26, 26.4, 2640.0, 3e6].map(nanos),
            ["1.3 ns", "26 ns", "2.64 µs", "3.00 ms"]
        );
        assert_eq!(
            (ratio(3, 2), ratio(1, 0)),
            ("1.50".to_owned(), "-".to_owned())
        );
    }

    #[test]
    fn a_problem_stays_in_its_line() {
        assert_eq!(cell("a\nb|c"), "a b\\|c");
    }
}
