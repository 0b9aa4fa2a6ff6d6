//! Templates on the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Names one template.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateName {
    /// Name of the template.
    pub name: String,
}

/// A template that shall be there.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTemplate {
    /// Name of the new template: a-z, 0-9 and '-', 63 characters at most.
    pub name: String,
    /// The pod spec. In its strings, `${{user}}` is the owner's subject, `${{workspace_id}}` the id,
    /// `${{workspace}}` the name that people gave the workspace.
    pub spec: Map<String, Value>,
    /// Volumes that each of its workspaces has for itself: a list of {name, spec}, spec being that of
    /// a PersistentVolumeClaim. A volume of the pod spec mounts one by
    /// persistentVolumeClaim.claimName.
    #[serde(default)]
    pub claims: Vec<Map<String, Value>>,
    /// JSON Schema of what may be set at spawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub parameters: Option<Map<String, Value>>,
    /// Further settings by name, such as workspace-port, visibility, allowed-roles, settle,
    /// upgrade-deadline, drain-timeout.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// What a template shall be from now on. What is left out stays as it is; what is given replaces
/// what was there.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateTemplate {
    /// Name of the template.
    pub name: String,
    /// The pod spec, as create_template takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub spec: Option<Map<String, Value>>,
    /// All volumes that each of its workspaces has for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub claims: Option<Vec<Map<String, Value>>>,
    /// JSON Schema of what may be set at spawn; an empty one: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub parameters: Option<Map<String, Value>>,
    /// All further settings by name, as get_template tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub settings: Option<BTreeMap<String, String>>,
    /// Refuse unless this is the version that it has: nobody else's change is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub expected_version: Option<String>,
}

/// A template that is there no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedTemplate {
    /// Its name.
    pub name: String,
    /// What that means.
    pub message: String,
}
