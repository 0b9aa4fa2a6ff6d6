//! `data.claims`: the volumes that a template's workspaces keep across pods.
//!
//! A list of `{name, spec}`; a volume of the pod spec mounts one by
//! `persistentVolumeClaim.claimName: NAME`. Each workspace has its own.

use super::parse::yaml;
use super::{RenderError, RenderInput, Template, Variables};
use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use nogoo9_model::claim::PlannedClaim;
use nogoo9_model::name;
use serde::Deserialize;
use serde_json::Value;

/// Largest text that is read, in bytes.
const MAX_TEXT: usize = 32 * 1024;
/// Most claims of a template.
const MAX_CLAIMS: usize = 8;

/// A claim as a template declares it, variables unreplaced.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimTemplate {
    /// By which volumes name it.
    pub(crate) name: String,
    /// Spec of the PersistentVolumeClaim.
    pub(crate) spec: Value,
}

/// Reads `data.claims` beside a pod spec that was checked.
///
/// # Errors
/// Which claim is wrong, and what to do.
pub(super) fn parse(text: &str, spec: &Value) -> Result<Vec<ClaimTemplate>, String> {
    if text.len() > MAX_TEXT {
        return Err(format!(
            "data.claims is over {} KiB; shorten it",
            MAX_TEXT / 1024
        ));
    }
    let parsed = yaml(text).map_err(|problem| format!("data.claims {problem}"))?;
    let Value::Array(items) = parsed else {
        return Err("data.claims must be a list of claims, each with a name and a spec".into());
    };
    if items.len() > MAX_CLAIMS {
        return Err(format!(
            "data.claims has over {MAX_CLAIMS} claims; use fewer, larger ones"
        ));
    }
    let mut claims: Vec<ClaimTemplate> = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let claim: ClaimTemplate = serde_json::from_value(item).map_err(|error| {
            format!("data.claims[{index}] is no claim: {error}; give it a name and a spec")
        })?;
        check(&claim)
            .map_err(|problem| format!("data.claims[{index}] ('{}') {problem}", claim.name))?;
        if claims.iter().any(|other| other.name == claim.name) {
            return Err(format!(
                "data.claims names '{}' twice; rename one",
                claim.name
            ));
        }
        if !mounted(spec).any(|name| name == claim.name) {
            return Err(format!(
                "data.claims has '{0}', which no volume of data.spec mounts; add one with \
                 persistentVolumeClaim.claimName: {0}",
                claim.name
            ));
        }
        claims.push(claim);
    }
    Ok(claims)
}

fn check(claim: &ClaimTemplate) -> Result<(), String> {
    let bytes = claim.name.as_bytes();
    let letter = |b: &u8| b.is_ascii_lowercase();
    let edge = |b: &u8| letter(b) || b.is_ascii_digit();
    let dns = bytes.len() <= name::MAX_CLAIM
        && bytes.first().is_some_and(letter)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|b| edge(b) || *b == b'-');
    if !dns {
        return Err(format!(
            "has no usable name; use {} lower-case letters, digits and '-' at most, a letter first",
            name::MAX_CLAIM
        ));
    }
    let spec: PersistentVolumeClaimSpec = serde_json::from_value(claim.spec.clone())
        .map_err(|error| format!("has no PersistentVolumeClaim's spec: {error}"))?;
    if spec.access_modes.is_none_or(|modes| modes.is_empty()) {
        return Err("has no accessModes; name one, such as ReadWriteOnce".into());
    }
    let size = spec
        .resources
        .and_then(|resources| resources.requests?.remove("storage"));
    if size.is_none() {
        return Err("asks for no size; set resources.requests.storage".into());
    }
    // One volume cannot be every workspace's own.
    if spec.volume_name.is_some_and(|volume| !volume.is_empty()) {
        return Err(
            "sets volumeName, which would be the same for every workspace; remove it, or mount \
             one shared claim by its own name"
                .into(),
        );
    }
    Ok(())
}

/// The claim names in the volumes of a pod spec.
fn mounted(spec: &Value) -> impl Iterator<Item = &str> {
    let volumes = spec.get("volumes").and_then(Value::as_array);
    volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str())
}

/// The claims of the workspace that a pod is rendered for.
///
/// # Errors
/// [`RenderError`]. A template that was read does not fail.
pub fn claims(
    template: &Template,
    input: &RenderInput<'_>,
) -> Result<Vec<PlannedClaim>, RenderError> {
    let variables = Variables {
        user: input.owner,
        workspace_id: input.id,
        workspace: input.workspace_name(),
    };
    let planned = |claim: &ClaimTemplate| {
        let spec = variables
            .value(&claim.spec)
            .map_err(|error| RenderError::Variable {
                template: template.name.clone(),
                error,
            })?;
        Ok(PlannedClaim::new(
            input.owner,
            input.id,
            input.namespace,
            &claim.name,
            spec,
        ))
    };
    template.claims.iter().map(planned).collect()
}

/// Makes the volumes of a rendered spec mount the workspace's own claims.
pub(super) fn mount(spec: &mut Value, template: &Template, input: &RenderInput<'_>) {
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        let Some(Value::String(name)) = volume.pointer_mut("/persistentVolumeClaim/claimName")
        else {
            continue;
        };
        if template.claims.iter().any(|claim| claim.name == *name) {
            *name = name::claim(input.owner, input.id, input.namespace, name);
        }
    }
}
