//! Upgrading everyone's: targets are fixed and stored before the answer; the [driver](crate::bulk)
//! does the rest.

mod claims;
mod retry;
mod start;
mod trial;

pub(super) use retry::retry;

use super::types::{UpgradeAll, UpgradeAllWorkspaces};
use super::{Answer, Parts, ServiceError};
use crate::cluster::Stored;
use crate::template::TemplateError;
use crate::template::source::Parsed;
use claims::Others;
use futures::{StreamExt, stream};
use nogoo9_model::access::{Action, Caller, Target as About, may};
use nogoo9_model::bulk::{
    self, Candidate, DEFAULT_PARALLEL, MAX_PARALLEL, Scope, Target, TargetState,
};
use nogoo9_model::record::Record;
use start::Terms;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most pod names, and most workspaces under way elsewhere, in an answer.
const MOST_NAMED: usize = 50;
/// Calls at once.
const CALLS: usize = 8;

/// Which workspaces are asked for.
#[derive(Default)]
struct Choice {
    scope: Scope,
    template: Option<String>,
    owner: Option<String>,
    /// Only these, by id.
    only: Option<BTreeSet<String>>,
}

impl Choice {
    fn includes(&self, record: &Record) -> bool {
        let (template, owner) = (self.template.as_ref(), self.owner.as_ref());
        template.is_none_or(|name| *name == record.template.name)
            && owner.is_none_or(|sub| *sub == record.owner)
            && self
                .only
                .as_ref()
                .is_none_or(|only| only.contains(&record.id))
    }
}

/// What the bulk is about.
struct Plan {
    scope: Scope,
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
    if args.canary == Some(0) {
        return Err(ServiceError::Invalid {
            argument: "canary",
            problem: "use 1 or more, or leave it out to upgrade all in one go".to_owned(),
        });
    }
    let choice = Choice {
        scope: args.scope,
        template: args.template.clone(),
        owner: args.user_sub.clone(),
        only: None,
    };
    let mut plan = plan(parts, &choice).await?;
    let others = Others::leave_to(parts, &mut plan).await?;
    if args.dry_run {
        return trial::dry_run(parts, caller, &plan).await;
    }
    let terms = Terms {
        max_parallel,
        canary: args.canary,
        failure_budget: args.failure_budget,
        choice,
        retry_of: None,
    };
    start::start(parts, caller, plan, &others, terms).await
}

/// The workspaces that are asked for and to be upgraded, or of which nobody can tell, in order of their
/// ids. Their templates are read live, so that a bulk right after `kubectl apply` finds them outdated.
async fn plan(parts: &Parts, choice: &Choice) -> Answer<Plan> {
    if !parts.caches.is_synced() {
        return Err(ServiceError::Cluster {
            reason: "workspaces are still being listed".into(),
        });
    }
    let mut records = parts.caches.records();
    records.retain(|stored| choice.includes(&stored.value));
    records.sort_by(|a, b| a.value.id.cmp(&b.value.id));
    let mut names: BTreeSet<String> = records
        .iter()
        .map(|stored| stored.value.template.name.clone())
        .collect();
    names.extend(choice.template.clone());
    let templates: BTreeMap<String, Parsed> = stream::iter(names)
        .map(|name| async {
            let parsed = parts.templates.read(&name).await;
            (name, parsed)
        })
        .buffer_unordered(CALLS)
        .collect()
        .await;
    // A name that nobody uses and that is no template is a slip of the pen.
    if let Some(name) = &choice.template
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
    let now = parts.cluster.now();
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
        let target = bulk::consider(candidate, choice.scope, now)?;
        Some((target, stored))
    });
    let targets = targets.collect();
    Ok(Plan {
        scope: choice.scope,
        templates,
        targets,
    })
}
