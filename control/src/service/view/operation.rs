//! What callers see of operations.

use super::super::types;
use super::time;
use nogoo9_model::bulk::{Counts, Head, Target, TargetState};
use nogoo9_model::mode::Mode;
use nogoo9_model::operation::{Operation, Phase, State, TargetResult};

/// What to do with the upgrade of one workspace that is under way.
pub(in crate::service) fn follow(mode: Mode) -> &'static str {
    match mode {
        Mode::SideBySide => {
            "Call wait_for_operation with this operationId until done is true. The workspace goes on serving meanwhile."
        }
        Mode::Recreate => {
            "Call wait_for_operation with this operationId until done is true. The workspace holds what only one pod \
             can, so its pod ends before the new one starts; requests wait meanwhile."
        }
    }
}

/// What to do with a bulk that is under way.
const FOLLOW_BULK: &str = "Call wait_for_operation with this operationId until done is true, and get_operation, with \
    offset and limit, for what became of each workspace. pause_operation takes no more of them up, cancel_operation ends \
    what has not begun.";

/// What to do with one that was paused.
const PAUSED: &str = "It is paused: no further workspaces are taken up. resume_operation goes on, cancel_operation ends it.";

/// What to do with one whose canary has ended.
const APPROVE: &str = "Its canary has been tried: look at the results with get_operation and at the workspaces themselves. \
    Ask a person whether the others shall follow; then resume_operation lets them, cancel_operation ends it.";

/// An operation as callers see it. `reason` says why it is not done yet, where that is known. That
/// of a bulk comes without targets, which are stored apart.
pub(in crate::service) fn operation(
    operation: &Operation,
    revision: String,
    reason: Option<&str>,
) -> types::Operation {
    let done = operation.state.is_terminal();
    let targets: Vec<_> = operation
        .targets
        .iter()
        .map(|target| single(target, reason))
        .collect();
    let message = match (&operation.bulk, targets.as_slice()) {
        (Some(head), _) => summary(operation, head),
        (None, [only]) => only.message.clone(),
        (None, many) => format!("{} workspaces", many.len()),
    };
    let head = operation.bulk.as_ref();
    let next = match (head, operation.targets.as_slice()) {
        (None, [only]) => follow(only.mode),
        (Some(head), _) if head.is_closed() => FOLLOW_BULK,
        (Some(head), _) if head.paused.is_some() => PAUSED,
        (Some(head), _) if head.waits_for_approval() => APPROVE,
        _ => FOLLOW_BULK,
    };
    types::Operation {
        operation_id: operation.id.clone(),
        kind: operation.kind,
        actor: operation.actor.clone(),
        parent: operation.parent.clone(),
        state: operation.state,
        done,
        revision,
        message,
        started_at: time(operation.started_at),
        finished_at: operation.finished_at.map(time),
        paused: head.is_some_and(|head| !done && !head.is_closed() && head.paused.is_some()),
        waiting: head
            .filter(|head| !done && head.waits_for_approval())
            .map(|_| types::Waiting::Approval),
        canary: head.and_then(|head| head.canary),
        failure_budget: head.and_then(|head| head.failure_budget),
        stopped: head.and_then(Head::why_stopped),
        retry_of: head
            .map_or(&operation.retry_of, |head| &head.retry_of)
            .clone(),
        scope: head.map(|head| head.scope),
        counts: head.map(|head| head.counts),
        next_offset: head.map(|_| 0),
        targets,
        next: (!done).then(|| next.to_owned()),
    }
}

