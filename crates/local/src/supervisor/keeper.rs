//! Keeps one child running: starts it, collects its output, starts it again when it dies,
//! stops it when told.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::ExitStatus,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    process::{Child, Command},
    sync::watch,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    UpError,
    backoff::Backoff,
    logs::{MAX_LINE, Sink},
    spawner::Spawner,
};

/// Variables of ours that a user's shell may hold: flags alone decide here.
const OUR_VARIABLES: &str = "NOGOO9_";
/// How long a child's last output is awaited after its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How to start a child. The command line is the same each time.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) name: &'static str,
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    /// How long it may take to end after SIGTERM.
    pub(super) grace: Duration,
}

impl Launch {
    /// The program itself with its flags, for a person to run.
    pub(super) fn unguarded(&self) -> Vec<String> {
        let words = self.args.iter().map(|word| word.to_string_lossy());
        let program = words.skip_while(|word| word != "--").skip(1);
        program.map(std::borrow::Cow::into_owned).collect()
    }
}

/// What is known of a child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// Process id; `None` while it is down.
    pub(super) pid: Option<u32>,
    /// How often it ended without being told to.
    pub(super) deaths: u32,
    /// How it ended the last time.
    pub(super) last_end: Option<String>,
    /// It ended with the exit code of a wrong configuration, which no retry mends.
    pub(super) misconfigured: bool,
}

/// A kept child.
pub(super) struct Keeper {
    pub(super) name: &'static str,
    pub(super) status: watch::Receiver<Status>,
    pub(super) sink: Sink,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Starts it. `force` ends it without grace.
    ///
    /// # Errors
    /// The first fork fails.
    pub(super) async fn start(
        launch: Launch,
        sink: Sink,
        spawner: Spawner,
        force: CancellationToken,
    ) -> Result<Self, UpError> {
        let name = launch.name;
        let (status_tx, status) = watch::channel(Status::default());
        let stop = CancellationToken::new();
        let first = spawner
            .spawn(command(&launch))
            .await
            .map_err(|source| UpError::Spawn { name, source })?;
        let keep = Keep {
            launch,
            sink: sink.clone(),
            spawner,
            status: status_tx,
            stop: stop.clone(),
            force,
        };
        Ok(Self {
            name,
            status,
            sink,
            stop,
            task: tokio::spawn(keep.run(first)),
        })
    }

    /// Asks it to end, waits for its grace, kills it if need be.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(part = self.name, %error, "keeper failed");
        }
    }
}

struct Keep {
    launch: Launch,
    sink: Sink,
    spawner: Spawner,
    status: watch::Sender<Status>,
    stop: CancellationToken,
    force: CancellationToken,
}

impl Keep {
    async fn run(self, first: Child) {
        let name = self.launch.name;
        let mut backoff = Backoff::default();
        let mut next = Some(first);
        loop {
            let started = Instant::now();
            let end = match next.take() {
                Some(child) => match self.attend(child).await {
                    Some(end) => end,
                    None => return,
                },
                None => match self.spawner.spawn(command(&self.launch)).await {
                    Ok(child) => {
                        next = Some(child);
                        continue;
                    }
                    Err(error) => End {
                        text: format!("cannot be started: {error}"),
                        misconfigured: false,
                    },
                },
            };
            let wait = backoff.next(started.elapsed());
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(part = name, reason = %end.text, wait_ms, "part ended; starting it again");
            self.status.send_modify(|status| {
                status.pid = None;
                status.deaths = status.deaths.saturating_add(1);
                status.misconfigured = end.misconfigured;
                status.last_end = Some(end.text);
            });
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// Follows a running child to its end; `None` if it was told to end.
    async fn attend(&self, mut child: Child) -> Option<End> {
        let pid = child.id();
        self.status.send_modify(|status| status.pid = pid);
        let output = [
            child.stdout.take().map(|out| self.collect(out)),
            child.stderr.take().map(|out| self.collect(out)),
        ];
        let told = tokio::select! {
            biased;
            () = self.stop.cancelled() => true,
            _ = child.wait() => false,
        };
        if told {
            self.end(&mut child, pid).await;
        }
        let status = child.wait().await;
        // What it said last is often why it ended. A process that inherited its pipes may
        // keep them open, hence the bound.
        for task in output.into_iter().flatten() {
            let abort = task.abort_handle();
            if tokio::time::timeout(LAST_WORDS, task).await.is_err() {
                abort.abort();
            }
        }
        if told {
            self.status.send_modify(|status| status.pid = None);
            return None;
        }
        Some(match status {
            Ok(status) => End {
                text: describe(status),
                misconfigured: status.code() == Some(2),
            },
            Err(error) => End {
                text: format!("cannot be waited for: {error}"),
                misconfigured: false,
            },
        })
    }

    async fn end(&self, child: &mut Child, pid: Option<u32>) {
        let pid = pid.and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid {
            // ESRCH: it ended by itself meanwhile, and `wait` will tell.
            let _gone = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let ended = tokio::select! {
            _ = child.wait() => true,
            () = tokio::time::sleep(self.launch.grace) => false,
            () = self.force.cancelled() => false,
        };
        if !ended {
            tracing::warn!(part = self.launch.name, "part does not end; killing it");
            if let Err(error) = child.kill().await {
                tracing::error!(part = self.launch.name, %error, "part cannot be killed");
            }
        }
    }

    fn collect(&self, output: impl AsyncRead + Unpin + Send + 'static) -> JoinHandle<()> {
        let sink = self.sink.clone();
        tokio::spawn(async move {
            let mut reader = BufReader::new(output);
            let mut line = Vec::new();
            loop {
                line.clear();
                let bound = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
                match (&mut reader).take(bound).read_until(b'\n', &mut line).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => sink.line(String::from_utf8_lossy(&line).trim_end()),
                }
            }
        })
    }
}

struct End {
    text: String,
    misconfigured: bool,
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => match Signal::try_from(signal) {
            Ok(signal) => format!("killed by {}", signal.as_str()),
            Err(_) => format!("killed by signal {signal}"),
        },
        (None, None) => "ended".to_owned(),
    }
}

fn command(launch: &Launch) -> Command {
    let mut command = Command::new(&launch.program);
    command.args(&launch.args);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with(OUR_VARIABLES) {
            command.env_remove(name);
        }
    }
    // The children are told which cluster to use.
    command.env_remove("KUBECONFIG");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Kept {
        keeper: Keeper,
        force: CancellationToken,
        _dir: tempfile::TempDir,
    }

