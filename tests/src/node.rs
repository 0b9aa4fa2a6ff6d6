//! Scripts beside the suites: they drive official SDKs and a browser, and print one JSON.

use anyhow::{Context as _, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Longest run of a script.
const TIMEOUT: Duration = Duration::from_secs(480);

/// Folder `tests/{name}`, whose Node modules are installed.
///
/// # Errors
/// They are not.
pub fn ensure_modules(name: &str) -> anyhow::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if !folder.join("node_modules").is_dir() {
        bail!("tests/{name}/node_modules is missing: run `make test`, or `npm ci` in tests/{name}");
    }
    Ok(folder)
}

/// Runs a script of that folder with these variables; returns the JSON on the last line of its output.
///
/// # Errors
/// It fails, takes too long, or prints no JSON: with everything that it printed.
pub async fn node(folder: &Path, script: &str, env: &[(&str, &str)]) -> anyhow::Result<Value> {
    run(Path::new("node"), folder, script, env).await
}

/// As [`node`], of a script in `tests/clients` that the Python SDK is installed for.
///
/// # Errors
/// It is not installed, or as [`node`].
pub async fn python(script: &str, env: &[(&str, &str)]) -> anyhow::Result<Value> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = tests.with_file_name("target").join("python/bin/python");
    if !python.is_file() {
        bail!(
            "{} is missing: run `make test`, or scripts/deps.sh test",
            python.display()
        );
    }
    run(&python, &tests.join("clients"), script, env).await
}

async fn run(
    program: &Path,
    folder: &Path,
    script: &str,
    env: &[(&str, &str)],
) -> anyhow::Result<Value> {
    let child = Command::new(program)
        .arg(script)
        .current_dir(folder)
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| program.display().to_string())?;
    let output = tokio::time::timeout(TIMEOUT, child.wait_with_output())
        .await
        .with_context(|| format!("{script} took longer than {TIMEOUT:?}"))??;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{script}: {}\n{text}\n{errors}", output.status);
    }
    let last = text.lines().next_back().unwrap_or_default();
    serde_json::from_str(last).with_context(|| format!("{script} printed:\n{text}\n{errors}"))
}
