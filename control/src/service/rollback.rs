//! Back to what a workspace was before its newest upgrade: the same operation, with the manifest of
//! then. A rollback can be rolled back.

use super::types::Upgrade;
use super::upgrades::{Ask, Attempt, Single, put, single};
use super::volumes::{Rules, exclusive};
use super::{Answer, Parts, ServiceError};
use crate::cluster::Stored;
use nogoo9_model::access::Caller;
use nogoo9_model::mode::Mode;
use nogoo9_model::operation::Kind;
use nogoo9_model::record::{Intent, NotUpgraded, Record};
use nogoo9_model::template::Timing;

pub(super) async fn rollback(parts: &Parts, caller: &Caller, id: &str) -> Answer<Upgrade> {
    let what = Single {
        back: true,
        ..Single::default()
    };
    single(parts, caller, id, what).await
}

/// Begins the rollback of the workspace, if its record is still the one that was read.
pub(super) async fn attempt(
    parts: &Parts,
    stored: &Stored<Record>,
    ask: &Ask<'_>,
) -> Answer<Attempt> {
    let next = begin(parts, &stored.value, ask).await?;
    put(parts, stored, next, ask).await
}

/// The record with the rollback begun.
async fn begin(parts: &Parts, record: &Record, ask: &Ask<'_>) -> Answer<Record> {
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
        operation: ask.operation.to_owned(),
        kind: Kind::Rollback,
        force: true,
        actor: ask.actor.to_owned(),
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
        .map(|next| next.retrying(ask.retry_of))
        .map_err(ServiceError::NotUpgraded)
}
