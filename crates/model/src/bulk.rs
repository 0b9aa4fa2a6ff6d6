//! Many upgrades as one operation: which workspaces, how many at once, and what became of each.
//!
//! A bulk is stored as a head, which is an [`Operation`](crate::operation::Operation) like any other,
//! and chunks of [`CHUNK`] targets. The targets are fixed before the head exists. Each workspace is
//! upgraded by an ordinary upgrade whose operation id is a [function](child) of bulk and workspace,
//! so that its record, and not the memory of whoever drives the bulk, tells whether it has begun.
//!
//! Everything that is about all of them is decided by compare-and-swap of the head alone: which
//! targets hold a parallel slot, and whether the bulk was paused, cancelled, approved after its canary
//! or has failed too often. A target that holds a slot counts as running. So there are never more at
//! once than asked for, and none is taken up after a pause or cancel, before the approval or beyond
//! the failure budget, however many drive the bulk at the same time.

mod head;
mod losses;
mod plan;
mod select;
mod sight;
mod target;

pub use head::{By, Counts, Head, NotResumed, Scope, Stopped};
pub use losses::data_lost;
pub use plan::{Observed, Step, plan};
pub use select::{Candidate, consider, not_before, stopped, under_way};
pub use sight::{Sight, is_quota, sight};
pub use target::{Chunk, Loss, Target, TargetState, chunks};

use crate::label;

/// Version of the stored form. Whoever finds a newer one leaves the bulk alone.
pub const VERSION: u32 = 2;
/// Targets of one chunk, which stays well under what an object may hold.
pub const CHUNK: usize = 250;
/// Upgrades at once, unless asked otherwise.
pub const DEFAULT_PARALLEL: u32 = 5;
/// Most upgrades at once.
pub const MAX_PARALLEL: u32 = 50;
/// Least time between two writes of results, in seconds.
pub const FLUSH_EVERY: i64 = 2;
/// Longest message that is kept of a target, in bytes.
const MAX_MESSAGE: usize = 1024;

/// Id of the operation by which a bulk upgrades a workspace: the same whoever works it out.
#[must_use]
pub fn child(bulk: &str, workspace: &str) -> String {
    // Separated by NUL, which neither can hold.
    let facts = format!("{bulk}\0{workspace}");
    format!("op-{}", label::base32_sha256(facts.as_bytes(), 26))
}

#[cfg(test)]
mod command_tests;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
