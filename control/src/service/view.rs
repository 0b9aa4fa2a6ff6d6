//! What callers see of records, pods, operations and templates. Pure.

use super::links::Links;
use super::types::{self, Outdated, Status};
use crate::template::{Template, TemplateError};
use nogoo9_model::operation::{self, Phase, State};
use nogoo9_model::pod::PodView;
use nogoo9_model::record::{Desired, Record};
use nogoo9_model::upgrade::{Observed, Plan, ProxyReport, Wait, plan};
use nogoo9_model::{UnixSeconds, keys, select};
use serde_json::Value;

/// What a workspace's template is now.
pub(super) type Lookup<'a> = Result<&'a Template, &'a TemplateError>;

/// RFC 3339, to the second.
pub(super) fn time(at: UnixSeconds) -> String {
    jiff::Timestamp::from_second(at).map_or_else(|_| at.to_string(), |time| time.to_string())
}

/// A workspace as callers see it. `pods` are those with its id, `proxies` what is known of theirs.
pub(super) fn workspace(
    record: &Record,
    pods: &[PodView],
    proxies: &[ProxyReport],
    template: Lookup<'_>,
    links: &Links,
    now: UnixSeconds,
) -> types::Workspace {
    let (status, message) = status(record, pods, proxies, now);
    let upgrade = record.upgrade.as_ref();
    types::Workspace {
        id: record.id.clone(),
        name: record.name.clone(),
        owner: record.owner.clone(),
        status,
        message,
        url: links.host(&record.id),
        path_url: links.path(&record.id),
        pod_name: (record.desired == Desired::Running).then(|| serving(record, pods).to_owned()),
        template: record.template.name.clone(),
        version: record.template.version.clone(),
        latest_version: template.ok().map(|template| template.version.clone()),
        outdated: match template {
            Ok(template) if template.version == record.template.version => Outdated::No,
            Ok(_) => Outdated::Yes,
            Err(_) => Outdated::Unknown,
        },
        last_upgrade_error: last_error(record),
        operation_id: upgrade.map(|upgrade| upgrade.operation.clone()),
        created_at: time(record.since),
    }
}

/// The pod that requests go to; while none is routable, the one that they will go to.
fn serving<'a>(record: &'a Record, pods: &'a [PodView]) -> &'a str {
    let mine = pods.iter().filter(|pod| record.holds(pod));
    select::active(mine).map_or(&record.pod.name, |pod| &pod.name)
}

fn last_error(record: &Record) -> Option<String> {
    let error = record
        .manifest
        .get("metadata")?
        .get("annotations")?
        .get(keys::LAST_UPGRADE_ERROR)?;
    error.as_str().map(ToOwned::to_owned)
}

/// What the workspace is doing, as a word and as a sentence.
fn status(
    record: &Record,
    pods: &[PodView],
    proxies: &[ProxyReport],
    now: UnixSeconds,
) -> (Status, String) {
    let mine: Vec<&PodView> = pods.iter().filter(|pod| record.holds(pod)).collect();
    match record.desired {
        Desired::Deleted => return (Status::Deleting, "Being deleted".into()),
        Desired::Stopped if mine.is_empty() => return (Status::Stopped, "Stopped".into()),
        Desired::Stopped => {
            return (
                Status::Stopping,
                "Stopping: waiting for the pod to end".into(),
            );
        }
        Desired::Running => {}
    }
    let routable = select::active(mine.iter().copied()).is_some();
    if record.upgrade.is_some() {
        let reason = reason(record, pods, proxies, now);
        let status = if routable {
            Status::Upgrading
        } else {
            Status::Starting
        };
        return (status, format!("Upgrading: {reason}"));
    }
    if routable {
        return (Status::Running, "Running".into());
    }
    match waits(record, pods, proxies, now) {
        Some(
            wait @ Wait::Starting {
                trouble: Some(_), ..
            },
        ) => (Status::Failing, format!("Not running: {wait}")),
        Some(wait) => (Status::Starting, format!("Starting: {wait}")),
        None => (Status::Starting, "Starting: creating the pod".into()),
    }
}

