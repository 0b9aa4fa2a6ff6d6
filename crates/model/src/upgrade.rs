//! What happens next to a workspace: `plan(observed, now)` is one conditional write, a wait with a
//! typed reason, or nothing.
//!
//! The executor makes that one write and observes again, so nothing hangs on its memory: killed
//! anywhere, run twice at once or robbed of replies, it converges. Every write is conditional or
//! idempotent: records by resource version, pods created under names that are functions of durable
//! facts, patched by resource version, deleted by uid.

mod act;
mod check;
mod drain;
mod pair;
mod recreate;
mod side_by_side;
mod steady;
pub mod story;
mod wait;

pub use act::{DeleteReason, Write, running_operation};
pub use drain::ProxyReport;
pub use wait::Wait;

use crate::UnixSeconds;
use crate::container::Trouble;
use crate::mode::Mode;
use crate::operation::Operation;
use crate::pod::PodView;
use crate::probe::Probe;
use crate::record::{Desired, Phase, Record};

/// Everything that a decision may rest on, read live.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The workspace's record.
    pub record: &'a Record,
    /// All pods with the workspace's id, whoever they belong to.
    pub pods: &'a [PodView],
    /// The workspace's probes.
    pub probes: &'a [Probe],
    /// What every known proxy says of the workspace; needed where [`needs_proxies`] says so.
    pub proxies: &'a [ProxyReport],
    /// The stored form of [`Record::operation_to_show`], if there is one.
    pub operation: Option<&'a Operation>,
    /// How the newest create of this pass was refused, if it was.
    pub refused: Option<&'a Refused>,
}

/// A create that the API server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Name of the pod that was to be created.
    pub pod: String,
    /// Why.
    pub why: Refusal,
}

/// Why a create was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A pod of that name exists and is not the one that was meant.
    NameTaken,
    /// The object breaks a rule: quota, admission, validation.
    Rejected(Trouble),
}

impl Observed<'_> {
    /// How the create of that pod was refused.
    fn refusal(&self, pod: &str) -> Option<&Refusal> {
        self.refused
            .filter(|refused| refused.pod == pod)
            .map(|refused| &refused.why)
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Make this write, then observe again.
    Write(Box<Write>),
    /// Nothing can be done yet.
    Wait {
        /// Why, for people.
        reason: Wait,
        /// When to look again if nothing happens before.
        until: Option<UnixSeconds>,
    },
    /// The workspace is as it should be.
    Done,
}

impl Plan {
    fn write(write: Write) -> Self {
        Self::Write(Box::new(write))
    }

    fn wait(reason: Wait) -> Self {
        Self::Wait {
            reason,
            until: None,
        }
    }

    fn wait_until(reason: Wait, until: UnixSeconds) -> Self {
        Self::Wait {
            reason,
            until: Some(until),
        }
    }
}

/// Whether the next decision about this workspace needs the proxies' reports.
#[must_use]
pub fn needs_proxies(record: &Record, pods: &[PodView]) -> bool {
    let draining = record.upgrade.as_ref().is_some_and(|upgrade| {
        matches!(
            (&upgrade.phase, upgrade.mode),
            (
                Phase::Committed { .. } | Phase::Aborting { .. },
                Mode::SideBySide
            ) | (Phase::Quiescing { .. }, _)
        )
    });
    draining
        || (record.upgrade.is_none()
            && pods.iter().filter(|pod| record.holds(pod)).nth(1).is_some())
}

/// Decides what happens next.
#[must_use]
pub fn plan(observed: &Observed<'_>, now: UnixSeconds) -> Plan {
    let record = observed.record;
    let mine: Vec<&PodView> = observed
        .pods
        .iter()
        .filter(|pod| record.holds(pod))
        .collect();
    if let Some(plan) = check::tidy(observed) {
        return plan;
    }
    if let Some(last) = record.last.as_ref().filter(|last| !last.shown) {
        return act::show_end(observed, last);
    }
    match (record.desired, &record.upgrade) {
        (Desired::Stopped | Desired::Deleted, Some(upgrade)) => {
            act::end_early(record, upgrade, now)
        }
        (Desired::Stopped | Desired::Deleted, None) => steady::wind_down(observed, &mine, now),
        (Desired::Running, None) => steady::keep(observed, &mine, now),
        (Desired::Running, Some(upgrade)) => match upgrade.mode {
            Mode::SideBySide => side_by_side::plan(observed, upgrade, &mine, now),
            Mode::Recreate => recreate::plan(observed, upgrade, &mine, now),
        },
    }
}

#[cfg(test)]
mod check_tests;
#[cfg(test)]
mod drain_tests;
#[cfg(test)]
mod misfortune_tests;
#[cfg(test)]
mod recreate_tests;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
