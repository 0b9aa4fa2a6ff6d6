//! The instance that the demo plays on: one of its own, or one that runs already.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nogoo9_local::supervisor::Ready;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// Longest wait for an instance to be ready.
const START_BOUND: Duration = Duration::from_secs(90);
/// Longest wait for one to stop; it has its own, shorter bounds.
const STOP_BOUND: Duration = Duration::from_secs(60);
/// Between two looks at the ready file.
const LOOK: Duration = Duration::from_millis(100);
/// Lines of an instance's output that an error quotes.
const TAIL: usize = 20;

/// A running instance.
pub(super) struct Instance {
    pub(super) ready: Ready,
    own: Option<Own>,
}

/// One that the demo started.
struct Own {
    child: Child,
    output: PathBuf,
    /// Holds the ready file and the output; removed last.
    _scratch: TempDir,
}

impl Instance {
    /// The one that wrote `file`.
    pub(super) fn attach(file: &Path) -> anyhow::Result<Self> {
        let ready = read(file)?.with_context(|| {
            format!(
                "--ready-file {} does not exist; is `nogoo9 up` ready?",
                file.display()
            )
        })?;
        Ok(Self { ready, own: None })
    }

    /// A new one, which ends when this process does, however that ends.
    pub(super) async fn start(data_dir: Option<&Path>) -> anyhow::Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("nogoo9-demo-")
            .tempdir()
            .context("no temporary folder")?;
        let (file, output) = (
            scratch.path().join("ready.json"),
            scratch.path().join("output.log"),
        );
        let log = File::create(&output).context("the instance's output cannot be kept")?;
        let nogoo9 = std::env::current_exe().context("this program's own path is unknown")?;
        let mut command = Command::new(&nogoo9);
        command
            .args(["guard", "--"])
            .arg(&nogoo9)
            .arg("up")
            .arg("--ready-file")
            .arg(&file);
        // Beside an instance that has the default port already.
        command.args(["--listen", "127.0.0.1:0"]);
        match data_dir {
            Some(dir) => command.arg("--data-dir").arg(dir),
            None => command.arg("--ephemeral"),
        };
        // Settings in the environment are meant for another instance.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("NOGOO9_"))
        {
            command.env_remove(name);
        }
        // Ctrl-C is for this process, which then stops the instance in order.
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        let child = command
            .spawn()
            .with_context(|| format!("{} cannot be started", nogoo9.display()))?;
        let mut own = Own {
            child,
            output,
            _scratch: scratch,
        };
        super::say("starting an instance of its own");
        let ready = own.wait_ready(&file).await?;
        Ok(Self {
            ready,
            own: Some(own),
        })
    }

    /// Stops it if the demo started it.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let Some(mut own) = self.own else {
            return Ok(());
        };
        let Some(pid) = own.child.id() else {
            bail!("the instance ended by itself{}", own.tail());
        };
        let pid = i32::try_from(pid).context("no such process id")?;
        kill(Pid::from_raw(pid), Signal::SIGTERM).context("the instance cannot be stopped")?;
        match timeout(STOP_BOUND, own.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => bail!("the instance stopped with {status}{}", own.tail()),
            Ok(Err(error)) => Err(error).context("the instance cannot be waited for"),
            Err(_) => {
                own.child
                    .kill()
                    .await
                    .context("the instance cannot be killed")?;
                bail!(
                    "the instance did not stop within {STOP_BOUND:?}{}",
                    own.tail()
                )
            }
        }
    }
}

impl Own {
    async fn wait_ready(&mut self, file: &Path) -> anyhow::Result<Ready> {
        let deadline = Instant::now() + START_BOUND;
        loop {
            if let Some(ready) = read(file)? {
                return Ok(ready);
            }
            if let Some(status) = self
                .child
                .try_wait()
                .context("the instance cannot be waited for")?
            {
                bail!("the instance ended with {status}{}", self.tail());
            }
            if Instant::now() > deadline {
                bail!(
                    "the instance was not ready within {START_BOUND:?}{}",
                    self.tail()
                );
            }
            sleep(LOOK).await;
        }
    }

    /// The last lines of its output, to be appended to an error.
    fn tail(&self) -> String {
        let output = std::fs::read_to_string(&self.output).unwrap_or_default();
        let lines: Vec<&str> = output.lines().collect();
        let last = lines
            .get(lines.len().saturating_sub(TAIL)..)
            .unwrap_or_default();
        if last.is_empty() {
            String::new()
        } else {
            format!("; its last words:\n  {}", last.join("\n  "))
        }
    }
}

/// A ready file's content, once it is there. It is written in one go.
fn read(file: &Path) -> anyhow::Result<Option<Ready>> {
    match std::fs::read(file) {
        Ok(bytes) => {
            let ready = serde_json::from_slice(&bytes);
            ready
                .map(Some)
                .with_context(|| format!("{} is no ready file", file.display()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", file.display())),
    }
}
