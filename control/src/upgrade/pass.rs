//! One pass over one workspace: writes until there is nothing to write.

use super::adopt::{self, Adopted};
use super::mounts;
use super::proxies::Reports;
use crate::cluster::{Cluster, ClusterError, CreateAnswer, Made, Stored};
use nogoo9_model::container::Trouble;
use nogoo9_model::operation::Operation;
use nogoo9_model::pod::PodView;
use nogoo9_model::probe::Probe;
use nogoo9_model::record::Record;
use nogoo9_model::upgrade::story::{capped, ignored, story, unclear};
use nogoo9_model::upgrade::{
    DeleteReason, Observed, Plan, ProxyReport, Refusal, Refused, Write, needs_proxies, plan,
    running_operation,
};
use serde_json::Value;

/// Writes of one pass; an upgrade takes about ten. What is not done then is done by the next pass,
/// after others had their turn.
const MAX_WRITES: usize = 32;

/// Everything that one decision rests on.
struct Snapshot {
    record: Stored<Record>,
    pods: Vec<PodView>,
    probes: Vec<Probe>,
    operation: Option<Stored<Operation>>,
    proxies: Vec<ProxyReport>,
    /// When to look again at pods that say nothing.
    again: Option<i64>,
    /// From when it is at least: what was ready then need not be ready any more.
    at: i64,
}

/// When to look at the workspace again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When something happens to it, or with the next sweep.
    OnEvent,
    /// At this time at the latest (API server's clock).
    At(i64),
    /// Soon: there is more to write.
    Soon,
}

/// Brings the workspace as far as it goes now. Safe to interrupt anywhere and to run beside itself.
///
/// # Errors
/// The first call that failed. The next pass observes anew, so nothing needs undoing.
pub async fn run(
    cluster: &Cluster,
    proxies: &impl Reports,
    id: &str,
) -> Result<Next, ClusterError> {
    let mut refused: Option<Refused> = None;
    cluster.deletions().forget(id);
    for _ in 0..MAX_WRITES {
        let Some(seen) = observe(cluster, proxies, id).await? else {
            match adopt::run(cluster, id).await? {
                Adopted::Looked(next) => return Ok(next),
                Adopted::Wrote => continue,
            }
        };
        let home = &seen.record.value.namespace;
        if home != cluster.workspaces() {
            // Its pods cannot be seen from here: whatever was decided would be wrong.
            tracing::warn!(
                workspace = id,
                namespace = home,
                "left alone: it lives in another namespace than --workspaces-namespace"
            );
            return Ok(Next::OnEvent);
        }
        cluster.tell(ignored(&seen.record.value, &seen.pods));
        cluster.tell(unclear(&seen.record.value, &seen.pods));
        let observed = Observed {
            record: &seen.record.value,
            pods: &seen.pods,
            probes: &seen.probes,
            proxies: &seen.proxies,
            operation: seen.operation.as_ref().map(|stored| &stored.value),
            refused: refused.as_ref(),
        };
        match plan(&observed, seen.at) {
            Plan::Done => return Ok(Next::OnEvent),
            Plan::Wait { reason, until } => {
                tracing::debug!(workspace = id, %reason, "waiting");
                let until = until.into_iter().chain(seen.again).min();
                return Ok(until.map_or(Next::OnEvent, Next::At));
            }
            Plan::Write(write) => {
                if let Some(next) = put_off(cluster, &seen, &write) {
                    return Ok(next);
                }
                refused = make(cluster, &seen, &write).await?;
                cluster.tell(story(&seen.record.value, &seen.pods, &write));
            }
        }
    }
    Ok(Next::Soon)
}

async fn observe(
    cluster: &Cluster,
    proxies: &impl Reports,
    id: &str,
) -> Result<Option<Snapshot>, ClusterError> {
    let Some(record) = cluster.record(id).await? else {
        return Ok(None);
    };
    // The record first: a pod that is made after this read was planned by a record that is newer
    // than it, and the write that this observation leads to is refused.
    let at = cluster.now();
    let Made {
        mut pods,
        mut probes,
    } = cluster.made(id).await?;
    let again = mounts::look(cluster, &record.value, &mut pods).await;
    let for_probes = mounts::look_at_probes(cluster, &mut probes).await;
    let again = again.into_iter().chain(for_probes).min();
    let operation = match record.value.operation_to_show() {
        Some(operation) => cluster.operation(operation).await?,
        None => None,
    };
    let proxies = if needs_proxies(&record.value, &pods) {
        proxies.reports(id).await
    } else {
        Vec::new()
    };
    Ok(Some(Snapshot {
        record,
        pods,
        probes,
        operation,
        proxies,
        again,
        at,
    }))
}

/// Whether this is a deletion too many for now, and when to look again then.
fn put_off(cluster: &Cluster, seen: &Snapshot, write: &Write) -> Option<Next> {
    let Write::DeletePod { uid, why, .. } = write else {
        return None;
    };
    let record = &seen.record.value;
    let pod = seen.pods.iter().find(|pod| pod.uid == *uid)?;
    // What has ended serves nobody, and the workspace's own pod waits for what it holds.
    if *why == DeleteReason::Blocking && !pod.is_live() {
        return None;
    }
    let Err(put_off) = cluster.deletions().take(&record.id, *why) else {
        return None;
    };
    tracing::warn!(
        workspace = record.id,
        pod = pod.name,
        why = why.as_str(),
        most = put_off.most,
        "more deletions than are plausible: this one waits"
    );
    cluster.tell([capped(record, pod, put_off.most)]);
    let left = i64::try_from(put_off.left.as_secs()).unwrap_or(i64::MAX);
    let until = cluster.now().saturating_add(left).saturating_add(1);
    Some(Next::At(until))
}

