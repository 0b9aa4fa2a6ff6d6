//! The `binding` subresource of pods.

use serde_json::Value;

use super::claims;
use super::failure::Failure;
use super::object;
use super::pods;
use super::registry::Resource;
use super::store::{Key, Object};
use super::tx::Tx;

/// Binds a pod to a node, as a scheduler asks by the `binding` subresource.
pub(crate) fn bind_in(
    tx: &mut Tx<'_>,
    key: &Key,
    node: &str,
    binding: &Value,
) -> Result<Object, Failure> {
    let resource = Resource::Pods;
    let pod = tx
        .get(resource, key)
        .ok_or_else(|| Failure::not_found(resource, &key.name))?;
    let refuse = |why: &str| Err(Failure::conflict(resource, &key.name, why));
    let uid = object::uid(binding);
    if !uid.is_empty() && uid != object::uid(&pod) {
        return refuse(&format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            object::uid(&pod)
        ));
    }
    if object::terminating(&pod) {
        return refuse(&format!(
            "pod {} is being deleted, cannot be assigned to a host",
            key.name
        ));
    }
    let assigned = object::text(&pod, "/spec/nodeName");
    if !assigned.is_empty() {
        return refuse(&format!(
            "pod {} is already assigned to node {assigned:?}",
            key.name
        ));
    }
    if pods::gated(&pod) {
        return refuse(&format!(
            "pod {} has non-empty .spec.schedulingGates",
            key.name
        ));
    }
    let mut pod = pod.as_ref().clone();
    object::set(&mut pod, &["spec", "nodeName"], node);
    if let Some(Value::Object(annotations)) = binding.pointer("/metadata/annotations") {
        for (name, value) in annotations {
            object::set(
                &mut pod,
                &["metadata", "annotations", name.as_str()],
                value.clone(),
            );
        }
    }
    let now = tx.now_text();
    pods::set_condition(&mut pod, "PodScheduled", "True", None, None, &now);
    claims::place(tx, &pod, node);
    Ok(tx.put(resource, pod))
}
