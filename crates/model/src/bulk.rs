//! Many upgrades as one operation: which workspaces, how many at once, and what became of each.
//!
//! A bulk is stored as a head, which is an [`Operation`](crate::operation::Operation) like any other,
//! and chunks of [`CHUNK`] targets. The targets are fixed before the head exists. Each workspace is
//! upgraded by an ordinary upgrade whose operation id is a [function](child) of bulk and workspace,
//! so that its record, and not the memory of whoever drives the bulk, tells whether it has begun.
//!
//! Two things are decided by compare-and-swap of the head alone: which targets hold a parallel slot,
//! and whether the bulk was cancelled. A target that holds a slot counts as running. So there are
//! never more at once than asked for, and none is taken up after a cancel, however many drive the
//! bulk at the same time.

mod plan;
mod select;
mod sight;

pub use plan::{Observed, Step, plan};
pub use select::{Candidate, consider, stopped, under_way};
pub use sight::{Sight, is_quota, sight};

use crate::container::Trouble;
use crate::mode::Mode;
use crate::operation::{Phase, State, TargetResult};
use crate::{UnixSeconds, label};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Version of the stored form. Whoever finds a newer one leaves the bulk alone.
pub const VERSION: u32 = 1;
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

/// Where a target stands. All but the first two are terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TargetState {
    /// Its turn has not come.
    Pending,
    /// Its turn has come.
    Running,
    /// It runs the new version.
    Succeeded,
    /// It stays on its old version.
    Failed,
    /// There was nothing to upgrade, or nothing that could be.
    Skipped,
    /// The bulk was cancelled before its turn, or the workspace stopped in the middle.
    Cancelled,
}

impl TargetState {
    /// Whether nothing more will happen.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

impl From<State> for TargetState {
    fn from(state: State) -> Self {
        match state {
            State::Running => Self::Running,
            State::Succeeded => Self::Succeeded,
            State::Failed => Self::Failed,
            State::Cancelled => Self::Cancelled,
        }
    }
}

/// One workspace within a bulk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Workspace id.
    pub workspace: String,
    /// Owner's raw subject.
    pub owner: String,
    /// Name of its template.
    pub template: String,
    /// Template version before.
    pub from_version: String,
    /// Template version after; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to_version: Option<String>,
    /// Where it stands.
    pub state: TargetState,
    /// How far its upgrade is, once it has begun.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub phase: Option<Phase>,
    /// How the pod is replaced, once that is decided.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mode: Option<Mode>,
    /// Name of the successor pod, once its upgrade has begun.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pod_name: Option<String>,
    /// Name of the pod that it replaces.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub previous_pod_name: Option<String>,
    /// Why it failed, was skipped or cancelled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<Trouble>,
}

impl Target {
    /// The target as its upgrade has it.
    #[must_use]
    pub(crate) fn seen(&self, result: &TargetResult) -> Self {
        Self {
            workspace: self.workspace.clone(),
            owner: self.owner.clone(),
            template: self.template.clone(),
            from_version: result.from_version.clone(),
            to_version: Some(result.to_version.clone()),
            state: result.state.into(),
            phase: Some(result.phase),
            mode: Some(result.mode),
            pod_name: Some(result.pod_name.clone()),
            previous_pod_name: Some(result.previous_pod_name.clone()),
            error: result.error.as_ref().map(brief),
        }
    }

    /// The target, ended without an upgrade of its own.
    #[must_use]
    pub(crate) fn ended(&self, state: TargetState, why: &Trouble) -> Self {
        Self {
            state,
            phase: None,
            error: Some(brief(why)),
            ..self.clone()
        }
    }

    /// Whether it leaves its parallel slot to another: new requests go to its new pod, or nothing
    /// more happens to it.
    #[must_use]
    pub(crate) fn leaves_slot(&self) -> bool {
        let committed = self.state == TargetState::Running && self.phase == Some(Phase::Draining);
        committed || self.state.is_terminal()
    }
}

/// Container messages may be long, and a chunk must fit its object.
fn brief(trouble: &Trouble) -> Trouble {
    let mut end = trouble.message.len().min(MAX_MESSAGE);
    while !trouble.message.is_char_boundary(end) {
        end -= 1;
    }
    let mut message = trouble.message.clone();
    message.truncate(end);
    Trouble::new(trouble.reason.clone(), message)
}

/// Some of the targets, in order, as they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chunk {
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// Id of the bulk.
    pub operation: String,
    /// Which chunk of it, from 0.
    pub index: usize,
    /// Counts its writes; the head tells which one it rests on.
    pub revision: u32,
    /// The targets.
    pub targets: Vec<Target>,
}

