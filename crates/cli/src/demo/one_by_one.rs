//! Upgrades of one workspace, one after the other: side by side, or by recreation.

use std::time::Duration;

use anyhow::{Context as _, bail};

use super::act::Scene;
use super::api::Operation;
use super::report::{DURING, Facts, Mode, UpgradeReport};
use super::say;

/// Longest wait for a new pod to take over, and for an old one to go.
pub(super) const UPGRADE_BOUND: Duration = Duration::from_secs(180);

/// Quiet time between two upgrades, so that each is seen by itself.
const PAUSE: Duration = Duration::from_secs(2);

/// Upgrades `count` times, or until something goes wrong.
pub(super) async fn play(scene: &mut Scene<'_>, mode: Mode, count: u32) -> Facts {
    let mut facts = Facts::default();
    for number in 1..=count {
        if number > 1 {
            tokio::time::sleep(PAUSE).await;
        }
        match upgrade(scene, mode, number, count).await {
            Ok(upgrade) => facts.upgrades.push(upgrade),
            Err(error) => {
                scene.problems.push(format!("upgrade {number}: {error:#}"));
                break;
            }
        }
    }
    facts
}

/// One upgrade, from the edit of the template to the end of the old pod.
async fn upgrade(
    scene: &mut Scene<'_>,
    mode: Mode,
    number: u32,
    count: u32,
) -> anyhow::Result<UpgradeReport> {
    scene.template.edit(number, &scene.stage.admin.api).await?;
    let (id, api, serves) = {
        let desk = scene.desk()?;
        (desk.id.clone(), desk.owner.api.clone(), desk.pod.clone())
    };
    let started_us = scene.mark(&format!("upgrade {number} started"));
    let upgrade = api.upgrade(&id).await?;
    let answered_us = scene.mark(&format!("upgrade {number} answered"));
    let (Some(operation), Some(previous)) = (upgrade.operation_id, upgrade.previous_pod_name)
    else {
        bail!("it did not begin: {}", upgrade.status);
    };
    if previous != serves {
        bail!("it replaces {previous}, but {serves} serves");
    }
    if upgrade.mode != mode.as_upgrade() {
        bail!("it goes {} instead of {}", upgrade.mode, mode.as_upgrade());
    }
    let pod = upgrade.pod_name;
    let done = |seen: &Operation| seen.done;

    let (committed_us, moved_us);
    if mode == Mode::Recreate {
        // The old pod's sockets end with it; whoever comes back at once waits for the new one.
        let mut problems = Vec::new();
        let desk = scene.desk()?;
        let followed = async {
            let seen = api.follow(&operation, UPGRADE_BOUND, done).await?;
            seen.expect_well()
        };
        let back = desk.users.come_back(DURING, &pod, &mut problems);
        tokio::try_join!(followed, back)?;
        scene.problems.append(&mut problems);
        committed_us = scene.mark(&format!("upgrade {number} committed"));
        moved_us = committed_us;
    } else {
        let seen = api
            .follow(&operation, UPGRADE_BOUND, Operation::started)
            .await?;
        committed_us = scene.mark(&format!("upgrade {number} committed"));
        seen.expect_well()?;
        // Whoever is on the old pod stays there, until they close their tab themselves.
        let mut problems = Vec::new();
        let desk = scene.desk()?;
        desk.users.close(&mut problems).await;
        desk.users.open(DURING, &pod, &mut problems).await?;
        scene.problems.append(&mut problems);
        moved_us = scene.mark(&format!("upgrade {number} moved"));
        let seen = api.follow(&operation, UPGRADE_BOUND, done).await?;
        seen.expect_well()?;
    }
    let done_us = scene.mark(&format!("upgrade {number} done"));
    scene.desk()?.pod.clone_from(&pod);
    let report = UpgradeReport {
        workspace: id,
        operation_id: operation,
        pod_name: pod,
        previous_pod_name: previous,
        started_us,
        answered_us,
        first_answer_us: None,
        switch_us: None,
        committed_us,
        moved_us,
        done_us,
    };
    say(&format!(
        "upgrade {number:>3} of {count}: {} took over after {:.1} s, {} was gone after {:.1} s; {} requests, {} failed",
        report.pod_name,
        report.seconds_until(report.committed_us),
        report.previous_pod_name,
        report.seconds_until(report.done_us),
        scene.load.requests(),
        scene.load.failures(),
    ));
    Ok(report)
}

impl Operation {
    /// # Errors
    /// It ended badly, or is about to.
    pub(super) fn expect_well(&self) -> anyhow::Result<()> {
        self.well()
            .then_some(())
            .with_context(|| self.message.clone())
    }
}
