//! A real browser: scripts in `tests/browser`, which do what a person does and tell what they saw.

use crate::{Census, Observation, ensure_modules, node, until};
use anyhow::Context as _;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Longest wait for the browser's processes to end.
const END: Duration = Duration::from_secs(120);
/// Longest wait for a script to come to where it gives a signal.
const SIGNAL: Duration = Duration::from_secs(400);

/// Runs a script with these variables; returns its report. No process of its browser stays.
///
/// # Errors
/// The script fails, takes too long or reports nothing.
pub async fn browse(script: &str, env: &[(&str, &str)]) -> anyhow::Result<Value> {
    let folder = ensure_modules("browser")?;
    // The browser keeps its profile there, which is how its processes are known.
    let profile = tempfile::Builder::new()
        .prefix("nogoo9-browser-")
        .tempdir()?;
    let kept = profile.path().to_str().context("temporary folder")?;
    let report = node(&folder, script, &[env, &[("TMPDIR", kept)]].concat()).await;
    until("the browser's processes to end", END, || async {
        let left = Census::take(None, profile.path())?;
        let running = left.running();
        Ok(Observation::when(running.is_empty(), (), running))
    })
    .await?;
    report
}

/// Waits until a script made that file: now it is the suite's turn.
///
/// # Errors
/// It never comes to that.
pub async fn signalled(file: &Path) -> anyhow::Result<()> {
    until("the script's signal", SIGNAL, || async {
        Ok(Observation::when(file.exists(), (), file))
    })
    .await
}
