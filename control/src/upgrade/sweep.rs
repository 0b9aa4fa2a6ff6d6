//! Forgetting operations that ended long ago.

use crate::cluster::{Cluster, Stored};
use nogoo9_model::operation::Operation;
use std::sync::Arc;

/// How long an ended operation can be read, in seconds: 30 days.
const KEEP: i64 = 30 * 24 * 3600;
/// How many ended operations are kept; the oldest go first.
const MOST: usize = 5000;
/// Deletions of one sweep.
const CAP: usize = 50;

/// Deletes the operations that are due.
pub(super) async fn operations(cluster: &Cluster, stored: Vec<Arc<Stored<Operation>>>) {
    for operation in due(stored, cluster.now()) {
        if let Err(error) = cluster.delete_operation(&operation).await {
            tracing::warn!(operation = operation.value.id, %error, "an old operation could not be deleted");
            return;
        }
    }
}

fn due(mut stored: Vec<Arc<Stored<Operation>>>, now: i64) -> Vec<Arc<Stored<Operation>>> {
    stored.retain(|operation| operation.value.finished_at.is_some());
    stored.sort_by_key(|operation| operation.value.finished_at);
    let surplus = stored.len().saturating_sub(MOST);
    stored
        .into_iter()
        .enumerate()
        .filter(|(i, operation)| {
            *i < surplus
                || operation
                    .value
                    .finished_at
                    .is_some_and(|at| at + KEEP <= now)
        })
        .map(|(_, operation)| operation)
        .take(CAP)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nogoo9_model::operation::{Kind, State};

    fn operation(id: usize, finished_at: Option<i64>) -> Arc<Stored<Operation>> {
        let value = Operation {
            id: format!("op-{id}"),
            kind: Kind::Upgrade,
            actor: "alice".into(),
            state: if finished_at.is_some() {
                State::Succeeded
            } else {
                State::Running
            },
            started_at: 0,
            finished_at,
            targets: Vec::new(),
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
        let flood = (0..MOST + 200).map(|i| operation(i, Some(0))).collect();
        assert_eq!(due(flood, 60).len(), CAP, "a cap a sweep");
    }
}
