//! Which workspaces a bulk is about.

use super::{Scope, Target, TargetState};
use crate::UnixSeconds;
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

/// The workspace as a target: to be upgraded if it is outdated (or everything is asked for) and runs,
/// skipped with the reason if it does not, if its owner wants none yet, or if nobody can tell whether
/// it is outdated. `None`: it has the newest version, or is on its way out.
#[must_use]
pub fn consider(candidate: Candidate<'_>, scope: Scope, now: UnixSeconds) -> Option<Target> {
    let record = candidate.record;
    let up_to_date = |version: &str| scope == Scope::Outdated && version == current(record);
    let skipped = match candidate.version {
        _ if record.desired == Desired::Deleted => return None,
        Ok(version) if up_to_date(version) => return None,
        Err(problem) => Some(Trouble::new("TemplateUnreadable", problem)),
        Ok(_) if record.desired == Desired::Stopped => Some(stopped()),
        Ok(_) => not_before(record, now),
    };
    let target = Target {
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
        under_way: None,
    };
    Some(match &record.upgrade {
        Some(upgrade) if target.state == TargetState::Pending => target.left_to(&upgrade.operation),
        _ => target,
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

/// Why a workspace is skipped whose owner wants no upgrade yet. `None`: it may be upgraded now.
#[must_use]
pub fn not_before(record: &Record, now: UnixSeconds) -> Option<Trouble> {
    let at = record.not_before.filter(|at| *at > now)?;
    let when =
        jiff::Timestamp::from_second(at).map_or_else(|_| at.to_string(), |time| time.to_string());
    Some(Trouble::new(
        "NotBefore",
        format!("its owner wants no upgrade before {when}"),
    ))
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
