//! Beginning a bulk: stored, whole, before the answer.

use super::super::types::{UnderWay, UpgradeAll, UpgradeAllStatus};
use super::super::{Answer, Parts, ServiceError, ids, operations};
use super::claims::{self, Others};
use super::{CALLS, Choice, MOST_NAMED, Plan};
use crate::cluster::ClusterError;
use futures::{StreamExt, TryStreamExt, stream};
use nogoo9_model::access::Caller;
use nogoo9_model::bulk::{self, Chunk, Head, Scope};
use nogoo9_model::name;
use nogoo9_model::operation::{Kind, Operation, State};

/// Bulks under way at once.
const MOST_RUNNING: usize = 10;

/// How a bulk goes about its targets.
pub(super) struct Terms {
    pub(super) max_parallel: u32,
    pub(super) canary: Option<u32>,
    pub(super) failure_budget: Option<u32>,
    pub(super) choice: Choice,
    /// The bulk whose failed targets these are.
    pub(super) retry_of: Option<String>,
}

pub(super) async fn start(
    parts: &Parts,
    caller: &Caller,
    plan: Plan,
    others: &Others,
    terms: Terms,
) -> Answer<UpgradeAll> {
    let upgraded = plan.to_upgrade().count();
    if upgraded == 0 {
        let same = others.only();
        return Ok(same
            .and_then(|stored| claims::under_way(&stored.value, &others.claims))
            .unwrap_or_else(|| nothing(&plan, &terms)));
    }
    if others.running.len() >= MOST_RUNNING {
        let running = others.running.len();
        return Err(ServiceError::TooManyBulks { running });
    }
    let id = ids::operation()?;
    let upgraded_pods = plan
        .to_upgrade()
        .take(MOST_NAMED)
        .map(|(_, stored)| {
            let record = &stored.value;
            let child = bulk::child(&id, &record.id);
            let generation = record.generation.saturating_add(1);
            name::upgrade_pod(
                &record.owner,
                &record.id,
                &record.namespace,
                &child,
                generation,
            )
        })
        .collect();
    let (total, under_way) = (plan.targets.len(), under_way(&plan));
    let targets = plan.targets.into_iter().map(|(target, _)| target).collect();
    let chunks = bulk::chunks(&id, targets);
    let now = parts.cluster.now();
    let Terms {
        max_parallel,
        canary,
        failure_budget,
        choice,
        retry_of,
    } = terms;
    let head = Head {
        scope: choice.scope,
        template: choice.template,
        owner: choice.owner,
        canary,
        failure_budget,
        retry_of,
        ..Head::new(max_parallel, &chunks, now)
    };
    let operation = Operation {
        id: id.clone(),
        kind: Kind::UpgradeAll,
        actor: caller.sub.clone(),
        parent: None,
        // Its head has it.
        retry_of: None,
        state: State::Running,
        started_at: now,
        finished_at: None,
        targets: Vec::new(),
        bulk: Some(head),
    };
    store(parts, &chunks, &operation).await?;
    tracing::info!(
        operation = id,
        actor = caller.sub,
        total,
        upgraded,
        max_parallel,
        canary,
        failure_budget,
        "bulk upgrade begun"
    );
    operations::seen(parts, &id, |_| true).await;
    Ok(UpgradeAll {
        status: UpgradeAllStatus::Upgrading,
        operation_id: Some(id),
        total,
        upgraded,
        failed: 0,
        upgraded_pods,
        under_way,
        next: next(max_parallel, canary),
        targets: None,
    })
}

fn next(max_parallel: u32, canary: Option<u32>) -> String {
    let mut next = format!(
        "Call wait_for_operation with this operationId until done is true; get_operation, with offset and limit, tells \
         what became of each workspace. At most {max_parallel} are upgraded at once; requests are served meanwhile, or wait \
         where a pod has to end before the new one starts. pause_operation takes no more of them up, cancel_operation ends \
         what has not begun."
    );
    if let Some(canary) = canary {
        next.push_str(&format!(
            " The first {canary} are tried alone; then it waits until resume_operation lets the others follow."
        ));
    }
    next
}

/// Workspaces that are left to other operations, and to which.
pub(super) fn under_way(plan: &Plan) -> Vec<UnderWay> {
    let left = plan.targets.iter().filter_map(|(target, _)| {
        Some(UnderWay {
            id: target.workspace.clone(),
            operation_id: target.under_way.clone()?,
        })
    });
    left.take(MOST_NAMED).collect()
}

/// The chunks first: once the head is there, it is complete.
async fn store(parts: &Parts, chunks: &[Chunk], operation: &Operation) -> Answer<()> {
    let creates: Vec<_> = chunks
        .iter()
        .map(|chunk| parts.cluster.create_chunk(chunk))
        .collect();
    stream::iter(creates)
        .buffer_unordered(CALLS)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    match parts.cluster.put_operation(None, operation).await {
        Ok(_) => Ok(()),
        // No answer says nothing: it may be there, and then it is under way.
        Err(error @ (ClusterError::TimedOut { .. } | ClusterError::Unavailable { .. })) => {
            match parts.cluster.operation(&operation.id).await {
                Ok(Some(_)) => Ok(()),
                Ok(None) | Err(_) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn nothing(plan: &Plan, terms: &Terms) -> UpgradeAll {
    let total = plan.targets.len();
    let next = match (total, &terms.retry_of, terms.choice.scope) {
        (0, Some(_), _) => {
            "Nothing to do: those that failed are gone, or have the newest version of their template by now."
        }
        (0, None, Scope::Outdated) => {
            "Nothing to do: all workspaces have the newest version of their template."
        }
        (0, None, Scope::All) => "Nothing to do: there are no such workspaces.",
        _ => {
            "Nothing to do now: those it is about are stopped, are being upgraded already, are to be left alone for now, or \
             have a template that cannot be read. upgrade_all_workspaces with dryRun tells which."
        }
    };
    UpgradeAll {
        status: UpgradeAllStatus::UpToDate,
        operation_id: None,
        total,
        upgraded: 0,
        failed: 0,
        upgraded_pods: Vec::new(),
        under_way: under_way(plan),
        next: next.to_owned(),
        targets: None,
    }
}
