//! On which machine, at which commit, by which compiler. What cannot be found out is said to be
//! unknown: a report never fails for it.

use std::fs::read_to_string;
use std::process::Command;

/// Where and when the figures were taken.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) system: String,
    /// Load average of the last minute, before the benches began.
    pub(crate) load: String,
    pub(crate) commit: String,
    pub(crate) compiler: String,
    pub(crate) date: String,
}

impl Machine {
    pub(crate) fn observe() -> Self {
        let read = |file: &str| read_to_string(file).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let field = |text: &str, name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.trim().strip_prefix(':'))
                .map(|value| value.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kib = memory.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, Into::into),
            memory_gib: kib.unwrap_or_default().div_ceil(1024 * 1024),
            system: field(
                &format!("Linux: {}", read("/proc/sys/kernel/osrelease")),
                "Linux",
            )
            .unwrap_or_else(unknown),
            load: read("/proc/loadavg")
                .split(' ')
                .next()
                .filter(|load| !load.is_empty())
                .map_or_else(unknown, ToOwned::to_owned),
            commit: commit().unwrap_or_else(unknown),
            compiler: said("rustc", &["--version"]).unwrap_or_else(unknown),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        }
    }
}

/// The commit, and whether anything that is measured was changed since.
fn commit() -> Option<String> {
    let commit = said("git", &["rev-parse", "--short=12", "HEAD"])?;
    // What this program writes itself changes nothing that it measures.
    let changed = said(
        "git",
        &[
            "status",
            "--porcelain",
            "--untracked-files=no",
            "--",
            ".",
            ":!benches/REPORT.md",
            ":!benches/results",
        ],
    );
    Some(match changed.as_deref() {
        Some("") => commit,
        _ => format!("{commit} with uncommitted changes"),
    })
}

/// What a command printed, if it ended well.
fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
