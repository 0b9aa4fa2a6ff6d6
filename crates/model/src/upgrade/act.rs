//! The writes that a plan may ask for, and the ones that several plans share.

use super::{Observed, Plan, Wait};
use crate::container::Trouble;
use crate::operation::{Operation, Phase as Shown, State, TargetResult};
use crate::pod::{PodView, UpgradeState};
use crate::record::{Desired, Finished, Phase, Previous, Record, Upgrade, set};
use crate::{UnixSeconds, keys};
use serde_json::{Value, json};

/// A pod that is still there so long after it should have ended is stuck, in seconds.
const STUCK_AFTER: i64 = 30;

/// One conditional write.
#[allow(
    clippy::large_enum_variant,
    reason = "one at a time: it is decided, made and forgotten"
)]
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Create this pod; "already exists" is success if the pod is the one that was meant.
    CreatePod {
        /// The whole object.
        object: Value,
    },
    /// Create this probe, if the API server would take the successor too.
    CreateProbe {
        /// The whole object.
        object: Box<Value>,
        /// The successor, of which only is asked.
        successor: Box<Value>,
    },
    /// Set labels and annotations, if uid and resource version still match.
    PatchPod {
        /// Name.
        name: String,
        /// Precondition.
        uid: String,
        /// Precondition.
        resource_version: String,
        /// Labels to set.
        labels: Vec<(&'static str, String)>,
        /// Annotations to set.
        annotations: Vec<(&'static str, String)>,
    },
    /// Take our scheduling gate off the pod, if the uid still matches.
    Release {
        /// Name.
        name: String,
        /// Precondition.
        uid: String,
    },
    /// Delete gracefully, if uid and resource version still match: what made it one to delete must
    /// not have changed in between.
    DeletePod {
        /// Name.
        name: String,
        /// Precondition.
        uid: String,
        /// Precondition.
        resource_version: String,
        /// Why, for logs and Events.
        why: DeleteReason,
    },
    /// Replace the record, if it is still the one that was observed.
    PutRecord(Box<Record>),
    /// Delete the claims that this record does not list as unused any more and that were never
    /// bound, then replace the record, if it is still the one that was observed.
    DropClaims(Box<Record>),
    /// Delete the workspace's claims if its record says so, then replace the record, if it is still
    /// the one that was observed.
    Bury(Box<Record>),
    /// Delete the record, if it is still the one that was observed.
    DeleteRecord,
    /// Create or replace the operation, if it is still the one that was observed.
    PutOperation(Operation),
}

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteReason {
    /// A successor has taken over and nothing is open on it.
    Superseded,
    /// It was a successor that was given up.
    Aborted,
    /// It held what the workspace's own pod needs.
    Blocking,
    /// There are more pods than there should be, and nobody uses this one.
    Duplicate,
    /// It had ended by itself and was replaced.
    Ended,
    /// It has shown that the new images can be had, or nobody asks any more.
    Probe,
    /// Its workspace is stopped.
    Stopped,
    /// Its workspace is deleted.
    Deleted,
}

impl DeleteReason {
    /// For logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Superseded => "superseded",
            Self::Aborted => "aborted",
            Self::Blocking => "blocking",
            Self::Duplicate => "duplicate",
            Self::Ended => "ended",
            Self::Probe => "probe",
            Self::Stopped => "stopped",
            Self::Deleted => "deleted",
        }
    }
}

pub(super) fn delete(pod: &PodView, why: DeleteReason) -> Plan {
    Plan::write(Write::DeletePod {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        resource_version: pod.resource_version.clone(),
        why,
    })
}

/// Moves the pod to another state of an upgrade.
pub(super) fn patch_state(pod: &PodView, state: UpgradeState) -> Plan {
    let labels = vec![(keys::UPGRADE_STATE, state.as_str().to_owned())];
    patch(pod, labels, Vec::new())
}

