//! What an update may change of a pod (`ValidatePodUpdate`).

use serde_json::Value;

use crate::apiserver::failure::Cause;
use crate::apiserver::object;
use crate::apiserver::pods::gated;

const MUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
    to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it \
    was previously negative)";

/// Whether the spec changed, and what is wrong with that.
pub(crate) fn check(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let (Some(old_spec), Some(new_spec)) = (old.get("spec"), new.get("spec")) else {
        causes.push(Cause::required("spec", ""));
        return;
    };
    gates(old_spec, new_spec, causes);
    for (field, kind) in [
        ("containers", "containers"),
        ("initContainers", "initContainers"),
    ] {
        let pointer = format!("/{field}");
        for (index, container) in object::list(new_spec, &pointer).iter().enumerate() {
            if object::text(container, "/image").trim().is_empty() {
                causes.push(Cause::required(format!("spec.{kind}[{index}].image"), ""));
            }
        }
    }
    tolerations(old_spec, new_spec, causes);

    // Take the new value of all that may change; whatever still differs may not.
    let mut allowed = old_spec.clone();
    for field in ["schedulingGates", "tolerations"] {
        object::copy(new_spec, &mut allowed, &[field]);
    }
    for field in ["containers", "initContainers"] {
        let fresh: Vec<Value> = object::list(new_spec, &format!("/{field}"))
            .iter()
            .filter_map(|container| container.get("image").cloned())
            .collect();
        let containers = object::list_mut(&mut allowed, &[field])
            .into_iter()
            .flatten();
        for (container, image) in containers.zip(fresh) {
            object::set(container, &["image"], image);
        }
    }
    deadline(old_spec, new_spec, causes);
    object::copy(new_spec, &mut allowed, &["activeDeadlineSeconds"]);
    let grace = |spec: &Value| {
        spec.get("terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(0)
    };
    if grace(old_spec) < 0 && grace(new_spec) == 1 {
        object::set(&mut allowed, &["terminationGracePeriodSeconds"], 1);
    }
    if gated(old) {
        // A pod behind gates may be narrowed to fewer nodes.
        narrowing(old_spec, new_spec, causes);
        for field in ["nodeSelector", "affinity"] {
            object::copy(new_spec, &mut allowed, &[field]);
        }
    }
    if &allowed != new_spec {
        let changed: Vec<&str> = changed_fields(&allowed, new_spec);
        causes.push(Cause::forbidden(
            "spec",
            &format!("{MUTABLE}; changed here: {}", changed.join(", ")),
        ));
    }
}

fn gates(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let before = object::list(old, "/schedulingGates");
    for gate in object::list(new, "/schedulingGates") {
        if !before.iter().any(|b| b.get("name") == gate.get("name")) {
            causes.push(Cause::forbidden(
                "spec.schedulingGates",
                &format!(
                    "only deletion is allowed, but found new scheduling gate '{}'",
                    object::text(gate, "/name")
                ),
            ));
        }
    }
}

fn tolerations(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let after = object::list(new, "/tolerations");
    let strip = |toleration: &Value| {
        let mut toleration = toleration.clone();
        object::remove(&mut toleration, &["tolerationSeconds"]);
        toleration
    };
    let kept = object::list(old, "/tolerations")
        .iter()
        .all(|before| after.iter().any(|t| strip(t) == strip(before)));
    if !kept {
        causes.push(Cause::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
}

fn deadline(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let seconds = |spec: &Value| spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    match (seconds(old), seconds(new)) {
        (Some(before), None) => causes.push(Cause::invalid(
            "spec.activeDeadlineSeconds",
            &Value::Null,
            &format!("must not update from a positive integer to nil value (was {before})"),
        )),
        (before, Some(after)) if after <= 0 || before.is_some_and(|b| after > b) => {
            causes.push(Cause::invalid(
                "spec.activeDeadlineSeconds",
                &after.into(),
                "must be greater than 0 and less than or equal to previous value",
            ));
        }
        _ => {}
    }
}

fn narrowing(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let selector = |spec: &Value| {
        spec.get("nodeSelector")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let after = selector(new);
    if selector(old)
        .iter()
        .any(|(key, value)| after.get(key) != Some(value))
    {
        causes.push(Cause::invalid(
            "spec.nodeSelector",
            &Value::Object(after),
            "only additions are allowed (no mutations or deletions)",
        ));
    }
}

fn changed_fields<'a>(allowed: &'a Value, new: &'a Value) -> Vec<&'a str> {
    let (Some(allowed), Some(new)) = (allowed.as_object(), new.as_object()) else {
        return Vec::new();
    };
    let mut fields: Vec<&str> = allowed
        .keys()
        .chain(new.keys())
        .filter(|key| allowed.get(*key) != new.get(*key))
        .map(String::as_str)
        .collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({"spec": {
            "containers": [{"name": "a", "image": "x:1"}],
            "schedulingGates": [{"name": "g/one"}, {"name": "g/two"}],
            "terminationGracePeriodSeconds": 30,
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}],
        }})
    }

    fn fields(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut new = pod();
        change(&mut new["spec"]);
        let mut causes = Vec::new();
        check(&pod(), &new, &mut causes);
        causes.into_iter().map(|c| c.field).collect()
    }

    #[test]
    fn allowed_changes() {
        let none: Vec<String> = Vec::new();
        assert_eq!(fields(|_| {}), none);
        assert_eq!(fields(|s| s["containers"][0]["image"] = "x:2".into()), none);
        assert_eq!(
            fields(|s| s["schedulingGates"] = json!([{"name": "g/two"}])),
            none
        );
        assert_eq!(
            fields(|s| {
                s.as_object_mut().unwrap().remove("schedulingGates");
            }),
            none
        );
        assert_eq!(fields(|s| s["activeDeadlineSeconds"] = 9.into()), none);
        assert_eq!(
            fields(|s| s["tolerations"][0]["tolerationSeconds"] = 9.into()),
            none
        );
        assert_eq!(fields(|s| s["nodeSelector"] = json!({"zone": "a"})), none);
    }

    #[test]
    fn refused_changes() {
        assert_eq!(
            fields(|s| s["containers"][0]["name"] = "b".into()),
            ["spec"]
        );
        assert_eq!(fields(|s| s["containers"][0]["env"] = json!([])), ["spec"]);
        assert_eq!(
            fields(|s| s["containers"] =
                json!([{"name": "a", "image": "x:1"}, {"name": "b", "image": "y"}])),
            ["spec"]
        );
        assert_eq!(fields(|s| s["nodeName"] = "n".into()), ["spec"]);
        assert_eq!(
            fields(|s| s["terminationGracePeriodSeconds"] = 5.into()),
            ["spec"]
        );
        assert_eq!(
            fields(|s| s["schedulingGates"] = json!([{"name": "g/new"}])),
            ["spec.schedulingGates"]
        );
        assert_eq!(
            fields(|s| s["tolerations"] = json!([])),
            ["spec.tolerations"]
        );
        assert_eq!(
            fields(|s| s["containers"][0]["image"] = "".into()),
            ["spec.containers[0].image"]
        );
    }
}
