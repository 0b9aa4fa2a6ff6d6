//! Operations on the wire, and what begins and ends bulks.

use super::UpgradeMode;
use nogoo9_model::bulk::{Counts, DEFAULT_PARALLEL, MAX_PARALLEL, Scope, TargetState};
use nogoo9_model::container::Trouble;
use nogoo9_model::operation::{Kind, Phase, State};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Targets of one page, if none is asked for.
pub const DEFAULT_PAGE: u32 = 50;
/// Most targets of one page.
pub const MAX_PAGE: u32 = 250;
/// Longest wait, in seconds: well under the usual 30 and 60 s time limits of clients.
pub const MAX_WAIT: u8 = 25;

/// Names one operation.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OperationId {
    /// Id of the operation.
    pub operation_id: String,
}

/// Names one operation, and a page of its workspaces.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetOperation {
    /// Id of the operation, as upgrade_workspace or upgrade_all_workspaces returned it.
    pub operation_id: String,
    /// How many workspaces to pass over: the `nextOffset` of the page before.
    #[serde(default)]
    #[schemars(schema_with = "count_schema")]
    pub offset: u32,
    /// Most workspaces to list, 250 at most.
    #[serde(default = "default_page")]
    #[schemars(schema_with = "page_schema")]
    pub limit: u32,
}

impl GetOperation {
    /// The first page of an operation.
    #[must_use]
    pub fn first(operation_id: String) -> Self {
        Self {
            operation_id,
            offset: 0,
            limit: DEFAULT_PAGE,
        }
    }
}

/// Which operations to list: all that one may see, unless something is asked for.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListOperations {
    /// Only those that stand so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "State")]
    pub state: Option<State>,
    /// Only those that do this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Kind")]
    pub kind: Option<Kind>,
    /// Only what was done to this workspace alone, or to it as one of many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub workspace_id: Option<String>,
}

/// How long to wait for an operation.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitForOperation {
    /// Id of the operation, as upgrade_workspace or upgrade_all_workspaces returned it.
    pub operation_id: String,
    /// Longest wait in seconds, 0 to 25. It ends earlier when the operation ends; that of a single
    /// workspace also when it moves on.
    #[serde(default = "default_wait")]
    #[schemars(schema_with = "seconds_schema")]
    pub seconds: u8,
    /// The `revision` of the last answer: with it, no step in between is missed. An operation on many
    /// workspaces moves all the time, so there it makes no difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub since_revision: Option<String>,
}

/// Which workspaces to upgrade, and how many at once.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpgradeAllWorkspaces {
    /// Most upgrades at once, 1 to 50; 5 if left out. The next one begins when new requests of one
    /// go to its new pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parallel_schema")]
    pub max_parallel: Option<u32>,
    /// `true`: touch nothing, and tell what would happen to each.
    #[serde(default)]
    pub dry_run: bool,
    /// Only workspaces of this template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub template: Option<String>,
    /// Only workspaces of this owner, by subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub user_sub: Option<String>,
    /// `outdated`: those whose template has another version by now. `all`: those that have the
    /// newest version get a new pod of it, too.
    #[serde(default)]
    pub scope: Scope,
    /// Try so many first, then wait: resume_operation lets the others follow, cancel_operation ends
    /// it. All in one go if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "canary_schema")]
    pub canary: Option<u32>,
    /// How many may fail: with one more, those whose turn has not come are cancelled. 0 stops at the
    /// first failure; without it, failures stop nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_schema")]
    pub failure_budget: Option<u32>,
}

fn default_page() -> u32 {
    DEFAULT_PAGE
}

fn default_wait() -> u8 {
    20
}

// Written out, since the derived ones name formats such as `uint32`, of which strict clients
// complain.
fn count_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 0})
}

fn page_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": DEFAULT_PAGE})
}

fn parallel_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": MAX_PARALLEL, "default": DEFAULT_PARALLEL})
}

fn canary_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1})
}

fn seconds_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 0, "maximum": MAX_WAIT})
}

/// One workspace within an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationTarget {
    /// Id of the workspace.
    pub id: String,
    /// Subject of its owner.
    pub owner: String,
    /// Where it stands.
    pub state: TargetState,
    /// How far it is, once it has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")]
    pub phase: Option<Phase>,
    /// The same in a sentence.
    pub message: String,
    /// Name of the new pod, once there is to be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub pod_name: Option<String>,
    /// Name of the pod that it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub previous_pod_name: Option<String>,
    /// Version before.
    pub from_version: String,
    /// Version after; absent where the template cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub to_version: Option<String>,
    /// How the pod is replaced, once that is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UpgradeMode")]
    pub mode: Option<UpgradeMode>,
    /// Why it failed, was skipped or cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OperationError")]
    pub error: Option<OperationError>,
    /// The operation that upgrades it instead, where it was skipped for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub under_way: Option<String>,
}

