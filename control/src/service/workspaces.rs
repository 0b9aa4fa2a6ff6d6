//! Looking at workspaces.

use super::even::evenly;
use super::types::{ListWorkspaces, Workspace, Workspaces};
use super::view::{self, Live, Lookup};
use super::{Answer, Parts, allow, allow_reading};
use crate::cluster::{ClusterError, Listed, Stored};
use crate::template::TemplateError;
use crate::template::source::Parsed;
use nogoo9_model::access::{Action, Caller, Denied};
use nogoo9_model::record::Record;
use nogoo9_model::upgrade::needs_proxies;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest time that a command waits until lists show what it did.
const SHOWN: Duration = Duration::from_secs(3);

pub(super) fn list(parts: &Parts, caller: &Caller, args: &ListWorkspaces) -> Answer<Workspaces> {
    allow_reading(caller)?;
    let workspaces = all(parts, |record| {
        allow(caller, Action::Read, Some(record)).is_ok()
            && (!args.mine || caller.is(&record.owner))
    });
    Ok(Workspaces { workspaces })
}

/// All workspaces that pass, as the caches have them, ordered by owner, then id.
pub(super) fn all(parts: &Parts, passes: impl Fn(&Record) -> bool) -> Vec<Workspace> {
    let templates = parts.templates.seen();
    let now = parts.cluster.now();
    let mut all: Vec<Workspace> = parts
        .caches
        .workspaces()
        .iter()
        .filter(|listed| passes(&listed.record.value))
        .map(|listed| {
            let record = &listed.record.value;
            let missing = missing(parts, &record.template.name);
            let template = lookup(&templates, &record.template.name, &missing);
            let seen = view::workspace(record, Live::of(listed), template, &parts.links, now);
            capped(parts, seen)
        })
        .collect();
    all.sort_by(|a, b| (&a.owner, &a.id).cmp(&(&b.owner, &b.id)));
    all
}

pub(super) async fn get(parts: &Parts, caller: &Caller, id: &str) -> Answer<Workspace> {
    let record = readable(parts, caller, id).await?;
    Ok(show(parts, &record).await)
}

/// The record of a workspace that the caller may look at, read live; while the API server cannot answer,
/// as it was last seen.
pub(super) async fn readable(parts: &Parts, caller: &Caller, id: &str) -> Answer<Record> {
    evenly(async {
        let record = read(parts, id).await?;
        allow(caller, Action::Read, record.as_ref())?;
        Ok(record.ok_or(Denied::AccessDenied)?)
    })
    .await
}

/// The record of a workspace that the caller may do this to, read live.
pub(super) async fn permitted(
    parts: &Parts,
    caller: &Caller,
    action: Action,
    id: &str,
) -> Answer<Stored<Record>> {
    evenly(async {
        let stored = parts.cluster.living(id).await?;
        let record = stored.as_ref().map(|stored| &stored.value);
        allow(caller, action, record)?;
        Ok(stored.ok_or(Denied::AccessDenied)?)
    })
    .await
}

async fn read(parts: &Parts, id: &str) -> Result<Option<Record>, ClusterError> {
    match parts.cluster.living(id).await {
        Ok(stored) => Ok(stored.map(|stored| stored.value)),
        Err(error) if error.is_transient() && parts.caches.is_synced() => {
            tracing::warn!(%error, "showing what was last seen");
            Ok(parts
                .caches
                .workspace(id)
                .map(|listed| listed.record.value.clone()))
        }
        Err(error) => Err(error),
    }
}

/// The workspace as callers see it, with what the proxies say where that matters.
pub(super) async fn show(parts: &Parts, record: &Record) -> Workspace {
    let listed = parts.caches.workspace(&record.id);
    let live = listed.as_ref().map(Live::of).unwrap_or_default();
    let proxies = if needs_proxies(record, live.pods) {
        parts.proxies.reports(&record.id).await
    } else {
        Vec::new()
    };
    let templates = parts.templates.seen();
    let missing = missing(parts, &record.template.name);
    let template = lookup(&templates, &record.template.name, &missing);
    let now = parts.cluster.now();
    let live = Live {
        proxies: &proxies,
        ..live
    };
    let seen = view::workspace(record, live, template, &parts.links, now);
    capped(parts, seen)
}

/// With what the cap on deletions has to say of it, which no record and no pod tells.
fn capped(parts: &Parts, mut seen: Workspace) -> Workspace {
    if let Some(wait) = parts.cluster.deletions().waits(&seen.id) {
        seen.message = format!("{}; {wait}", seen.message);
    }
    seen
}

/// What to say of a template that is not among those seen.
fn missing(parts: &Parts, name: &str) -> TemplateError {
    if parts.templates.is_synced() {
        TemplateError::NotFound {
            name: name.to_owned(),
        }
    } else {
        TemplateError::Unreadable {
            name: name.to_owned(),
            reason: "templates are still being listed".into(),
        }
    }
}

fn lookup<'a>(
    seen: &'a BTreeMap<String, Parsed>,
    name: &str,
    missing: &'a TemplateError,
) -> Lookup<'a> {
    match seen.get(name) {
        Some(Ok(template)) => Ok(template),
        Some(Err(error)) => Err(error),
        None => Err(missing),
    }
}

/// Waits until lists show what a command did, so that whoever asks next sees it; not for ever, since
/// the watch may be down while writes work.
pub(super) async fn shown(parts: &Parts, id: &str, seen: impl Fn(Option<&Listed>) -> bool) {
    let mut changes = parts.caches.changes();
    let look = async {
        loop {
            changes.mark_unchanged();
            if seen(parts.caches.workspace(id).as_ref()) || changes.changed().await.is_err() {
                return;
            }
        }
    };
    let _late = tokio::time::timeout(SHOWN, look).await;
}
