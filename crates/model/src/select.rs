//! Which pod a workspace's traffic goes to. The proxy routes by this and control deletes by it:
//! control may delete a pod only when this, on a live read, would route past it.

use crate::pod::{Phase, PodView, UpgradeState};

/// Whether requests may be sent to the pod at all.
#[must_use]
pub fn is_routable(pod: &PodView) -> bool {
    pod.ip.is_some()
        && !pod.deleting
        && pod.phase == Phase::Running
        && pod.ready.is
        && !pod.gated
        && !matches!(pod.state, UpgradeState::Aborted | UpgradeState::Quiesced)
}

/// The pod that new requests go to: the routable one greatest by generation, creation and uid.
#[must_use]
pub fn active<'a>(pods: impl IntoIterator<Item = &'a PodView>) -> Option<&'a PodView> {
    pods.into_iter()
        .filter(|pod| is_routable(pod))
        .max_by_key(|pod| order(pod))
}

/// The newest pod that has not ended; where none is routable it names the workspace's status.
#[must_use]
pub fn newest_live<'a>(pods: impl IntoIterator<Item = &'a PodView>) -> Option<&'a PodView> {
    pods.into_iter()
        .filter(|pod| pod.is_live())
        .max_by_key(|pod| order(pod))
}

/// Order of succession: greater replaces smaller.
#[must_use]
pub fn order(pod: &PodView) -> (u32, i64, &str) {
    (pod.generation, pod.created, &pod.uid)
}

/// Pods of one id, parted into those of the workspace that holds the id and the rest.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Claimants<'a> {
    /// Pods of the holder; empty where two claims are equally old.
    pub holder: Vec<&'a PodView>,
    /// Pods that claim the same id with another namespace or owner: never routed to.
    pub ignored: Vec<&'a PodView>,
}

/// Parts the pods of one id. Pods that differ in namespace or owner are never one workspace: the
/// claim with the earliest `since` keeps the id, and of two that are equal neither does.
#[must_use]
pub fn claimants<'a>(pods: impl IntoIterator<Item = &'a PodView>) -> Claimants<'a> {
    let pods: Vec<&PodView> = pods.into_iter().collect();
    let same = |a: &PodView, b: &PodView| a.namespace == b.namespace && a.owner == b.owner;
    let Some(first) = pods.first().copied() else {
        return Claimants::default();
    };
    if pods.iter().all(|pod| same(first, pod)) {
        return Claimants {
            holder: pods,
            ignored: Vec::new(),
        };
    }
    let oldest = pods.iter().map(|pod| pod.since).min();
    let mut oldest_pods = pods.iter().copied().filter(|pod| Some(pod.since) == oldest);
    let winner = oldest_pods
        .next()
        .filter(|winner| oldest_pods.all(|pod| same(winner, pod)));
    let (holder, ignored) = pods
        .into_iter()
        .partition(|pod| winner.is_some_and(|winner| same(winner, pod)));
    Claimants { holder, ignored }
}

#[cfg(test)]
pub(crate) mod tests;
