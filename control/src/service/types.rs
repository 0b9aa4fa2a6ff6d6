//! Arguments and answers, shared by JSON API and MCP tools: camelCase on the wire, absent rather
//! than null.

mod look;
mod operations;
mod sessions;
mod templates;
mod tokens;

pub use look::*;
pub use operations::*;
pub use sessions::*;
pub use templates::*;
pub use tokens::*;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

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
    /// For admins: whether the id of somebody else's workspace is free then. Without it, the id stays
    /// its owner's.
    #[serde(default)]
    pub release: bool,
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

// Written out, since the derived one names the format `uint16`, of which strict clients complain.
fn port_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": 65_535})
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
    /// The newest upgrade or rollback that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LastUpgrade")]
    pub last_upgrade: Option<LastUpgrade>,
    /// The version that a rollback goes back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub previous_version: Option<String>,
    /// Before this nobody but its owner upgrades it (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub not_before: Option<String>,
    /// The upgrade under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub operation_id: Option<String>,
    /// What its template calls its volumes; they outlive its pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// What it serves beside its own port, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ExtraPort>,
    /// When it was first spawned (RFC 3339).
    pub created_at: String,
}

/// An extra port of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraPort {
    /// Its name.
    pub name: String,
    /// The port of the pod.
    #[schemars(schema_with = "port_schema")]
    pub port: u16,
    /// Where it is opened on a host of its own; absent for ids that fit no host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub url: Option<String>,
    /// Where it is opened under the workspace's address, if it has a path there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub path_url: Option<String>,
}

/// How an upgrade of a workspace ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastUpgrade {
    /// Its operation.
    pub operation_id: String,
    /// Version before.
    pub from: String,
    /// Version that was asked for.
    pub to: String,
    /// Who asked for it.
    pub actor: String,
    /// When (RFC 3339).
    pub started_at: String,
    /// When it ended (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub finished_at: Option<String>,
    /// How.
    pub state: nogoo9_model::operation::State,
}

/// Until when only its owner upgrades a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeepUntil {
    /// RFC 3339; null lifts it.
    pub not_before: Option<String>,
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
    /// What it calls the volumes that each of its workspaces has, and keeps across pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// JSON Schema of what may be set at spawn, under `inputs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub parameters: Option<Value>,
    /// What it sets further, by short name; only where one template was asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
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
    /// Whether the caller may make, change and delete templates.
    pub can_write_templates: bool,
    /// The token's scopes, where scopes are enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub scopes: Option<Vec<String>>,
    /// Version of nogoo9.
    pub version: String,
}
