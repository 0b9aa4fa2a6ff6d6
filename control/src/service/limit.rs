//! No user has more workspaces than the limit says, whichever control is asked, and without a lock.
//!
//! A new workspace is stored as reserved: it counts, and nothing of it runs. Then its owner's
//! workspaces are read, all of them and live: there is room, and it is let in by compare-and-swap, or
//! there is none, and it is taken back. Of several at once the last to be stored sees all others, so
//! never are too many let in; that each may give way to the other is the lesser evil.
//!
//! Whoever dies in between leaves a stopped workspace that never ran. Its owner sees it, it counts,
//! and it starts if there is room for it, or is deleted.

use super::{Answer, Parts, ServiceError};
use crate::cluster::{ClusterError, Stored};
use nogoo9_model::access::Caller;
use nogoo9_model::limit::PerUser;
use nogoo9_model::record::Record;

/// Refuses without a write, where it can be seen beforehand.
pub(super) async fn room(
    parts: &Parts,
    limit: PerUser,
    caller: &Caller,
    owner: &str,
    id: Option<&str>,
) -> Answer<()> {
    let records = parts.cluster.records_of(owner).await?;
    check(limit, caller, owner, id, &records)
}

/// What was just stored, let in if there is a limit; else `before` is put back, if anything was.
pub(super) async fn settle(
    parts: &Parts,
    limit: Option<PerUser>,
    caller: &Caller,
    stored: Record,
    before: Option<&Record>,
) -> Answer<Record> {
    let Some(limit) = limit else {
        return Ok(stored);
    };
    match let_in(parts, limit, caller, &stored.owner, &stored.id).await {
        Ok(record) => Ok(record),
        Err(refusal) => {
            if let Err(error) = take_back(parts, &stored, before).await {
                tracing::warn!(
                    workspace = stored.id,
                    %error,
                    "a workspace for which there is no room could not be taken back; it is stopped"
                );
            }
            Err(refusal)
        }
    }
}

/// Lets a reserved workspace in. What is written rests on the version that was read among the others:
/// whatever else has taken its place since is not let in.
pub(super) async fn let_in(
    parts: &Parts,
    limit: PerUser,
    caller: &Caller,
    owner: &str,
    id: &str,
) -> Answer<Record> {
    let records = parts.cluster.records_of(owner).await?;
    let stored = records
        .iter()
        .find(|record| record.value.id == id)
        .ok_or(ServiceError::Contended)?;
    // Its owner has just started it, for which there was room.
    if !stored.value.reserved {
        return Ok(stored.value.clone());
    }
    check(limit, caller, owner, Some(id), &records)?;
    let next = stored.value.start().ok_or(ServiceError::Contended)?;
    parts.cluster.put_record(stored, &next).await?;
    Ok(next)
}

/// As if it had never been asked for. Nothing of it ever ran, so nothing needs to be remembered.
async fn take_back(
    parts: &Parts,
    reserved: &Record,
    before: Option<&Record>,
) -> Result<(), ClusterError> {
    let found = parts.cluster.record(&reserved.id).await?;
    let Some(stored) = found.filter(|stored| {
        let record = &stored.value;
        record.reserved && record.owner == reserved.owner && record.pod == reserved.pod
    }) else {
        return Ok(());
    };
    match before {
        Some(before) => parts.cluster.put_record(&stored, before).await,
        None => parts.cluster.delete_record(&stored).await,
    }
}

fn check(
    limit: PerUser,
    caller: &Caller,
    owner: &str,
    id: Option<&str>,
    records: &[Stored<Record>],
) -> Answer<()> {
    let records = records.iter().map(|stored| &stored.value);
    limit
        .room(owner, id, records)
        .map_err(|limit| ServiceError::TooManyWorkspaces {
            limit,
            own: caller.is(owner),
        })
}