    async fn keep(script: &str, grace: Duration) -> Kept {
        let dir = tempfile::tempdir().unwrap();
        let log = super::super::logs::LogFile::open(&dir.path().join("a.log")).unwrap();
        let launch = Launch {
            name: "test",
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            grace,
        };
        let force = CancellationToken::new();
        let spawner = Spawner::start().unwrap();
        let sink = Sink::new("test", log);
        let keeper = Keeper::start(launch, sink, spawner, force.clone()).await;
        Kept {
            keeper: keeper.unwrap(),
            force,
            _dir: dir,
        }
    }

    /// Waits, within a bound, until the status is as wanted.
    async fn until(kept: &mut Kept, wanted: impl FnMut(&Status) -> bool) -> Status {
        let found = kept.keeper.status.wait_for(wanted);
        let found = tokio::time::timeout(Duration::from_secs(60), found).await;
        found.unwrap().unwrap().clone()
    }

    async fn until_said(kept: &Kept, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !kept.keeper.sink.tail().contains(text) {
            assert!(Instant::now() < deadline, "never said {text}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn alive(pid: u32) -> bool {
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), None).is_ok()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_killed_child_is_started_again() {
        let mut kept = keep("echo up; exec sleep 60", Duration::from_secs(5)).await;
        let first = until(&mut kept, |s| s.pid.is_some()).await.pid.unwrap();
        kill(
            Pid::from_raw(i32::try_from(first).unwrap()),
            Signal::SIGKILL,
        )
        .unwrap();
        let again = until(&mut kept, |s| s.deaths == 1 && s.pid.is_some()).await;
        assert_eq!(again.last_end.as_deref(), Some("killed by SIGKILL"));
        let second = again.pid.unwrap();
        assert_ne!(first, second);
        kept.keeper.stop().await;
        assert!(!alive(first) && !alive(second));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn how_a_child_ends_is_told_with_its_last_words() {
        let mut kept = keep("echo bad flag >&2; exit 2", Duration::from_secs(5)).await;
        let status = until(&mut kept, |s| s.deaths >= 2).await;
        assert_eq!(status.last_end.as_deref(), Some("exit code 2"));
        assert!(status.misconfigured);
        assert!(kept.keeper.sink.tail().contains("  | bad flag\n"));
        kept.keeper.stop().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn stopping_is_gentle_first() {
        let script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done";
        let mut kept = keep(script, Duration::from_secs(20)).await;
        let pid = until(&mut kept, |s| s.pid.is_some()).await.pid.unwrap();
        until_said(&kept, "up").await;
        let sink = kept.keeper.sink.clone();
        kept.keeper.stop().await;
        assert!(sink.tail().ends_with("  | bye\n"), "{}", sink.tail());
        assert!(!alive(pid));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_child_that_will_not_end_is_killed() {
        for forced in [false, true] {
            let grace = if forced { 3600 } else { 0 };
            let script = "trap '' TERM; echo up; while :; do sleep 0.05; done";
            let mut kept = keep(script, Duration::from_secs(grace)).await;
            let pid = until(&mut kept, |s| s.pid.is_some()).await.pid.unwrap();
            until_said(&kept, "up").await;
            if forced {
                kept.force.cancel();
            }
            kept.keeper.stop().await;
            assert!(!alive(pid), "forced: {forced}");
        }
    }
}
