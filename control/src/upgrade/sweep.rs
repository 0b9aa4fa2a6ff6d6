//! Forgetting operations that ended long ago, and what bulks have left behind that never came to be.

use crate::cluster::{Cluster, ClusterError, Stored};
use nogoo9_model::operation::Operation;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// How long an ended operation can be read, in seconds: 30 days.
const KEEP: i64 = 30 * 24 * 3600;
/// How many ended operations are kept. The parts of bulks go first, since their bulk tells what
/// became of them, then the oldest.
const MOST: usize = 5000;
/// How many ended bulks are kept, which are larger than others; the oldest go first.
const MOST_BULKS: usize = 100;
/// Deletions of one sweep.
const CAP: usize = 200;
/// Chunks without a head are left alone for so long, in seconds: their bulk may be on its way.
const ON_ITS_WAY: i64 = 3600;

/// Deletes the operations that are due, and chunks that belong to none.
pub(super) async fn operations(cluster: &Cluster, stored: Vec<Arc<Stored<Operation>>>) {
    let known: HashSet<String> = stored
        .iter()
        .map(|operation| operation.value.id.clone())
        .collect();
    for operation in due(stored, cluster.now()) {
        if let Err(error) = delete(cluster, &operation).await {
            tracing::warn!(operation = operation.value.id, %error, "an old operation could not be deleted");
            return;
        }
    }
    if let Err(error) = orphans(cluster, &known).await {
        tracing::warn!(%error, "chunks without an operation could not be deleted");
    }
}

/// Chunks first: as long as the head is there, it is known that they are to go.
async fn delete(cluster: &Cluster, operation: &Stored<Operation>) -> Result<(), ClusterError> {
    let chunks = operation.value.bulk.as_ref().map(|head| head.chunks.len());
    for index in 0..chunks.unwrap_or_default() {
        cluster.delete_chunk(&operation.value.id, index).await?;
    }
    cluster.delete_operation(operation).await
}

/// Deletes the chunks of bulks whose head was never made.
async fn orphans(cluster: &Cluster, known: &HashSet<String>) -> Result<(), ClusterError> {
    let before = cluster.now().saturating_sub(ON_ITS_WAY);
    let mut orphans: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (operation, index) in cluster.old_chunks(before).await? {
        if !known.contains(&operation) {
            orphans.entry(operation).or_default().insert(index);
        }
    }
    for (operation, chunks) in orphans {
        // The watch may not know it yet.
        if cluster.operation(&operation).await?.is_some() {
            continue;
        }
        tracing::info!(
            operation,
            chunks = chunks.len(),
            "deleting what a bulk left that never began"
        );
        for index in chunks.into_iter().take(CAP) {
            cluster.delete_chunk(&operation, index).await?;
        }
    }
    Ok(())
}

fn due(stored: Vec<Arc<Stored<Operation>>>, now: i64) -> Vec<Arc<Stored<Operation>>> {
    // As long as a bulk runs, its parts are the proof of what it has begun.
    let running: HashSet<String> = stored
        .iter()
        .filter(|operation| operation.value.finished_at.is_none())
        .map(|operation| operation.value.id.clone())
        .collect();
    let mut ended: Vec<_> = stored
        .into_iter()
        .filter(|operation| {
            let parent = operation.value.parent.as_ref();
            operation.value.finished_at.is_some()
                && parent.is_none_or(|parent| !running.contains(parent))
        })
        .collect();
    ended.sort_by_key(|operation| {
        let part = operation.value.parent.is_some();
        (!part, operation.value.finished_at)
    });
    let surplus = ended.len().saturating_sub(MOST);
    let bulks = ended
        .iter()
        .filter(|operation| operation.value.bulk.is_some());
    let mut surplus_bulks = bulks.count().saturating_sub(MOST_BULKS);
    ended
        .into_iter()
        .enumerate()
        .filter(|(i, operation)| {
            let old = operation
                .value
                .finished_at
                .is_some_and(|at| at + KEEP <= now);
            let bulk = operation.value.bulk.is_some() && surplus_bulks > 0;
            surplus_bulks -= usize::from(bulk);
            *i < surplus || bulk || old
        })
        .map(|(_, operation)| operation)
        .take(CAP)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nogoo9_model::bulk::Head;
    use nogoo9_model::operation::{Kind, State};

    fn operation(id: usize, finished_at: Option<i64>) -> Arc<Stored<Operation>> {
        let value = Operation {
            id: format!("op-{id}"),
            kind: Kind::Upgrade,
            actor: "alice".into(),
            parent: None,
            retry_of: None,
            state: if finished_at.is_some() {
                State::Succeeded
            } else {
                State::Running
            },
            started_at: 0,
            finished_at,
            targets: Vec::new(),
            bulk: None,
        };
        Arc::new(Stored {
            value,
            resource_version: "1".into(),
            uid: id.to_string(),
        })
    }

    fn ids(due: &[Arc<Stored<Operation>>]) -> Vec<&str> {
        due.iter()
            .map(|operation| operation.value.id.as_str())
            .collect()
    }

    #[test]
    fn old_ones_and_those_too_many_but_never_a_running_one() {
        let stored = vec![
            operation(1, Some(100)),
            operation(2, None),
            operation(3, Some(50)),
            operation(4, Some(KEEP)),
        ];
        assert_eq!(ids(&due(stored.clone(), KEEP + 60)), ["op-3"]);
        assert!(due(stored, 60).is_empty());
        let many = (0..MOST + 2)
            .map(|i| operation(i, Some(i64::try_from(i).unwrap())))
            .collect();
        assert_eq!(ids(&due(many, 60)), ["op-0", "op-1"]);
        let bulk = |id: usize| {
            let mut bulk = Arc::unwrap_or_clone(operation(id, Some(i64::try_from(id).unwrap())));
            bulk.value.bulk = Some(Head::new(5, &[], 0));
            Arc::new(bulk)
        };
        let bulks = (0..MOST_BULKS + 1).map(bulk).collect();
        assert_eq!(ids(&due(bulks, 60)), ["op-0"]);
        let flood = (0..MOST + 200).map(|i| operation(i, Some(0))).collect();
        assert_eq!(due(flood, 60).len(), CAP, "a cap a sweep");
    }

    #[test]
    fn parts_of_a_bulk_stay_while_it_runs_and_go_first_then() {
        let part = |id: usize, parent: &str| {
            let mut part = Arc::unwrap_or_clone(operation(id, Some(0)));
            part.value.parent = Some(parent.to_owned());
            Arc::new(part)
        };
        let stored = vec![operation(1, None), part(2, "op-1"), part(3, "op-9")];
        assert_eq!(ids(&due(stored, KEEP)), ["op-3"]);
        let mut many: Vec<_> = (10..MOST + 10).map(|i| operation(i, Some(-1))).collect();
        many.push(part(2, "op-9"));
        assert_eq!(ids(&due(many, 60)), ["op-2"]);
    }
}
