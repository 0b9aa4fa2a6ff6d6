//! Breaking nodes, and mending them whatever a case has found.

use anyhow::{Context as _, bail};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;

/// Longest fault or remedy; a drain waits for pods to end.
const LIMIT: Duration = Duration::from_secs(180);

/// Folder of the cluster whose nodes may be broken.
pub(super) fn folder() -> Option<OsString> {
    std::env::var_os("NOGOO9_TEST_NODES")
}

/// A fault and its remedy, in the words of tests/cluster/fault.sh.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
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
    pub(super) async fn during<T>(
        self,
        node: &str,
        found: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let (fault, remedy) = self.words();
        let found = match run(fault, node).await {
            Ok(()) => found.await,
            Err(error) => Err(error),
        };
        let mended = run(remedy, node).await;
        let found = found.with_context(|| format!("{node} after {fault}"))?;
        mended.map(|()| found)
    }
}

async fn run(verb: &str, node: &str) -> anyhow::Result<()> {
    let index = node.strip_prefix("node").context("not a node of ours")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/fault.sh");
    let run = Command::new(script)
        .arg(folder().context("NOGOO9_TEST_NODES")?)
        .args([verb, index])
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(LIMIT, run)
        .await
        .with_context(|| format!("{verb} {node}"))??;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{verb} {node}: {}: {said}", output.status);
    }
    Ok(())
}
