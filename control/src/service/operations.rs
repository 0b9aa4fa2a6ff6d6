//! Looking at operations and waiting for them.

mod commands;

pub(super) use commands::{cancel, commanded, pause, resume};

use super::even::evenly;
use super::types::{
    DEFAULT_PAGE, GetOperation, ListOperations, MAX_PAGE, MAX_WAIT, Operation, Operations,
    WaitForOperation,
};
use super::{Answer, Parts, ServiceError, allow_reading, ids, view};
use crate::cluster::{ClusterError, FoundChunk, Stored};
use nogoo9_model::access::{Action, Caller, Denied, Target, Visibility, may};
use nogoo9_model::bulk::{CHUNK, Chunk, Head, Loss, TargetState, child};
use nogoo9_model::operation;
use nogoo9_model::upgrade::needs_proxies;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Most operations in a list.
const MOST: usize = 50;
/// Longest id that a workspace may have, those that were adopted too: it is a label's value. In bytes.
const LONGEST_ID: usize = 63;

pub(super) fn list(parts: &Parts, caller: &Caller, args: &ListOperations) -> Answer<Operations> {
    allow_reading(caller)?;
    let workspace = args.workspace_id.as_deref();
    if workspace.is_some_and(|id| id.is_empty() || id.len() > LONGEST_ID) {
        return Err(ServiceError::Invalid {
            argument: "workspaceId",
            problem: "use the id of a workspace, as list_workspaces tells it".to_owned(),
        });
    }
    let asked = |operation: &operation::Operation| match workspace {
        // Part of what was done to many, it is what was done to this one.
        Some(id) => operation.targets.iter().any(|only| only.workspace == id),
        None => operation.parent.is_none(),
    };
    let mut all = parts.caches.operations().list();
    all.retain(|stored| {
        let operation = &stored.value;
        asked(operation)
            && args.state.is_none_or(|state| state == operation.state)
            && args.kind.is_none_or(|kind| kind == operation.kind)
            && allow_operation(caller, Some(operation)).is_ok()
    });
    all.sort_by(|a, b| (b.value.started_at, &b.value.id).cmp(&(a.value.started_at, &a.value.id)));
    all.truncate(MOST);
    let operations = all
        .iter()
        .map(|stored| view::operation(&stored.value, stored.resource_version.clone(), None));
    Ok(Operations {
        operations: operations.collect(),
    })
}

pub(super) async fn get(parts: &Parts, caller: &Caller, args: &GetOperation) -> Answer<Operation> {
    if args.limit == 0 || args.limit > MAX_PAGE {
        return Err(ServiceError::Invalid {
            argument: "limit",
            problem: format!("use 1 to {MAX_PAGE}"),
        });
    }
    let stored = visible(parts, caller, &args.operation_id).await?;
    match &stored.value.bulk {
        None => Ok(show(parts, &stored).await),
        Some(head) => page(parts, &stored, head, args.offset, args.limit).await,
    }
}

pub(super) async fn wait(
    parts: &Parts,
    caller: &Caller,
    args: &WaitForOperation,
) -> Answer<Operation> {
    let longest = Duration::from_secs(args.seconds.min(MAX_WAIT).into());
    let end = Instant::now() + longest;
    // Subscribed before the first read, so that no change falls in between.
    let mut changes = parts.caches.changes();
    let mut current = visible(parts, caller, &args.operation_id).await?;
    if current.value.bulk.is_some() {
        return wait_for_bulk(parts, caller, current, end).await;
    }
    let since = args
        .since_revision
        .clone()
        .unwrap_or_else(|| current.resource_version.clone());
    let mut cached = None;
    while !current.value.state.is_terminal() && current.resource_version == since {
        // The watch may lag behind what was read live: it only says that it is time to read again.
        let more = loop {
            changes.mark_unchanged();
            let seen = parts.caches.operation(&args.operation_id);
            let seen = seen.map(|stored| stored.resource_version.clone());
            if seen != cached && seen.as_ref() != Some(&since) {
                cached = seen;
                break true;
            }
            if !matches!(timeout_at(end, changes.changed()).await, Ok(Ok(()))) {
                break false;
            }
        };
        current = visible(parts, caller, &args.operation_id).await?;
        if !more {
            break;
        }
    }
    Ok(show(parts, &current).await)
}

/// Waits until the bulk ends, or comes to wait for a person. It moves with every workspace, and
/// whoever waits would have to ask hundreds of times if each of its steps were an answer.
async fn wait_for_bulk(
    parts: &Parts,
    caller: &Caller,
    mut current: Stored<operation::Operation>,
    end: Instant,
) -> Answer<Operation> {
    let mut changes = parts.caches.changes();
    // Who waits on although a person is asked for gets what they ask for.
    let knew = stands(&current.value);
    while !current.value.state.is_terminal() && stands(&current.value) == knew {
        let id = &current.value.id;
        let ended = loop {
            changes.mark_unchanged();
            let seen = parts.caches.operation(id);
            if seen.is_some_and(|stored| {
                stored.value.state.is_terminal() || stands(&stored.value) != knew
            }) {
                break true;
            }
            if !matches!(timeout_at(end, changes.changed()).await, Ok(Ok(()))) {
                break false;
            }
        };
        current = visible(parts, caller, id).await?;
        if !ended {
            break;
        }
    }
    whole(parts, &current).await
}

/// Whether the bulk goes on by itself: it does not while it is paused or waits for approval.
fn stands(operation: &operation::Operation) -> bool {
    let head = operation.bulk.as_ref();
    head.is_some_and(|head| head.paused.is_some() || head.waits_for_approval())
}

