//! Ends: of one part, of everything at once, and in order.

use super::launch::{ready, ready_file, start};
use super::{START, Site};
use crate::{Census, Observation, Process, until};
use anyhow::{Context as _, bail};
use nix::sys::signal::Signal;
use std::time::Duration;

/// Longest orderly stop.
const STOP: Duration = Duration::from_secs(120);
/// How long after the end of `up` the last of its processes may need to go.
const GONE: Duration = Duration::from_secs(60);

impl Site {
    /// Kills a part (`apiserver`, `control`, `proxy`) as no part can prevent, and waits until the
    /// supervisor has put another in its place.
    ///
    /// # Errors
    /// No successor comes.
    pub async fn kill(&self, part: &'static str) -> anyhow::Result<()> {
        self.take_down(part).await?.back().await
    }

    /// Kills a part and keeps it from coming back: the supervisor is suspended meanwhile, and with it
    /// kubelet and identity provider, but not the pods.
    ///
    /// # Errors
    /// It does not run.
    pub async fn take_down(&self, part: &'static str) -> anyhow::Result<Down<'_>> {
        self.remember().await?;
        let up = self.process("up")?;
        let old = self.process(part)?;
        up.signal(Signal::SIGSTOP)?;
        let down = Down {
            site: self,
            up,
            part,
            old: old.pid,
        };
        old.signal(Signal::SIGKILL)?;
        until(&format!("{part} to be gone"), GONE, || async {
            Ok(Observation::when(!old.runs(), (), &old))
        })
        .await?;
        Ok(down)
    }

    /// The process of a part (`up`, `apiserver`, `control`, `proxy`), as the ready file names it now.
    ///
    /// # Errors
    /// It does not run.
    pub fn process(&self, part: &str) -> anyhow::Result<Process> {
        let pid = self.pid(part)?.and_then(Process::of);
        pid.with_context(|| format!("{part} does not run"))
    }

    /// Pid of a part; none while it is away.
    ///
    /// # Errors
    /// No ready file, or no such part.
    pub fn pid(&self, part: &str) -> anyhow::Result<Option<i32>> {
        let pids = self.read_ready()?.pids;
        Ok(match part {
            "up" => Some(pids.up),
            "apiserver" => pids.apiserver,
            "control" => pids.control,
            "proxy" => pids.proxy,
            other => bail!("no part is called {other}"),
        })
    }

    /// All processes that belong to the site now.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn census(&self) -> anyhow::Result<Census> {
        Census::take(self.pid("up")?, self.dir.path())
    }

    async fn remember(&self) -> anyhow::Result<()> {
        self.seen.lock().await.extend(self.census()?);
        Ok(())
    }

    /// Kills `nogoo9 up` itself, asserts that every process of the site goes with it, and starts it
    /// again on the same data, at the same addresses.
    ///
    /// # Errors
    /// A process is left, or it does not start again as it was.
    pub async fn kill_all_and_restart(&self) -> anyhow::Result<()> {
        let census = self.census()?;
        let mut up = self.up.lock().await;
        up.start_kill().context("kill nogoo9 up")?;
        up.wait().await.context("nogoo9 up")?;
        self.assert_gone(census).await?;
        // A killed supervisor could not remove it.
        let _stale = std::fs::remove_file(ready_file(self.dir.path()));
        let port = self
            .ready
            .url
            .port()
            .context("the public URL names no port")?;
        *up = start(self.dir.path(), &format!("127.0.0.1:{port}"), &self.options)?;
        let ready = ready(self.dir.path(), &mut up).await?;
        if (&ready.url, &ready.issuer, &ready.kubeconfig)
            != (&self.ready.url, &self.ready.issuer, &self.ready.kubeconfig)
        {
            bail!(
                "it came back elsewhere: {ready:?} instead of {:?}",
                self.ready
            );
        }
        Ok(())
    }

    /// Ends the site as Ctrl-C does.
    ///
    /// # Errors
    /// It does not end in order, or leaves a process behind.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.remember().await?;
        let census = self.seen.lock().await.clone();
        self.process("up")
            .context("nogoo9 up has ended before its time")?
            .signal(Signal::SIGTERM)?;
        let status = tokio::time::timeout(STOP, async { self.up.lock().await.wait().await })
            .await
            .with_context(|| format!("nogoo9 up did not end within {STOP:?} of SIGTERM"))??;
        if !status.success() {
            bail!("nogoo9 up ended with {status}\n{}", self.dump().await);
        }
        self.assert_gone(census).await?;
        if ready_file(self.dir.path()).exists() {
            bail!("nogoo9 up left its ready file behind");
        }
        Ok(())
    }

    async fn assert_gone(&self, before: Census) -> anyhow::Result<()> {
        until("every process of the site to end", GONE, || async {
            let mut census = Census::take(None, self.dir.path())?;
            census.extend(before.clone());
            let running = census.running();
            Ok(Observation::when(running.is_empty(), (), running))
        })
        .await
    }
}

/// A part that is down, and stays so until [`Self::back`] or the end of this value.
#[derive(Debug)]
pub struct Down<'a> {
    site: &'a Site,
    up: Process,
    part: &'static str,
    old: i32,
}

impl Down<'_> {
    /// Lets the supervisor bring the part back, and waits until it has.
    ///
    /// # Errors
    /// It does not.
    pub async fn back(self) -> anyhow::Result<()> {
        let (site, part, old) = (self.site, self.part, self.old);
        drop(self);
        until(&format!("a new {part}"), START, || async {
            let pid = site.pid(part)?;
            let back = pid.is_some_and(|pid| pid != old && Process::of(pid).is_some());
            Ok(Observation::when(back, (), pid))
        })
        .await
    }
}

impl Drop for Down<'_> {
    fn drop(&mut self) {
        // If that fails the supervisor is gone, and the scenario fails for that.
        let _resumed = self.up.signal(Signal::SIGCONT);
    }
}
