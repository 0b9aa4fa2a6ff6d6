//! The workspaces of a bulk, and the chunks that they are stored in.

use super::{CHUNK, MAX_MESSAGE, VERSION};
use crate::container::Trouble;
use crate::mode::Mode;
use crate::operation::{Phase, State, TargetResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The operation that upgrades it instead, where it was skipped for that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub under_way: Option<String>,
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
            under_way: None,
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

impl Target {
    /// The target, left to another operation that upgrades it already.
    #[must_use]
    pub fn left_to(mut self, operation: &str) -> Self {
        self.state = TargetState::Skipped;
        self.error = Some(super::under_way(operation));
        self.under_way = Some(operation.to_owned());
        self
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

/// What somebody did by hand to the object that held a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// They deleted it.
    Deleted,
    /// They changed it, and what it holds now is not that chunk.
    Changed,
}

impl Chunk {
    /// What is made of a chunk that was lost: as many targets, of which nobody can tell any more
    /// which workspaces they were or what became of them. They have failed, so that the bulk can
    /// end; no workspace is touched on their account.
    ///
    /// `revision`: the one that the head rests on; `targets`: how many there were.
    #[must_use]
    pub fn lost(operation: &str, index: usize, revision: u32, targets: usize, how: Loss) -> Self {
        let object = crate::name::chunk(operation, index);
        let what = match how {
            Loss::Deleted => "deleted",
            Loss::Changed => "changed",
        };
        let why = Trouble::new(
            "ResultLost",
            format!(
                "somebody {what} the ConfigMap {object}, which held this workspace's name and result"
            ),
        );
        let first = index * CHUNK;
        let target = |place: usize| Target {
            // No id of a workspace looks like this.
            workspace: format!("?{place}"),
            owner: String::new(),
            template: String::new(),
            from_version: String::new(),
            to_version: None,
            state: TargetState::Failed,
            phase: None,
            mode: None,
            pod_name: None,
            previous_pod_name: None,
            error: Some(why.clone()),
            under_way: None,
        };
        Self {
            version: VERSION,
            operation: operation.to_owned(),
            index,
            revision: revision.wrapping_add(1),
            targets: (first..first + targets).map(target).collect(),
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
