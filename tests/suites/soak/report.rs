//! What was seen, as a table for people, a picture, and files for later.

use super::restarts::Restarts;
use super::tally::{Counts, Kind, Why};
use super::upgrades::Upgrades;
use super::vitals::{MEASURES, Patient, Sample};
use anyhow::Context as _;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Characters of a sparkline, from low to high.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Width of one.
const WIDTH: usize = 40;

/// All that there is to tell.
pub(super) struct Seen<'a> {
    pub(super) seed: u64,
    pub(super) seconds: f64,
    /// Seconds at the beginning that do not count as level or not.
    pub(super) warm: f64,
    pub(super) counts: &'a Counts,
    pub(super) upgrades: &'a Upgrades,
    pub(super) restarts: &'a Restarts,
    pub(super) patients: &'a [Patient],
    /// What was held at rest, before and after: process, measure, both values.
    pub(super) rest: &'a [(&'static str, &'static str, f64, f64)],
}

impl Seen<'_> {
    /// The tables.
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "Soak of {:.0} s, seed {}: {} upgrades side by side and {} recreated ({} skipped, {} \
             failed); proxies stopped {} times and killed {} times, controls {} and {}.\n\n",
            self.seconds,
            self.seed,
            self.upgrades.side_by_side,
            self.upgrades.recreated,
            self.upgrades.skipped,
            self.upgrades.failed.len(),
            self.restarts.proxies_stopped,
            self.restarts.proxies_killed,
            self.restarts.controls_stopped,
            self.restarts.controls_killed,
        );
        text += "| what | done | longest |";
        for (_, why) in Why::ALL {
            let _ok = write!(text, " {why} |");
        }
        text += " failed |\n|---|---|---|---|---|---|---|---|---|\n";
        for (kind, name) in Kind::ALL {
            let done = self.counts.done.get(&kind).copied().unwrap_or_default();
            let slowest = self.counts.slowest.get(&kind).copied().unwrap_or_default();
            let _ok = write!(text, "| {name} | {done} | {:.1} s |", slowest.as_secs_f64());
            for (why, _) in Why::ALL {
                let count = self.counts.expected.get(&(kind, why)).copied();
                let _ok = write!(text, " {} |", count.unwrap_or_default());
            }
            let failed = self.counts.failed.get(&kind).copied().unwrap_or_default();
            let _ok = writeln!(text, " {failed} |");
        }
        let _ok = write!(
            text,
            "\nGrowth is that of the line of least squares from second {:.0} on.\n\n\
             | process | measure | mean | growth | may grow | level | over time |\n\
             |---|---|---|---|---|---|---|\n",
            self.warm
        );
        for patient in self.patients {
            for verdict in patient.verdicts(self.warm) {
                let index = MEASURES
                    .iter()
                    .position(|(name, ..)| *name == verdict.measure);
                let line = sparkline(&patient.samples, index.unwrap_or_default());
                let _ok = writeln!(
                    text,
                    "| {} | {} | {:.1} | {:+.1} | {:.1} | {} | {line} |",
                    patient.name,
                    verdict.measure,
                    verdict.mean,
                    verdict.growth,
                    verdict.bound,
                    if verdict.is_level() { "yes" } else { "NO" },
                );
            }
        }
        text += "\n| at rest | measure | before | after |\n|---|---|---|---|\n";
        for (name, measure, before, after) in self.rest {
            let _ok = writeln!(text, "| {name} | {measure} | {before:.0} | {after:.0} |");
        }
        for failure in self.counts.samples.iter().chain(&self.upgrades.failed) {
            let _ok = write!(text, "\n- {}", failure.replace('\n', " "));
        }
        text
    }

    /// Keeps it in `target/results/soak`.
    pub(super) fn keep(&self, table: &str) -> anyhow::Result<PathBuf> {
        let exe = std::env::current_exe().context("path of the test itself")?;
        // target/{profile}/deps/{suite}-{hash}
        let target = exe.ancestors().nth(3).context("folder of the build")?;
        let folder = target.join("results/soak");
        std::fs::create_dir_all(&folder).context("folder of results")?;
        std::fs::write(folder.join("table.md"), table).context("table of results")?;
        let mut csv = String::from("process,second,files,memory_mib,threads,tasks\n");
        for patient in self.patients {
            for sample in &patient.samples {
                let values = sample
                    .values
                    .map(|value| value.map_or_else(String::new, |value| format!("{value:.1}")));
                let (name, at) = (patient.name, sample.at);
                let _ok = writeln!(csv, "{name},{at:.1},{}", values.join(","));
            }
        }
        std::fs::write(folder.join("vitals.csv"), csv).context("vitals")?;
        Ok(folder)
    }
}

/// A measure over time, from its least to its greatest value.
fn sparkline(samples: &[Sample], index: usize) -> String {
    let values: Vec<f64> = samples.iter().filter_map(|it| it.values[index]).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut line = String::new();
    for part in values.chunks(values.len().div_ceil(WIDTH).max(1)) {
        let mean = part.iter().sum::<f64>() / f64::from(u32::try_from(part.len()).unwrap_or(1));
        let height = if most > least {
            (mean - least) / (most - least)
        } else {
            0.0
        };
        // The top value belongs to the last bar.
        let bar = BARS
            .iter()
            .enumerate()
            .take_while(|(n, _)| f64::from(u32::try_from(*n).unwrap_or_default()) <= height * 7.999)
            .last();
        line.push(bar.map_or(BARS[0], |(_, bar)| *bar));
    }
    format!("{least:.0} {line} {most:.0}")
}
