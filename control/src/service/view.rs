//! What callers see of records, pods, operations and templates. Pure.

mod operation;

pub(super) use operation::{bulk_target, follow, operation};

use super::links::Links;
use super::types::{self, Outdated, Status};
use crate::cluster::Listed;
use crate::template::{Template, TemplateError, settings};
use nogoo9_model::mode::Mode;
use nogoo9_model::pod::PodView;
use nogoo9_model::ports::ExtraPorts;
use nogoo9_model::probe::Probe;
use nogoo9_model::record::{self, Desired, Record, Upgrade};
use nogoo9_model::upgrade::{Observed, Plan, ProxyReport, Wait, plan};
use nogoo9_model::{UnixSeconds, keys, select};
use serde_json::Value;

/// What a workspace's template is now.
pub(super) type Lookup<'a> = Result<&'a Template, &'a TemplateError>;

/// RFC 3339, to the second.
pub(super) fn time(at: UnixSeconds) -> String {
    jiff::Timestamp::from_second(at).map_or_else(|_| at.to_string(), |time| time.to_string())
}

/// What there is of a workspace beside its record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Live<'a> {
    /// Pods with its id.
    pub(super) pods: &'a [PodView],
    /// Its probes.
    pub(super) probes: &'a [Probe],
    /// What is known of the proxies.
    pub(super) proxies: &'a [ProxyReport],
}

impl<'a> Live<'a> {
    /// As the caches have it; nothing is known of the proxies.
    pub(super) fn of(listed: &'a Listed) -> Self {
        Self {
            pods: &listed.pods,
            probes: &listed.probes,
            proxies: &[],
        }
    }
}

/// A workspace as callers see it.
pub(super) fn workspace(
    record: &Record,
    live: Live<'_>,
    template: Lookup<'_>,
    links: &Links,
    now: UnixSeconds,
) -> types::Workspace {
    let (status, message) = status(record, live, now);
    let upgrade = record.upgrade.as_ref();
    // Once a successor took over, the workspace is what it is; the old pod only drains.
    let current = taken_over(record).map_or(&record.template, |upgrade| &upgrade.template);
    types::Workspace {
        id: record.id.clone(),
        name: record.name.clone(),
        owner: record.owner.clone(),
        status,
        message,
        url: links.host(&record.id),
        path_url: links.path(&record.id),
        pod_name: (record.desired == Desired::Running)
            .then(|| serving(record, live.pods).to_owned()),
        template: record.template.name.clone(),
        version: current.version.clone(),
        latest_version: template.ok().map(|template| template.version.clone()),
        outdated: match template {
            Ok(template) if template.version == current.version => Outdated::No,
            Ok(_) => Outdated::Yes,
            Err(_) => Outdated::Unknown,
        },
        last_upgrade_error: last_error(record),
        last_upgrade: last_upgrade(record),
        previous_version: record
            .previous
            .as_ref()
            .map(|previous| previous.template.version.clone()),
        not_before: record.not_before.map(time),
        operation_id: upgrade.map(|upgrade| upgrade.operation.clone()),
        claims: record
            .claims
            .iter()
            .map(|claim| claim.name.clone())
            .collect(),
        ports: ports(record, live.pods, links),
        created_at: time(record.since),
    }
}

/// The pod that requests go to; while none is routable, the one that they will go to.
fn serving<'a>(record: &'a Record, pods: &'a [PodView]) -> &'a str {
    let mine = pods.iter().filter(|pod| record.holds(pod));
    select::active(mine).map_or(&record.pod.name, |pod| &pod.name)
}

/// What it serves beside its port: as the pod that serves says, else as the next one will.
fn ports(record: &Record, pods: &[PodView], links: &Links) -> Vec<types::ExtraPort> {
    let mine = pods.iter().filter(|pod| record.holds(pod));
    let ports = match select::active(mine) {
        Some(pod) => pod.serving.ports.clone(),
        None => ExtraPorts::of_manifest(&record.manifest),
    };
    let shown = ports.iter().map(|port| types::ExtraPort {
        name: port.name.to_string(),
        port: port.port,
        url: links.port_host(&record.id, &port.name),
        path_url: port
            .path
            .as_deref()
            .and_then(|path| links.port_path(&record.id, path)),
    });
    shown.collect()
}

fn last_error(record: &Record) -> Option<String> {
    let error = record
        .manifest
        .get("metadata")?
        .get("annotations")?
        .get(keys::LAST_UPGRADE_ERROR)?;
    error.as_str().map(ToOwned::to_owned)
}

fn last_upgrade(record: &Record) -> Option<types::LastUpgrade> {
    let operation = &record.last.as_ref()?.operation;
    let target = operation.targets.first()?;
    Some(types::LastUpgrade {
        operation_id: operation.id.clone(),
        from: target.from_version.clone(),
        to: target.to_version.clone(),
        actor: operation.actor.clone(),
        started_at: time(operation.started_at),
        finished_at: operation.finished_at.map(time),
        state: operation.state,
    })
}

