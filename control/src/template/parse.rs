//! From a document and its annotations to a [`Template`].

use super::{Parameters, Template, TemplateError, Variables, claims, version};
use k8s_openapi::api::core::v1::PodSpec;
use nogoo9_model::access::AllowedRoles;
use nogoo9_model::origins::AllowedOrigins;
use nogoo9_model::{keys, template::Settings};
use serde_json::Value;
use std::collections::BTreeMap;

/// Largest spec that is read, in bytes: far above any real one, far below what hurts.
const MAX_SPEC: usize = 128 * 1024;

/// A template as it lies in a ConfigMap or file.
#[derive(Debug, Clone)]
pub struct Document {
    /// The template's name.
    pub name: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its data; `spec` is the pod spec in YAML or JSON, `claims` a list of claims.
    pub data: BTreeMap<String, String>,
}

/// Annotations of a template that its pods get.
const TO_PODS: [&str; 10] = [
    keys::WORKSPACE_PORT,
    keys::WORKSPACE_PATH,
    keys::PREVIEW_PATH,
    keys::WORKSPACE_TYPE,
    keys::WORKSPACE_AUTH_MODE,
    keys::WORKSPACE_PROTOCOL,
    keys::VISIBILITY,
    keys::ALLOW_ORIGINS,
    keys::STRIP_PREFIX,
    keys::AFFINITY,
];

/// Reads a template.
///
/// # Errors
/// [`TemplateError::Broken`], saying which field is wrong and what to do.
pub fn parse(document: &Document) -> Result<Template, TemplateError> {
    read(document).map_err(|problem| TemplateError::Broken {
        name: document.name.clone(),
        problem,
        roles: AllowedRoles::parse(
            document
                .annotations
                .get(keys::ALLOWED_ROLES)
                .map(String::as_str),
        ),
    })
}

fn read(document: &Document) -> Result<Template, String> {
    let text = document
        .data
        .get("spec")
        .ok_or("data.spec is missing; put the pod spec there, in YAML or JSON")?;
    if text.len() > MAX_SPEC {
        return Err(format!(
            "data.spec is over {} KiB; shorten it",
            MAX_SPEC / 1024
        ));
    }
    let spec = yaml(text).map_err(|problem| format!("data.spec {problem}"))?;
    check_spec(&spec)?;
    let claims = match document.data.get("claims") {
        None => Vec::new(),
        Some(text) => claims::parse(text, &spec)?,
    };
    let settings = Settings::parse(&document.annotations).map_err(|e| e.to_string())?;
    let parameters = match document.annotations.get(keys::PARAMETERS) {
        None => Parameters::default(),
        Some(text) => {
            Parameters::parse(text).map_err(|e| format!("annotation {} {e}", keys::PARAMETERS))?
        }
    };
    let annotations: BTreeMap<_, _> = document
        .annotations
        .iter()
        .filter(|(key, _)| TO_PODS.contains(&key.as_str()) || key.starts_with(keys::API))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if let Some(port) = annotations.get(keys::WORKSPACE_PORT)
        && !port.parse::<u16>().is_ok_and(|port| port != 0)
    {
        return Err(format!(
            "annotation {} is '{port}'; use a port from 1 to 65535",
            keys::WORKSPACE_PORT
        ));
    }
    if let Some(text) = annotations.get(keys::ALLOW_ORIGINS) {
        AllowedOrigins::checked(text).map_err(|wrong| {
            format!(
                "annotation {} has '{wrong}'; use origins as in https://app.example.org, 32 at most",
                keys::ALLOW_ORIGINS
            )
        })?;
    }
    check_variables(&spec, &annotations)?;
    for claim in &claims {
        check_variables(&claim.spec, &BTreeMap::new())
            .map_err(|problem| problem.replacen("data.spec", "data.claims", 1))?;
    }
    // Parameters set environment variables of the pod, so a changed default is a changed version.
    let mut hashed = annotations.clone();
    if let Some(schema) = document.annotations.get(keys::PARAMETERS) {
        hashed.insert(keys::PARAMETERS.to_owned(), schema.clone());
    }
    Ok(Template {
        name: document.name.clone(),
        version: version::version(&spec, &claims, &hashed),
        settings,
        parameters,
        spec,
        annotations,
        claims,
        declared: document
            .annotations
            .iter()
            .filter(|(key, _)| key.starts_with(keys::PREFIX))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    })
}

/// Parses YAML, of which JSON is a part, without quoting it in the error: it may hold secrets.
pub(super) fn yaml(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| match error.location() {
        Some(at) => format!("is no YAML: line {}, column {}", at.line(), at.column()),
        None => "is no YAML".to_owned(),
    })
}

/// Everything that can be known to fail later, found now.
fn check_spec(spec: &Value) -> Result<(), String> {
    let Some(object) = spec.as_object() else {
        return Err("data.spec must be a pod spec, a map that has 'containers'".into());
    };
    if object.contains_key("kind") || object.contains_key("spec") {
        return Err(
            "data.spec holds a whole object; put there only what stands under its 'spec'".into(),
        );
    }
    if !object.contains_key("containers") {
        return Err("data.spec has no 'containers'; give it one container at least".into());
    }
    let typed: PodSpec = serde_json::from_value(spec.clone())
        .map_err(|e| format!("data.spec is no pod spec: {e}"))?;
    if typed.containers.is_empty() {
        return Err("data.spec has no container; give it one at least".into());
    }
    for (i, container) in typed.containers.iter().enumerate() {
        let name = &container.name;
        if name.is_empty() {
            return Err(format!("data.spec.containers[{i}] has no name; name it"));
        }
        if container.image.as_deref().unwrap_or_default().is_empty() {
            return Err(format!(
                "data.spec.containers[{i}] ('{name}') has no image; set its image"
            ));
        }
    }
    if typed
        .scheduling_gates
        .iter()
        .flatten()
        .any(|gate| gate.name == keys::GATE)
    {
        return Err(format!(
            "data.spec sets the scheduling gate {}, which is nogoo9's own; remove it",
            keys::GATE
        ));
    }
    Ok(())
}

/// A variable that is misspelt breaks the template now, not the upgrade of the first workspace.
fn check_variables(spec: &Value, annotations: &BTreeMap<String, String>) -> Result<(), String> {
    let probe = Variables {
        user: "u",
        workspace_id: "i",
        workspace: "w",
    };
    probe.value(spec).map_err(|e| format!("data.spec: {e}"))?;
    for (key, value) in annotations {
        probe
            .text(value)
            .map_err(|e| format!("annotation {key}: {e}"))?;
    }
    Ok(())
}
