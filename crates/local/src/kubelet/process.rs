//! Local processes behind the pod shim: spawn, signal, wait, and find what is left
//! of earlier ones.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::shim::marked;

/// The variable that marks every process of a pod with its folder, so that it is
/// found even when its shim was killed and it belongs to no one any more.
pub(crate) const SANDBOX: &str = "NOGOO9_SANDBOX";

/// How long a shim may take to kill what is below it before it is killed itself.
const SHIM_BOUND: Duration = Duration::from_secs(15);
/// Time for the last processes to be gone once they were killed.
pub(crate) const KILL_BOUND: Duration = Duration::from_secs(20);
const SWEEP_ROUNDS: usize = 200;

/// Where and as what a command of a container runs.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    /// The container's own folder; the mark of its processes.
    pub(crate) sandbox: PathBuf,
}

/// A running process tree. Dropping it kills the tree.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    orders: mpsc::Sender<Order>,
}

/// What a process is told.
#[derive(Debug)]
pub(crate) enum Order {
    Terminate,
    Kill,
}

impl Process {
    /// Asks the first process to end (`SIGTERM`).
    pub(crate) fn terminate(&self) {
        // Full only if orders pile up unread, when the same is already on its way.
        let _ = self.orders.try_send(Order::Terminate);
    }

    /// Kills all of it (`SIGKILL`).
    pub(crate) fn kill(&self) {
        let _ = self.orders.try_send(Order::Kill);
    }
}

/// What was started, and whose end has to be awaited with [`Running::exit_code`].
#[derive(Debug)]
pub(crate) enum Running {
    /// A spawned shim with all that is below it.
    Shim(Box<Shim>),
    /// Nothing: it ends when it is told to.
    Nothing(mpsc::Receiver<Order>),
}

/// A spawned shim.
#[derive(Debug)]
pub(crate) struct Shim {
    child: Child,
    orders: mpsc::Receiver<Order>,
    mark: OsString,
}

/// Starts `program` under the shim. With `log` its output goes to that file, else
/// nowhere.
pub(crate) fn spawn(
    shim: &[OsString],
    program: &Path,
    args: &[String],
    around: &Surroundings,
    log: Option<&Path>,
) -> io::Result<(Process, Running)> {
    let [shim_program, shim_args @ ..] = shim else {
        return Err(io::Error::other("no shim configured"));
    };
    let mark = mark(&around.sandbox);
    let mut command = Command::new(shim_program);
    command.args(shim_args);
    if let Some(log) = log {
        command.arg("--log").arg(log);
    }
    command
        .arg("--")
        .arg(program)
        .args(args)
        .env_clear()
        .envs(&around.env)
        .env(SANDBOX, &mark)
        .current_dir(&around.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A Ctrl-C meant for the kubelet must not reach pods.
        .process_group(0);
    let child = command.spawn()?;
    let (orders, receiver) = mpsc::channel(8);
    Ok((
        Process { orders },
        Running::Shim(Box::new(Shim {
            child,
            orders: receiver,
            mark,
        })),
    ))
}

/// A container that is no process. It ends well when it is asked to.
pub(crate) fn nothing() -> (Process, Running) {
    let (orders, receiver) = mpsc::channel(8);
    (Process { orders }, Running::Nothing(receiver))
}

impl Running {
    /// Waits for the end; 128 + n for a process that signal n ended.
    pub(crate) async fn exit_code(self) -> i32 {
        match self {
            Self::Shim(shim) => shim.exit_code().await,
            Self::Nothing(mut orders) => match orders.recv().await {
                Some(Order::Terminate) => 0,
                Some(Order::Kill) | None => 128 + Signal::SIGKILL as i32,
            },
        }
    }
}

impl Shim {
    async fn exit_code(mut self) -> i32 {
        // The shim lives as long as the other end of this pipe is open.
        let mut lifeline = self.child.stdin.take();
        let mut stuck = None;
        let status = loop {
            let bound = async {
                match stuck {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                status = self.child.wait() => break status,
                order = self.orders.recv(), if lifeline.is_some() => match order {
                    Some(Order::Terminate) => self.signal(Signal::SIGTERM),
                    Some(Order::Kill) | None => {
                        lifeline = None;
                        stuck = Some(tokio::time::Instant::now() + SHIM_BOUND);
                    }
                },
                () = bound => {
                    self.signal(Signal::SIGKILL);
                    stuck = None;
                }
            }
        };
        let status = status.unwrap_or_else(|_| ExitStatus::from_raw(Signal::SIGKILL as i32));
        match status.code() {
            Some(code) => code,
            None => {
                // The shim itself was killed, so nobody cleaned up below it.
                sweep(self.mark).await;
                128_i32.saturating_add(status.signal().unwrap_or(0))
            }
        }
    }

    fn signal(&self, what: Signal) {
        // Not reaped yet, so the id cannot be another's.
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = kill(Pid::from_raw(pid), what);
        }
    }
}

/// The value of [`SANDBOX`]: ends in a slash, so that no mark is another's prefix.
fn mark(sandbox: &Path) -> OsString {
    let mut mark = sandbox.as_os_str().to_owned();
    mark.push("/");
    mark
}

/// Kills every process below `dir`, a folder of sandboxes.
pub(crate) async fn sweep_below(dir: &Path) {
    sweep(mark(dir)).await;
}

async fn sweep(prefix: OsString) {
    for _ in 0..SWEEP_ROUNDS {
        let prefix = prefix.clone();
        let found = tokio::task::spawn_blocking(move || marked(SANDBOX, &prefix)).await;
        let own = getpid();
        let mut left = found.unwrap_or_default();
        left.retain(|pid| *pid != own);
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = kill(pid, Signal::SIGKILL);
        }
        sleep(Duration::from_millis(10)).await;
    }
    tracing::warn!(mark = %prefix.to_string_lossy(), "processes of a pod could not be killed");
}

/// The executable that `program` names, looked up as a shell would.
pub(crate) fn find_program(program: &str, path: &str, cwd: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let executable = |file: &PathBuf| {
        std::fs::metadata(file)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(cwd.join(program)).filter(executable);
    }
    std::env::split_paths(OsStr::new(path))
        .map(|dir| dir.join(program))
        .find(executable)
}