/// The upgrade under way whose successor serves, if there is one.
fn taken_over(record: &Record) -> Option<&Upgrade> {
    record
        .upgrade
        .as_ref()
        .filter(|upgrade| matches!(upgrade.phase, record::Phase::Committed { .. }))
}

/// What the workspace is doing, as a word and as a sentence.
pub(super) fn status(record: &Record, live: Live<'_>, now: UnixSeconds) -> (Status, String) {
    let mine: Vec<&PodView> = live.pods.iter().filter(|pod| record.holds(pod)).collect();
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
    let active = select::active(mine.iter().copied());
    let routable = active.is_some();
    if let Some(upgrade) = &record.upgrade {
        let reason = reason(record, live, now);
        let new = taken_over(record).map(|upgrade| upgrade.successor.name.as_str());
        if new.is_some() && new == active.map(|pod| pod.name.as_str()) {
            return (
                Status::Running,
                format!("Running; the old pod drains: {reason}"),
            );
        }
        // While a recreate runs requests wait: it is an upgrade all the same.
        let status = if routable || upgrade.mode == Mode::Recreate {
            Status::Upgrading
        } else {
            Status::Starting
        };
        return (status, format!("Upgrading: {reason}"));
    }
    if routable {
        return (Status::Running, "Running".into());
    }
    match waits(record, live, now) {
        Some(
            wait @ Wait::Starting {
                trouble: Some(_), ..
            },
        ) if !is_being_placed(&wait) => (Status::Failing, format!("Not running: {wait}")),
        Some(wait) => (Status::Starting, format!("Starting: {wait}")),
        None => (Status::Starting, "Starting: creating the pod".into()),
    }
}

/// How long a pod may look for a node before that counts as trouble, in seconds: volumes are bound
/// and nodes added meanwhile.
const PLACING: i64 = 60;

/// Whether the pod has no node yet and may still find one.
fn is_being_placed(wait: &Wait) -> bool {
    matches!(wait, Wait::Starting { trouble: Some(trouble), taken, .. }
        if trouble.reason == "Unschedulable" && *taken < PLACING)
}

/// Why the workspace's upgrade is not done yet.
pub(super) fn reason(record: &Record, live: Live<'_>, now: UnixSeconds) -> String {
    let phase = record.upgrade.as_ref().map(|upgrade| &upgrade.phase);
    let wait = waits(record, live, now);
    if let Some(record::Phase::Restoring { why, .. }) = phase {
        let wait = wait.map(|wait| format!("; {wait}")).unwrap_or_default();
        return format!("bringing the old version back, since the new one failed: {why}{wait}");
    }
    match wait {
        Some(wait) => wait.to_string(),
        None => match phase {
            Some(record::Phase::Aborting { why, .. }) => {
                format!("taking it back: {why}")
            }
            Some(record::Phase::Quiescing { .. } | record::Phase::Replacing) => {
                "the old pod is ending; requests wait for the new one".into()
            }
            Some(record::Phase::Released) => "starting the new pod; requests wait for it".into(),
            Some(record::Phase::Committed { .. }) => {
                "new requests go to the new pod; the old one is ending".into()
            }
            Some(record::Phase::Probing { .. }) => "checking the new image".into(),
            _ => "creating the new pod".into(),
        },
    }
}

/// What the planner would wait for; `None`: it would act.
fn waits(record: &Record, live: Live<'_>, now: UnixSeconds) -> Option<Wait> {
    // Whether the stored operation lags behind is of no interest here, so it is taken to be right.
    let operation = record
        .upgrade
        .as_ref()
        .map(|upgrade| nogoo9_model::upgrade::running_operation(record, upgrade));
    let observed = Observed {
        record,
        pods: live.pods,
        probes: live.probes,
        proxies: live.proxies,
        operation: operation.as_ref(),
        refused: None,
    };
    match plan(&observed, now) {
        Plan::Wait { reason, .. } => Some(reason),
        Plan::Write(_) | Plan::Done => None,
    }
}

/// A template as callers see it; `whole`: with its spec.
pub(super) fn template(name: &str, template: Lookup<'_>, whole: bool) -> types::Template {
    let good = template.ok();
    // That it is for nobody is told to those who may use it all the same: admins.
    let problem = template.err().map(ToString::to_string);
    let problem = problem.or_else(|| good?.settings.allowed_roles.problem());
    types::Template {
        name: name.to_owned(),
        usable: good.is_some(),
        version: good.map(|template| template.version.clone()),
        problem,
        images: good
            .map(|template| template.images().map(ToOwned::to_owned).collect())
            .unwrap_or_default(),
        claims: good
            .map(|template| template.claims().map(ToOwned::to_owned).collect())
            .unwrap_or_default(),
        parameters: good.and_then(|template| template.parameters.schema().cloned()),
        settings: good
            .filter(|_| whole)
            .map(|template| settings::shown(&template.declared))
            .unwrap_or_default(),
        spec: good
            .filter(|_| whole)
            .map(|template| Value::clone(template.spec())),
    }
}

#[cfg(test)]
mod tests;
