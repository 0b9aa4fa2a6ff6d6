//! Which workspaces a bulk is about.

use super::{Target, TargetState};
use crate::container::Trouble;
use crate::record::{Desired, Phase, Record};

/// A workspace that may be a target, with what its template is now.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its record.
    pub record: &'a Record,
    /// The version that its template has now, or why that is not known.
    pub version: Result<&'a str, &'a str>,
}

/// The workspace as a target: to be upgraded if it is outdated and runs, skipped with the reason if
/// it does not, or if nobody can tell whether it is outdated. `None`: it has the newest version, or
/// is on its way out.
#[must_use]
pub fn consider(candidate: Candidate<'_>) -> Option<Target> {
    let record = candidate.record;
    let skipped = match candidate.version {
        _ if record.desired == Desired::Deleted => return None,
        Ok(version) if version == current(record) => return None,
        Err(problem) => Some(Trouble::new("TemplateUnreadable", problem)),
        Ok(_) if record.desired == Desired::Stopped => Some(stopped()),
        Ok(_) => record
            .upgrade
            .as_ref()
            .map(|upgrade| under_way(&upgrade.operation)),
    };
    Some(Target {
        workspace: record.id.clone(),
        owner: record.owner.clone(),
        template: record.template.name.clone(),
        from_version: record.template.version.clone(),
        to_version: candidate.version.ok().map(ToOwned::to_owned),
        state: if skipped.is_some() {
            TargetState::Skipped
        } else {
            TargetState::Pending
        },
        phase: None,
        mode: None,
        pod_name: None,
        previous_pod_name: None,
        error: skipped,
    })
}

/// The version that new requests meet: the successor's once it has taken over.
fn current(record: &Record) -> &str {
    let taken_over = record
        .upgrade
        .as_ref()
        .filter(|upgrade| matches!(upgrade.phase, Phase::Committed { .. }));
    taken_over.map_or(&record.template.version, |upgrade| {
        &upgrade.template.version
    })
}

/// Why a stopped workspace is skipped.
#[must_use]
pub fn stopped() -> Trouble {
    Trouble::new(
        "Stopped",
        "the workspace is not running: start it, then upgrade it",
    )
}

/// Why a workspace is skipped that another operation upgrades. Also where that one goes to the same
/// version: its result is its own, and one workspace's upgrade counts once.
#[must_use]
pub fn under_way(operation: &str) -> Trouble {
    Trouble::new(
        "UnderWay",
        format!("the workspace is being upgraded by {operation} already"),
    )
}
