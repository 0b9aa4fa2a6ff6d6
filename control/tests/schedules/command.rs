//! What people ask for, as control carries it out: a change of the record by compare-and-swap.
//! A command that breaks off is given again, as people do.

use crate::bulk;
use crate::scenario::{Act, OWNER, Scenario, again, back, operation};
use nogoo9_control::cluster::{Cluster, ClusterError};
use nogoo9_model::operation::Kind;
use nogoo9_model::record::{Cancelled, Intent, NotUpgraded, Record, Upgrade};
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
        Act::Upgrade => {
            let name = operation(&id);
            let intent = |_: &Record| Some(scenario.intent(&id, name.clone(), "v2"));
            begin(&cluster, &id, &name, intent).await
        }
        Act::Again(version) => {
            let name = again(&id);
            let intent = |_: &Record| Some(scenario.intent(&id, name.clone(), version));
            begin(&cluster, &id, &name, intent).await
        }
        Act::Rollback => {
            let name = back(&id);
            let intent = |record: &Record| {
                let previous = record.previous.clone()?;
                Some(Intent {
                    kind: Kind::Rollback,
                    force: true,
                    template: previous.template,
                    manifest: previous.manifest,
                    claims: Vec::new(),
                    ..scenario.intent(&id, name.clone(), "v1")
                })
            };
            begin(&cluster, &id, &name, intent).await
        }
        Act::Cancel => cancel(&cluster, &id).await,
        Act::UpgradeAll => bulk::upgrade_all(&cluster, scenario).await,
        Act::All(turn) => bulk::change(&cluster, turn).await,
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

/// Begins an upgrade, or a rollback, as that operation; or finds the one that is under way.
async fn begin(
    cluster: &Cluster,
    id: &str,
    operation: &str,
    intent: impl Fn(&Record) -> Option<Intent>,
) -> Result<(), ClusterError> {
    if cluster.operation(operation).await?.is_some() {
        return Ok(());
    }
    let Some(stored) = cluster.record(id).await? else {
        return Err(early("upgrade", id));
    };
    let record = &stored.value;
    let ended = record.last.as_ref().map(|last| last.operation.id.as_str());
    let Some(intent) = intent(record) else {
        return Err(early("upgrade", id));
    };
    match &record.upgrade {
        Some(begun) if begun.kind == intent.kind => return show(cluster, record, begun).await,
        Some(_) => return Err(early("upgrade", id)),
        None if ended == Some(operation) => return Ok(()),
        None => {}
    }
    let next = match record.begin_upgrade(intent, cluster.now()) {
        Ok(next) => next,
        Err(NotUpgraded::UpToDate) => return Ok(()),
        Err(_) => return Err(early("upgrade", id)),
    };
    cluster.put_record(&stored, &next).await?;
    match &next.upgrade {
        Some(begun) => show(cluster, &next, begun).await,
        None => Ok(()),
    }
}

/// Whoever gets the answer may ask for the operation at once.
async fn show(cluster: &Cluster, record: &Record, begun: &Upgrade) -> Result<(), ClusterError> {
    let shown = running_operation(record, begun);
    match cluster.put_operation(None, &shown).await {
        Ok(_) | Err(ClusterError::Exists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What is over cannot be called off any more, nor what has gone too far.
async fn cancel(cluster: &Cluster, id: &str) -> Result<(), ClusterError> {
    let Some(stored) = cluster.record(id).await? else {
        return Ok(());
    };
    let by = Cancelled {
        actor: OWNER.into(),
        at: cluster.now(),
    };
    match stored.value.cancel_upgrade(&operation(id), by) {
        Ok(Some(next)) => cluster.put_record(&stored, &next).await,
        Ok(None) | Err(_) => Ok(()),
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

pub(crate) fn early(what: &'static str, id: &str) -> ClusterError {
    ClusterError::Conflict {
        what,
        object: id.to_owned(),
    }
}
