//! Upgrading everyone's: targets are fixed and stored before the answer; the [driver](crate::bulk)
//! does the rest.

mod claims;
mod trial;

use super::types::{UpgradeAll, UpgradeAllStatus, UpgradeAllWorkspaces};
use super::{Answer, Parts, ServiceError, ids, operations};
use crate::cluster::{ClusterError, Stored};
use crate::template::TemplateError;
use crate::template::source::Parsed;
use futures::{StreamExt, TryStreamExt, stream};
use nogoo9_model::access::{Action, Caller, Target as About, may};
use nogoo9_model::bulk::{
    self, Candidate, Chunk, DEFAULT_PARALLEL, Head, MAX_PARALLEL, Target, TargetState,
};
use nogoo9_model::name;
use nogoo9_model::operation::{Kind, Operation, State};
use nogoo9_model::record::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most pod names in an answer.
const MOST_PODS: usize = 50;
/// Bulks under way at once.
const MOST_RUNNING: usize = 10;
/// Calls at once.
const CALLS: usize = 8;

/// What the bulk is about.
struct Plan {
    templates: BTreeMap<String, Parsed>,
    /// With the record of each.
    targets: Vec<(Target, Arc<Stored<Record>>)>,
}

impl Plan {
    fn to_upgrade(&self) -> impl Iterator<Item = &(Target, Arc<Stored<Record>>)> {
        let pending = |target: &Target| target.state == TargetState::Pending;
        self.targets
            .iter()
            .filter(move |(target, _)| pending(target))
    }
}

pub(super) async fn upgrade_all(
    parts: &Parts,
    caller: &Caller,
    args: &UpgradeAllWorkspaces,
) -> Answer<UpgradeAll> {
    may(caller, Action::UpgradeAll, About::Nothing)?;
    let max_parallel = args.max_parallel.unwrap_or(DEFAULT_PARALLEL);
    if max_parallel == 0 || max_parallel > MAX_PARALLEL {
        return Err(ServiceError::Invalid {
            argument: "maxParallel",
            problem: format!("use 1 to {MAX_PARALLEL}"),
        });
    }
    let mut plan = plan(parts, args).await?;
    let running = claims::running(parts);
    let others = claims::claims(parts, &running).await?;
    let by = plan.leave_to(&others);
    if args.dry_run {
        return trial::dry_run(parts, caller, &plan).await;
    }
    let upgraded = plan.to_upgrade().count();
    if upgraded == 0 {
        let same = running
            .iter()
            .find(|stored| by == [&stored.value.id].into());
        return Ok(same
            .and_then(|stored| claims::under_way(&stored.value, &others))
            .unwrap_or_else(|| nothing(plan.targets.len())));
    }
    if running.len() >= MOST_RUNNING {
        let running = running.len();
        return Err(ServiceError::TooManyBulks { running });
    }
    let id = ids::operation()?;
    let upgraded_pods = plan
        .to_upgrade()
        .take(MOST_PODS)
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
    let total = plan.targets.len();
    let targets = plan.targets.into_iter().map(|(target, _)| target).collect();
    let chunks = bulk::chunks(&id, targets);
    let now = parts.cluster.now();
    let head = Head {
        template: args.template.clone(),
        owner: args.user_sub.clone(),
        ..Head::new(max_parallel, &chunks, now)
    };
    let operation = Operation {
        id: id.clone(),
        kind: Kind::UpgradeAll,
        actor: caller.sub.clone(),
        parent: None,
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
        "bulk upgrade begun"
    );
    operations::seen(parts, &id, |_| true).await;
    let next = format!(
        "Call wait_for_operation with this operationId until done is true; get_operation, with offset and limit, tells \
         what became of each workspace. At most {max_parallel} are upgraded at once; requests are served meanwhile, or wait \
         where a pod has to end before the new one starts. cancel_operation ends what has not begun."
    );
    Ok(UpgradeAll {
        status: UpgradeAllStatus::Upgrading,
        operation_id: Some(id),
        total,
        upgraded,
        failed: 0,
        upgraded_pods,
        next,
        targets: None,
    })
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

/// The workspaces that are asked for and outdated, or of which nobody can tell, in order of their
/// ids. Their templates are read live, so that a bulk right after `kubectl apply` finds them outdated.
async fn plan(parts: &Parts, args: &UpgradeAllWorkspaces) -> Answer<Plan> {
    if !parts.caches.is_synced() {
        return Err(ServiceError::Cluster {
            reason: "workspaces are still being listed".into(),
        });
    }
    let mut records = parts.caches.records();
    records.retain(|stored| {
        let (template, owner) = (args.template.as_ref(), args.user_sub.as_ref());
        template.is_none_or(|name| *name == stored.value.template.name)
            && owner.is_none_or(|sub| *sub == stored.value.owner)
    });
    records.sort_by(|a, b| a.value.id.cmp(&b.value.id));
    let mut names: BTreeSet<String> = records
        .iter()
        .map(|stored| stored.value.template.name.clone())
        .collect();
    names.extend(args.template.clone());
    let templates: BTreeMap<String, Parsed> = stream::iter(names)
        .map(|name| async {
            let parsed = parts.templates.read(&name).await;
            (name, parsed)
        })
        .buffer_unordered(CALLS)
        .collect()
        .await;
    // A name that nobody uses and that is no template is a slip of the pen.
    if let Some(name) = &args.template
        && records.is_empty()
        && let Some(Err(error @ TemplateError::NotFound { .. })) = templates.get(name)
    {
        return Err(error.clone().into());
    }
    let problems: BTreeMap<&str, String> = templates
        .iter()
        .filter_map(|(name, parsed)| {
            let error = parsed.as_ref().err()?;
            Some((name.as_str(), error.to_string()))
        })
        .collect();
    let targets = records.into_iter().filter_map(|stored| {
        let name = stored.value.template.name.as_str();
        let version = match templates.get(name) {
            Some(Ok(template)) => Ok(template.version.as_str()),
            _ => Err(problems.get(name).map_or("", String::as_str)),
        };
        let candidate = Candidate {
            record: &stored.value,
            version,
        };
        let target = bulk::consider(candidate)?;
        Some((target, stored))
    });
    let targets = targets.collect();
    Ok(Plan { templates, targets })
}

fn nothing(total: usize) -> UpgradeAll {
    let next = if total == 0 {
        "Nothing to do: all workspaces have the newest version of their template."
    } else {
        "Nothing to do now: what is outdated is stopped, is being upgraded already, or has a template that cannot be \
         read. Ask again with dryRun to see which."
    };
    UpgradeAll {
        status: UpgradeAllStatus::UpToDate,
        operation_id: None,
        total,
        upgraded: 0,
        failed: 0,
        upgraded_pods: Vec::new(),
        next: next.to_owned(),
        targets: None,
    }
}
