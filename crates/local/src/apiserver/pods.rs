//! Pod rules: what `k8s.io/kubernetes/pkg/registry/core/pod` does around storage.

pub(crate) mod defaults;
pub(crate) mod graceful;
pub(crate) mod update;
pub(crate) mod validation;

use serde_json::{Value, json};

use super::failure::Failure;
use super::object;
use super::registry::Resource;

/// The priority classes that every cluster has. Nobody can make others here.
const PRIORITY_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Refuses what a cluster's admission refuses before anybody looks at the rest: a priority class
/// that there is not.
pub(crate) fn admit(pod: &Value) -> Result<(), Failure> {
    let class = object::text(pod, "/spec/priorityClassName");
    if class.is_empty() || PRIORITY_CLASSES.contains(&class) {
        return Ok(());
    }
    Err(Failure::forbidden(
        Resource::Pods,
        object::name(pod),
        &format!("no PriorityClass with name {class} was found"),
    ))
}

/// Makes a pod as sent by a client the pod that is stored first.
pub(crate) fn prepare_create(pod: &mut Value, now: &str) {
    defaults::apply(pod);
    defaults::admit(pod);
    object::set(pod, &["metadata", "generation"], 1);
    let qos = defaults::qos_class(pod);
    let mut status = json!({"phase": "Pending", "qosClass": qos});
    if gated(pod) {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
             "lastTransitionTime": now,
        }]);
    }
    object::set(pod, &["status"], status);
}

/// Whether scheduling gates keep the pod from being placed.
pub(crate) fn gated(pod: &Value) -> bool {
    !object::list(pod, "/spec/schedulingGates").is_empty()
}

/// The claims that the pod's volumes mount.
pub(crate) fn claims(pod: &Value) -> impl Iterator<Item = &str> {
    object::list(pod, "/spec/volumes")
        .iter()
        .map(|volume| object::text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty())
}

/// Whether the pod has ended for good.
pub(crate) fn terminal(pod: &Value) -> bool {
    matches!(object::text(pod, "/status/phase"), "Failed" | "Succeeded")
}

/// Sets a condition, moving its transition time only when its status changes. Returns whether
/// anything changed.
pub(crate) fn set_condition(
    pod: &mut Value,
    kind: &str,
    status: &str,
    reason: Option<&str>,
    message: Option<&str>,
    now: &str,
) -> bool {
    let before = object::condition(pod, kind).cloned();
    let same_status = before
        .as_ref()
        .is_some_and(|c| object::text(c, "/status") == status);
    let since = match &before {
        Some(condition) if same_status => object::text(condition, "/lastTransitionTime").to_owned(),
        _ => now.to_owned(),
    };
    let mut fresh = json!({
        "type": kind, "status": status, "lastTransitionTime": since,
    });
    if let Some(reason) = reason {
        fresh["reason"] = reason.into();
    }
    if let Some(message) = message {
        fresh["message"] = message.into();
    }
    let same = before.as_ref().is_some_and(|c| {
        same_status
            && object::text(c, "/reason") == reason.unwrap_or_default()
            && object::text(c, "/message") == message.unwrap_or_default()
    });
    if same {
        return false;
    }
    let status = object::child(pod, "status");
    let conditions = object::child(status, "conditions");
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Some(list) = conditions.as_array_mut() {
        match list.iter_mut().find(|c| object::text(c, "/type") == kind) {
            Some(slot) => *slot = fresh,
            None => list.push(fresh),
        }
    }
    true
}
