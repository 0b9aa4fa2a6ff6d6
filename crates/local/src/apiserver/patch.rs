//! JSON patch, merge patch and strategic merge patch.

use serde_json::{Map, Value};

use super::failure::Failure;
use super::registry::Resource;

/// How a patch is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
}

impl PatchType {
    /// By `Content-Type`; server-side apply is refused, since field owners are not tracked.
    pub(crate) fn from_content_type(content_type: &str) -> Result<Self, Failure> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            other => Err(Failure::unsupported_media_type(format!(
                "the body of the request was in an unknown format ({other}) - accepted media \
                 types include: application/json-patch+json, application/merge-patch+json, \
                 application/strategic-merge-patch+json; server-side apply is not offered here"
            ))),
        }
    }
}

/// Applies a patch to an object.
pub(crate) fn apply(
    resource: Resource,
    kind: PatchType,
    patch: &Value,
    object: &Value,
) -> Result<Value, Failure> {
    let mut patched = object.clone();
    match kind {
        PatchType::Json => {
            let operations: json_patch::Patch = serde_json::from_value(patch.clone())
                .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
            json_patch::patch(&mut patched, &operations)
                .map_err(|error| Failure::patch_rejected(&error.to_string()))?;
        }
        PatchType::Merge => {
            object_only(patch)?;
            json_patch::merge(&mut patched, patch);
        }
        PatchType::Strategic => {
            let patch = object_only(patch)?;
            if let Value::Object(target) = &mut patched {
                merge_map(resource, target, patch)?;
            }
        }
    }
    Ok(patched)
}

fn object_only(patch: &Value) -> Result<&Map<String, Value>, Failure> {
    patch
        .as_object()
        .ok_or_else(|| Failure::bad_request("error decoding patch: a merge patch is a JSON object"))
}

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_PRIMITIVE: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// The key by which the items of a list are told apart, after the `patchMergeKey` tags of the
/// Go types; `None`: the list is replaced as a whole.
fn merge_key(resource: Resource, field: &str) -> Option<&'static str> {
    match (resource, field) {
        (_, "ownerReferences") => Some("uid"),
        (
            Resource::Pods,
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "env"
            | "volumes"
            | "imagePullSecrets"
            | "schedulingGates"
            | "resourceClaims",
        ) => Some("name"),
        (Resource::Pods, "ports") => Some("containerPort"),
        (Resource::Pods, "volumeMounts") => Some("mountPath"),
        (Resource::Pods, "volumeDevices") => Some("devicePath"),
        (Resource::Pods, "hostAliases" | "podIPs" | "hostIPs") => Some("ip"),
        (Resource::Pods, "topologySpreadConstraints") => Some("topologyKey"),
        (Resource::Nodes, "addresses") => Some("type"),
        (
            Resource::Pods
            | Resource::Nodes
            | Resource::Namespaces
            | Resource::PersistentVolumeClaims,
            "conditions",
        ) => Some("type"),
        (Resource::ServiceAccounts, "secrets" | "imagePullSecrets") => Some("name"),
        _ => None,
    }
}

/// Lists of plain values that are merged as sets.
fn merges_primitives(field: &str) -> bool {
    field == "finalizers" || field == "podCIDRs"
}

fn merge_map(
    resource: Resource,
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), Failure> {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => {
            target.clear();
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some(other) => {
            return Err(Failure::bad_request(format!("unknown patch type: {other}")));
        }
    }
    if let Some(Value::Array(keep)) = patch.get(RETAIN) {
        target.retain(|key, _| keep.iter().any(|k| k == key));
    }
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix(DELETE_PRIMITIVE) {
            if let (Some(Value::Array(list)), Value::Array(gone)) = (target.get_mut(field), value) {
                list.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if key.starts_with('$') {
            continue;
        }
        merge_field(resource, target, key, value)?;
    }
    for (key, value) in patch {
        if let (Some(field), Value::Array(order)) = (key.strip_prefix(ORDER), value)
            && let Some(Value::Array(list)) = target.get_mut(field)
        {
            reorder(list, order, merge_key(resource, field));
        }
    }
    Ok(())
}

fn merge_field(
    resource: Resource,
    target: &mut Map<String, Value>,
    key: &str,
    value: &Value,
) -> Result<(), Failure> {
    match value {
        Value::Null => {
            target.remove(key);
        }
        Value::Object(inner) => {
            let slot = target.entry(key.to_owned()).or_insert(Value::Null);
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Value::Object(map) = slot {
                merge_map(resource, map, inner)?;
            }
            if inner.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
                target.remove(key);
            }
        }
        Value::Array(items) => {
            let mut list = match target.remove(key) {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            };
            if let Some(by) = merge_key(resource, key) {
                merge_list(resource, &mut list, items, by)?;
            } else if merges_primitives(key) {
                for item in items {
                    if !list.contains(item) {
                        list.push(item.clone());
                    }
                }
            } else {
                list.clone_from(items);
            }
            target.insert(key.to_owned(), Value::Array(list));
        }
        plain => {
            target.insert(key.to_owned(), plain.clone());
        }
    }
    Ok(())
}

fn merge_list(
    resource: Resource,
    list: &mut Vec<Value>,
    items: &[Value],
    by: &str,
) -> Result<(), Failure> {
    let directive = |item: &Value| {
        item.get(DIRECTIVE)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let replaces =
        |item: &Value| directive(item).as_deref() == Some("replace") && item.get(by).is_none();
    if items.iter().any(replaces) {
        list.clear();
    }
    for item in items.iter().filter(|item| !replaces(item)) {
        let Value::Object(fields) = item else {
            return Err(Failure::bad_request(
                "error decoding patch: list items are not objects",
            ));
        };
        let Some(id) = fields.get(by) else {
            return Err(Failure::bad_request(format!(
                "map: {item} does not contain declared merge key: {by}"
            )));
        };
        let at = list
            .iter()
            .position(|existing| existing.get(by) == Some(id));
        if directive(item).as_deref() == Some("delete") {
            list.retain(|existing| existing.get(by) != Some(id));
            continue;
        }
        match at.and_then(|at| list.get_mut(at)) {
            Some(Value::Object(existing)) => merge_map(resource, existing, fields)?,
            _ => {
                let mut fresh = Map::new();
                merge_map(resource, &mut fresh, fields)?;
                list.push(Value::Object(fresh));
            }
        }
    }
    Ok(())
}

/// Puts the listed items in the order asked for, in the places that they hold together; items
/// that the patch does not know keep theirs.
fn reorder(list: &mut [Value], order: &[Value], by: Option<&str>) {
    let rank = |item: &Value| {
        order.iter().position(|wanted| match by {
            Some(by) => wanted.get(by).is_some() && wanted.get(by) == item.get(by),
            None => wanted == item,
        })
    };
    let mut listed: Vec<Value> = list.iter().filter(|i| rank(i).is_some()).cloned().collect();
    listed.sort_by_key(|item| rank(item));
    let mut listed = listed.into_iter();
    for slot in list.iter_mut() {
        if rank(slot).is_some()
            && let Some(next) = listed.next()
        {
            *slot = next;
        }
    }
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
