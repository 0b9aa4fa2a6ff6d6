//! Everything that happens to a workspace while a case acts: each state of its pods, and each answer
//! that its owner gets.

use crate::cluster::selector;
use crate::proxies;
use crate::stage::text;
use crate::{Edge, Target};
use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use nogoo9_model::keys;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Longest watch, in seconds, before it is taken up again; the API server's own limit is five minutes
/// and more.
const WATCH: u32 = 290;
/// From an answer to the next request: some of them keep a small machine from everything else.
const PACE: Duration = Duration::from_millis(15);

/// The pods by name, after each event.
type States = Vec<BTreeMap<String, Pod>>;

/// A watch on pods.
#[derive(Debug)]
pub struct Pods {
    stop: watch::Sender<bool>,
    task: JoinHandle<anyhow::Result<States>>,
}

impl Pods {
    /// Watches those of one workspace from now on.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn of(target: &Target, id: &str) -> anyhow::Result<Self> {
        Self::selected(target, selector(id)).await
    }

    /// Watches those of all workspaces from now on.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn of_all(target: &Target) -> anyhow::Result<Self> {
        Self::selected(target, keys::pods_selector()).await
    }

    async fn selected(target: &Target, selector: String) -> anyhow::Result<Self> {
        let api = target.cluster().pods_api();
        let list = api.list(&ListParams::default().labels(&selector)).await?;
        let mut from = list.metadata.resource_version.unwrap_or_default();
        let now = list.items.into_iter().map(|pod| (pod.name_any(), pod));
        let mut states = vec![now.collect::<BTreeMap<_, _>>()];
        let params = WatchParams::default().labels(&selector).timeout(WATCH);
        let mut events = api.watch(&params, &from).await?.boxed();
        let (stop, mut stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    event = events.next() => event,
                    _ = stopped.changed() => return Ok(states),
                };
                let Some(event) = event else {
                    events = api.watch(&params, &from).await?.boxed();
                    continue;
                };
                let mut state = states.last().cloned().unwrap_or_default();
                match event? {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                        from = pod.resource_version().unwrap_or_default();
                        state.insert(pod.name_any(), pod);
                    }
                    WatchEvent::Deleted(pod) => {
                        from = pod.resource_version().unwrap_or_default();
                        state.remove(&pod.name_any());
                    }
                    WatchEvent::Bookmark(bookmark) => {
                        from = bookmark.metadata.resource_version;
                        continue;
                    }
                    WatchEvent::Error(error) => bail!("the watch failed: {error:?}"),
                }
                states.push(state);
            }
        });
        Ok(Self { stop, task })
    }

    /// Ends the watch; returns what it saw, in order.
    ///
    /// # Errors
    /// The watch broke off.
    pub async fn end(self) -> anyhow::Result<History> {
        // The task may have failed already; then it says why.
        let _ended = self.stop.send(true);
        self.task.await?.map(History)
    }
}

/// Every state that the pods were in.
#[derive(Debug)]
pub struct History(States);

impl History {
    /// Asserts that at no time two pods were on a node with a claim: one that waits behind a gate, or
    /// for a node, holds nothing.
    pub fn never_two_with_the_claim(&self) {
        for state in &self.0 {
            let with_it: Vec<&String> = state
                .iter()
                .filter(|(_, pod)| is_bound(pod) && mounts_a_claim(pod))
                .map(|(name, _)| name)
                .collect();
            assert!(with_it.len() <= 1, "the claim is held by {with_it:?}");
        }
    }

    /// Whether a pod ever waited behind the gate beside this one.
    #[must_use]
    pub fn gated_beside(&self, old: &str) -> bool {
        self.0.iter().any(|state| {
            let gated = state
                .iter()
                .filter(|(name, pod)| *name != old && is_gated(pod));
            state.contains_key(old) && gated.count() > 0
        })
    }

