//! Beginning an upgrade: durable before the answer, and before any pod is touched.

use super::lifecycle::{TRIES, try_pod};
use super::types::{Upgrade, UpgradeStatus};
use super::workspaces::shown;
use super::{Answer, Parts, ServiceError, allow, ids, view};
use crate::cluster::{ClusterError, Stored};
use crate::template::{RenderInput, Strictness, Template, TemplateError, render};
use k8s_openapi::api::core::v1::PodSpec;
use nogoo9_model::access::{Action, Caller, Denied};
use nogoo9_model::mode::{self, Claim, Mode};
use nogoo9_model::pod::TemplateRef;
use nogoo9_model::record::{Intent, NotUpgraded, Record, Upgrade as Begun, pod_object};
use nogoo9_model::upgrade::running_operation;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) async fn upgrade(parts: &Parts, caller: &Caller, id: &str) -> Answer<Upgrade> {
    let operation = ids::operation()?;
    for _ in 0..TRIES {
        let stored = parts.cluster.record(id).await?;
        allow(
            caller,
            Action::Upgrade,
            stored.as_ref().map(|stored| &stored.value),
        )?;
        let Some(stored) = stored else {
            return Err(Denied::AccessDenied.into());
        };
        if let Some(begun) = &stored.value.upgrade {
            return answer(parts, &stored.value, begun).await;
        }
        let Some(next) = begin(parts, caller, &stored.value, &operation).await? else {
            return Ok(up_to_date(&stored.value));
        };
        let Some(begun) = &next.upgrade else {
            return Err(ServiceError::Contended);
        };
        let successor = pod_object(
            &begun.manifest,
            &next.namespace,
            &begun.successor,
            Some(begun),
        );
        try_pod(parts, &successor, &begun.template.name).await?;
        match write(parts, &stored, &next).await? {
            Written::Done => {
                tracing::info!(
                    workspace = id,
                    actor = caller.sub,
                    operation,
                    to = begun.template.version,
                    "upgrade begun"
                );
                return answer(parts, &next, begun).await;
            }
            Written::Conflict => {}
        }
    }
    Err(ServiceError::Contended)
}

enum Written {
    Done,
    Conflict,
}

async fn write(parts: &Parts, stored: &Stored<Record>, next: &Record) -> Answer<Written> {
    match parts.cluster.put_record(stored, next).await {
        Ok(()) => Ok(Written::Done),
        Err(ClusterError::Conflict { .. }) => Ok(Written::Conflict),
        Err(error) => Err(error.into()),
    }
}

/// The record with the upgrade begun; `None`: there is nothing to do.
async fn begin(
    parts: &Parts,
    caller: &Caller,
    record: &Record,
    operation: &str,
) -> Answer<Option<Record>> {
    let template = parts.templates.read(&record.template.name).await?;
    let input = RenderInput {
        owner: &record.owner,
        id: &record.id,
        namespace: &record.namespace,
        since: record.since,
        inputs: &record.inputs,
        strictness: Strictness::Upgrade,
    };
    let manifest = render(&template, &input)?;
    let intent = Intent {
        operation: operation.to_owned(),
        actor: caller.sub.clone(),
        template: TemplateRef {
            name: template.name.clone(),
            version: template.version.clone(),
        },
        mode: mode(parts, record, &template, &manifest).await?,
        timing: template.settings.timing,
        manifest,
    };
    match record.begin_upgrade(intent, parts.cluster.now()) {
        Ok(next) => Ok(Some(next)),
        Err(NotUpgraded::UpToDate) => Ok(None),
        Err(refused) => Err(ServiceError::NotUpgraded(refused)),
    }
}

/// How the pod can be replaced: as the more careful of what it has and what it would get demands.
async fn mode(parts: &Parts, record: &Record, template: &Template, next: &Value) -> Answer<Mode> {
    let broken = |error: serde_json::Error| TemplateError::Broken {
        name: template.name.clone(),
        problem: error.to_string(),
    };
    for manifest in [&record.manifest, next] {
        let spec = manifest.get("spec").cloned().unwrap_or_default();
        let spec: PodSpec = serde_json::from_value(spec).map_err(broken)?;
        let mut claims: BTreeMap<String, Claim> = BTreeMap::new();
        for source in spec
            .volumes
            .iter()
            .flatten()
            .filter_map(|volume| volume.persistent_volume_claim.as_ref())
        {
            let name = &source.claim_name;
            claims.insert(name.clone(), parts.cluster.claim(name).await);
        }
        let claim = |name: &str| claims.get(name).copied().unwrap_or(Claim::Unreadable);
        if mode::choose(&spec, claim, template.settings.side_by_side) == Mode::Recreate {
            return Ok(Mode::Recreate);
        }
    }
    Ok(Mode::SideBySide)
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
        Ok(()) | Err(ClusterError::Exists { .. }) => {}
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
        next: view::FOLLOW.to_owned(),
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
