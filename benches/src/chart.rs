//! The picture: latency over time, one panel an act, with the upgrades marked.
//!
//! Written by hand, since a plotting library's SVG can neither follow the reader's theme nor tell
//! series apart by more than colour, and this is some axes and lines.

mod scale;

use std::fmt::Write as _;

use nogoo9_load::SliceReport;

use crate::markdown::time;
use crate::transitions::{Act, Transitions};
use scale::{Linear, Log};

const WIDTH: f64 = 960.0;
/// Height of a panel, with its title and axis.
const PANEL: f64 = 250.0;
/// Height of the legend on top.
const LEGEND: f64 = 40.0;
/// Where a panel's plot lies.
const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = PANEL - 34.0;

/// Colours of both themes; series differ by line, too.
const STYLE: &str = "\
svg { --paper: #ffffff; --ink: #1f2328; --faint: #d8dee4; --p50: #0969da; --p99: #9a6700; --max: #8250df; --bad: #cf222e; --band: #0969da18; --mark: #1a7f37 }
@media (prefers-color-scheme: dark) { svg { --paper: #0d1117; --ink: #e6edf3; --faint: #30363d; --p50: #58a6ff; --p99: #d29922; --max: #bc8cff; --bad: #ff7b72; --band: #58a6ff26; --mark: #56d364 } }
text { font: 12px system-ui, sans-serif; fill: var(--ink) }
.title { font-size: 14px; font-weight: 600 }
.grid { stroke: var(--faint); stroke-width: 1 }
.band { fill: var(--band) }
.mark { stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 3 3 }
.p50, .p99 { fill: none; stroke-width: 1.5 }
.p50 { stroke: var(--p50) }
.p99 { stroke: var(--p99); stroke-dasharray: 6 2 }
.max { fill: var(--max) }
.bad { fill: var(--bad) }
.paper { fill: var(--paper) }";

/// The picture of all acts.
pub(crate) fn draw(transitions: &Transitions) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write_all(&mut out, &transitions.acts);
    out
}

fn write_all(out: &mut String, acts: &[Act]) -> std::fmt::Result {
    let height = acts.iter().fold(LEGEND, |height, _| height + PANEL);
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Latency of requests over time, while workspaces are upgraded">"#
    )?;
    writeln!(out, "<style>{STYLE}</style>")?;
    writeln!(
        out,
        r#"<rect class="paper" width="{WIDTH}" height="{height}"/>"#
    )?;
    write_legend(out)?;
    let mut top = LEGEND;
    for act in acts {
        writeln!(out, r#"<g transform="translate(0 {top})">"#)?;
        write_panel(out, act)?;
        writeln!(out, "</g>")?;
        top += PANEL;
    }
    writeln!(out, "</svg>")
}

fn write_legend(out: &mut String) -> std::fmt::Result {
    let y = LEGEND / 2.0 + 4.0;
    let line = y - 4.0;
    let text = |x: f64, text: &str| format!(r#"<text x="{x}" y="{y}">{text}</text>"#);
    let parts = [
        format!(r#"<path class="p50" d="M{LEFT} {line}h24"/>"#),
        text(LEFT + 30.0, "median"),
        format!(r#"<path class="p99" d="M{} {line}h24"/>"#, LEFT + 95.0),
        text(LEFT + 125.0, "99th percentile"),
        format!(
            r#"<circle class="max" cx="{}" cy="{line}" r="2"/>"#,
            LEFT + 240.0
        ),
        text(LEFT + 250.0, "longest"),
        format!(
            r#"<rect class="bad" x="{}" y="{}" width="6" height="6"/>"#,
            LEFT + 318.0,
            line - 3.0
        ),
        text(LEFT + 330.0, "failed"),
        format!(
            r#"<rect class="band" x="{}" y="{}" width="24" height="16"/>"#,
            LEFT + 388.0,
            line - 8.0
        ),
        text(LEFT + 418.0, "an upgrade, from the call to its end"),
        format!(
            r#"<path class="mark" d="M{} {}v16"/>"#,
            LEFT + 650.0,
            line - 8.0
        ),
        text(LEFT + 660.0, "the new pod has taken over"),
    ];
    writeln!(out, "{}", parts.join("\n"))
}

fn write_panel(out: &mut String, act: &Act) -> std::fmt::Result {
    let slices = &act.http.slices;
    writeln!(
        out,
        r#"<text class="title" x="{LEFT}" y="24">{}</text>"#,
        escaped(&act.title())
    )?;
    let begin = slices.first().map_or(0, |slice| slice.at_us);
    let end = slices
        .last()
        .map_or(1, |slice| slice.at_us + act.http.slice_us);
    let x = Linear::new((begin, end), (LEFT, RIGHT));
    let latencies = slices.iter().filter(|slice| slice.max_us > 0);
    let lowest = latencies.clone().map(|slice| slice.p50_us).min();
    let longest = latencies.map(|slice| slice.max_us).max();
    let y = Log::around(
        (lowest.unwrap_or(1000), longest.unwrap_or(1000)),
        (BOTTOM, TOP),
    );
    for decade in y.decades() {
        let at = y.at(decade);
        writeln!(out, r#"<path class="grid" d="M{LEFT} {at:.1}H{RIGHT}"/>"#)?;
        writeln!(
            out,
            r#"<text x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
            LEFT - 8.0,
            at + 4.0,
            scale::label(decade)
        )?;
    }
    for second in x.seconds() {
        let at = x.at(second);
        writeln!(
            out,
            r#"<text x="{at:.1}" y="{}" text-anchor="middle">{} s</text>"#,
            BOTTOM + 18.0,
            (second - begin) / 1_000_000
        )?;
    }
    write_upgrades(out, act, x)?;
    line(out, "p99", slices, act.http.slice_us, |slice| {
        (x.at(slice.at_us), y.at(slice.p99_us))
    })?;
    line(out, "p50", slices, act.http.slice_us, |slice| {
        (x.at(slice.at_us), y.at(slice.p50_us))
    })?;
    for slice in slices {
        let at = x.at(slice.at_us);
        if slice.max_us > 0 {
            writeln!(
                out,
                r#"<circle class="max" cx="{at:.1}" cy="{:.1}" r="1.5"/>"#,
                y.at(slice.max_us)
            )?;
        }
        if slice.failures > 0 {
            writeln!(
                out,
                r#"<rect class="bad" x="{:.1}" y="{}" width="6" height="6"><title>{} of {} failed</title></rect>"#,
                at - 3.0,
                TOP - 8.0,
                slice.failures,
                slice.requests
            )?;
        }
    }
    Ok(())
}

/// A band from each call to the end of the old pod, and a line where the new one took over.
fn write_upgrades(out: &mut String, act: &Act, x: Linear) -> std::fmt::Result {
    if let Some(bulk) = &act.bulk {
        band(out, x, bulk.started_us, bulk.done_us, "the whole operation")?;
    }
    for (number, upgrade) in (1..).zip(&act.upgrades) {
        let took = upgrade.committed_us.saturating_sub(upgrade.started_us);
        let title = format!(
            "upgrade {number}, of {}: taken over after {}",
            upgrade.workspace,
            time(took)
        );
        if act.bulk.is_none() {
            band(out, x, upgrade.started_us, upgrade.done_us, &title)?;
        }
        writeln!(
            out,
            r#"<path class="mark" d="M{:.1} {TOP}V{BOTTOM}"><title>{}</title></path>"#,
            x.at(upgrade.committed_us),
            escaped(&title)
        )?;
    }
    Ok(())
}

fn band(out: &mut String, x: Linear, from_us: u64, to_us: u64, title: &str) -> std::fmt::Result {
    let (from, to) = (x.at(from_us), x.at(to_us));
    writeln!(
        out,
        r#"<rect class="band" x="{from:.1}" y="{TOP}" width="{:.1}" height="{}"><title>{}</title></rect>"#,
        (to - from).max(0.0),
        BOTTOM - TOP,
        escaped(title)
    )
}

/// A line through the slices that have a latency, broken where there is none.
fn line(
    out: &mut String,
    class: &str,
    slices: &[SliceReport],
    width_us: u64,
    at: impl Fn(&SliceReport) -> (f64, f64),
) -> std::fmt::Result {
    let mut path = String::new();
    let mut expected = None;
    for slice in slices.iter().filter(|slice| slice.max_us > 0) {
        let (x, y) = at(slice);
        let command = if expected == Some(slice.at_us) {
            'L'
        } else {
            'M'
        };
        write!(path, "{command}{x:.1} {y:.1}")?;
        expected = Some(slice.at_us + width_us);
    }
    writeln!(out, r#"<path class="{class}" d="{path}"/>"#)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
