//! A process that the suite runs itself, beside those of the site.

use anyhow::Context as _;
use nix::sys::signal::Signal;
use nogoo9_tests::{Observation, Process, binary, until};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// Longest end.
const END: Duration = Duration::from_secs(60);

/// A command that can be started again, and its process while it runs.
#[derive(Debug)]
pub(super) struct Part {
    command: Vec<String>,
    log: PathBuf,
    running: Option<(Child, Process)>,
}

impl Part {
    /// Starts it; what it prints goes to `log`.
    pub(super) fn start(command: Vec<String>, log: &Path) -> anyhow::Result<Self> {
        let mut part = Self {
            command,
            log: log.to_owned(),
            running: None,
        };
        part.again()?;
        Ok(part)
    }

    /// Starts it anew, once it has ended.
    pub(super) fn again(&mut self) -> anyhow::Result<()> {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| self.log.display().to_string())?;
        // Under `nogoo9 guard`, so that it does not outlive a test that is killed.
        let mut command = Command::new(binary("nogoo9")?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("NOGOO9_") {
                command.env_remove(name);
            }
        }
        let child = command
            .args(["guard", "--"])
            .args(&self.command)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("a log")?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{:?}", self.command))?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let process = pid.and_then(Process::of).context("a process")?;
        self.running = Some((child, process));
        Ok(())
    }

    /// Ends it by that signal, and waits until it is gone.
    pub(super) async fn end(&mut self, signal: Signal) -> anyhow::Result<()> {
        let Some((mut child, process)) = self.running.take() else {
            return Ok(());
        };
        process.signal(signal)?;
        tokio::time::timeout(END, child.wait())
            .await
            .with_context(|| format!("{} stays after {signal}", process.command))??;
        until("a process to be gone", END, || async {
            Ok(Observation::when(!process.runs(), (), &process))
        })
        .await
    }
}
