//! What people may do to an operation under way. Each is one conditional write, made before the
//! answer: of the head, for a bulk, and of the workspace's record for the upgrade of one.

use super::super::lifecycle::TRIES;
use super::super::types::Operation;
use super::super::workspaces::shown;
use super::super::{Answer, Parts, ServiceError};
use super::{seen, show, visible, whole};
use crate::cluster::{ClusterError, Stored};
use nogoo9_model::access::{Action, Caller, Denied, Target, Visibility, may};
use nogoo9_model::bulk::{By, Head};
use nogoo9_model::operation::{self, TargetResult};
use nogoo9_model::record::{Cancelled, NotCancelled};

/// Takes up no further workspaces.
pub(in crate::service) async fn pause(
    parts: &Parts,
    caller: &Caller,
    id: &str,
) -> Answer<Operation> {
    let stored = commanded(parts, caller, id).await?;
    if stored.value.bulk.is_none() {
        return Err(ServiceError::NotPausable);
    }
    change(parts, caller, stored, "paused", |head, by| {
        Ok(head.pause(by))
    })
    .await
}

/// Goes on after a pause, or after the canary.
pub(in crate::service) async fn resume(
    parts: &Parts,
    caller: &Caller,
    id: &str,
) -> Answer<Operation> {
    let stored = commanded(parts, caller, id).await?;
    if stored.value.bulk.is_none() {
        return Err(ServiceError::NotPausable);
    }
    change(parts, caller, stored, "resumed", |head, by| {
        Ok(head.resume(by)?)
    })
    .await
}

/// Ends what has not begun of a bulk, or takes the upgrade of one workspace back.
pub(in crate::service) async fn cancel(
    parts: &Parts,
    caller: &Caller,
    id: &str,
) -> Answer<Operation> {
    let stored = commanded(parts, caller, id).await?;
    match (&stored.value.bulk, stored.value.targets.as_slice()) {
        (None, [only]) if !stored.value.state.is_terminal() => {
            take_back(parts, caller, id, only).await
        }
        (None, _) => Ok(show(parts, &stored).await),
        (Some(_), _) => {
            change(parts, caller, stored, "cancelled", |head, by| {
                Ok(head.cancel(by))
            })
            .await
        }
    }
}

/// The operation, for a command on it. Those who do not administrate may command operations on their
/// own workspaces. Of all others they learn that these are for admins, and not which there are.
pub(in crate::service) async fn commanded(
    parts: &Parts,
    caller: &Caller,
    id: &str,
) -> Answer<Stored<operation::Operation>> {
    let stored = match visible(parts, caller, id).await {
        Err(ServiceError::Denied(Denied::AccessDenied)) if !caller.is_admin() => {
            return Err(Denied::UpgradeAll.into());
        }
        other => other?,
    };
    if stored.value.bulk.is_some() {
        may(caller, Action::UpgradeAll, Target::Nothing)?;
    }
    for target in &stored.value.targets {
        let target = Target::Workspace {
            owner: &target.owner,
            visibility: &Visibility::Private,
        };
        may(caller, Action::Upgrade, target)?;
    }
    Ok(stored)
}

/// Changes the head of a bulk, which was read already; `decide` says to what, or that it is so.
async fn change(
    parts: &Parts,
    caller: &Caller,
    mut stored: Stored<operation::Operation>,
    what: &'static str,
    decide: impl Fn(&Head, By) -> Answer<Option<Head>>,
) -> Answer<Operation> {
    for _ in 0..TRIES {
        let by = By {
            actor: caller.sub.clone(),
            at: parts.cluster.now(),
        };
        let next = match &stored.value.bulk {
            Some(head) if !stored.value.state.is_terminal() => decide(head, by)?,
            _ => None,
        };
        let Some(next) = next else {
            return whole(parts, &stored).await;
        };
        let next = operation::Operation {
            bulk: Some(next),
            ..stored.value.clone()
        };
        match parts.cluster.put_operation(Some(&stored), &next).await {
            Ok(written) => {
                tracing::info!(
                    operation = next.id,
                    actor = caller.sub,
                    what,
                    "bulk changed"
                );
                let was = &stored.value;
                seen(parts, &next.id, |operation| operation != was).await;
                return whole(parts, &written).await;
            }
            // Its driver writes all the time.
            Err(ClusterError::Conflict { .. }) => {
                stored = visible(parts, caller, &next.id).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended)
}

/// Calls the upgrade of one workspace off; the engine then takes it back.
async fn take_back(
    parts: &Parts,
    caller: &Caller,
    id: &str,
    target: &TargetResult,
) -> Answer<Operation> {
    let workspace = &target.workspace;
    for _ in 0..TRIES {
        let Some(stored) = parts.cluster.living(workspace).await? else {
            return as_it_is(parts, caller, id).await;
        };
        let by = Cancelled {
            actor: caller.sub.clone(),
            at: parts.cluster.now(),
        };
        let next = match stored.value.cancel_upgrade(id, by) {
            Ok(Some(next)) => next,
            // The stored operation lags behind the record: it has ended, or is being taken back.
            Ok(None) | Err(NotCancelled::NotUnderWay) => {
                return as_it_is(parts, caller, id).await;
            }
            Err(refused @ NotCancelled::TooLate) => return Err(refused.into()),
        };
        match parts.cluster.put_record(&stored, &next).await {
            Ok(()) => {
                tracing::info!(
                    operation = id,
                    workspace,
                    actor = caller.sub,
                    "upgrade cancelled"
                );
                parts.engine.poke(workspace);
                shown(parts, workspace, |listed| {
                    let upgrade = listed.and_then(|listed| listed.record.value.upgrade.as_ref());
                    upgrade.is_none_or(|upgrade| {
                        upgrade.operation != id || upgrade.cancelled.is_some()
                    })
                })
                .await;
                return as_it_is(parts, caller, id).await;
            }
            Err(ClusterError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended)
}

async fn as_it_is(parts: &Parts, caller: &Caller, id: &str) -> Answer<Operation> {
    let stored = visible(parts, caller, id).await?;
    Ok(show(parts, &stored).await)
}
