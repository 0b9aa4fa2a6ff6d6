//! The two pods of an upgrade.

use super::act::put;
use crate::name;
use crate::pod::PodView;
use crate::record::{PlannedPod, Record, Upgrade};

/// What there is of them.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub source: Option<&'a PodView>,
    pub successor: Option<&'a PodView>,
}

impl<'a> Pair<'a> {
    pub(super) fn find(upgrade: &Upgrade, mine: &[&'a PodView]) -> Self {
        let source = upgrade.source.uid.as_ref();
        Self {
            source: mine.iter().copied().find(|pod| Some(&pod.uid) == source),
            successor: made(upgrade, &upgrade.successor, mine),
        }
    }
}

/// The pod that this upgrade made as planned: a name alone proves nothing.
pub(super) fn made<'a>(
    upgrade: &Upgrade,
    planned: &PlannedPod,
    mine: &[&'a PodView],
) -> Option<&'a PodView> {
    mine.iter().copied().find(|pod| {
        pod.name == planned.name
            && pod
                .upgrade_of
                .as_ref()
                .is_some_and(|of| of.operation == upgrade.operation)
    })
}

/// Somebody else's pod has the successor's name, or the successor was lost: the next generation has
/// another name.
pub(super) fn next_successor(record: &Record) -> super::Plan {
    let mut next = record.clone();
    next.generation = next.generation.saturating_add(1);
    let generation = next.generation;
    if let Some(upgrade) = &mut next.upgrade {
        upgrade.successor = PlannedPod {
            name: name::upgrade_pod(
                &record.owner,
                &record.id,
                &record.namespace,
                &upgrade.operation,
                generation,
            ),
            generation,
            uid: None,
        };
    }
    put(next)
}
