//! Pods without a record get one. The decision is the model's; this reads and writes for it.

use super::pass::Next;
use crate::cluster::{Cluster, ClusterError};
use nogoo9_model::adopt::{Adoption, Found, adopt};
use nogoo9_model::keys;
use nogoo9_model::mode::Claim;
use nogoo9_model::upgrade::story::adopted;
use std::collections::{BTreeMap, BTreeSet};

/// What became of a look at an id without a record.
pub(super) enum Adopted {
    /// Something was written: look again.
    Wrote,
    /// There was nothing to write.
    Looked(Next),
}

/// Looks at the pods of an id that has no record.
///
/// # Errors
/// The first call that failed. `Exists` means that a record has appeared: the next look finds it.
pub(super) async fn run(cluster: &Cluster, id: &str) -> Result<Adopted, ClusterError> {
    // A probe is of use to an upgrade only, and upgrades are in records.
    for probe in cluster.made(id).await?.probes {
        if !probe.deleting {
            let (name, version) = (&probe.name, &probe.resource_version);
            cluster.delete_pod(name, &probe.uid, version).await?;
        }
    }
    let found = cluster.found_pods(id).await?;
    if found.is_empty() {
        return Ok(Adopted::Looked(Next::OnEvent));
    }
    let claims = claims(cluster, &found).await;
    let claim = |name: &str| claims.get(name).copied().unwrap_or(Claim::Unreadable);
    match adopt(&found, claim, cluster.now()) {
        Adoption::Adopt(record) => {
            cluster.create_record(&record).await?;
            cluster.tell(adopted(&record));
            tracing::info!(
                workspace = id,
                owner = record.owner,
                pod = record.pod.name,
                "workspace adopted"
            );
            Ok(Adopted::Wrote)
        }
        Adoption::Mark {
            name,
            uid,
            resource_version,
            why,
        } => {
            let error = [(keys::LAST_UPGRADE_ERROR, why.to_string())];
            cluster
                .patch_pod(&name, &uid, &resource_version, &[], &error)
                .await?;
            tracing::warn!(
                workspace = id,
                pod = name,
                reason = why.reason,
                "upgrade of another spawner failed"
            );
            Ok(Adopted::Wrote)
        }
        Adoption::Wait { until } => Ok(Adopted::Looked(Next::At(until))),
        Adoption::Leave => {
            tracing::debug!(workspace = id, pods = found.len(), "pods left alone");
            Ok(Adopted::Looked(Next::OnEvent))
        }
    }
}

/// What the claims can do that the pods mount.
async fn claims(cluster: &Cluster, found: &[Found]) -> BTreeMap<String, Claim> {
    let mut claims = BTreeMap::new();
    for name in mounted(found) {
        let claim = cluster.claim(&name, None).await;
        claims.insert(name, claim);
    }
    claims
}

fn mounted(found: &[Found]) -> BTreeSet<String> {
    let specs = found.iter().filter_map(|found| found.pod.spec.as_ref());
    let volumes = specs.flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims.map(|source| source.claim_name.clone()).collect()
}