/// Longest time that a command waits until lists show what it did.
const SEEN: Duration = Duration::from_secs(3);

/// Waits until the watch shows the operation as it should be; not for ever, since the watch may be
/// down while writes work.
pub(super) async fn seen(parts: &Parts, id: &str, is: impl Fn(&operation::Operation) -> bool) {
    let mut changes = parts.caches.changes();
    let end = Instant::now() + SEEN;
    loop {
        changes.mark_unchanged();
        let shown = parts.caches.operation(id);
        if shown.is_some_and(|stored| is(&stored.value))
            || !matches!(timeout_at(end, changes.changed()).await, Ok(Ok(())))
        {
            return;
        }
    }
}

/// Whether the caller may see the operation: all its workspaces are theirs, or they administrate. A
/// bulk is about everyone's, even where it happens to touch one's own alone.
fn allow_operation(
    caller: &Caller,
    operation: Option<&operation::Operation>,
) -> Result<(), Denied> {
    may(caller, Action::Read, Target::Nothing).or_else(|denied| match denied {
        Denied::AccessDenied => Ok(()),
        scope => Err(scope),
    })?;
    let operation = operation.ok_or(Denied::AccessDenied)?;
    if operation.bulk.is_some() {
        return may(caller, Action::Read, Target::Everyone);
    }
    if operation.targets.is_empty() {
        return Err(Denied::AccessDenied);
    }
    operation.targets.iter().try_for_each(|target| {
        let target = Target::Workspace {
            owner: &target.owner,
            visibility: &Visibility::Private,
        };
        may(caller, Action::Read, target)
    })
}

/// The operation, if the caller may see it.
async fn visible(parts: &Parts, caller: &Caller, id: &str) -> Answer<Stored<operation::Operation>> {
    evenly(async {
        let stored = read(parts, id).await?;
        allow_operation(caller, stored.as_ref().map(|stored| &stored.value))?;
        Ok(stored.ok_or(Denied::AccessDenied)?)
    })
    .await
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
            Ok(parts.caches.operation(id).map(Arc::unwrap_or_clone))
        }
        other => other,
    }
}

async fn show(parts: &Parts, stored: &Stored<operation::Operation>) -> Operation {
    let revision = stored.resource_version.clone();
    let reason = match stored.value.targets.as_slice() {
        [only] if !stored.value.state.is_terminal() => {
            reason(parts, &stored.value.id, &only.workspace, true).await
        }
        _ => None,
    };
    view::operation(&stored.value, revision, reason.as_deref())
}

/// A bulk with its targets, if they are no more than a page; else without.
async fn whole(parts: &Parts, stored: &Stored<operation::Operation>) -> Answer<Operation> {
    match &stored.value.bulk {
        Some(head) if head.counts.total <= DEFAULT_PAGE => {
            page(parts, stored, head, 0, DEFAULT_PAGE).await
        }
        _ => Ok(show(parts, stored).await),
    }
}

/// A bulk with a page of its targets. Those are read from their chunks: two at most.
async fn page(
    parts: &Parts,
    stored: &Stored<operation::Operation>,
    head: &Head,
    offset: u32,
    limit: u32,
) -> Answer<Operation> {
    let mut shown = view::operation(&stored.value, stored.resource_version.clone(), None);
    let next = offset.saturating_add(limit);
    shown.next_offset = (next < head.counts.total).then_some(next);
    let end = next.min(head.counts.total) as usize;
    let mut at = offset as usize;
    while at < end {
        let chunk = chunk(parts, &stored.value.id, head, at / CHUNK).await?;
        let (before, skip, take) = (at, at % CHUNK, end - at);
        let targets = chunk.targets.iter().skip(skip).take(take);
        for target in targets {
            let under_way = head.state_of(at, target) == TargetState::Running;
            let reason = if under_way {
                let child = child(&stored.value.id, &target.workspace);
                reason(parts, &child, &target.workspace, false).await
            } else {
                None
            };
            let target = view::bulk_target(head, at, target, reason.as_deref());
            shown.targets.push(target);
            at += 1;
        }
        if at == before {
            // There is less than the head says.
            break;
        }
    }
    Ok(shown)
}

/// A chunk of the bulk; what is left of it where somebody deleted or changed it.
pub(super) async fn chunk(parts: &Parts, id: &str, head: &Head, index: usize) -> Answer<Chunk> {
    let revision = head.chunks.get(index).copied().unwrap_or_default();
    let targets = head.targets_of_chunk(index);
    let how = match parts.cluster.find_chunk(id, index, targets).await? {
        FoundChunk::Whole(stored) => return Ok(stored.value),
        FoundChunk::Missing => Loss::Deleted,
        FoundChunk::Broken(_) => Loss::Changed,
    };
    Ok(Chunk::lost(id, index, revision, targets, how))
}

/// Why the operation is not done with this workspace yet; `ask`: also by what the proxies say, which
/// is too much to ask for a whole page.
async fn reason(parts: &Parts, operation: &str, workspace: &str, ask: bool) -> Option<String> {
    let listed = parts.caches.workspace(workspace)?;
    let record = &listed.record.value;
    let under_way = record
        .upgrade
        .as_ref()
        .is_some_and(|upgrade| upgrade.operation == operation);
    if !under_way {
        return None;
    }
    let proxies = if ask && needs_proxies(record, &listed.pods) {
        parts.proxies.reports(&record.id).await
    } else {
        Vec::new()
    };
    let live = view::Live {
        proxies: &proxies,
        ..view::Live::of(&listed)
    };
    Some(view::reason(record, live, parts.cluster.now()))
}
