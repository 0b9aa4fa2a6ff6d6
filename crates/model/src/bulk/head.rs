//! What a bulk's operation has beside what every operation has, and what people may change of it.

use super::{CHUNK, Chunk, FLUSH_EVERY, MAX_PARALLEL, Target, TargetState, VERSION};
use crate::UnixSeconds;
use crate::container::Trouble;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

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

/// Who decided something, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct By {
    /// Subject of who did.
    pub actor: String,
    /// When.
    pub at: UnixSeconds,
}

/// Why a bulk stopped by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    /// How many had failed.
    pub failed: u32,
    /// When.
    pub at: UnixSeconds,
}

/// Which workspaces a bulk is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Those whose template has another version by now.
    #[default]
    Outdated,
    /// All: those that have the newest version get a new pod of it.
    All,
}

impl Scope {
    // Serde asks by reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_outdated(&self) -> bool {
        *self == Self::Outdated
    }
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
    /// Which workspaces were asked for.
    #[serde(skip_serializing_if = "Scope::is_outdated", default)]
    pub scope: Scope,
    /// How many are tried first; the others wait for [`Self::approved`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub canary: Option<u32>,
    /// Set once somebody let the others follow the canary.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approved: Option<By>,
    /// Set while no further slots are given out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub paused: Option<By>,
    /// How many may fail; with one more, what has no slot is not taken up any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure_budget: Option<u32>,
    /// Set once more have failed than [`Self::failure_budget`] allows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<Stopped>,
    /// The bulk whose failed targets these are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_of: Option<String>,
    /// Set once it was cancelled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cancelled: Option<By>,
    /// When results were last written.
    pub flushed_at: UnixSeconds,
}

/// Why a bulk is not resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotResumed {
    /// There is nothing to approve yet.
    #[error(
        "the canary is still under way; look at its results once the operation waits for approval, then resume it"
    )]
    CanaryUnderWay,
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
            scope: Scope::default(),
            canary: None,
            approved: None,
            paused: None,
            failure_budget: None,
            stopped: None,
            retry_of: None,
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
            TargetState::Pending if self.is_closed() => TargetState::Cancelled,
            state => state,
        }
    }

    /// Whether what has no slot will never get one.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.cancelled.is_some() || self.stopped.is_some()
    }

    /// Whether its canary has ended and somebody has to let the others follow, or end it.
    #[must_use]
    pub fn waits_for_approval(&self) -> bool {
        self.canary_left() == Some(0)
            && !self.is_closed()
            && self.slots.is_empty()
            && self.counts.pending > 0
    }

    /// How many of the canary have not been taken up yet. `None`: there is none, or not any more.
    /// What was skipped was not tried; the next one is in its place.
    pub(super) fn canary_left(&self) -> Option<u32> {
        let canary = self.canary.filter(|_| self.approved.is_none())?;
        let Counts {
            total,
            pending,
            skipped,
            ..
        } = self.counts;
        Some(canary.saturating_sub(total.saturating_sub(pending).saturating_sub(skipped)))
    }

    /// Why what had no slot was never taken up, of a bulk that [is closed](Self::is_closed).
    #[must_use]
    pub fn why_closed(&self) -> Trouble {
        match (&self.cancelled, self.why_stopped()) {
            (None, Some(why)) => Trouble::new("FailureBudget", why),
            (by, _) => {
                let by = by.as_ref().map_or("", |by| by.actor.as_str());
                Trouble::new("Cancelled", format!("cancelled by {by} before its turn"))
            }
        }
    }

    /// Why it stopped by itself, in a sentence.
    #[must_use]
    pub fn why_stopped(&self) -> Option<String> {
        let failed = self.stopped?.failed;
        let budget = self.failure_budget.unwrap_or_default();
        Some(format!(
            "stopped: {failed} failed, {budget} were allowed to"
        ))
    }

    /// The head with no further slots given out; what has one goes on. `None`: it is so already, or
    /// nothing is left to take up.
    #[must_use]
    pub fn pause(&self, by: By) -> Option<Self> {
        (self.paused.is_none() && !self.is_closed()).then(|| Self {
            version: VERSION,
            paused: Some(by),
            ..self.clone()
        })
    }

    /// The head that goes on: after a pause, or after its canary. One thing at a time: who resumes a
    /// bulk that was paused may not have seen what became of the canary since. `None`: it goes on
    /// already, or nothing is left to take up.
    ///
    /// # Errors
    /// [`NotResumed`].
    pub fn resume(&self, by: By) -> Result<Option<Self>, NotResumed> {
        if self.is_closed() {
            return Ok(None);
        }
        if self.paused.is_some() {
            return Ok(Some(Self {
                version: VERSION,
                paused: None,
                ..self.clone()
            }));
        }
        if self.waits_for_approval() {
            return Ok(Some(Self {
                version: VERSION,
                approved: Some(by),
                ..self.clone()
            }));
        }
        if self.canary_left().is_some() && self.counts.pending > 0 {
            return Err(NotResumed::CanaryUnderWay);
        }
        Ok(None)
    }

    /// The head of a bulk that ends what has no slot. `None`: nothing is left to take up.
    #[must_use]
    pub fn cancel(&self, by: By) -> Option<Self> {
        (!self.is_closed()).then(|| Self {
            version: VERSION,
            cancelled: Some(by),
            ..self.clone()
        })
    }

    /// How many targets the chunk at `index` holds.
    #[must_use]
    pub fn targets_of_chunk(&self, index: usize) -> usize {
        let total = usize::try_from(self.counts.total).unwrap_or(usize::MAX);
        total.saturating_sub(index.saturating_mul(CHUNK)).min(CHUNK)
    }
}
