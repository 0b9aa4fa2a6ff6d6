//! Upgrading everyone's: targets are fixed and stored before the answer; the [driver](crate::bulk)
//! does the rest.

use super::types::{PlannedTarget, UpgradeAll, UpgradeAllStatus, UpgradeAllWorkspaces, Verdict};
use super::upgrades::{Ask, begin};
use super::{Answer, Parts, ServiceError, ids, operations};
use crate::cluster::{ClusterError, Stored};
use crate::template::TemplateError;
use crate::template::source::Parsed;
use futures::{StreamExt, TryStreamExt, stream};
use nogoo9_model::access::{Action, Caller, Target as About, may};
use nogoo9_model::bulk::{
    self, Candidate, Chunk, DEFAULT_PARALLEL, Head, MAX_PARALLEL, Target, TargetState,
};
use nogoo9_model::mode::Mode;
use nogoo9_model::name;
use nogoo9_model::operation::{Kind, Operation, State};
use nogoo9_model::record::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most pod names in an answer.
const MOST_PODS: usize = 50;
/// Most workspaces of which a dry run tells what would happen.
const MOST_PLANNED: usize = 250;
/// Bulks under way at once.
const MOST_RUNNING: usize = 10;
/// Calls at once.
const CALLS: usize = 8;

/// Why the pod of some workspaces has to end before the new one can start.
const RECREATE: &str = "it holds a volume or host port that two pods cannot share: its pod ends before the new one \
    starts, and requests wait meanwhile";

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
    let plan = plan(parts, args).await?;
    if args.dry_run {
        return dry_run(parts, caller, &plan).await;
    }
    let upgraded = plan.to_upgrade().count();
    if upgraded == 0 {
        return Ok(nothing(plan.targets.len()));
    }
    let running = parts.caches.operations().list();
    let running = running
        .iter()
        .filter(|stored| stored.value.bulk.is_some() && !stored.value.state.is_terminal())
        .count();
    if running >= MOST_RUNNING {
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

/// What would happen to each, found out by going as far as one can without touching anything.
async fn dry_run(parts: &Parts, caller: &Caller, plan: &Plan) -> Answer<UpgradeAll> {
    let (total, upgraded) = (plan.targets.len(), plan.to_upgrade().count());
    let trials: Vec<_> = plan
        .targets
        .iter()
        .take(MOST_PLANNED)
        .map(|(target, stored)| try_one(parts, caller, plan, target, &stored.value))
        .collect();
    let targets: Vec<PlannedTarget> = stream::iter(trials).buffered(CALLS).try_collect().await?;
    let mut next = "Nothing was touched. Call it without dryRun to upgrade them.".to_owned();
    if total > targets.len() {
        next.push_str(&format!(
            " These are {} of {total}; name a template or userSub to see fewer.",
            targets.len()
        ));
    }
    Ok(UpgradeAll {
        status: UpgradeAllStatus::DryRun,
        operation_id: None,
        total,
        upgraded,
        failed: 0,
        upgraded_pods: Vec::new(),
        next,
        targets: Some(targets),
    })
}

async fn try_one(
    parts: &Parts,
    caller: &Caller,
    plan: &Plan,
    target: &Target,
    record: &Record,
) -> Answer<PlannedTarget> {
    let mut planned = PlannedTarget {
        id: target.workspace.clone(),
        owner: target.owner.clone(),
        template: target.template.clone(),
        from_version: target.from_version.clone(),
        to_version: target.to_version.clone(),
        mode: None,
        verdict: Verdict::Skip,
        reason: target.error.as_ref().map(|why| why.message.clone()),
    };
    let (TargetState::Pending, Some(Ok(template))) =
        (target.state, plan.templates.get(&target.template))
    else {
        return Ok(planned);
    };
    let ask = Ask {
        operation: "op-dry-run",
        actor: &caller.sub,
        parent: None,
        if_room: false,
    };
    match begin(parts, record, template, &ask).await {
        Ok(Some(next)) => {
            let mode = next.upgrade.map(|upgrade| upgrade.mode);
            planned.verdict = Verdict::Upgrade;
            planned.mode = mode.map(Into::into);
            planned.reason = (mode == Some(Mode::Recreate)).then(|| RECREATE.to_owned());
        }
        Ok(None) => planned.reason = Some("it has the newest version already".into()),
        Err(error) if error.code().is_retryable() => return Err(error),
        Err(error) => planned.reason = Some(error.to_string()),
    }
    Ok(planned)
}