/// Why the workspace's upgrade is not done yet.
pub(super) fn reason(
    record: &Record,
    pods: &[PodView],
    proxies: &[ProxyReport],
    now: UnixSeconds,
) -> String {
    match waits(record, pods, proxies, now) {
        Some(wait) => wait.to_string(),
        None => match record.upgrade.as_ref().map(|upgrade| &upgrade.phase) {
            Some(nogoo9_model::record::Phase::Aborting { why, .. }) => {
                format!("taking it back: {why}")
            }
            Some(nogoo9_model::record::Phase::Committed { .. }) => {
                "new requests go to the new pod; the old one is ending".into()
            }
            _ => "creating the new pod".into(),
        },
    }
}

/// What the planner would wait for; `None`: it would act.
fn waits(
    record: &Record,
    pods: &[PodView],
    proxies: &[ProxyReport],
    now: UnixSeconds,
) -> Option<Wait> {
    // Whether the stored operation lags behind is of no interest here, so it is taken to be right.
    let operation = record
        .upgrade
        .as_ref()
        .map(|upgrade| nogoo9_model::upgrade::running_operation(record, upgrade));
    let observed = Observed {
        record,
        pods,
        proxies,
        operation: operation.as_ref(),
        refused: None,
    };
    match plan(&observed, now) {
        Plan::Wait { reason, .. } => Some(reason),
        Plan::Write(_) | Plan::Done => None,
    }
}

/// An operation as callers see it. `reason` says why it is not done yet, where that is known.
pub(super) fn operation(
    operation: &operation::Operation,
    revision: String,
    reason: Option<&str>,
) -> types::Operation {
    let done = operation.state.is_terminal();
    let targets: Vec<_> = operation
        .targets
        .iter()
        .map(|target| self::target(target, reason))
        .collect();
    let message = match targets.as_slice() {
        [only] => only.message.clone(),
        many => format!("{} workspaces", many.len()),
    };
    types::Operation {
        operation_id: operation.id.clone(),
        kind: operation.kind,
        actor: operation.actor.clone(),
        state: operation.state,
        done,
        revision,
        message,
        started_at: time(operation.started_at),
        finished_at: operation.finished_at.map(time),
        targets,
        next: (!done).then(|| FOLLOW.to_owned()),
    }
}

/// What to do with an operation that is under way.
pub(super) const FOLLOW: &str = "Call wait_for_operation with this operationId until done is true. \
    The workspace goes on serving meanwhile.";

fn target(target: &operation::TargetResult, reason: Option<&str>) -> types::OperationTarget {
    let (from, to) = (&target.from_version, &target.to_version);
    let why = || {
        target
            .error
            .as_ref()
            .map_or_else(String::new, |error| format!(": {error}"))
    };
    let message = match (target.state, target.phase) {
        (State::Succeeded, _) => format!(
            "Upgraded from {from} to {to}; pod {} serves",
            target.pod_name
        ),
        (State::Failed, _) => format!("Failed{}. The workspace stays on version {from}", why()),
        (State::Cancelled, _) => format!("Cancelled{}", why()),
        (State::Running, Phase::Aborting) => format!("Taking the new pod back{}", why()),
        (State::Running, _) => match reason {
            Some(reason) => format!("Upgrading: {reason}"),
            None => "Upgrading".to_owned(),
        },
    };
    types::OperationTarget {
        id: target.workspace.clone(),
        state: target.state,
        phase: target.phase,
        message,
        pod_name: target.pod_name.clone(),
        previous_pod_name: target.previous_pod_name.clone(),
        from_version: from.clone(),
        to_version: to.clone(),
        mode: target.mode.into(),
        error: target.error.clone().map(Into::into),
    }
}

/// A template as callers see it; `whole`: with its spec.
pub(super) fn template(name: &str, template: Lookup<'_>, whole: bool) -> types::Template {
    let problem = template.err().map(ToString::to_string);
    let good = template.ok();
    types::Template {
        name: name.to_owned(),
        usable: good.is_some(),
        version: good.map(|template| template.version.clone()),
        problem,
        images: good
            .map(|template| template.images().map(ToOwned::to_owned).collect())
            .unwrap_or_default(),
        parameters: good.and_then(|template| template.parameters.schema().cloned()),
        spec: good
            .filter(|_| whole)
            .map(|template| Value::clone(template.spec())),
    }
}

#[cfg(test)]
mod tests;
