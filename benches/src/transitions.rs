//! What `nogoo9 demo --json` wrote, as far as the report needs it.

use std::path::Path;

use anyhow::Context as _;
use nogoo9_load::HttpReport;
use serde::Deserialize;

/// All acts.
#[derive(Debug, Deserialize)]
pub(crate) struct Transitions {
    /// What users could have noticed and should not.
    pub(crate) problems: Vec<String>,
    /// What the proxy adds.
    pub(crate) edge: Option<Edge>,
    pub(crate) acts: Vec<Act>,
}

/// The ways to a pod, side by side. Other proxies will be more of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Edge {
    pub(crate) rate: u32,
    pub(crate) straight: Way,
    pub(crate) proxied: Way,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Way {
    pub(crate) http: HttpReport,
    pub(crate) most_per_second: u64,
}

/// One kind of upgrade.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Act {
    pub(crate) mode: String,
    pub(crate) workspaces: u64,
    pub(crate) held: u64,
    pub(crate) bulk: Option<Bulk>,
    pub(crate) upgrades: Vec<Upgrade>,
    pub(crate) http: HttpReport,
    pub(crate) sockets: Vec<Socket>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bulk {
    pub(crate) max_parallel: u16,
    pub(crate) started_us: u64,
    pub(crate) done_us: u64,
}

/// One upgrade. Moments are microseconds on the clock of the act's HTTP report.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Upgrade {
    pub(crate) workspace: String,
    pub(crate) started_us: u64,
    pub(crate) committed_us: u64,
    pub(crate) done_us: u64,
    pub(crate) switch_us: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Socket {
    pub(crate) fate: String,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
}

impl Transitions {
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let bytes =
            std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
        serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is no JSON of `nogoo9 demo`", file.display()))
    }
}

/// Writes the file anew without the white space between its values, half of what it holds: it is
/// kept with the sources.
pub(crate) fn compact(file: &Path) -> anyhow::Result<()> {
    let what = || format!("{} cannot be written anew", file.display());
    let bytes = std::fs::read(file).with_context(what)?;
    let json: serde_json::Value = serde_json::from_slice(&bytes).with_context(what)?;
    std::fs::write(file, format!("{json}\n")).with_context(what)
}

impl Act {
    /// What it is called.
    pub(crate) fn title(&self) -> String {
        let count = self.upgrades.len();
        match (self.mode.as_str(), &self.bulk) {
            ("side-by-side", _) => format!("Side by side: {count} upgrades of one workspace"),
            ("recreate", _) => {
                format!("Recreation: {count} upgrades of a workspace with a volume of its own")
            }
            (_, Some(bulk)) => format!(
                "All at once: {} workspaces, at most {} at a time",
                self.workspaces, bulk.max_parallel
            ),
            (mode, None) => format!("{mode}: {count} upgrades"),
        }
    }

    /// The median of a figure of its upgrades, in microseconds.
    pub(crate) fn median(&self, figure: impl Fn(&Upgrade) -> Option<u64>) -> Option<u64> {
        let mut all: Vec<u64> = self.upgrades.iter().filter_map(figure).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }
}
