//! Beginning an upgrade or a rollback: durable before the answer, and before any pod is touched.

use super::lifecycle::TRIES;
use super::types::{Upgrade, UpgradeStatus};
use super::workspaces::{permitted, shown};
use super::{Answer, Parts, ServiceError, ids, rollback, templates, view, volumes};
use crate::cluster::{ClusterError, Stored};
use crate::template::{RenderInput, Strictness, Template, claims, render};
use nogoo9_model::access::{Action, Caller};
use nogoo9_model::bulk::is_quota;
use nogoo9_model::carry::{carry_over, carry_over_inherited};
use nogoo9_model::container::Trouble;
use nogoo9_model::mode::Mode;
use nogoo9_model::operation::Kind;
use nogoo9_model::pod::TemplateRef;
use nogoo9_model::record::{Intent, NotUpgraded, Record, Upgrade as Begun, pod_object};
use nogoo9_model::upgrade::running_operation;

pub(super) async fn upgrade(parts: &Parts, caller: &Caller, id: &str) -> Answer<Upgrade> {
    single(parts, caller, id, Single::default()).await
}

/// What is to be done to one workspace.
#[derive(Default)]
pub(super) struct Single<'a> {
    /// A rollback, not an upgrade.
    pub(super) back: bool,
    /// The failed operation that it tries again.
    pub(super) retry_of: Option<&'a str>,
}

/// Begins an upgrade or a rollback of one workspace, or answers with the one that is under way.
pub(super) async fn single(
    parts: &Parts,
    caller: &Caller,
    id: &str,
    what: Single<'_>,
) -> Answer<Upgrade> {
    let operation = ids::operation()?;
    let ask = Ask {
        operation: &operation,
        actor: &caller.sub,
        by: Some(caller),
        parent: None,
        retry_of: what.retry_of,
        if_room: false,
        force: false,
    };
    let kind = if what.back {
        Kind::Rollback
    } else {
        Kind::Upgrade
    };
    for _ in 0..TRIES {
        let stored = permitted(parts, caller, Action::Upgrade, id).await?;
        if let Some(begun) = under_way(&stored.value, kind)? {
            return answer(parts, &stored.value, begun).await;
        }
        let attempt = if what.back {
            rollback::attempt(parts, &stored, &ask).await?
        } else {
            attempt(parts, &stored, &ask).await?
        };
        match attempt {
            Attempt::UpToDate => return Ok(up_to_date(&stored.value)),
            Attempt::Full(why) => {
                let template = stored.value.template.name;
                return Err(ServiceError::Refused(why, template));
            }
            Attempt::Conflict => {}
            Attempt::Begun(next) => {
                let begun = next.upgrade.as_ref().ok_or(ServiceError::Contended)?;
                return answer(parts, &next, begun).await;
            }
        }
    }
    Err(ServiceError::Contended)
}

/// What is under way on the workspace, if it is what is asked for; what else may be is in the way.
fn under_way(record: &Record, kind: Kind) -> Answer<Option<&Begun>> {
    match &record.upgrade {
        Some(begun) if begun.kind != kind => Err(ServiceError::NotUpgraded(NotUpgraded::UnderWay)),
        begun => Ok(begun.as_ref()),
    }
}

/// Who asks for an upgrade, and as which operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    /// Operation id, used if the upgrade begins.
    pub(crate) operation: &'a str,
    /// Subject of who asks.
    pub(crate) actor: &'a str,
    /// Whose roles must reach the template. `None`: of an admin, who has begun it for everyone.
    pub(crate) by: Option<&'a Caller>,
    /// The bulk operation that it is a part of.
    pub(crate) parent: Option<&'a str>,
    /// The failed operation on one workspace that it tries again.
    pub(crate) retry_of: Option<&'a str>,
    /// Whether to leave it for now if a quota has no room for the new pod.
    pub(crate) if_room: bool,
    /// Whether to give it a new pod also where its version is the newest.
    pub(crate) force: bool,
}

/// What became of an attempt to begin an upgrade or a rollback.
pub(crate) enum Attempt {
    /// It has begun: the record says so.
    Begun(Box<Record>),
    /// There is nothing to do.
    UpToDate,
    /// A quota has no room for the new pod now; nothing was touched.
    Full(Trouble),
    /// The record is not the one that was read any more.
    Conflict,
}

/// Begins the upgrade of the workspace, if its record is still the one that was read. Until then
/// nothing is touched. What the cluster refuses it refuses later, to the operation, which then ends
/// with the reason on the workspace.
pub(super) async fn attempt(
    parts: &Parts,
    stored: &Stored<Record>,
    ask: &Ask<'_>,
) -> Answer<Attempt> {
    let template = &stored.value.template.name;
    let template = templates::of_workspace(parts, ask.by, template).await?;
    let Some(next) = begin(parts, &stored.value, &template, ask).await? else {
        return Ok(Attempt::UpToDate);
    };
    if ask.if_room
        && let Some(begun) = &next.upgrade
        && let Some(full) = full(parts, &next, begun).await?
    {
        return Ok(Attempt::Full(full));
    }
    put(parts, stored, next, ask).await
}

