//! Pods whose containers are not even created yet and that say nothing of why. A kubelet that looks
//! for a Secret or ConfigMap in vain tells so by Events alone, and would try for ever.

use crate::cluster::Cluster;
use nogoo9_model::pod::{Phase, PodView};
use nogoo9_model::probe::{Finding, Probe};
use nogoo9_model::record::Record;

/// A pod that has said nothing for so long is looked at more closely, in seconds, and then as often.
const SILENT: i64 = 5;

/// Puts what kubelets say of volumes of an upgrade's new pods into their views. The answer tells
/// when to look again.
pub(super) async fn look(cluster: &Cluster, record: &Record, pods: &mut [PodView]) -> Option<i64> {
    let source = record.upgrade.as_ref()?.source.uid.as_deref();
    let now = cluster.now();
    let mut again: Option<i64> = None;
    let new = pods
        .iter_mut()
        .filter(|pod| record.holds(pod) && Some(pod.uid.as_str()) != source);
    for pod in new.filter(|pod| is_silent(pod)) {
        let due = pod.created.saturating_add(SILENT);
        if now < due {
            again = Some(again.map_or(due, |at| at.min(due)));
            continue;
        }
        match cluster.mount_failure(&pod.uid).await {
            Ok(trouble) => pod.trouble = trouble,
            // Its deadline still counts.
            Err(error) => tracing::debug!(pod = pod.name, %error, "Events of a pod cannot be read"),
        }
        if pod.trouble.is_none() {
            let next = now.saturating_add(SILENT);
            again = Some(again.map_or(next, |at| at.min(next)));
        }
    }
    again
}

/// The same for probes, which live for seconds only.
pub(super) async fn look_at_probes(cluster: &Cluster, probes: &mut [Probe]) -> Option<i64> {
    let mut again = None;
    for probe in probes.iter_mut() {
        if probe.deleting || probe.finding != Finding::Nothing(None) {
            continue;
        }
        match cluster.mount_failure(&probe.uid).await {
            Ok(Some(trouble)) => probe.complain(trouble),
            Ok(None) => again = Some(cluster.now().saturating_add(SILENT)),
            Err(error) => {
                tracing::debug!(pod = probe.name, %error, "Events of a pod cannot be read");
                again = Some(cluster.now().saturating_add(SILENT));
            }
        }
    }
    again
}

/// Whether a kubelet has it and its status tells nothing.
fn is_silent(pod: &PodView) -> bool {
    pod.node.is_some()
        && pod.phase == Phase::Pending
        && pod.trouble.is_none()
        && !pod.gated
        && !pod.deleting
}
