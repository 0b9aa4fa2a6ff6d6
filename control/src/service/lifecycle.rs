//! Spawn, start, stop and delete.

use super::types::{DeleteWorkspace, Deletion, KeepUntil, SpawnWorkspace, Status, Workspace};
use super::volumes::exclusive;
use super::workspaces::{permitted, show, shown};
use super::{Answer, Parts, ServiceError, allow, ids, limit, templates};
use crate::cluster::ClusterError;
use crate::template::{RenderInput, Strictness, claims, render};
use nogoo9_model::access::{Action, AllowedRoles, Caller, Target, Visibility, may};
use nogoo9_model::id;
use nogoo9_model::limit::PerUser;
use nogoo9_model::pod::TemplateRef;
use nogoo9_model::record::{Desired, Record, Spawn, pod_object};
use serde_json::{Map, Value};

/// How often a command is tried again when others change the same record.
pub(super) const TRIES: usize = 5;
/// Longest subject that an admin may name, in bytes.
const MAX_SUB: usize = 512;

pub(super) async fn spawn(
    parts: &Parts,
    limit: Option<PerUser>,
    caller: &Caller,
    args: SpawnWorkspace,
) -> Answer<Workspace> {
    let owner = args.user_sub.as_deref().unwrap_or(&caller.sub);
    may(
        caller,
        Action::Spawn,
        Target::Workspace {
            owner,
            visibility: &Visibility::Private,
        },
    )?;
    if owner.is_empty() || owner.len() > MAX_SUB || owner.chars().any(char::is_control) {
        return Err(ServiceError::Invalid {
            argument: "userSub",
            problem: format!(
                "use the subject of a user, 1 to {MAX_SUB} bytes without control characters"
            ),
        });
    }
    if let Some(id) = &args.id {
        id::check_new(id)?;
    }
    let template = templates::usable(parts, caller, &args.template).await?;
    if let Some(limit) = limit {
        limit::room(parts, limit, caller, owner, args.id.as_deref()).await?;
    }
    let inputs = inputs(&args);
    for _ in 0..TRIES {
        let id = args.id.clone().map_or_else(ids::workspace, Ok)?;
        let now = parts.cluster.now();
        let input = RenderInput {
            owner,
            id: &id,
            namespace: parts.cluster.workspaces(),
            since: now,
            inputs: &inputs,
            strictness: Strictness::Spawn,
        };
        let manifest = render(&template, &input)?;
        let planned = claims(&template, &input)?;
        let mut record = Record::spawn(
            Spawn {
                name: inputs
                    .get("name")
                    .and_then(Value::as_str)
                    .unwrap_or(&id)
                    .to_owned(),
                namespace: parts.cluster.workspaces().to_owned(),
                owner: owner.to_owned(),
                template: TemplateRef {
                    name: template.name.clone(),
                    version: template.version.clone(),
                },
                inputs: inputs.clone(),
                exclusive: exclusive(parts, template.as_ref().into(), &manifest, &planned).await?,
                manifest,
                id,
            },
            now,
        );
        record.add_claims(planned);
        try_pod(
            parts,
            &record,
            &pod_object(&record.manifest, &record.namespace, &record.pod, None),
            &template.name,
        )
        .await?;
        if limit.is_some() {
            record = record.reserve();
        }
        match parts.cluster.create_record(&record).await {
            Ok(()) => {
                let record = limit::settle(parts, limit, caller, record, None).await?;
                return Ok(spawned(parts, caller, &record).await);
            }
            // Somebody chose it: theirs to choose another. Made up: make up another.
            Err(ClusterError::Exists { .. }) if args.id.is_some() => {
                if let Some(answer) = succeed(parts, limit, caller, &record).await? {
                    return Ok(answer);
                }
                return Err(ServiceError::IdTaken { id: record.id });
            }
            Err(ClusterError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended)
}

/// Spawns the workspace under an id that its owner has just deleted and that is still remembered.
/// `None`: it is not so.
async fn succeed(
    parts: &Parts,
    limit: Option<PerUser>,
    caller: &Caller,
    new: &Record,
) -> Answer<Option<Workspace>> {
    let Some(stored) = parts.cluster.record(&new.id).await? else {
        return Ok(None);
    };
    let Some(next) = stored.value.succeed(new.clone()) else {
        let Some(free_at) = stored.value.free_at() else {
            return Ok(None);
        };
        return Err(ServiceError::IdRemembered {
            id: new.id.clone(),
            left: free_at.saturating_sub(parts.cluster.now()).max(1),
        });
    };
    match parts.cluster.put_record(&stored, &next).await {
        Ok(()) => {
            let before = Some(&stored.value);
            let record = limit::settle(parts, limit, caller, next, before).await?;
            Ok(Some(spawned(parts, caller, &record).await))
        }
        Err(ClusterError::Conflict { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Says so, and waits until it can be seen.
async fn spawned(parts: &Parts, caller: &Caller, record: &Record) -> Workspace {
    tracing::info!(
        workspace = record.id,
        owner = record.owner,
        actor = caller.sub,
        template = record.template.name,
        "workspace spawned"
    );
    parts.engine.poke(&record.id);
    // Until its pod is there the edge knows nothing of it, and has no page for it.
    shown(parts, &record.id, |listed| {
        listed.is_some_and(|listed| !listed.pods.is_empty())
    })
    .await;
    show(parts, record).await
}

/// What the user set, in one map: `name` and `port` are inputs that every template takes.
fn inputs(args: &SpawnWorkspace) -> Map<String, Value> {
    let mut inputs = args.inputs.clone();
    if let Some(name) = &args.name {
        inputs.insert("name".into(), Value::from(name.as_str()));
    }
    if let Some(port) = args.port {
        inputs.insert("port".into(), Value::from(port));
    }
    inputs
}

/// Asks the cluster whether it would take the pod and its claims, so that a refusal leaves nothing
/// behind.
pub(super) async fn try_pod(
    parts: &Parts,
    record: &Record,
    object: &Value,
    template: &str,
) -> Answer<()> {
    accepted(parts.cluster.try_claims(record, object).await, template)?;
    accepted(parts.cluster.try_pod(object).await, template)
}

fn accepted(trial: Result<(), ClusterError>, template: &str) -> Answer<()> {
    match trial {
        // An admission webhook with side effects refuses every trial; that says nothing of the pod.
        Err(ClusterError::Rejected { trouble, .. }) if trouble.message.contains("dry run") => {
            Ok(())
        }
        Err(ClusterError::Rejected { trouble, .. }) => {
            Err(ServiceError::Refused(trouble, template.to_owned()))
        }
        Err(ClusterError::Malformed { reason, .. }) => Err(ServiceError::Template(
            crate::template::TemplateError::Broken {
                name: template.to_owned(),
                problem: reason,
                // Whoever spawns from it may use it.
                roles: AllowedRoles::Everyone,
            },
        )),
        other => Ok(other?),
    }
}

pub(super) async fn start(
    parts: &Parts,
    limit: Option<PerUser>,
    caller: &Caller,
    id: &str,
) -> Answer<Workspace> {
    if let Some(limit) = limit
        && let Some(stored) = parts.cluster.living(id).await?
        && stored.value.reserved
        && stored.value.desired == Desired::Stopped
        // Others are refused below, as for what is not there.
        && let Ok(record) = allow(caller, Action::Manage, Some(&stored.value))
    {
        let record = limit::let_in(parts, limit, caller, &record.owner, id).await?;
        return Ok(spawned(parts, caller, &record).await);
    }
    let record = change(parts, caller, id, "started", |record| {
        match record.desired {
            // It is this moment being spawned, and not let in yet.
            Desired::Stopped if record.reserved && limit.is_some() => Err(ServiceError::Contended),
            Desired::Deleted => Err(ServiceError::Deleting { id: id.to_owned() }),
            Desired::Running | Desired::Stopped => Ok(record.start()),
        }
    })
    .await?;
    Ok(show(parts, &record).await)
}

pub(super) async fn stop(parts: &Parts, caller: &Caller, id: &str) -> Answer<Workspace> {
    let record = change(parts, caller, id, "stopped", |record| {
        match record.desired {
            Desired::Deleted => Err(ServiceError::Deleting { id: id.to_owned() }),
            Desired::Running | Desired::Stopped => Ok(record.stop()),
        }
    })
    .await?;
    Ok(show(parts, &record).await)
}

pub(super) async fn delete(
    parts: &Parts,
    caller: &Caller,
    args: &DeleteWorkspace,
) -> Answer<Deletion> {
    if args.release
        && caller.is_admin()
        && let Some(released) = release(parts, caller, &args.id).await?
    {
        return Ok(released);
    }
    let record = change(parts, caller, &args.id, "deleted", |record| {
        Ok(deletion(record, caller, args))
    })
    .await?;
    let first = if record.delete_data && !record.claims.is_empty() {
        "Being deleted with its data: its pod ends, its volumes go, then its id"
    } else {
        "Being deleted: its pod ends, then its id"
    };
    let then = if record.id_kept {
        " stays its owner's, who may spawn it anew; delete it with release to free the id"
    } else {
        " is free"
    };
    let last = if record.claims.is_empty() || record.delete_data {
        ""
    } else {
        ". Its volumes stay: spawning the same id from the same template gets them back"
    };
    Ok(Deletion {
        id: record.id,
        status: Status::Deleting,
        data_deleted: record.delete_data,
        message: format!("{first}{then}{last}"),
    })
}

/// The record with what is asked for. An id stays its first owner's: it is theirs to give up by their
/// own deletion, or an admin's to release. What was given up once stays so.
fn deletion(record: &Record, caller: &Caller, args: &DeleteWorkspace) -> Option<Record> {
    let given_up = record.desired == Desired::Deleted && !record.id_kept;
    let keep = !caller.is(&record.owner) && !args.release && !given_up;
    let deleted = if args.delete_data {
        record.delete_with_data()
    } else {
        record.delete()
    };
    let kept = deleted.as_ref().unwrap_or(record).keep_id(keep);
    kept.or(deleted)
}

/// Frees an id that is kept for the owner of a workspace that is gone; `None`: it is not so.
async fn release(parts: &Parts, caller: &Caller, id: &str) -> Answer<Option<Deletion>> {
    for _ in 0..TRIES {
        let stored = parts.cluster.record(id).await?;
        let Some(stored) = stored.filter(|stored| stored.value.is_gone()) else {
            return Ok(None);
        };
        let record = allow(caller, Action::Manage, Some(&stored.value))?;
        let Some(next) = record.keep_id(false) else {
            return Ok(None);
        };
        match parts.cluster.put_record(&stored, &next).await {
            Ok(()) => {
                tracing::info!(workspace = id, actor = caller.sub, "id released");
                parts.engine.poke(id);
                return Ok(Some(Deletion {
                    id: id.to_owned(),
                    status: Status::Deleting,
                    data_deleted: next.delete_data,
                    message: "It was deleted before; its id is free in two minutes at the latest"
                        .to_owned(),
                }));
            }
            Err(ClusterError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended)
}

/// Sets the time before which nobody but its owner upgrades the workspace.
pub(super) async fn keep_until(
    parts: &Parts,
    caller: &Caller,
    id: &str,
    args: &KeepUntil,
) -> Answer<Workspace> {
    let not_before = match &args.not_before {
        None => None,
        Some(text) => Some(
            text.parse::<jiff::Timestamp>()
                .map_err(|_| ServiceError::Invalid {
                    argument: "notBefore",
                    problem: "use a time such as 2027-01-31T18:00:00Z, or null".into(),
                })?
                .as_second(),
        ),
    };
    let record = change(parts, caller, id, "put off", |record| {
        Ok(record.keep_until(not_before))
    })
    .await?;
    Ok(show(parts, &record).await)
}

/// Changes a record by compare-and-swap and wakes the engine. `None` from `next`: it is so already.
async fn change(
    parts: &Parts,
    caller: &Caller,
    id: &str,
    what: &'static str,
    next: impl Fn(&Record) -> Answer<Option<Record>>,
) -> Answer<Record> {
    for _ in 0..TRIES {
        let stored = permitted(parts, caller, Action::Manage, id).await?;
        let Some(next) = next(&stored.value)? else {
            return Ok(stored.value);
        };
        match parts.cluster.put_record(&stored, &next).await {
            Ok(()) => {
                tracing::info!(
                    workspace = id,
                    actor = caller.sub,
                    what,
                    "workspace changed"
                );
                parts.engine.poke(id);
                let (desired, not_before) = (next.desired, next.not_before);
                shown(parts, id, |listed| {
                    listed.is_none_or(|listed| {
                        let there = desired != Desired::Running || !listed.pods.is_empty();
                        let record = &listed.record.value;
                        record.desired == desired && record.not_before == not_before && there
                    })
                })
                .await;
                return Ok(next);
            }
            Err(ClusterError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended)
}
