//! Structure of objects: each body is read into its typed form and written back, which rejects
//! wrong types, drops unknown fields and tells which those were.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node, PersistentVolumeClaim, Pod, ResourceQuota, Secret,
    ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::registry::Resource;

/// An object in canonical form and the fields that its kind does not have.
#[derive(Debug)]
pub(crate) struct Canonical {
    pub(crate) object: Value,
    pub(crate) unknown: Vec<String>,
}

/// Reads an object as its kind. The error says what has the wrong type.
pub(crate) fn canonical(resource: Resource, mut input: Value) -> Result<Canonical, String> {
    quantities(&mut input);
    if let Some(Value::Object(metadata)) = input.get_mut("metadata") {
        // Field ownership is not tracked; what clients echo back is dropped without a warning.
        metadata.remove("managedFields");
        metadata.remove("selfLink");
    }
    let object = match resource {
        Resource::Namespaces => round::<Namespace>(&input),
        Resource::Nodes => round::<Node>(&input),
        Resource::Pods => round::<Pod>(&input),
        Resource::ConfigMaps => round::<ConfigMap>(&input),
        Resource::Secrets => round::<Secret>(&input),
        Resource::PersistentVolumeClaims => round::<PersistentVolumeClaim>(&input),
        Resource::ServiceAccounts => round::<ServiceAccount>(&input),
        Resource::Quotas => round::<ResourceQuota>(&input),
        Resource::Events => round::<Event>(&input),
        Resource::Leases => round::<Lease>(&input),
        Resource::EndpointSlices => round::<EndpointSlice>(&input),
    }?;
    let mut unknown = Vec::new();
    dropped(&input, &object, "", &mut unknown);
    Ok(Canonical { object, unknown })
}

fn round<T: DeserializeOwned + Serialize>(input: &Value) -> Result<Value, String> {
    let typed: T = serde_json::from_value(input.clone()).map_err(|error| error.to_string())?;
    serde_json::to_value(typed).map_err(|error| error.to_string())
}

/// Quantities may be written as numbers; their canonical form is text.
fn quantities(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                let holds_quantities = matches!(
                    key.as_str(),
                    "limits" | "requests" | "hard" | "used" | "capacity" | "allocatable"
                );
                if let (true, Value::Object(amounts)) = (holds_quantities, &mut *inner) {
                    for amount in amounts.values_mut() {
                        if amount.is_number() {
                            *amount = Value::String(amount.to_string());
                        }
                    }
                }
                quantities(inner);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(quantities),
        _ => {}
    }
}

/// Collects the paths that `kept` lost.
fn dropped(given: &Value, kept: &Value, path: &str, unknown: &mut Vec<String>) {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (key, value) in given.iter().filter(|(_, value)| !value.is_null()) {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                match kept.get(key) {
                    Some(kept) => dropped(value, kept, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(kept)) => {
            for (index, (given, kept)) in given.iter().zip(kept).enumerate() {
                dropped(given, kept, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}