    /// Names of all pods that there ever were.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.iter().flat_map(BTreeMap::keys).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// How many successors there were at most that had not taken over yet.
    #[must_use]
    pub fn most_candidates(&self) -> usize {
        let candidate = |pod: &&Pod| {
            let state = pod.labels().get(keys::UPGRADE_STATE);
            state.is_some_and(|state| state == "candidate") && !is_ready(pod)
        };
        let counts = self.0.iter();
        let counts = counts.map(|state| state.values().filter(candidate).count());
        counts.max().unwrap_or_default()
    }

    /// The pods by name, after each event.
    #[must_use]
    pub fn states(&self) -> &[BTreeMap<String, Pod>] {
        &self.0
    }

    /// Whether that pod, once it was there, stayed and was never told to go.
    #[must_use]
    pub fn kept(&self, name: &str) -> bool {
        let since = self.0.iter().skip_while(|state| !state.contains_key(name));
        since.into_iter().all(|state| {
            state
                .get(name)
                .is_some_and(|pod| pod.metadata.deletion_timestamp.is_none())
        })
    }
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.iter();
    let mut conditions = status.flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.is_some())
}

fn mounts_a_claim(pod: &Pod) -> bool {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .into_iter()
        .any(|volume| volume.persistent_volume_claim.is_some())
}

fn is_gated(pod: &Pod) -> bool {
    let gates = pod
        .spec
        .iter()
        .flat_map(|spec| spec.scheduling_gates.iter().flatten());
    gates.into_iter().any(|gate| gate.name == keys::GATE)
}

/// The owner, who asks for a page of the workspace again and again, each time the last was answered,
/// and of one proxy: each learns by itself what has changed, a moment before or after the others, so
/// that only the answers of one have an order.
#[derive(Debug)]
pub struct Visits {
    stop: watch::Sender<bool>,
    task: JoinHandle<anyhow::Result<Vec<(String, String)>>>,
}

impl Visits {
    /// Asks from now on; the first answer is there already.
    ///
    /// # Errors
    /// No token, or no good answer.
    pub async fn by(target: &Target, owner: &str, id: &str) -> anyhow::Result<Self> {
        let edge = through_one(target, target.edge(owner).await?, id).await?;
        let id = id.to_owned();
        let visit = async move || -> anyhow::Result<_> {
            let info = edge.get(&id, "/info").await?.json().context(id.clone())?;
            Ok((text(&info["version"]), text(&info["pod"])))
        };
        let mut seen = vec![visit().await?];
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            loop {
                let is_last = *stopped.borrow();
                let answer = visit().await;
                seen.push(answer.with_context(|| format!("after {} good answers", seen.len()))?);
                if is_last {
                    return Ok(seen);
                }
                sleep(PACE).await;
            }
        });
        Ok(Self { stop, task })
    }

    /// Asks once more and ends; returns version and pod of each answer, in order.
    ///
    /// # Errors
    /// Any request failed.
    pub async fn end(self) -> anyhow::Result<Vec<(String, String)>> {
        let _ended = self.stop.send(true);
        self.task.await?
    }
}

/// The edge by way of one of its proxies; not everybody's is the same.
async fn through_one(target: &Target, edge: Edge, id: &str) -> anyhow::Result<Edge> {
    if !target.is_real() {
        return Ok(edge);
    }
    let mut proxies = proxies::running(target, "proxy").await?;
    proxies.retain(|proxy| proxy.ready);
    let one = id.len().checked_rem(proxies.len()).unwrap_or_default();
    let one = proxies.get(one).context("no proxy is ready")?;
    Ok(edge.through(one.address()?))
}

/// Asserts that answers came from the one, then from the other, and never from the one again.
pub fn from_then_to(answers: &[(String, String)], from: &str, to: &str) {
    let turn = answers
        .iter()
        .take_while(|(version, _)| version == from)
        .count();
    let (before, after) = answers.split_at(turn);
    assert!(
        !before.is_empty() && !after.is_empty(),
        "{} answers of {from}, {} after",
        before.len(),
        after.len()
    );
    let strays: Vec<_> = after.iter().filter(|(version, _)| version != to).collect();
    assert!(strays.is_empty(), "after {to} came {strays:?}");
}