/// How many targets stand where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// All of them.
    #[schemars(schema_with = "count_schema")]
    pub total: u32,
    /// Whose turn has not come.
    #[schemars(schema_with = "count_schema")]
    pub pending: u32,
    /// Under way.
    #[schemars(schema_with = "count_schema")]
    pub running: u32,
    /// Upgraded.
    #[schemars(schema_with = "count_schema")]
    pub succeeded: u32,
    /// On their old version after a failure.
    #[schemars(schema_with = "count_schema")]
    pub failed: u32,
    /// Not upgraded, since there was nothing to upgrade or nothing that could be.
    #[schemars(schema_with = "count_schema")]
    pub skipped: u32,
    /// Not upgraded, since the bulk was cancelled or the workspace stopped.
    #[schemars(schema_with = "count_schema")]
    pub cancelled: u32,
}

// Written out, since the derived one names the format `uint32`, of which strict clients complain.
fn count_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "integer", "minimum": 0})
}

impl Counts {
    /// Counts one more target.
    pub(crate) fn add(&mut self, state: TargetState) {
        self.total += 1;
        *match state {
            TargetState::Pending => &mut self.pending,
            TargetState::Running => &mut self.running,
            TargetState::Succeeded => &mut self.succeeded,
            TargetState::Failed => &mut self.failed,
            TargetState::Skipped => &mut self.skipped,
            TargetState::Cancelled => &mut self.cancelled,
        } += 1;
    }

    /// How many have ended, however.
    #[must_use]
    pub fn done(&self) -> u32 {
        self.total - self.pending - self.running
    }
}

/// Who cancelled a bulk, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {
    /// Subject of who did.
    pub actor: String,
    /// When.
    pub at: UnixSeconds,
}

/// What a bulk's operation has beside what every operation has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// Upgrades at once.
    pub max_parallel: u32,
    /// Only workspaces of this template were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub template: Option<String>,
    /// Only workspaces of this owner were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<String>,
    /// [`Chunk::revision`] of each chunk that this head rests on.
    pub chunks: Vec<u32>,
    /// How many targets stand where.
    pub counts: Counts,
    /// Targets that hold a parallel slot, by their place among all targets.
    pub slots: BTreeSet<usize>,
    /// Set once it was cancelled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cancelled: Option<Cancelled>,
    /// When results were last written.
    pub flushed_at: UnixSeconds,
}

impl Head {
    /// The head of a bulk over these chunks, none of whose targets was taken up.
    #[must_use]
    pub fn new(max_parallel: u32, chunks: &[Chunk], now: UnixSeconds) -> Self {
        let mut counts = Counts::default();
        for target in chunks.iter().flat_map(|chunk| &chunk.targets) {
            counts.add(target.state);
        }
        Self {
            version: VERSION,
            max_parallel: max_parallel.clamp(1, MAX_PARALLEL),
            template: None,
            owner: None,
            chunks: chunks.iter().map(|chunk| chunk.revision).collect(),
            counts,
            slots: BTreeSet::new(),
            cancelled: None,
            // The first targets are taken up at once.
            flushed_at: now.saturating_sub(FLUSH_EVERY),
        }
    }

    /// Where a target stands, given how its chunk has it: the head knows more of its turn.
    #[must_use]
    pub fn state_of(&self, index: usize, target: &Target) -> TargetState {
        match target.state {
            TargetState::Pending if self.slots.contains(&index) => TargetState::Running,
            TargetState::Pending if self.cancelled.is_some() => TargetState::Cancelled,
            state => state,
        }
    }
}

/// Cuts targets into the chunks of a bulk.
#[must_use]
pub fn chunks(operation: &str, targets: Vec<Target>) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::with_capacity(targets.len().div_ceil(CHUNK));
    for target in targets {
        match chunks.last_mut() {
            Some(chunk) if chunk.targets.len() < CHUNK => chunk.targets.push(target),
            _ => chunks.push(Chunk {
                version: VERSION,
                operation: operation.to_owned(),
                index: chunks.len(),
                revision: 0,
                targets: vec![target],
            }),
        }
    }
    chunks
}

/// Id of the operation by which a bulk upgrades a workspace: the same whoever works it out.
#[must_use]
pub fn child(bulk: &str, workspace: &str) -> String {
    // Separated by NUL, which neither can hold.
    let facts = format!("{bulk}\0{workspace}");
    format!("op-{}", label::base32_sha256(facts.as_bytes(), 26))
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
