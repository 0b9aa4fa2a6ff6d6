//! From a template and a workspace to the manifest of its pod.

use super::claims;
use super::{InputError, Strictness, SubstituteError, Template, Variables};
use nogoo9_model::{UnixSeconds, keys, label};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The workspace that a pod is rendered for.
#[derive(Debug, Clone, Copy)]
pub struct RenderInput<'a> {
    /// Owner's raw subject.
    pub owner: &'a str,
    /// Workspace id.
    pub id: &'a str,
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// When the workspace was first spawned.
    pub since: UnixSeconds,
    /// What the user set; `name` and `port` among it.
    pub inputs: &'a Map<String, Value>,
    /// Whether inputs that the template does not know are refused.
    pub strictness: Strictness,
}

impl<'a> RenderInput<'a> {
    /// The name that people gave the workspace, else its id.
    pub(super) fn workspace_name(&self) -> &'a str {
        let name = self.inputs.get("name").and_then(Value::as_str);
        name.unwrap_or(self.id)
    }
}

/// Why no pod can be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// What the user set does not fit the template.
    #[error("template '{template}', version {version}: {error}")]
    Input {
        /// Template name.
        template: String,
        /// Its version.
        version: String,
        /// Which input, and why.
        error: InputError,
    },
    /// A variable cannot be replaced (found when the template is read: cannot happen later).
    #[error("template '{template}': {error}")]
    Variable {
        /// Template name.
        template: String,
        /// Which, and why.
        error: SubstituteError,
    },
}

/// The manifest of the workspace's pod: everything but its name, generation and upgrade state,
/// which are the operation's to choose.
///
/// # Errors
/// [`RenderError`]. A template that was read fails on inputs only.
pub fn render(template: &Template, input: &RenderInput<'_>) -> Result<Value, RenderError> {
    template
        .parameters
        .check(input.inputs, input.strictness)
        .map_err(|error| RenderError::Input {
            template: template.name.clone(),
            version: template.version.clone(),
            error,
        })?;
    let name = input.workspace_name();
    let variables = Variables {
        user: input.owner,
        workspace_id: input.id,
        workspace: name,
    };
    let variable = |error| RenderError::Variable {
        template: template.name.clone(),
        error,
    };

    let mut spec = variables.value(&template.spec).map_err(variable)?;
    claims::mount(&mut spec, template, input);
    if let Some(spec) = spec.as_object_mut() {
        // A workspace is restarted where it stands, and holds no credentials of the cluster.
        spec.entry("restartPolicy")
            .or_insert_with(|| json!("Always"));
        spec.entry("automountServiceAccountToken")
            .or_insert_with(|| json!(false));
        if let Some(container) = spec.get_mut("containers").and_then(|all| all.get_mut(0)) {
            set_environment(container, &template.parameters.environment(input.inputs));
        }
    }

    let mut annotations = BTreeMap::new();
    for (key, value) in &template.annotations {
        annotations.insert(key.clone(), variables.text(value).map_err(variable)?);
    }
    let mut set = |key: &str, value: String| annotations.insert(key.to_owned(), value);
    if let Some(port) = input.inputs.get("port").and_then(Value::as_u64) {
        set(keys::WORKSPACE_PORT, port.to_string());
    }
    set(keys::USER_SUB, input.owner.to_owned());
    set(keys::TEMPLATE_REF, template.name.clone());
    set(keys::TEMPLATE_VERSION, template.version.clone());
    set(keys::WORKSPACE_NAME, name.to_owned());
    set(
        keys::SPAWN_INPUTS,
        Value::Object(input.inputs.clone()).to_string(),
    );
    if let Ok(since) = jiff::Timestamp::from_second(input.since) {
        set(keys::WORKSPACE_SINCE, since.to_string());
    }
    annotations
        .entry(keys::WORKSPACE_PORT.to_owned())
        .or_insert_with(|| keys::DEFAULT_PORT.to_string());
    annotations
        .entry(keys::WORKSPACE_PATH.to_owned())
        .or_insert_with(|| format!("/route/{}/", input.id));

    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": input.namespace,
            "labels": {
                keys::TYPE: keys::TYPE_WORKSPACE,
                keys::WORKSPACE_ID: input.id,
                keys::USER_SUB: label::owner(input.owner),
                keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER,
            },
            "annotations": annotations,
        },
        "spec": spec,
    }))
}

/// Sets the variables on a container, in place of those of the same name.
fn set_environment(container: &mut Value, variables: &BTreeMap<&str, String>) {
    let Some(container) = container.as_object_mut() else {
        return;
    };
    if variables.is_empty() {
        return;
    }
    let env = container.entry("env").or_insert_with(|| json!([]));
    if env.is_null() {
        *env = json!([]);
    }
    let Some(env) = env.as_array_mut() else {
        return;
    };
    for (name, value) in variables {
        let entry = json!({"name": name, "value": value});
        match env
            .iter_mut()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))
        {
            Some(existing) => *existing = entry,
            None => env.push(entry),
        }
    }
}
