//! What people ask for, as control carries it out: a change of the record by compare-and-swap.
//! A command that breaks off is given again, as people do.

use crate::scenario::{Act, OWNER, Scenario, operation};
use nogoo9_control::cluster::{Cluster, ClusterError};
use nogoo9_model::record::{NotUpgraded, Record};
use nogoo9_model::upgrade::running_operation;

/// Carries out a command. What has been done already is done.
///
/// # Errors
/// The first call that failed, or `Conflict` where it is too early.
pub(crate) async fn run(
    cluster: Cluster,
    scenario: &'static Scenario,
    act: Act,
    id: String,
) -> Result<(), ClusterError> {
    match act {
        Act::Spawn => spawn(&cluster, scenario, &id).await,
        Act::Upgrade => upgrade(&cluster, scenario, &id).await,
        Act::Stop => change(&cluster, &id, Record::stop).await,
        Act::Start => change(&cluster, &id, Record::start).await,
        _ => change(&cluster, &id, Record::delete_with_data).await,
    }
}

async fn spawn(cluster: &Cluster, scenario: &Scenario, id: &str) -> Result<(), ClusterError> {
    let record = scenario.record(id, cluster.now());
    match cluster.create_record(&record).await {
        Ok(()) => Ok(()),
        // By an earlier attempt whose answer was lost; or by what was there before.
        Err(ClusterError::Exists { .. }) => {
            let Some(there) = cluster.record(id).await? else {
                return Err(early("spawn", id));
            };
            if there.value.owner == OWNER && there.value.desired == record.desired {
                return Ok(());
            }
            match there.value.succeed(record) {
                Some(next) => cluster.put_record(&there, &next).await,
                None => Err(early("spawn", id)),
            }
        }
        Err(error) => Err(error),
    }
}

async fn upgrade(cluster: &Cluster, scenario: &Scenario, id: &str) -> Result<(), ClusterError> {
    if cluster.operation(&operation(id)).await?.is_some() {
        return Ok(());
    }
    let Some(stored) = cluster.record(id).await? else {
        return Err(early("upgrade", id));
    };
    let known = |record: &Record| {
        let begun = record.upgrade.as_ref().map(|upgrade| &upgrade.operation);
        let ended = record.last.as_ref().map(|last| &last.operation.id);
        begun == Some(&operation(id)) || ended == Some(&operation(id))
    };
    if known(&stored.value) {
        return Ok(());
    }
    let next = match stored
        .value
        .begin_upgrade(scenario.intent(id), cluster.now())
    {
        Ok(next) => next,
        Err(NotUpgraded::UpToDate) => return Ok(()),
        Err(_) => return Err(early("upgrade", id)),
    };
    cluster.put_record(&stored, &next).await?;
    let Some(begun) = &next.upgrade else {
        return Ok(());
    };
    match cluster
        .put_operation(None, &running_operation(&next, begun))
        .await
    {
        Ok(_) | Err(ClusterError::Exists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn change(
    cluster: &Cluster,
    id: &str,
    next: impl Fn(&Record) -> Option<Record>,
) -> Result<(), ClusterError> {
    let Some(stored) = cluster.record(id).await? else {
        return Ok(());
    };
    match next(&stored.value) {
        Some(next) => cluster.put_record(&stored, &next).await,
        None => Ok(()),
    }
}

fn early(what: &'static str, id: &str) -> ClusterError {
    ClusterError::Conflict {
        what,
        object: id.to_owned(),
    }
}
