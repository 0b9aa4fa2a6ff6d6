//! What happened to a workspace and what its containers say, on the wire.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Entries of a history, if no number is asked for.
pub const DEFAULT_EVENTS: u32 = 50;
/// Most entries of a history.
pub const MAX_EVENTS: u32 = 200;
/// Lines of a log, if no number is asked for.
pub const DEFAULT_LINES: u32 = 200;
/// Most lines of a log.
pub const MAX_LINES: u32 = 1000;

/// Names one workspace, and how much of what happened to it to tell.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetWorkspaceEvents {
    /// Id of the workspace.
    pub id: String,
    /// Most entries, 200 at most.
    #[serde(default = "default_events")]
    #[schemars(schema_with = "events_schema")]
    pub limit: u32,
}

/// What happened to a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceEvents {
    /// Id of the workspace.
    pub id: String,
    /// Newest first: Kubernetes Events of its pods, which the cluster forgets after about an hour, and
    /// its operations of the last 30 days.
    pub events: Vec<WorkspaceEvent>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceEvent {
    /// When, last (RFC 3339).
    pub at: String,
    /// `Normal`, or `Warning` where somebody should look.
    #[serde(rename = "type")]
    pub kind: String,
    /// What, in one word.
    pub reason: String,
    /// What, in a sentence.
    pub message: String,
    /// What it happened to: `Pod` or `Operation`.
    pub object_kind: String,
    /// Name of the pod, or id of the operation.
    pub object_name: String,
    /// How often, where it happened more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_schema")]
    pub count: Option<i32>,
}

/// Names one workspace, and which of its containers' logs to read.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetWorkspaceLogs {
    /// Id of the workspace.
    pub id: String,
    /// The last so many lines, 1000 at most.
    #[serde(default = "default_lines")]
    #[schemars(schema_with = "lines_schema")]
    pub tail_lines: u32,
    /// Name of the container; the first one of the pod if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub container: Option<String>,
    /// Name of one of its pods, such as the old one of an upgrade under way; the one that serves if
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub pod: Option<String>,
    /// `true`: of the run before the container was last restarted.
    #[serde(default)]
    pub previous: bool,
}

/// What a container wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceLogs {
    /// Id of the workspace.
    pub id: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// The containers that the pod has.
    pub containers: Vec<String>,
    /// The pods that the workspace has, newest first.
    pub pods: Vec<String>,
    /// The last lines, as they were written; what is no UTF-8 is replaced.
    pub log: String,
    /// Whether lines are missing at the beginning that were asked for.
    pub truncated: bool,
}

fn default_events() -> u32 {
    DEFAULT_EVENTS
}

fn default_lines() -> u32 {
    DEFAULT_LINES
}

// Written out, since the derived ones name formats such as `uint32`, of which strict clients
// complain.
fn count_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 0})
}

fn events_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": MAX_EVENTS, "default": DEFAULT_EVENTS})
}

fn lines_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": MAX_LINES, "default": DEFAULT_LINES})
}
