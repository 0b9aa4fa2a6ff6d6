//! Trying again what failed: a new operation, over those workspaces alone.

use super::super::types::{UpgradeAll, UpgradeAllStatus, UpgradeStatus};
use super::super::upgrades::{self, Single};
use super::super::{Answer, Parts, ServiceError, operations};
use super::claims::Others;
use super::start::{self, Terms};
use super::{CALLS, Choice, plan};
use futures::{StreamExt, TryStreamExt, stream};
use nogoo9_model::access::Caller;
use nogoo9_model::bulk::{Head, TargetState};
use nogoo9_model::operation::{Kind, Operation, State};
use std::collections::BTreeSet;

/// Tries again what failed of the operation, to what their templates are now.
pub(in crate::service) async fn retry(
    parts: &Parts,
    caller: &Caller,
    id: &str,
) -> Answer<UpgradeAll> {
    let stored = operations::commanded(parts, caller, id).await?;
    let operation = &stored.value;
    match &operation.bulk {
        Some(head) => bulk(parts, caller, operation, head).await,
        None => single(parts, caller, operation).await,
    }
}

async fn bulk(
    parts: &Parts,
    caller: &Caller,
    operation: &Operation,
    head: &Head,
) -> Answer<UpgradeAll> {
    let failed = failed(parts, operation, head).await?;
    if failed.is_empty() {
        return Err(ServiceError::NothingFailed);
    }
    let choice = Choice {
        scope: head.scope,
        only: Some(failed),
        ..Choice::default()
    };
    let mut plan = plan(parts, &choice).await?;
    let others = Others::leave_to(parts, &mut plan).await?;
    let terms = Terms {
        max_parallel: head.max_parallel,
        canary: None,
        failure_budget: head.failure_budget,
        choice: Choice {
            template: head.template.clone(),
            owner: head.owner.clone(),
            ..choice
        },
        retry_of: Some(operation.id.clone()),
    };
    start::start(parts, caller, plan, &others, terms).await
}

/// Ids of the workspaces that failed so far.
async fn failed(parts: &Parts, operation: &Operation, head: &Head) -> Answer<BTreeSet<String>> {
    let reads: Vec<_> = (0..head.chunks.len())
        .map(|index| operations::chunk(parts, &operation.id, head, index))
        .collect();
    let chunks: Vec<_> = stream::iter(reads).buffered(CALLS).try_collect().await?;
    let targets = chunks.into_iter().flat_map(|chunk| chunk.targets);
    Ok(targets
        .filter(|target| target.state == TargetState::Failed)
        .map(|target| target.workspace)
        .collect())
}

async fn single(parts: &Parts, caller: &Caller, operation: &Operation) -> Answer<UpgradeAll> {
    let [target] = operation.targets.as_slice() else {
        return Err(ServiceError::NothingFailed);
    };
    let workspace = &target.workspace;
    if operation.state != State::Failed {
        return Err(ServiceError::NothingFailed);
    }
    let what = Single {
        back: operation.kind == Kind::Rollback,
        retry_of: Some(&operation.id),
    };
    let begun = upgrades::single(parts, caller, workspace, what).await?;
    let (status, count) = match begun.status {
        UpgradeStatus::Upgrading => (UpgradeAllStatus::Upgrading, 1),
        UpgradeStatus::UpToDate => (UpgradeAllStatus::UpToDate, 0),
    };
    Ok(UpgradeAll {
        status,
        operation_id: begun.operation_id,
        total: count,
        upgraded: count,
        failed: 0,
        upgraded_pods: if count > 0 {
            vec![begun.pod_name]
        } else {
            Vec::new()
        },
        under_way: Vec::new(),
        next: begun.next,
        targets: None,
    })
}
