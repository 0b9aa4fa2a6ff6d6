//! Pods as objects: the manifest, with what makes it one certain pod.

use super::{PlannedPod, Upgrade};
use crate::keys;
use crate::mode::Mode;
use serde_json::{Value, json};

/// The object to create for `pod`: the manifest with name, generation and upgrade keys set.
#[must_use]
pub fn pod_object(
    manifest: &Value,
    namespace: &str,
    pod: &PlannedPod,
    upgrade: Option<&Upgrade>,
) -> Value {
    let mut object = manifest.clone();
    set(&mut object, &["apiVersion"], json!("v1"));
    set(&mut object, &["kind"], json!("Pod"));
    set(&mut object, &["metadata", "name"], json!(pod.name));
    set(&mut object, &["metadata", "namespace"], json!(namespace));
    set(
        &mut object,
        &["metadata", "labels", keys::GENERATION],
        json!(pod.generation.to_string()),
    );
    if let Some(upgrade) = upgrade {
        if upgrade.mode == Mode::Recreate {
            gate(&mut object);
        }
        let state = crate::pod::UpgradeState::Candidate.as_str();
        set(
            &mut object,
            &["metadata", "labels", keys::UPGRADE_STATE],
            json!(state),
        );
        let of = json!({"operation": upgrade.operation, "sourceUid": upgrade.source.uid});
        set(
            &mut object,
            &["metadata", "annotations", keys::UPGRADE_OF],
            json!(of.to_string()),
        );
    }
    object
}

/// Adds our scheduling gate to those that the manifest brings.
pub(crate) fn gate(object: &mut Value) {
    let ours = json!({"name": keys::GATE});
    let gates = object.pointer("/spec/schedulingGates");
    let mut gates: Vec<Value> = gates.and_then(Value::as_array).cloned().unwrap_or_default();
    if !gates.contains(&ours) {
        gates.push(ours);
    }
    set(object, &["spec", "schedulingGates"], Value::Array(gates));
}

/// Sets a value deep inside, making the objects on the way; whatever stands there and is none gives way.
pub(crate) fn set(value: &mut Value, path: &[&str], new: Value) {
    let Some((first, rest)) = path.split_first() else {
        *value = new;
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    if let Some(object) = value.as_object_mut() {
        set(object.entry(*first).or_insert(Value::Null), rest, new);
    }
}