/// Stores the record with what has begun, if it is still the one that was read.
pub(super) async fn put(
    parts: &Parts,
    stored: &Stored<Record>,
    next: Record,
    ask: &Ask<'_>,
) -> Answer<Attempt> {
    let begun = next.upgrade.as_ref().ok_or(ServiceError::Contended)?;
    match parts.cluster.put_record(stored, &next).await {
        Ok(()) => {
            tracing::info!(
                workspace = next.id,
                actor = ask.actor,
                operation = ask.operation,
                kind = ?begun.kind,
                to = begun.template.version,
                "upgrade begun"
            );
            Ok(Attempt::Begun(Box::new(next)))
        }
        Err(ClusterError::Conflict { .. }) => Ok(Attempt::Conflict),
        Err(error) => Err(error.into()),
    }
}

/// Whether a quota has no room for the successor, in the cluster's words.
async fn full(parts: &Parts, next: &Record, begun: &Begun) -> Answer<Option<Trouble>> {
    let (manifest, successor) = (&begun.manifest, &begun.successor);
    let object = pod_object(manifest, &next.namespace, successor, Some(begun));
    match parts.cluster.try_pod(&object).await {
        Err(ClusterError::Rejected { trouble, .. }) if is_quota(&trouble) => Ok(Some(trouble)),
        // Any other refusal is the upgrade's own to report.
        Ok(()) | Err(ClusterError::Rejected { .. } | ClusterError::Malformed { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The record with the upgrade begun; `None`: there is nothing to do.
pub(super) async fn begin(
    parts: &Parts,
    record: &Record,
    template: &Template,
    ask: &Ask<'_>,
) -> Answer<Option<Record>> {
    let input = RenderInput {
        owner: &record.owner,
        id: &record.id,
        namespace: &record.namespace,
        since: record.since,
        inputs: &record.inputs,
        strictness: Strictness::Upgrade,
    };
    let mut manifest = render(template, &input)?;
    carry_over(&record.manifest, &mut manifest);
    if let Some(inherited) = &record.inherited {
        carry_over_inherited(inherited, &mut manifest);
    }
    let planned = claims(template, &input)?;
    let exclusive = volumes::exclusive(parts, template.into(), &manifest, &planned).await?;
    // What a claim can do is known better now than when the pod was made.
    let held = record.exclusive
        || volumes::exclusive(parts, template.into(), &record.manifest, &record.claims).await?;
    let intent = Intent {
        operation: ask.operation.to_owned(),
        kind: Kind::Upgrade,
        force: ask.force,
        actor: ask.actor.to_owned(),
        parent: ask.parent.map(ToOwned::to_owned),
        template: TemplateRef {
            name: template.name.clone(),
            version: template.version.clone(),
        },
        // As the more careful of what it has and what it would get demands.
        mode: if held || exclusive {
            Mode::Recreate
        } else {
            Mode::SideBySide
        },
        exclusive,
        claims: planned,
        timing: template.settings.timing,
        manifest,
    };
    // Whatever becomes of the upgrade, the next pod of the old manifest waits for the others' end too.
    let record = Record {
        exclusive: held,
        ..record.clone()
    };
    match record.begin_upgrade(intent, parts.cluster.now()) {
        Ok(next) => Ok(Some(next.retrying(ask.retry_of))),
        Err(NotUpgraded::UpToDate) => Ok(None),
        Err(refused) => Err(ServiceError::NotUpgraded(refused)),
    }
}

/// Makes sure that the operation is stored, wakes the engine, and tells what is under way.
///
/// The record is, and would bring the operation back by itself; but whoever gets this answer may ask
/// for the operation at once, whatever happens to this process.
async fn answer(parts: &Parts, record: &Record, begun: &Begun) -> Answer<Upgrade> {
    match parts
        .cluster
        .put_operation(None, &running_operation(record, begun))
        .await
    {
        Ok(_) | Err(ClusterError::Exists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    parts.engine.poke(&record.id);
    let operation = begun.operation.as_str();
    shown(parts, &record.id, |listed| {
        listed.is_none_or(|listed| {
            listed
                .record
                .value
                .upgrade
                .as_ref()
                .is_some_and(|u| u.operation == operation)
        })
    })
    .await;
    Ok(Upgrade {
        id: record.id.clone(),
        status: UpgradeStatus::Upgrading,
        pod_name: begun.successor.name.clone(),
        previous_pod_name: Some(begun.source.name.clone()),
        from_version: record.template.version.clone(),
        to_version: begun.template.version.clone(),
        mode: Some(begun.mode.into()),
        operation_id: Some(begun.operation.clone()),
        next: view::follow(begun.mode).to_owned(),
    })
}

fn up_to_date(record: &Record) -> Upgrade {
    Upgrade {
        id: record.id.clone(),
        status: UpgradeStatus::UpToDate,
        pod_name: record.pod.name.clone(),
        previous_pod_name: None,
        from_version: record.template.version.clone(),
        to_version: record.template.version.clone(),
        mode: None,
        operation_id: None,
        next: "Nothing to do: it has the newest version of its template.".to_owned(),
    }
}