/// How far a bulk is: "12 of 40 upgraded, 3 under way, 1 failed".
fn summary(operation: &Operation, head: &Head) -> String {
    let Counts {
        total,
        pending: _,
        running,
        succeeded,
        failed,
        skipped,
        cancelled,
    } = head.counts;
    let why_stopped = head.why_stopped();
    let begin = match (&head.cancelled, operation.state.is_terminal()) {
        (Some(by), false) => format!("Being cancelled by {}: ", by.actor),
        (Some(by), true) if operation.state == State::Cancelled => {
            format!("Cancelled by {}: ", by.actor)
        }
        (None, false) if why_stopped.is_some() => "Being stopped: ".to_owned(),
        (_, true) => "Ended: ".to_owned(),
        (None, false) => match &head.paused {
            Some(by) => format!("Paused by {}: ", by.actor),
            None if head.waits_for_approval() => "Waiting for approval: ".to_owned(),
            None => String::new(),
        },
    };
    let mut text = format!("{begin}{succeeded} of {total} upgraded");
    for (count, what) in [
        (running, "under way"),
        (failed, "failed"),
        (skipped, "skipped"),
        (cancelled, "cancelled"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    if let Some(why) = why_stopped {
        text.push_str(&format!("; {why}"));
    }
    text
}

fn single(target: &TargetResult, reason: Option<&str>) -> types::OperationTarget {
    let told = Told {
        state: target.state.into(),
        phase: Some(target.phase),
        from: &target.from_version,
        to: &target.to_version,
        pod: &target.pod_name,
        error: target.error.as_ref().map(ToString::to_string),
        reason,
    };
    types::OperationTarget {
        id: target.workspace.clone(),
        owner: target.owner.clone(),
        state: told.state,
        phase: told.phase,
        message: told.message(),
        pod_name: Some(target.pod_name.clone()),
        previous_pod_name: Some(target.previous_pod_name.clone()),
        from_version: target.from_version.clone(),
        to_version: Some(target.to_version.clone()),
        mode: Some(target.mode.into()),
        error: target.error.clone().map(Into::into),
        under_way: None,
    }
}

/// A target of a bulk as callers see it, `index` being its place among all.
pub(in crate::service) fn bulk_target(
    head: &Head,
    index: usize,
    target: &Target,
    reason: Option<&str>,
) -> types::OperationTarget {
    let told = Told {
        state: head.state_of(index, target),
        phase: target.phase,
        from: &target.from_version,
        to: target.to_version.as_deref().unwrap_or("an unknown version"),
        pod: target.pod_name.as_deref().unwrap_or_default(),
        error: target
            .error
            .as_ref()
            .map(|error| match error.message.as_str() {
                // Our own words need no key word in front.
                message if target.pod_name.is_none() && !message.is_empty() => message.to_owned(),
                _ => error.to_string(),
            }),
        reason,
    };
    types::OperationTarget {
        id: target.workspace.clone(),
        owner: target.owner.clone(),
        state: told.state,
        phase: told.phase,
        message: told.message(),
        pod_name: target.pod_name.clone(),
        previous_pod_name: target.previous_pod_name.clone(),
        from_version: target.from_version.clone(),
        to_version: target.to_version.clone(),
        mode: target.mode.map(Into::into),
        error: target.error.clone().map(Into::into),
        under_way: target.under_way.clone(),
    }
}

/// What a sentence about a target is made of.
struct Told<'a> {
    state: TargetState,
    phase: Option<Phase>,
    from: &'a str,
    to: &'a str,
    pod: &'a str,
    error: Option<String>,
    reason: Option<&'a str>,
}

impl Told<'_> {
    fn message(&self) -> String {
        let (from, to) = (self.from, self.to);
        let why = self
            .error
            .as_ref()
            .map_or_else(String::new, |error| format!(": {error}"));
        match (self.state, self.phase) {
            (TargetState::Pending, _) => "Waiting for its turn".to_owned(),
            (TargetState::Succeeded, _) => {
                format!("Upgraded from {from} to {to}; pod {} serves", self.pod)
            }
            (TargetState::Failed, _) => {
                format!("Failed{why}. The workspace stays on version {from}")
            }
            (TargetState::Skipped, _) => format!("Skipped{why}"),
            (TargetState::Cancelled, _) => format!("Cancelled{why}"),
            (TargetState::Running, Some(Phase::Aborting)) => {
                format!("Taking the new pod back{why}")
            }
            (TargetState::Running, Some(Phase::Restoring)) => {
                format!("Bringing version {from} back{why}")
            }
            (TargetState::Running, _) => match self.reason {
                Some(reason) => format!("Upgrading: {reason}"),
                None => "Upgrading".to_owned(),
            },
        }
    }
}
