//! When each workspace's pods came, were ready and went, as a watch on them tells.

use super::town::{Sort, Town, WORKSPACE_PODS, id_of, is_ready};
use anyhow::Context as _;
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// One workspace's upgrade. Moments are counted from the first look.
#[derive(Debug, Clone, Default)]
struct Seen {
    /// Pods that there were before.
    old: BTreeSet<String>,
    /// The successor is created.
    begun: Option<Duration>,
    /// The successor is ready.
    ready: Option<Duration>,
    /// The old pod is gone.
    gone: Option<Duration>,
}

type All = Arc<Mutex<BTreeMap<String, Seen>>>;

/// A running watch.
pub(super) struct Timing {
    all: All,
    sorts: BTreeMap<String, Sort>,
    watching: AbortOnDropHandle<anyhow::Result<()>>,
}

/// One workspace, as it was upgraded.
#[derive(Debug, Clone)]
pub(super) struct Upgrade {
    pub(super) id: String,
    pub(super) sort: Sort,
    /// When its successor was created, from the beginning of the bulk.
    pub(super) begun: Duration,
    /// From there until the successor was ready.
    pub(super) ready: Duration,
    /// From there until the successor was ready and the old pod was gone.
    pub(super) took: Duration,
}

impl Timing {
    /// Begins to watch, and returns once it knows what there is.
    pub(super) async fn start(town: &Town) -> anyhow::Result<Self> {
        let all = All::default();
        let (listed, mut is_listed) = watch::channel(false);
        let (pods, seen) = (town.cluster.pods_api(), Arc::clone(&all));
        let watching = tokio::spawn(async move {
            let config = watcher::Config::default().labels(WORKSPACE_PODS);
            let mut events = std::pin::pin!(watcher(pods, config).default_backoff());
            let begin = Instant::now();
            let mut first = true;
            loop {
                let event = match events.try_next().await {
                    Ok(Some(event)) => event,
                    Ok(None) => anyhow::bail!("the watch on pods ended"),
                    // It is resumed.
                    Err(_) => continue,
                };
                let mut all = seen.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    Event::Init => {}
                    Event::InitDone => {
                        first = false;
                        listed.send_replace(true);
                    }
                    Event::InitApply(pod) if first => {
                        let uid = pod.metadata.uid.clone().unwrap_or_default();
                        all.entry(id_of(&pod)).or_default().old.insert(uid);
                    }
                    Event::InitApply(pod) | Event::Apply(pod) => {
                        let known = all.entry(id_of(&pod)).or_default();
                        known.apply(&pod, begin.elapsed());
                    }
                    Event::Delete(pod) => {
                        let known = all.entry(id_of(&pod)).or_default();
                        known.delete(&pod, begin.elapsed());
                    }
                }
            }
        });
        let sorts = town.workspaces.iter();
        let timing = Self {
            all,
            sorts: sorts.map(|it| (it.id.clone(), it.sort)).collect(),
            watching: AbortOnDropHandle::new(watching),
        };
        is_listed
            .wait_for(|listed| *listed)
            .await
            .context("the watch on pods ended")?;
        Ok(timing)
    }

    /// What was seen, in the order in which upgrades began. The watch may lag: what it has not told
    /// is left out.
    pub(super) async fn end(self) -> anyhow::Result<Vec<Upgrade>> {
        if self.watching.is_finished() {
            self.watching.await.context("the watch on pods")??;
        }
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut upgrades: Vec<Upgrade> = self
            .sorts
            .iter()
            .filter_map(|(id, sort)| {
                let seen = all.get(id)?;
                let (begun, ready, gone) = (seen.begun?, seen.ready?, seen.gone?);
                Some(Upgrade {
                    id: id.clone(),
                    sort: *sort,
                    begun,
                    ready: ready.saturating_sub(begun),
                    took: ready.max(gone).saturating_sub(begun),
                })
            })
            .collect();
        upgrades.sort_by_key(|upgrade| upgrade.begun);
        Ok(upgrades)
    }
}

impl Seen {
    fn apply(&mut self, pod: &Pod, now: Duration) {
        if self.is_old(pod) {
            return;
        }
        self.begun.get_or_insert(now);
        if is_ready(pod) {
            self.ready.get_or_insert(now);
        }
    }

    fn delete(&mut self, pod: &Pod, now: Duration) {
        if self.is_old(pod) {
            self.gone.get_or_insert(now);
        }
    }

    fn is_old(&self, pod: &Pod) -> bool {
        let uid = pod.metadata.uid.as_ref();
        uid.is_some_and(|uid| self.old.contains(uid))
    }
}
