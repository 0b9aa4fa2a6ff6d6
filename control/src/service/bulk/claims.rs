//! What other bulks are about already: a workspace is upgraded by one at a time, and whoever asks for
//! what is under way gets the same operation.

use super::super::types::{UpgradeAll, UpgradeAllStatus};
use super::super::{Answer, Parts};
use super::{CALLS, MOST_PODS, Plan};
use crate::cluster::Stored;
use futures::{StreamExt, TryStreamExt, stream};
use nogoo9_model::bulk::{self, Chunk, TargetState};
use nogoo9_model::operation::Operation;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Workspaces that bulks under way are about to upgrade, or are upgrading.
pub(super) type Claims = BTreeMap<String, Claim>;

pub(super) struct Claim {
    bulk: String,
    pod: Option<String>,
}

impl Plan {
    /// Leaves to other bulks what they are upgrading or about to, and returns which those are.
    pub(super) fn leave_to<'a>(&mut self, others: &'a Claims) -> BTreeSet<&'a String> {
        let mut by = BTreeSet::new();
        for (target, stored) in &mut self.targets {
            let open = target.state == TargetState::Pending || stored.value.upgrade.is_some();
            if let Some(claim) = others.get(&target.workspace).filter(|_| open) {
                by.insert(&claim.bulk);
                target.state = TargetState::Skipped;
                target.error = Some(bulk::under_way(&claim.bulk));
            }
        }
        by
    }
}

/// Bulks that have not ended.
pub(super) fn running(parts: &Parts) -> Vec<Arc<Stored<Operation>>> {
    let mut all = parts.caches.operations().list();
    all.retain(|stored| stored.value.bulk.is_some() && !stored.value.state.is_terminal());
    all
}

/// What these bulks claim. One that was cancelled claims what it still finishes.
pub(super) async fn claims(parts: &Parts, running: &[Arc<Stored<Operation>>]) -> Answer<Claims> {
    let mut claims = Claims::new();
    for stored in running {
        let Some(head) = &stored.value.bulk else {
            continue;
        };
        let id = &stored.value.id;
        let reads: Vec<_> = (0..head.chunks.len())
            .map(|index| parts.cluster.chunk(id, index))
            .collect();
        let chunks: Vec<Stored<Chunk>> = stream::iter(reads).buffered(CALLS).try_collect().await?;
        let targets = chunks.into_iter().flat_map(|chunk| chunk.value.targets);
        for (index, target) in targets.enumerate() {
            if !head.state_of(index, &target).is_terminal() {
                let claim = Claim {
                    bulk: id.clone(),
                    pod: target.pod_name,
                };
                claims.insert(target.workspace, claim);
            }
        }
    }
    Ok(claims)
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
            .take(MOST_PODS)
            .collect(),
        next,
        targets: None,
    })
}
