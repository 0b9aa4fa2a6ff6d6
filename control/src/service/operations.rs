//! Looking at operations, and waiting for them.

use super::types::{MAX_WAIT, Operation, Operations, WaitForOperation};
use super::{Answer, Parts, allow_reading, ids, view};
use crate::cluster::{ClusterError, Stored};
use nogoo9_model::access::{Action, Caller, Denied, Target, Visibility, may};
use nogoo9_model::operation;
use nogoo9_model::upgrade::needs_proxies;
use std::sync::Arc;
use std::time::Duration;

/// Most operations in a list.
const MOST: usize = 50;

pub(super) fn list(parts: &Parts, caller: &Caller) -> Answer<Operations> {
    allow_reading(caller)?;
    let mut all = parts.caches.operations().list();
    all.retain(|stored| allow_operation(caller, Some(&stored.value)).is_ok());
    all.sort_by(|a, b| (b.value.started_at, &b.value.id).cmp(&(a.value.started_at, &a.value.id)));
    all.truncate(MOST);
    let operations = all
        .iter()
        .map(|stored| view::operation(&stored.value, stored.resource_version.clone(), None));
    Ok(Operations {
        operations: operations.collect(),
    })
}

pub(super) async fn get(parts: &Parts, caller: &Caller, id: &str) -> Answer<Operation> {
    let stored = read(parts, id).await?;
    allow_operation(caller, stored.as_ref().map(|stored| &stored.value))?;
    match stored {
        Some(stored) => Ok(show(parts, &stored).await),
        None => Err(Denied::AccessDenied.into()),
    }
}

pub(super) async fn wait(
    parts: &Parts,
    caller: &Caller,
    args: &WaitForOperation,
) -> Answer<Operation> {
    let longest = Duration::from_secs(args.seconds.min(MAX_WAIT).into());
    let end = tokio::time::Instant::now() + longest;
    // Subscribed before the first read, so that no change falls in between.
    let mut changes = parts.caches.changes();
    let mut current = get(parts, caller, &args.operation_id).await?;
    let since = args
        .since_revision
        .clone()
        .unwrap_or_else(|| current.revision.clone());
    let mut cached = None;
    loop {
        if current.done || current.revision != since {
            return Ok(current);
        }
        // The watch may lag behind what was read live: it only says that it is time to read again.
        loop {
            changes.mark_unchanged();
            let seen =
                find(parts, &args.operation_id).map(|stored| stored.resource_version.clone());
            if seen != cached && seen.as_ref() != Some(&since) {
                cached = seen;
                break;
            }
            match tokio::time::timeout_at(end, changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return get(parts, caller, &args.operation_id).await,
            }
        }
        current = get(parts, caller, &args.operation_id).await?;
    }
}

/// Whether the caller may see the operation: all its workspaces are theirs, or they administrate.
fn allow_operation(
    caller: &Caller,
    operation: Option<&operation::Operation>,
) -> Result<(), Denied> {
    may(caller, Action::Read, Target::Nothing).or_else(|denied| match denied {
        Denied::AccessDenied => Ok(()),
        scope => Err(scope),
    })?;
    let operation = operation
        .filter(|operation| !operation.targets.is_empty())
        .ok_or(Denied::AccessDenied)?;
    operation.targets.iter().try_for_each(|target| {
        let target = Target::Workspace {
            owner: &target.owner,
            visibility: &Visibility::Private,
        };
        may(caller, Action::Read, target)
    })
}

fn find(parts: &Parts, id: &str) -> Option<Arc<Stored<operation::Operation>>> {
    parts.caches.operations().get(
        parts.cluster.namespace(),
        &nogoo9_model::name::operation(id),
    )
}

/// The operation, read live; while the API server cannot answer, as it was last seen.
async fn read(
    parts: &Parts,
    id: &str,
) -> Result<Option<Stored<operation::Operation>>, ClusterError> {
    if !ids::is_operation(id) {
        return Ok(None);
    }
    match parts.cluster.operation(id).await {
        Err(error) if error.is_transient() && parts.caches.is_synced() => {
            tracing::warn!(%error, "showing what was last seen");
            Ok(find(parts, id).map(|stored| (*stored).clone()))
        }
        other => other,
    }
}

async fn show(parts: &Parts, stored: &Stored<operation::Operation>) -> Operation {
    let revision = stored.resource_version.clone();
    let reason = match stored.value.targets.as_slice() {
        [only] if !stored.value.state.is_terminal() => {
            reason(parts, &stored.value.id, &only.workspace).await
        }
        _ => None,
    };
    view::operation(&stored.value, revision, reason.as_deref())
}

/// Why the operation is not done with this workspace yet.
async fn reason(parts: &Parts, operation: &str, workspace: &str) -> Option<String> {
    let listed = parts.caches.workspace(workspace)?;
    let record = &listed.record.value;
    let under_way = record
        .upgrade
        .as_ref()
        .is_some_and(|upgrade| upgrade.operation == operation);
    if !under_way {
        return None;
    }
    let proxies = if needs_proxies(record, &listed.pods) {
        parts.proxies.reports(&record.id).await
    } else {
        Vec::new()
    };
    Some(view::reason(
        record,
        &listed.pods,
        &proxies,
        parts.cluster.now(),
    ))
}