/// Makes one write. The answer tells whether a create was refused.
async fn make(
    cluster: &Cluster,
    seen: &Snapshot,
    write: &Write,
) -> Result<Option<Refused>, ClusterError> {
    let id = seen.record.value.id.as_str();
    match write {
        Write::CreatePod { object } => {
            let pod = object["metadata"]["name"].as_str().unwrap_or_default();
            // A pod never waits for a claim that nobody makes.
            let ready = cluster.ensure_claims(&seen.record.value, object).await?;
            let created = match ready {
                CreateAnswer::There => cluster.create_pod(object).await?,
                refused @ CreateAnswer::Refused(_) => refused,
            };
            return match created {
                CreateAnswer::There => {
                    tracing::info!(workspace = id, pod, "pod created");
                    Ok(None)
                }
                CreateAnswer::Refused(refused) => {
                    tracing::warn!(workspace = id, pod, why = ?refused.why, "pod refused");
                    Ok(Some(refused))
                }
            };
        }
        Write::CreateProbe { object, successor } => {
            return probe(cluster, id, object, successor).await;
        }
        Write::PatchPod {
            name,
            uid,
            resource_version,
            labels,
            annotations,
        } => {
            cluster
                .patch_pod(name, uid, resource_version, labels, annotations)
                .await?;
            // What a container said of its end is its owner's to read, not the log's.
            let noted: Vec<&str> = annotations.iter().map(|(key, _)| *key).collect();
            tracing::info!(workspace = id, pod = name, ?labels, ?noted, "pod marked");
        }
        Write::Release { name, uid } => {
            cluster.release_pod(name, uid).await?;
            tracing::info!(workspace = id, pod = name, "pod released");
        }
        Write::DeletePod {
            name,
            uid,
            resource_version,
            why,
        } => {
            cluster.delete_pod(name, uid, resource_version).await?;
            tracing::info!(
                workspace = id,
                pod = name,
                uid,
                why = why.as_str(),
                "pod deleted"
            );
        }
        Write::PutRecord(next) => {
            cluster.put_record(&seen.record, next).await?;
            let shown = next.upgrade.as_ref();
            let shown = shown.map(|upgrade| running_operation(next, upgrade));
            let target = shown.as_ref().and_then(|shown| shown.targets.first());
            let why = target.and_then(|target| target.error.as_ref());
            tracing::info!(
                workspace = id,
                generation = next.generation,
                phase = ?target.map(|target| target.phase),
                reason = why.map(|why| why.reason.as_str()),
                "record written"
            );
        }
        Write::DropClaims(next) => {
            // The record goes last: what is interrupted here is repeated.
            cluster.drop_unbound_claims(&seen.record, next).await?;
            cluster.put_record(&seen.record, next).await?;
        }
        Write::Bury(next) => {
            // The record goes last: what is interrupted here is repeated.
            if next.delete_data {
                cluster.delete_claims(&seen.record).await?;
            }
            cluster.put_record(&seen.record, next).await?;
            tracing::info!(
                workspace = id,
                "nothing is left of it; remembered for a while"
            );
        }
        Write::DeleteRecord => {
            // A claim that was asked for earlier may have arrived since.
            if seen.record.value.delete_data {
                cluster.delete_claims(&seen.record).await?;
            }
            cluster.delete_record(&seen.record).await?;
            tracing::info!(workspace = id, "record deleted");
        }
        Write::PutOperation(next) => {
            cluster.put_operation(seen.operation.as_ref(), next).await?;
            tracing::info!(workspace = id, operation = next.id, state = ?next.state, "operation written");
        }
    }
    Ok(None)
}

/// Asks whether the cluster would take the successor, and if so makes the probe.
async fn probe(
    cluster: &Cluster,
    id: &str,
    object: &Value,
    successor: &Value,
) -> Result<Option<Refused>, ClusterError> {
    let name = |object: &Value| {
        object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    match cluster.try_pod(successor).await {
        Ok(()) => {}
        // An admission webhook with side effects refuses every trial; that says nothing of the pod.
        Err(ClusterError::Rejected { trouble, .. }) if trouble.message.contains("dry run") => {}
        Err(ClusterError::Rejected { trouble, .. }) => {
            tracing::warn!(
                workspace = id,
                reason = trouble.reason,
                "the cluster would refuse the pod"
            );
            return Ok(Some(Refused {
                pod: name(successor),
                why: Refusal::Rejected(trouble),
            }));
        }
        Err(error @ ClusterError::Malformed { .. }) => {
            return Ok(Some(Refused {
                pod: name(successor),
                why: Refusal::Rejected(Trouble::new("Invalid", error.to_string())),
            }));
        }
        Err(error) => return Err(error),
    }
    match cluster.create_pod(object).await? {
        CreateAnswer::There => {
            tracing::info!(workspace = id, pod = name(object), "probe created");
            Ok(None)
        }
        CreateAnswer::Refused(refused) => {
            tracing::warn!(workspace = id, pod = name(object), why = ?refused.why, "probe refused");
            Ok(Some(refused))
        }
    }
}
