//! Operations: what was asked for, by whom, and what became of it.

use crate::UnixSeconds;
use crate::bulk;
use crate::container::Trouble;
use crate::mode::Mode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an operation does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One workspace to the newest version of its template.
    #[default]
    Upgrade,
    /// One workspace back to what it was before its newest upgrade.
    Rollback,
    /// All outdated workspaces, or those of a template or an owner.
    UpgradeAll,
}

/// Where an operation stands. The last three are terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Under way.
    Running,
    /// Everything that was asked for is done.
    Succeeded,
    /// The workspace stays on its old version.
    Failed,
    /// Ended by a person before the end.
    Cancelled,
}

impl State {
    /// Whether nothing more will happen.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        self != Self::Running
    }
}

/// How far one workspace's upgrade is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// A pod without data shows that the new images can be had.
    Checking,
    /// The successor is being created, pulled, started, settled.
    Starting,
    /// New requests go to the successor; open sessions finish on the old pod.
    Draining,
    /// The successor is being taken back.
    Aborting,
    /// The old pod has to end before the successor may start; requests are held meanwhile.
    Replacing,
    /// The successor failed after the old pod had ended: the old version is coming back.
    Restoring,
    /// Ended.
    Done,
}

/// One workspace within an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetResult {
    /// Workspace id.
    pub workspace: String,
    /// Owner's raw subject.
    pub owner: String,
    /// Name of the successor pod.
    pub pod_name: String,
    /// Name of the pod that it replaces.
    pub previous_pod_name: String,
    /// Template version before.
    pub from_version: String,
    /// Template version after.
    pub to_version: String,
    /// How the pod is replaced.
    pub mode: Mode,
    /// Where it stands.
    pub state: State,
    /// How far it is.
    pub phase: Phase,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<Trouble>,
}

/// An operation as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// `op-` and 26 characters of base32 (128 random bits).
    pub id: String,
    /// What it does.
    pub kind: Kind,
    /// Subject of who asked for it.
    pub actor: String,
    /// The bulk operation that this one is a part of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<String>,
    /// The failed operation on one workspace that it tries again; a bulk has it in its head.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_of: Option<String>,
    /// Where it stands.
    pub state: State,
    /// When it was asked for.
    pub started_at: UnixSeconds,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finished_at: Option<UnixSeconds>,
    /// The workspace. Empty for a bulk, whose targets are stored in chunks of their own.
    pub targets: Vec<TargetResult>,
    /// What only a bulk has.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bulk: Option<bulk::Head>,
}
