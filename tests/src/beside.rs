//! Controls that a suite runs itself, beside a site that was started `--without control`: each
//! behind a gate, and started again at once whenever it ends.

use crate::gate::Gate;
use crate::{Judge, Observation, Process, Site, binary, until};
use anyhow::{Context as _, bail};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Pause before it is started again, so that one that cannot start costs little.
const PAUSE: Duration = Duration::from_millis(20);
/// Exit code of a wrong configuration, which no retry mends.
const MISCONFIGURED: i32 = 2;
/// Longest orderly end.
const STOP: Duration = Duration::from_secs(120);

/// One control, whichever process it is at the moment.
pub struct Control {
    /// Where nobody stops it, the process is killed.
    keeping: AbortOnDropHandle<anyhow::Result<()>>,
    stop: CancellationToken,
    starts: Arc<AtomicUsize>,
    _folder: TempDir,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control")
            .field("starts", &self.starts())
            .finish_non_exhaustive()
    }
}

impl Control {
    /// Starts control number `number`. Number 0 has the address to which the edge sends what is for
    /// control; others have one of their own, and reconcile beside it.
    ///
    /// # Errors
    /// The site has a control, or this one cannot be started.
    pub async fn start(site: &Site, number: usize, judge: Judge) -> anyhow::Result<Self> {
        let ready = site.read_ready()?;
        let mut command = ready
            .commands
            .get("control")
            .cloned()
            .context("the site has a control; start it --without control")?;
        let direct = value(&mut command, "--kubeconfig")?.clone();
        let gate = Gate::open(Path::new(&direct), judge).await?;
        let folder = tempfile::tempdir().context("folder of a kubeconfig")?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, gate.kubeconfig()).context("kubeconfig")?;
        *value(&mut command, "--kubeconfig")? = kubeconfig.display().to_string();
        if number > 0 {
            for flag in ["--listen", "--admin-listen"] {
                *value(&mut command, flag)? = "127.0.0.1:0".to_owned();
            }
        }
        let (stop, starts) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let keeper = Keeper {
            command,
            log: site.data_dir().join(format!("logs/control-{number}.log")),
            gate,
            stop: stop.clone(),
            starts: Arc::clone(&starts),
        };
        Ok(Self {
            keeping: AbortOnDropHandle::new(tokio::spawn(keeper.keep())),
            stop,
            starts,
            _folder: folder,
        })
    }

    /// How often it was started.
    #[must_use]
    pub fn starts(&self) -> usize {
        self.starts.load(Ordering::Relaxed)
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// It could not be kept running, or does not end.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.keeping.await.context("keeper of control")?
    }
}

struct Keeper {
    command: Vec<String>,
    log: PathBuf,
    gate: Gate,
    stop: CancellationToken,
    starts: Arc<AtomicUsize>,
}

impl Keeper {
    async fn keep(self) -> anyhow::Result<()> {
        loop {
            let mut child = self.spawn()?;
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
            let process = pid.and_then(Process::of);
            self.gate.belongs_to(pid.unwrap_or_default());
            self.starts.fetch_add(1, Ordering::Relaxed);
            let told = tokio::select! {
                () = self.stop.cancelled() => true,
                status = child.wait() => {
                    let status = status.context("control")?;
                    if status.code() == Some(MISCONFIGURED) {
                        bail!("control does not take its flags; see {}", self.log.display());
                    }
                    false
                }
            };
            if told {
                return match process {
                    Some(process) => end(&process, child).await,
                    None => Ok(()),
                };
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Under `nogoo9 guard`, so that it does not outlive a test that is killed.
    fn spawn(&self) -> anyhow::Result<Child> {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| self.log.display().to_string())?;
        let mut command = Command::new(binary("nogoo9")?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("NOGOO9_") {
                command.env_remove(name);
            }
        }
        command
            .args(["guard", "--"])
            .args(&self.command)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("log of control")?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("control")
    }
}

async fn end(process: &Process, mut child: Child) -> anyhow::Result<()> {
    process.signal(Signal::SIGTERM)?;
    tokio::time::timeout(STOP, child.wait())
        .await
        .with_context(|| format!("control did not end within {STOP:?} of SIGTERM"))??;
    until("control to be gone", STOP, || async {
        Ok(Observation::when(!process.runs(), (), process))
    })
    .await
}

/// The value of a flag.
fn value<'a>(command: &'a mut [String], flag: &str) -> anyhow::Result<&'a mut String> {
    let at = command.iter().position(|word| word == flag);
    at.and_then(|at| command.get_mut(at + 1))
        .with_context(|| format!("control's command line has no {flag}"))
}