/// Why an upgrade failed, in Kubernetes' own words, or why there was none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationError {
    /// Short, such as `ImagePullBackOff`.
    pub reason: String,
    /// Longer.
    pub message: String,
}

impl From<Trouble> for OperationError {
    fn from(trouble: Trouble) -> Self {
        Self {
            reason: trouble.reason,
            message: trouble.message,
        }
    }
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Id.
    pub operation_id: String,
    /// What it does.
    pub kind: Kind,
    /// Subject of who asked for it.
    pub actor: String,
    /// The operation on many workspaces that it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub parent: Option<String>,
    /// Where it stands. One on many workspaces has failed if one of them has.
    pub state: State,
    /// Whether nothing more will happen.
    pub done: bool,
    /// Changes with every step; give it to wait_for_operation to miss none.
    pub revision: String,
    /// Where it stands, in a sentence.
    pub message: String,
    /// When it was asked for (RFC 3339).
    pub started_at: String,
    /// When it ended (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub finished_at: Option<String>,
    /// Whether no further workspaces are taken up until resume_operation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// What it waits for a person to do; those whose turn has come go on meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Waiting")]
    pub waiting: Option<Waiting>,
    /// How many are tried before the others, which wait for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "canary_schema")]
    pub canary: Option<u32>,
    /// How many may fail before the others are cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_schema")]
    pub failure_budget: Option<u32>,
    /// Why it stopped by itself: more have failed than the failure budget allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub stopped: Option<String>,
    /// The operation whose failed workspaces, or workspace, it tries again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub retry_of: Option<String>,
    /// Of an operation on many workspaces: which were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scope")]
    pub scope: Option<Scope>,
    /// Of an operation on many workspaces: how many of them stand where.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Counts")]
    pub counts: Option<Counts>,
    /// The workspaces, or a page of them. Lists, and waits for more than 50, leave them out.
    pub targets: Vec<OperationTarget>,
    /// The `offset` of the next page, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_schema")]
    pub next_offset: Option<u32>,
    /// What to do next, while it is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub next: Option<String>,
}

/// What an operation waits for a person to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// Its canary has ended: resume_operation lets the others follow, cancel_operation ends it.
    Approval,
}

/// Operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operations {
    /// Newest first, 50 at most; without those that are part of another, unless a workspace was
    /// asked for.
    pub operations: Vec<Operation>,
}

/// Whether upgrades began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpgradeAllStatus {
    /// They are under way.
    Upgrading,
    /// There was nothing to upgrade, and nothing was touched.
    UpToDate,
    /// Nothing was touched; this is what would happen.
    DryRun,
}

/// What would happen to a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It would be upgraded.
    Upgrade,
    /// It would stay as it is.
    Skip,
}

/// What would happen to one workspace, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTarget {
    /// Id of the workspace.
    pub id: String,
    /// Subject of its owner.
    pub owner: String,
    /// Name of its template.
    pub template: String,
    /// Version that it runs.
    pub from_version: String,
    /// Version that its template has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub to_version: Option<String>,
    /// How its pod would be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UpgradeMode")]
    pub mode: Option<UpgradeMode>,
    /// What would happen.
    pub verdict: Verdict,
    /// Why it would be skipped, or why its pod has to end before the new one can start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    /// Its volumes that end with the pod, such as emptyDir: everything in them would be lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data_lost: Vec<String>,
    /// The operation that upgrades it already.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub under_way: Option<String>,
}

/// A workspace that is left to the operation that upgrades it already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnderWay {
    /// Id of the workspace.
    pub id: String,
    /// The operation.
    pub operation_id: String,
}

/// What became of an upgrade of all that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeAll {
    /// Whether upgrades are under way.
    pub status: UpgradeAllStatus,
    /// Operation to follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub operation_id: Option<String>,
    /// How many workspaces it is about: those that are outdated, and those of which nobody can tell.
    #[schemars(schema_with = "count_schema")]
    pub total: usize,
    /// How many of them are taken on for upgrade (in a dry run: would be). The others are skipped;
    /// get_operation tells why, and what becomes of each.
    #[schemars(schema_with = "count_schema")]
    pub upgraded: usize,
    /// How many have failed so far: none, unless it was under way already.
    #[schemars(schema_with = "count_schema")]
    pub failed: usize,
    /// Names of the new pods, 50 at most, known before the pods are there.
    pub upgraded_pods: Vec<String>,
    /// Workspaces that are left to another operation, which upgrades them already; 50 at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub under_way: Vec<UnderWay>,
    /// What to do next.
    pub next: String,
    /// Of a dry run: what would happen to each, 250 at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<PlannedTarget>")]
    pub targets: Option<Vec<PlannedTarget>>,
}
