//! What other bulks are about already: a workspace is upgraded by one at a time, and whoever asks for
//! what is under way gets the same operation.

use super::super::types::{UpgradeAll, UpgradeAllStatus};
use super::super::{Answer, Parts};
use super::{CALLS, MOST_NAMED, Plan};
use crate::cluster::{ClusterError, Stored};
use futures::{StreamExt, TryStreamExt, stream};
use nogoo9_model::bulk::{Chunk, TargetState};
use nogoo9_model::operation::Operation;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Workspaces that bulks under way are about to upgrade, or are upgrading.
pub(super) type Claims = BTreeMap<String, Claim>;

pub(super) struct Claim {
    bulk: String,
    pod: Option<String>,
}

/// The bulks under way, what they claim, and what was left to them.
pub(super) struct Others {
    pub(super) running: Vec<Arc<Stored<Operation>>>,
    pub(super) claims: Claims,
    /// Those to which something was left.
    by: BTreeSet<String>,
}

impl Others {
    /// Leaves to bulks under way what they are upgrading or about to.
    pub(super) async fn leave_to(parts: &Parts, plan: &mut Plan) -> Answer<Self> {
        let running = running(parts);
        let claims = claims(parts, &running).await?;
        let mut by = BTreeSet::new();
        for (target, stored) in &mut plan.targets {
            let open = target.state == TargetState::Pending || stored.value.upgrade.is_some();
            if let Some(claim) = claims.get(&target.workspace).filter(|_| open) {
                by.insert(claim.bulk.clone());
                *target = target.clone().left_to(&claim.bulk);
            }
        }
        Ok(Self {
            running,
            claims,
            by,
        })
    }

    /// The only bulk to which something was left.
    pub(super) fn only(&self) -> Option<&Stored<Operation>> {
        let mut running = self.running.iter();
        let only = self.by.first().filter(|_| self.by.len() == 1)?;
        running
            .find(|stored| stored.value.id == *only)
            .map(AsRef::as_ref)
    }
}

/// Bulks that have not ended.
fn running(parts: &Parts) -> Vec<Arc<Stored<Operation>>> {
    let mut all = parts.caches.operations().list();
    all.retain(|stored| stored.value.bulk.is_some() && !stored.value.state.is_terminal());
    all
}

/// What these bulks claim. One that was cancelled claims what it still finishes.
async fn claims(parts: &Parts, running: &[Arc<Stored<Operation>>]) -> Answer<Claims> {
    let mut claims = Claims::new();
    for stored in running {
        let Some(head) = &stored.value.bulk else {
            continue;
        };
        let id = &stored.value.id;
        let reads: Vec<_> = (0..head.chunks.len())
            .map(|index| chunk(parts, id, index))
            .collect();
        let chunks: Vec<Option<Chunk>> = stream::iter(reads).buffered(CALLS).try_collect().await?;
        for chunk in chunks.into_iter().flatten() {
            let first = chunk.index * nogoo9_model::bulk::CHUNK;
            for (place, target) in chunk.targets.into_iter().enumerate() {
                if !head.state_of(first + place, &target).is_terminal() {
                    let claim = Claim {
                        bulk: id.clone(),
                        pod: target.pod_name,
                    };
                    claims.insert(target.workspace, claim);
                }
            }
        }
    }
    Ok(claims)
}

/// A chunk; `None`: somebody deleted or changed it, so that nobody knows what it claimed.
async fn chunk(parts: &Parts, id: &str, index: usize) -> Answer<Option<Chunk>> {
    match parts.cluster.chunk(id, index).await {
        Ok(stored) => Ok(Some(stored.value)),
        Err(ClusterError::NotFound { .. } | ClusterError::Malformed { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The answer to whoever asks for what is under way already: the same operation.
pub(super) fn under_way(operation: &Operation, claims: &Claims) -> Option<UpgradeAll> {
    let counts = operation.bulk.as_ref()?.counts;
    let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let next = format!(
        "This is under way already, asked for by {}. Call wait_for_operation with this operationId until done is true.",
        operation.actor
    );
    let pods = claims.values().filter(|claim| claim.bulk == operation.id);
    Some(UpgradeAll {
        status: UpgradeAllStatus::Upgrading,
        operation_id: Some(operation.id.clone()),
        total: count(counts.total),
        upgraded: count(counts.total - counts.skipped - counts.cancelled - counts.failed),
        failed: count(counts.failed),
        upgraded_pods: pods
            .filter_map(|claim| claim.pod.clone())
            .take(MOST_NAMED)
            .collect(),
        under_way: Vec::new(),
        next,
        targets: None,
    })
}
