//! Back to what a workspace was before its newest upgrade: the same operation, with the manifest of
//! then. A rollback can be rolled back.

use super::lifecycle::TRIES;
use super::types::Upgrade;
use super::upgrades::{answer, under_way};
use super::volumes::{Rules, exclusive};
use super::{Answer, Parts, ServiceError, allow, ids};
use crate::cluster::ClusterError;
use nogoo9_model::access::{Action, Caller, Denied};
use nogoo9_model::mode::Mode;
use nogoo9_model::operation::Kind;
use nogoo9_model::record::{Intent, NotUpgraded, Record};
use nogoo9_model::template::Timing;

pub(super) async fn rollback(parts: &Parts, caller: &Caller, id: &str) -> Answer<Upgrade> {
    let operation = ids::operation()?;
    for _ in 0..TRIES {
        let stored = parts.cluster.living(id).await?;
        allow(
            caller,
            Action::Upgrade,
            stored.as_ref().map(|stored| &stored.value),
        )?;
        let Some(stored) = stored else {
            return Err(Denied::AccessDenied.into());
        };
        if let Some(begun) = under_way(&stored.value, Kind::Rollback)? {
            return answer(parts, &stored.value, begun).await;
        }
        let next = begin(parts, &stored.value, &operation, &caller.sub).await?;
        match parts.cluster.put_record(&stored, &next).await {
            Ok(()) => {
                let begun = next.upgrade.as_ref().ok_or(ServiceError::Contended)?;
                tracing::info!(
                    workspace = id,
                    actor = caller.sub,
                    operation,
                    to = begun.template.version,
                    "rollback begun"
                );
                return answer(parts, &next, begun).await;
            }
            Err(ClusterError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended)
}

/// The record with the rollback begun.
async fn begin(parts: &Parts, record: &Record, operation: &str, actor: &str) -> Answer<Record> {
    let Some(previous) = record.previous.clone() else {
        return Err(ServiceError::NotUpgraded(NotUpgraded::NoPrevious));
    };
    // The way back is open also where the template is gone or broken: then its rules are the strict
    // ones.
    let template = parts.templates.read(&previous.template.name).await.ok();
    let rules = Rules {
        template: &previous.template.name,
        side_by_side: template
            .as_ref()
            .is_some_and(|template| template.settings.side_by_side),
    };
    let exclusively = exclusive(parts, rules, &previous.manifest, &record.claims).await?;
    let held =
        record.exclusive || exclusive(parts, rules, &record.manifest, &record.claims).await?;
    let intent = Intent {
        operation: operation.to_owned(),
        kind: Kind::Rollback,
        force: true,
        actor: actor.to_owned(),
        parent: None,
        template: previous.template,
        mode: if held || exclusively {
            Mode::Recreate
        } else {
            Mode::SideBySide
        },
        exclusive: exclusively,
        claims: Vec::new(),
        timing: template.map_or_else(Timing::default, |template| template.settings.timing),
        manifest: previous.manifest,
    };
    let record = Record {
        exclusive: held,
        ..record.clone()
    };
    record
        .begin_upgrade(intent, parts.cluster.now())
        .map_err(ServiceError::NotUpgraded)
}