pub(super) fn patch(
    pod: &PodView,
    labels: Vec<(&'static str, String)>,
    annotations: Vec<(&'static str, String)>,
) -> Plan {
    Plan::write(Write::PatchPod {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        resource_version: pod.resource_version.clone(),
        labels,
        annotations,
    })
}

pub(super) fn release(pod: &PodView) -> Plan {
    Plan::write(Write::Release {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    })
}

/// When a pod that is being deleted counts as stuck.
fn stuck_from(pod: &PodView, now: UnixSeconds) -> UnixSeconds {
    pod.gone_by.unwrap_or(now).saturating_add(STUCK_AFTER)
}

/// Whether a pod that is being deleted should have ended long ago. What needs nothing of what it
/// holds does not wait for it any longer.
pub(super) fn is_stuck(pod: &PodView, now: UnixSeconds) -> bool {
    now >= stuck_from(pod, now)
}

/// Waits for a pod that is being deleted.
pub(super) fn wait_for_end(pod: &PodView, now: UnixSeconds) -> Plan {
    let due = stuck_from(pod, now);
    if now < due {
        let reason = Wait::Terminating {
            pod: pod.name.clone(),
        };
        return Plan::wait_until(reason, due);
    }
    Plan::wait(Wait::Stuck {
        pod: pod.name.clone(),
        node: pod.node.clone(),
    })
}

pub(super) fn put(record: Record) -> Plan {
    Plan::write(Write::PutRecord(Box::new(record)))
}

/// The record with its upgrade changed.
pub(super) fn put_upgrade(record: &Record, change: impl FnOnce(&mut Upgrade)) -> Plan {
    let mut next = record.clone();
    if let Some(upgrade) = &mut next.upgrade {
        change(upgrade);
    }
    put(next)
}

pub(super) fn abort(record: &Record, now: UnixSeconds, why: Trouble) -> Plan {
    put_upgrade(record, |upgrade| {
        upgrade.phase = Phase::Aborting { at: now, why }
    })
}

/// The operation as it should be stored while the upgrade is under way.
#[must_use]
pub fn running_operation(record: &Record, upgrade: &Upgrade) -> Operation {
    let (phase, error) = match &upgrade.phase {
        Phase::Probing { .. } => (Shown::Checking, None),
        Phase::Starting => (Shown::Starting, None),
        Phase::Committed { .. } => (Shown::Draining, None),
        Phase::Aborting { why, .. } => (Shown::Aborting, Some(why.clone())),
        Phase::Quiescing { .. } | Phase::Replacing | Phase::Released => (Shown::Replacing, None),
        Phase::Restoring { why, .. } => (Shown::Restoring, Some(why.clone())),
    };
    Operation {
        id: upgrade.operation.clone(),
        kind: upgrade.kind,
        actor: upgrade.actor.clone(),
        parent: upgrade.parent.clone(),
        retry_of: upgrade.retry_of.clone(),
        state: State::Running,
        started_at: upgrade.started_at,
        finished_at: None,
        targets: vec![TargetResult {
            workspace: record.id.clone(),
            owner: record.owner.clone(),
            pod_name: upgrade.successor.name.clone(),
            previous_pod_name: upgrade.source.name.clone(),
            from_version: record.template.version.clone(),
            to_version: upgrade.template.version.clone(),
            mode: upgrade.mode,
            state: State::Running,
            phase,
            error,
        }],
        bulk: None,
    }
}

/// The write that brings the stored operation up to date with the record, if one is due.
pub(super) fn show(observed: &Observed<'_>, upgrade: &Upgrade) -> Option<Plan> {
    let shown = running_operation(observed.record, upgrade);
    // One that has ended stays so: then it is the record that was read a moment too early.
    let due = |stored: &Operation| *stored != shown && !stored.state.is_terminal();
    observed
        .operation
        .is_none_or(due)
        .then(|| Plan::write(Write::PutOperation(shown)))
}

/// Ends the upgrade: the record lets go of it and keeps how it ended, then the operation says so.
pub(super) fn finish(
    record: &Record,
    upgrade: &Upgrade,
    outcome: State,
    error: Option<Trouble>,
    now: UnixSeconds,
) -> Plan {
    let mut operation = running_operation(record, upgrade);
    operation.state = outcome;
    operation.finished_at = Some(now);
    for target in &mut operation.targets {
        target.state = outcome;
        target.phase = Shown::Done;
        target.error.clone_from(&error);
    }
    let mut next = record.clone();
    next.upgrade = None;
    next.last = Some(Finished {
        operation,
        shown: false,
    });
    if outcome == State::Succeeded {
        let mut manifest = next.manifest;
        // What failed then is over.
        if let Some(annotations) = manifest.pointer_mut("/metadata/annotations")
            && let Some(annotations) = annotations.as_object_mut()
        {
            annotations.remove(keys::LAST_UPGRADE_ERROR);
        }
        next.previous = Some(Previous {
            template: next.template,
            manifest,
        });
        next.template = upgrade.template.clone();
        next.manifest = upgrade.manifest.clone();
        next.exclusive = upgrade.exclusive;
        next.add_claims(upgrade.claims.clone());
        next.pod = upgrade.successor.clone();
    } else {
        next.give_up_claims(upgrade.claims.clone());
    }
    if outcome == State::Failed
        && let Some(error) = error
    {
        // A pod made from this manifest later on still tells what went wrong.
        let path = ["metadata", "annotations", keys::LAST_UPGRADE_ERROR];
        set(&mut next.manifest, &path, json!(error.to_string()));
    }
    if outcome != State::Succeeded
        && let Phase::Restoring { restored, .. } = &upgrade.phase
    {
        next.pod = restored.clone();
    }
    put(next)
}

/// The outcome of an upgrade that was taken back.
pub(super) fn taken_back(upgrade: &Upgrade) -> State {
    if upgrade.cancelled.is_some() {
        State::Cancelled
    } else {
        State::Failed
    }
}

/// Takes the upgrade back if somebody called it off.
pub(super) fn called_off(record: &Record, upgrade: &Upgrade, now: UnixSeconds) -> Option<Plan> {
    let by = upgrade.cancelled.as_ref()?;
    let why = Trouble::new("Cancelled", format!("called off by {}", by.actor));
    Some(abort(record, now, why))
}

/// Value of the annotation `last-upgrade` that the workspace's pod should have.
pub(super) fn last_upgrade(record: &Record) -> Option<String> {
    let operation = &record.last.as_ref()?.operation;
    let target = operation.targets.first()?;
    let time = |at: UnixSeconds| {
        jiff::Timestamp::from_second(at)
            .ok()
            .map(|at| at.to_string())
    };
    let told = json!({
        "id": operation.id,
        "from": target.from_version,
        "to": target.to_version,
        "actor": operation.actor,
        "startedAt": time(operation.started_at),
        "finishedAt": operation.finished_at.and_then(time),
        "state": operation.state,
    });
    Some(told.to_string())
}

/// Makes the stored operation of an upgrade that has ended say so.
pub(super) fn show_end(observed: &Observed<'_>, last: &Finished) -> Plan {
    if observed
        .operation
        .is_none_or(|stored| !stored.state.is_terminal())
    {
        return Plan::write(Write::PutOperation(last.operation.clone()));
    }
    let mut next = observed.record.clone();
    next.last = Some(Finished {
        shown: true,
        ..last.clone()
    });
    put(next)
}

/// The workspace was stopped or deleted in the middle of its upgrade: what has been committed is
/// kept, anything else is dropped; the pods go with the rest.
pub(super) fn end_early(record: &Record, upgrade: &Upgrade, now: UnixSeconds) -> Plan {
    match upgrade.phase {
        Phase::Committed { .. } => finish(record, upgrade, State::Succeeded, None, now),
        Phase::Probing { .. }
        | Phase::Starting
        | Phase::Aborting { .. }
        | Phase::Quiescing { .. }
        | Phase::Replacing
        | Phase::Released
        | Phase::Restoring { .. } => {
            let what = if record.desired == Desired::Deleted {
                "deleted"
            } else {
                "stopped"
            };
            let why = Trouble::new(
                "Cancelled",
                format!("the workspace was {what} in the middle of the upgrade"),
            );
            finish(record, upgrade, State::Cancelled, Some(why), now)
        }
    }
}
