//! All workspaces of the template at once, as an administrator does.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use futures::future::join_all;

use super::act::{Desk, Scene};
use super::api::{Operation, Target};
use super::one_by_one::UPGRADE_BOUND;
use super::report::{Bulk, DURING, Facts, UpgradeReport};
use super::say;

/// One bulk operation, from the edit of the template to the end of the last old pod.
pub(super) async fn play(scene: &mut Scene<'_>) -> anyhow::Result<Facts> {
    let mut facts = Facts::default();
    if let Err(error) = upgrade_all(scene, &mut facts).await {
        scene.problems.push(format!("upgrade of all: {error:#}"));
    }
    Ok(facts)
}

async fn upgrade_all(scene: &mut Scene<'_>, facts: &mut Facts) -> anyhow::Result<()> {
    let (args, api) = (scene.stage.args, scene.stage.admin.api.clone());
    scene.template.edit(1, &api).await?;
    let started_us = scene.mark("upgrade of all started");
    let begun = api
        .upgrade_all(scene.template.name(), args.max_parallel)
        .await?;
    let answered_us = scene.mark("upgrade of all answered");
    let total = scene.desks.len();
    if begun.total != total as u64 {
        bail!("it is about {} workspaces instead of {total}", begun.total);
    }
    let operation = begun
        .operation_id
        .with_context(|| format!("it did not begin: {}", begun.status))?;
    say(&format!(
        "{total} workspaces are upgraded, at most {} at a time",
        args.max_parallel
    ));

    let mut moved: BTreeMap<String, UpgradeReport> = BTreeMap::new();
    let mut ended = 0;
    loop {
        let known = (moved.len(), ended);
        let seen = api
            .watch(&operation, UPGRADE_BOUND, |seen| {
                let switched = seen.targets.iter().filter(|target| target.switched());
                let over = seen.targets.iter().filter(|target| target.ended());
                (switched.count(), over.count()) != known
            })
            .await?;
        let committed_us = scene.mark(&format!("{} of {total} committed", switched(&seen)));
        let news = seen
            .targets
            .iter()
            .filter(|target| target.switched() && !moved.contains_key(&target.workspace));
        let news: Vec<&Target> = news.collect();
        let pods = move_users(scene, &news).await?;
        let moved_us = scene.mark("their users moved");
        for (workspace, pod_name, previous_pod_name) in pods {
            let report = UpgradeReport {
                workspace: workspace.clone(),
                operation_id: operation.clone(),
                pod_name,
                previous_pod_name,
                started_us,
                answered_us,
                first_answer_us: None,
                switch_us: None,
                committed_us,
                moved_us,
                done_us: 0,
            };
            moved.insert(workspace, report);
        }
        // As seen: what ends between two looks ends at the later one.
        let done_us = scene.mark(&format!("{} of {total} done", over(&seen)));
        for target in seen.targets.iter().filter(|target| target.ended()) {
            if let Some(report) = moved.get_mut(&target.workspace)
                && report.done_us == 0
            {
                report.done_us = done_us;
            }
        }
        ended = over(&seen);
        if seen.done {
            seen.expect_well()?;
            facts.upgrades = moved.into_values().collect();
            facts.bulk = Some(Bulk {
                operation_id: operation,
                max_parallel: args.max_parallel,
                started_us,
                done_us,
            });
            if facts.upgrades.len() != total {
                bail!("{} of {total} were upgraded", facts.upgrades.len());
            }
            return Ok(());
        }
    }
}

fn switched(operation: &Operation) -> usize {
    operation.targets.iter().filter(|t| t.switched()).count()
}

fn over(operation: &Operation) -> usize {
    operation.targets.iter().filter(|t| t.ended()).count()
}

/// The users of these workspaces close their tabs and open them again. Returns each workspace with
/// its new pod and the one before.
async fn move_users(
    scene: &mut Scene<'_>,
    targets: &[&Target],
) -> anyhow::Result<Vec<(String, String, String)>> {
    let moves = scene.desks.iter_mut().filter_map(|desk| {
        let target = targets.iter().find(|target| target.workspace == desk.id)?;
        Some(move_desk(desk, target))
    });
    let mut pods = Vec::new();
    for moved in join_all(moves).await {
        let (problems, moved) = moved?;
        scene.problems.extend(problems);
        pods.push(moved);
    }
    Ok(pods)
}

async fn move_desk(
    desk: &mut Desk,
    target: &Target,
) -> anyhow::Result<(Vec<String>, (String, String, String))> {
    let mut problems = Vec::new();
    let pod = target.pod_name.clone().context("a pod without a name")?;
    desk.users.close(&mut problems).await;
    desk.users.open(DURING, &pod, &mut problems).await?;
    let previous = std::mem::replace(&mut desk.pod, pod.clone());
    Ok((problems, (desk.id.clone(), pod, previous)))
}
