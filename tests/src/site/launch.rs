//! Starting `nogoo9 up`, and what it leaves in its folder.

use super::{Options, START};
use crate::{Ready, binary};
use anyhow::{Context as _, bail};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

pub(super) fn data_dir(dir: &Path) -> PathBuf {
    dir.join("data")
}

pub(super) fn ready_file(dir: &Path) -> PathBuf {
    dir.join("ready.json")
}

pub(super) fn read_ready(file: &Path) -> anyhow::Result<Ready> {
    let text = std::fs::read(file).with_context(|| file.display().to_string())?;
    serde_json::from_slice(&text).with_context(|| String::from_utf8_lossy(&text).into_owned())
}

/// Under `nogoo9 guard`, so that a site does not outlive a test that is killed.
pub(super) fn start(dir: &Path, listen: &str, options: &Options) -> anyhow::Result<Child> {
    let nogoo9 = binary("nogoo9")?;
    for part in ["nogoo9-proxy", "nogoo9-control", "nogoo9-sample"] {
        binary(part)?;
    }
    let output = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("up.log"))
        .context("log of nogoo9 up")?;
    let mut command = Command::new(&nogoo9);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("NOGOO9_") {
            command.env_remove(name);
        }
    }
    command
        .args(["guard", "--"])
        .arg(&nogoo9)
        .args(["up", "--listen", listen, "--data-dir"])
        .arg(data_dir(dir))
        .arg("--ready-file")
        .arg(ready_file(dir))
        .args(&options.args)
        .stdin(Stdio::null())
        .stdout(output.try_clone().context("log of nogoo9 up")?)
        .stderr(output)
        .kill_on_drop(true)
        .spawn()
        .context("nogoo9 up")
}

pub(super) async fn ready(dir: &Path, up: &mut Child) -> anyhow::Result<Ready> {
    let file = ready_file(dir);
    let deadline = tokio::time::Instant::now() + START;
    loop {
        if let Some(status) = up.try_wait().context("nogoo9 up")? {
            bail!("nogoo9 up ended with {status}\n{}", tails(dir));
        }
        if file.exists() {
            return read_ready(&file);
        }
        if tokio::time::Instant::now() >= deadline {
            bail!("nogoo9 up was not ready within {START:?}\n{}", tails(dir));
        }
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

/// The end of every log.
pub(super) fn tails(dir: &Path) -> String {
    let mut files = vec![dir.join("up.log")];
    if let Ok(logs) = std::fs::read_dir(data_dir(dir).join("logs")) {
        files.extend(logs.flatten().map(|entry| entry.path()));
    }
    let mut text = String::new();
    for file in files {
        text += &format!(
            "--- {}\n{}\n",
            file.display(),
            tail(&file).unwrap_or_default()
        );
    }
    text
}

fn tail(file: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(6_000)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
