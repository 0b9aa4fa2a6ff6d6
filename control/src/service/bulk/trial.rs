//! What an upgrade of everyone's would do.

use super::super::types::{PlannedTarget, UpgradeAll, UpgradeAllStatus, Verdict};
use super::super::upgrades::{Ask, begin};
use super::super::{Answer, Parts};
use super::{CALLS, Plan, start};
use futures::{StreamExt, TryStreamExt, stream};
use nogoo9_model::access::Caller;
use nogoo9_model::bulk::{Scope, Target, TargetState, data_lost};
use nogoo9_model::mode::Mode;
use nogoo9_model::record::Record;

/// Most workspaces of which a dry run tells what would happen.
const MOST_PLANNED: usize = 250;
/// Why the pod of some workspaces has to end before the new one can start.
const RECREATE: &str = "it holds a volume or host port that two pods cannot share: its pod ends before the new one \
    starts, and requests wait meanwhile";

/// What would happen to each, found out by going as far as one can without touching anything.
pub(super) async fn dry_run(parts: &Parts, caller: &Caller, plan: &Plan) -> Answer<UpgradeAll> {
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
        under_way: start::under_way(plan),
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
        data_lost: Vec::new(),
        under_way: target.under_way.clone(),
    };
    let (TargetState::Pending, Some(Ok(template))) =
        (target.state, plan.templates.get(&target.template))
    else {
        return Ok(planned);
    };
    let ask = Ask {
        operation: "op-dry-run",
        actor: &caller.sub,
        by: None,
        parent: None,
        retry_of: None,
        if_room: false,
        force: plan.scope == Scope::All,
    };
    match begin(parts, record, template, &ask).await {
        Ok(Some(next)) => {
            let mode = next.upgrade.map(|upgrade| upgrade.mode);
            planned.verdict = Verdict::Upgrade;
            planned.mode = mode.map(Into::into);
            planned.data_lost = data_lost(&record.manifest);
            planned.reason = (mode == Some(Mode::Recreate)).then(|| RECREATE.to_owned());
        }
        Ok(None) => planned.reason = Some("it has the newest version already".into()),
        Err(error) if error.code().is_retryable() => return Err(error),
        Err(error) => planned.reason = Some(error.to_string()),
    }
    Ok(planned)
}
