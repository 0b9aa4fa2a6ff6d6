//! What it took, as a table for people and as files for later.

use super::timing::Upgrade;
use super::town::{Sort, Town};
use anyhow::Context as _;
use nogoo9_load::HttpReport;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

/// Prints it.
pub(super) fn say(text: &str) {
    // Nobody reads it any more: no reason to fail.
    let _closed = writeln!(std::io::stdout(), "\n{text}");
}

/// The table.
pub(super) fn of(
    town: &Town,
    upgrades: &[Upgrade],
    spawned: Duration,
    answered: Duration,
    took: Duration,
    back: &[Duration],
) -> String {
    let mut text = String::from(
        "| workspaces | | until the new one is ready: median | 90 % | slowest | until the old one is gone: median | 90 % | slowest |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for sort in Sort::ALL.map(Some).into_iter().chain([None]) {
        let of_sort = || {
            upgrades
                .iter()
                .filter(move |upgrade| sort.is_none_or(|sort| sort == upgrade.sort))
        };
        let name = sort.map_or("all", Sort::name);
        let count = of_sort().count();
        let (ready, over) = (
            spread(of_sort().map(|upgrade| upgrade.ready)),
            spread(of_sort().map(|upgrade| upgrade.took)),
        );
        let _ok = writeln!(text, "| {name} | {count} | {ready} | {over} |");
    }
    let count = u32::try_from(town.workspaces.len()).unwrap_or(u32::MAX);
    let back: Vec<String> = back.iter().map(|time| seconds(*time)).collect();
    let _ok = write!(
        text,
        "\n{count} workspaces upgraded in {}: one every {}. The answer came after {}. Control was \
         killed {} times and answered again after {}. Spawning them had taken {}.\n",
        seconds(took),
        seconds(took / count.max(1)),
        seconds(answered),
        back.len(),
        back.join(", "),
        seconds(spawned),
    );
    text
}

/// Median, 90th percentile and the most.
fn spread(times: impl Iterator<Item = Duration>) -> String {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    let at = |percent: usize| times.get(last * percent / 100).copied();
    [50, 90, 100]
        .map(|percent| at(percent).map_or_else(|| "-".to_owned(), seconds))
        .join(" | ")
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// Keeps all of it in `target/results/noon`.
pub(super) fn keep(table: &str, upgrades: &[Upgrade], load: &HttpReport) -> anyhow::Result<()> {
    let exe = std::env::current_exe().context("path of the test itself")?;
    // target/{profile}/deps/{suite}-{hash}
    let target = exe.ancestors().nth(3).context("folder of the build")?;
    let folder = target.join("results/noon");
    std::fs::create_dir_all(&folder).context("folder of results")?;
    let load_table = load.table().to_string();
    let text = format!("{table}\n```\n{load_table}\n```\n");
    std::fs::write(folder.join("table.md"), text).context("table of results")?;
    let mut csv = String::from("workspace,sort,begun_s,ready_s,took_s\n");
    for upgrade in upgrades {
        let _ok = writeln!(
            csv,
            "{},{},{:.3},{:.3},{:.3}",
            upgrade.id,
            upgrade.sort.name().replace(',', ""),
            upgrade.begun.as_secs_f64(),
            upgrade.ready.as_secs_f64(),
            upgrade.took.as_secs_f64(),
        );
    }
    std::fs::write(folder.join("workspaces.csv"), csv).context("results of each workspace")
}
