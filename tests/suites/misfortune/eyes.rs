//! Everything that can be seen of one workspace while a case acts on it: its pods, the answers that
//! its owner gets, and whether anybody still knows of it.

use super::watch::{History, Pods, Visits};
use anyhow::bail;
use kube::ResourceExt as _;
use nogoo9_model::keys;
use nogoo9_tests::Target;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often it is asked for pods and record.
const LOOK: Duration = Duration::from_millis(200);

/// Eyes on a workspace.
pub(super) struct Eyes {
    owner: String,
    pods: Pods,
    visits: Option<Visits>,
    stop: watch::Sender<bool>,
    vigil: JoinHandle<anyhow::Result<u32>>,
}

/// What they saw.
pub(super) struct Seen {
    /// Each state of its pods.
    pub(super) pods: History,
    /// Version and pod of each answer.
    pub(super) answers: Vec<(String, String)>,
}

impl Eyes {
    /// On the workspace from now on, with its owner asking for its page all along.
    pub(super) async fn on(target: &Target, owner: &str, id: &str) -> anyhow::Result<Self> {
        let mut eyes = Self::closed_to_visitors(target, owner, id).await?;
        eyes.visits = Some(Visits::by(target, owner, id).await?);
        Ok(eyes)
    }

    /// On the workspace from now on, where nobody asks for its page: nobody can be served for longer
    /// than requests are held.
    pub(super) async fn closed_to_visitors(
        target: &Target,
        owner: &str,
        id: &str,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        Ok(Self {
            owner: owner.to_owned(),
            pods: Pods::of(target, id).await?,
            visits: None,
            stop,
            vigil: tokio::spawn(vigil(target.cluster().clone(), id.to_owned(), stopped)),
        })
    }

    /// Closes them. Whatever the case was about: no request failed, the workspace was never without
    /// both pod and record, no two pods had its claim, and every pod was its owner's.
    pub(super) async fn close(self) -> anyhow::Result<Seen> {
        let answers = match self.visits {
            Some(visits) => visits.end().await?,
            None => Vec::new(),
        };
        // It may have ended already; then it says why.
        let _ended = self.stop.send(true);
        let looks = self.vigil.await??;
        assert!(looks > 0, "nobody looked");
        let pods = self.pods.end().await?;
        pods.never_two_with_the_claim();
        for pod in pods.states().iter().flat_map(|state| state.values()) {
            let owner = pod.annotations().get(keys::USER_SUB);
            assert_eq!(owner, Some(&self.owner), "{}", pod.name_any());
        }
        Ok(Seen { pods, answers })
    }
}

impl Seen {
    /// Asserts that nothing happened to that pod: it stayed, it took requests all along, and it alone
    /// answered.
    pub(super) fn untouched(&self, pod: &str) {
        assert!(self.pods.kept(pod), "{pod} was deleted");
        for state in self.pods.states() {
            let label = state
                .get(pod)
                .and_then(|pod| pod.labels().get(keys::UPGRADE_STATE));
            assert!(
                label.is_none_or(|state| state == "committed"),
                "{pod} was {label:?}"
            );
        }
        let others: Vec<_> = self.answers.iter().filter(|(_, by)| by != pod).collect();
        assert!(others.is_empty(), "answers of {others:?}");
        assert!(!self.answers.is_empty(), "nobody asked");
    }

    /// Versions that answered, in order, without repeats.
    pub(super) fn versions(&self) -> Vec<&str> {
        let versions = self.answers.iter().map(|(version, _)| version.as_str());
        let mut versions: Vec<&str> = versions.collect();
        versions.dedup();
        versions
    }
}

/// Looks again and again; returns how often.
async fn vigil(
    cluster: nogoo9_tests::Cluster,
    id: String,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<u32> {
    let mut looks = 0_u32;
    loop {
        // In this order: a record is made before its pod, and a pod goes before its record.
        let pods = cluster.pod_names(&id).await?;
        if pods.is_empty() && cluster.record(&id).await?.is_none() {
            bail!("{id} has neither pod nor record, after {looks} looks");
        }
        looks = looks.saturating_add(1);
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = stopped.changed() => return Ok(looks),
        }
    }
}
