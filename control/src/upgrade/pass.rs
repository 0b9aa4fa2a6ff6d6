//! One pass over one workspace: writes until there is nothing to write.

use super::adopt::{self, Adopted};
use super::proxies::Proxies;
use crate::cluster::{Cluster, ClusterError, CreateAnswer, Stored};
use nogoo9_model::operation::Operation;
use nogoo9_model::pod::PodView;
use nogoo9_model::record::Record;
use nogoo9_model::upgrade::{
    Observed, Plan, ProxyReport, Refused, Write, needs_proxies, plan, running_operation,
};

/// Writes of one pass; an upgrade takes about ten. What is not done then is done by the next pass,
/// after others had their turn.
const MAX_WRITES: usize = 32;

/// Everything that one decision rests on.
struct Snapshot {
    record: Stored<Record>,
    pods: Vec<PodView>,
    operation: Option<Stored<Operation>>,
    proxies: Vec<ProxyReport>,
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
pub async fn run(cluster: &Cluster, proxies: &Proxies, id: &str) -> Result<Next, ClusterError> {
    let mut refused: Option<Refused> = None;
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
        let observed = Observed {
            record: &seen.record.value,
            pods: &seen.pods,
            proxies: &seen.proxies,
            operation: seen.operation.as_ref().map(|stored| &stored.value),
            refused: refused.as_ref(),
        };
        match plan(&observed, cluster.now()) {
            Plan::Done => return Ok(Next::OnEvent),
            Plan::Wait { reason, until } => {
                tracing::debug!(workspace = id, %reason, "waiting");
                return Ok(until.map_or(Next::OnEvent, Next::At));
            }
            Plan::Write(write) => refused = make(cluster, &seen, &write).await?,
        }
    }
    Ok(Next::Soon)
}

async fn observe(
    cluster: &Cluster,
    proxies: &Proxies,
    id: &str,
) -> Result<Option<Snapshot>, ClusterError> {
    let Some(record) = cluster.record(id).await? else {
        return Ok(None);
    };
    // The record first: a pod that is made after this read was planned by a record that is newer
    // than it, and the write that this observation leads to is refused.
    let pods = cluster.pods(id).await?;
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
        operation,
        proxies,
    }))
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
        Write::DeleteRecord => {
            // The record goes last: as long as it is there, what was interrupted here is repeated.
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
