//! The pods of each workspace, so that looking at one costs as much as its pods and not as much as
//! all of them.

use nogoo9_model::pod::PodView;
use nogoo9_watch::Change;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, PoisonError, RwLock};

/// Pods by workspace id. Clones share it; one watch writes it.
#[derive(Clone, Default)]
pub(super) struct PodIndex(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    by_workspace: HashMap<String, Vec<Arc<PodView>>>,
    /// The workspace that each pod was last seen with, by uid: its label may change.
    workspaces: HashMap<String, String>,
}

impl PodIndex {
    /// Takes in what happened to one pod.
    pub(super) fn take(&self, change: &Change<PodView>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match change {
            Change::Applied(pod) => {
                known.remove(&pod.uid);
                known
                    .workspaces
                    .insert(pod.uid.clone(), pod.workspace.clone());
                known
                    .by_workspace
                    .entry(pod.workspace.clone())
                    .or_default()
                    .push(Arc::clone(pod));
            }
            Change::Deleted(pod) => known.remove(&pod.uid),
            Change::Synced => {}
        }
    }

    /// The pods with that workspace's id.
    pub(super) fn pods(&self, workspace: &str) -> Vec<PodView> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let pods = known.by_workspace.get(workspace).into_iter().flatten();
        pods.map(|pod| PodView::clone(pod)).collect()
    }
}

impl Known {
    fn remove(&mut self, uid: &str) {
        let Some(workspace) = self.workspaces.remove(uid) else {
            return;
        };
        if let Entry::Occupied(mut pods) = self.by_workspace.entry(workspace) {
            pods.get_mut().retain(|pod| pod.uid != uid);
            if pods.get().is_empty() {
                pods.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use nogoo9_model::keys;
    use serde_json::json;

    fn pod(name: &str, uid: &str, workspace: &str) -> Arc<PodView> {
        let pod: Pod = serde_json::from_value(json!({"metadata": {
            "name": name, "namespace": "ns", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                keys::TYPE: keys::TYPE_WORKSPACE, keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER,
                keys::WORKSPACE_ID: workspace, keys::USER_SUB: "alice",
            },
        }}))
        .unwrap();
        Arc::new(PodView::from_pod(&pod).unwrap())
    }

    fn uids(index: &PodIndex, workspace: &str) -> Vec<String> {
        index
            .pods(workspace)
            .into_iter()
            .map(|pod| pod.uid)
            .collect()
    }

    #[test]
    fn it_follows_what_happens_and_keeps_nothing() {
        let index = PodIndex::default();
        for (name, uid, workspace) in [("a", "1", "dev"), ("b", "2", "dev"), ("c", "3", "other")] {
            index.take(&Change::Applied(pod(name, uid, workspace)));
        }
        index.take(&Change::Applied(pod("a", "1", "dev")));
        index.take(&Change::Synced);
        assert_eq!(uids(&index, "dev"), ["2", "1"], "changed, not doubled");
        // Its label changed.
        index.take(&Change::Applied(pod("b", "2", "other")));
        assert_eq!(uids(&index, "dev"), ["1"]);
        assert_eq!(uids(&index, "other"), ["3", "2"]);
        // A name is used again: the new one arrives before the old one goes.
        index.take(&Change::Applied(pod("a", "4", "dev")));
        index.take(&Change::Deleted(pod("a", "1", "dev")));
        assert_eq!(uids(&index, "dev"), ["4"]);
        for (name, uid, workspace) in [("a", "4", "dev"), ("b", "2", "other"), ("c", "3", "other")]
        {
            index.take(&Change::Deleted(pod(name, uid, workspace)));
        }
        let known = index.0.read().unwrap();
        assert!(known.by_workspace.is_empty() && known.workspaces.is_empty());
    }
}
