//! Arguments and answers, shared by JSON API and MCP tools: camelCase on the wire, absent rather
//! than null.

use nogoo9_model::container::Trouble;
use nogoo9_model::operation::{Kind, Phase, State};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Names one workspace.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceId {
    /// Id of the workspace.
    pub id: String,
}

/// Deletes one workspace.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteWorkspace {
    /// Id of the workspace.
    pub id: String,
    /// Whether its volumes go too, with everything in them. Without it they stay, and spawning the
    /// same id from the same template gets them back.
    #[serde(default)]
    pub delete_data: bool,
}

/// Names one operation.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OperationId {
    /// Id of the operation, as upgrade_workspace returned it.
    pub operation_id: String,
}

/// Names one template.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateName {
    /// Name of the template.
    pub name: String,
}

/// Which workspaces to list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListWorkspaces {
    /// For admins, who see everyone's: `true` lists only their own.
    #[serde(default)]
    pub mine: bool,
}

/// What to spawn.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpawnWorkspace {
    /// Name of the template; list_templates names those there are.
    pub template: String,
    /// Id of the new workspace, part of its address: a-z, 0-9 and '-'. Made up if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub id: Option<String>,
    /// Name for people; the id if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// Port that the workspace serves on; the template's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "port_schema")]
    pub port: Option<u16>,
    /// Values of the template's parameters, by name.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// Admins only: the subject who shall own the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub user_sub: Option<String>,
}

/// How long to wait for an operation.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitForOperation {
    /// Id of the operation, as upgrade_workspace returned it.
    pub operation_id: String,
    /// Longest wait in seconds, 0 to 25. It ends earlier when the operation ends or moves on.
    #[serde(default = "default_wait")]
    #[schemars(schema_with = "seconds_schema")]
    pub seconds: u8,
    /// The `revision` of the last answer: with it, no step in between is missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub since_revision: Option<String>,
}

/// Longest wait, in seconds: well under the usual 30 and 60 s time limits of clients.
pub const MAX_WAIT: u8 = 25;

fn default_wait() -> u8 {
    20
}

// Written out, since the derived ones name the format `uint16` or `uint8`, of which strict clients
// complain.
fn port_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": 65_535})
}

fn seconds_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 0, "maximum": MAX_WAIT})
}

/// What a workspace is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Serves.
    Running,
    /// Its pod is on the way.
    Starting,
    /// Serves, while its successor is on the way.
    Upgrading,
    /// Its pod is going.
    Stopping,
    /// Has no pod; start it to go on.
    Stopped,
    /// Is being removed.
    Deleting,
    /// Does not serve and cannot help itself.
    Failing,
}

/// Whether a template has moved on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    /// Its template has another version: `true`.
    Yes,
    /// It has the template's version: `false`.
    No,
    /// The template is gone, broken or cannot be read: `"unknown"`.
    Unknown,
}

impl Serialize for Outdated {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Yes => serializer.serialize_bool(true),
            Self::No => serializer.serialize_bool(false),
            Self::Unknown => serializer.serialize_str("unknown"),
        }
    }
}

impl JsonSchema for Outdated {
    fn schema_name() -> Cow<'static, str> {
        "Outdated".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"enum": [true, false, "unknown"]})
    }
}

/// A workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// Id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Subject of the owner.
    pub owner: String,
    /// What it is doing.
    pub status: Status,
    /// The same in a sentence, with the reason where something is in the way.
    pub message: String,
    /// Where it is opened in a browser; absent for ids that fit no host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub url: Option<String>,
    /// Where it is opened by path, if that is switched on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub path_url: Option<String>,
    /// Name of its pod, if it should have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub pod_name: Option<String>,
    /// Name of its template.
    pub template: String,
    /// Version of the template that it runs.
    pub version: String,
    /// Version that the template has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub latest_version: Option<String>,
    /// Whether the template has moved on since.
    pub outdated: Outdated,
    /// Why the last upgrade failed, until one succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub last_upgrade_error: Option<String>,
    /// The upgrade under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub operation_id: Option<String>,
    /// What its template calls its volumes; they outlive its pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// When it was first spawned (RFC 3339).
    pub created_at: String,
}

/// Workspaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspaces {
    /// Ordered by owner, then id.
    pub workspaces: Vec<Workspace>,
}

/// What became of a delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deletion {
    /// Id of the workspace.
    pub id: String,
    /// Always `deleting`.
    pub status: Status,
    /// Whether its volumes are deleted too.
    pub data_deleted: bool,
    /// What happens now.
    pub message: String,
}

/// Whether an upgrade began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpgradeStatus {
    /// It is under way.
    Upgrading,
    /// There was nothing to do, and nothing was touched.
    UpToDate,
}

/// How a pod is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UpgradeMode {
    /// The new pod takes over from the old one while it still runs.
    SideBySide,
    /// The old pod goes first.
    Recreate,
}

impl From<nogoo9_model::mode::Mode> for UpgradeMode {
    fn from(mode: nogoo9_model::mode::Mode) -> Self {
        match mode {
            nogoo9_model::mode::Mode::SideBySide => Self::SideBySide,
            nogoo9_model::mode::Mode::Recreate => Self::Recreate,
        }
    }
}

/// What became of an upgrade that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// Id of the workspace.
    pub id: String,
    /// Whether it is under way.
    pub status: UpgradeStatus,
    /// Name of the pod that serves, or will.
    pub pod_name: String,
    /// Name of the pod that is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub previous_pod_name: Option<String>,
    /// Version before.
    pub from_version: String,
    /// Version after.
    pub to_version: String,
    /// How the pod is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UpgradeMode")]
    pub mode: Option<UpgradeMode>,
    /// Operation to follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub operation_id: Option<String>,
    /// What to do next.
    pub next: String,
}

/// One workspace within an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationTarget {
    /// Id of the workspace.
    pub id: String,
    /// Where it stands.
    pub state: State,
    /// How far it is.
    pub phase: Phase,
    /// The same in a sentence.
    pub message: String,
    /// Name of the new pod.
    pub pod_name: String,
    /// Name of the pod that it replaces.
    pub previous_pod_name: String,
    /// Version before.
    pub from_version: String,
    /// Version after.
    pub to_version: String,
    /// How the pod is replaced.
    pub mode: UpgradeMode,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OperationError")]
    pub error: Option<OperationError>,
}

/// Why an upgrade failed, in Kubernetes' own words.
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
    /// Where it stands.
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
    /// The workspaces.
    pub targets: Vec<OperationTarget>,
    /// What to do next, while it is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub next: Option<String>,
}

/// Operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operations {
    /// Newest first.
    pub operations: Vec<Operation>,
}

/// A template.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Name.
    pub name: String,
    /// Whether it can be used.
    pub usable: bool,
    /// Version; absent where it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub version: Option<String>,
    /// Why it cannot be used, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub problem: Option<String>,
    /// Images of its containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// JSON Schema of what may be set at spawn, under `inputs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub parameters: Option<Value>,
    /// The pod spec, variables unreplaced; only where one template was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub spec: Option<Value>,
}

/// Templates.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Templates {
    /// Ordered by name.
    pub templates: Vec<Template>,
}

/// What the caller may do here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Subject of the caller.
    pub sub: String,
    /// `viewer`, `user` or `admin`.
    pub role: String,
    /// Roles as the token names them.
    pub roles: Vec<String>,
    /// Whether the caller administrates.
    pub is_admin: bool,
    /// Whether the caller may spawn workspaces.
    pub can_spawn: bool,
    /// Whether the caller may upgrade everyone's workspaces.
    pub can_upgrade_all: bool,
    /// The token's scopes, where scopes are enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub scopes: Option<Vec<String>>,
    /// Version of nogoo9.
    pub version: String,
}
