//! Breaking a cluster of tests/cluster on purpose, and mending it whatever a case has found: the verbs
//! of `fault.sh`, on the cluster whose folder `NOGOO9_TEST_NODES` names.

use anyhow::{Context as _, bail};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;

/// Longest fault or remedy; a drain waits for pods to end.
const LIMIT: Duration = Duration::from_secs(180);

/// Folder of the cluster that may be broken.
#[must_use]
pub fn folder() -> Option<OsString> {
    std::env::var_os("NOGOO9_TEST_NODES")
}

/// What befalls a node, and its remedy.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// It takes no new pods.
    Cordon,
    /// It takes no new pods, and those that it has are evicted.
    Drain,
    /// Its kubelet does not reach the API server; its pods run on.
    CutApi,
    /// It is gone, with everything on it.
    PowerCut,
}

impl Fault {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Cordon => ("cordon", "uncordon"),
            Self::Drain => ("drain", "uncordon"),
            Self::CutApi => ("cut-api", "heal-api"),
            Self::PowerCut => ("power-cut", "boot"),
        }
    }

    /// Does this to the node, then what is to be found meanwhile, then mends the node. `found` must
    /// not panic: the node would stay broken.
    ///
    /// # Errors
    /// Of fault, finding or remedy.
    pub async fn during<T>(
        self,
        node: &str,
        found: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let (fault, remedy) = self.words();
        let index = node.strip_prefix("node").context("not a node of ours")?;
        let found = match run(&[fault, index]).await {
            Ok(()) => found.await,
            Err(error) => Err(error),
        };
        let mended = run(&[remedy, index]).await;
        let found = found.with_context(|| format!("{node} after {fault}"))?;
        mended.map(|()| found)
    }
}

/// A process of the control plane.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// The API server.
    ApiServer,
    /// Its store. Data that it has confirmed is kept.
    Etcd,
}

impl Part {
    /// Kills it as nothing can prevent, does what is to be found meanwhile, and starts it again.
    /// `found` must not panic: the cluster would stay broken.
    ///
    /// # Errors
    /// Of kill, finding or start.
    pub async fn away<T>(
        self,
        found: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let name = match self {
            Self::ApiServer => "kube-apiserver",
            Self::Etcd => "etcd",
        };
        let found = match run(&["kill", name]).await {
            Ok(()) => found.await,
            Err(error) => Err(error),
        };
        let started = run(&["start"]).await;
        let found = found.with_context(|| format!("without {name}"))?;
        started.map(|()| found)
    }

    /// Kills it; it is started again at once, as a supervisor does.
    ///
    /// # Errors
    /// Of kill or start.
    pub async fn kill(self) -> anyhow::Result<()> {
        self.away(async { Ok(()) }).await
    }
}

/// Kills the process of a container as nothing can prevent. Its kubelet starts another.
///
/// # Errors
/// There is no such container on that node.
pub async fn kill_container(node: &str, id: &str) -> anyhow::Result<()> {
    let index = node.strip_prefix("node").context("not a node of ours")?;
    let id = id.strip_prefix("containerd://").context("container id")?;
    run(&["kill-container", index, id]).await
}

async fn run(words: &[&str]) -> anyhow::Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/fault.sh");
    let run = Command::new(script)
        .arg(folder().context("NOGOO9_TEST_NODES")?)
        .args(words)
        .kill_on_drop(true)
        .output();
    let what = words.join(" ");
    let output = tokio::time::timeout(LIMIT, run)
        .await
        .with_context(|| format!("{what}: not done within {LIMIT:?}"))??;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{what}: {}: {said}", output.status);
    }
    Ok(())
}
