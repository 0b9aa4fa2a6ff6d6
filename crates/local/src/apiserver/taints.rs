//! Taints and tolerations (`k8s.io/component-helpers/scheduling/corev1`), as pure functions.

use serde_json::{Value, json};

use super::object::{list, text};

/// Set while `spec.unschedulable` is (`kubectl cordon`).
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Set while a kubelet says that its node is not ready.
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Set while a kubelet says nothing.
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// New pods stay away.
pub(crate) const NO_SCHEDULE: &str = "NoSchedule";
/// Pods that are there go too.
pub(crate) const NO_EXECUTE: &str = "NoExecute";

/// A taint without a value.
pub(crate) fn taint(key: &str, effect: &str) -> Value {
    json!({"key": key, "effect": effect})
}

/// Whether one of the pod's tolerations covers a taint.
pub(crate) fn tolerated(pod: &Value, taint: &Value) -> bool {
    matching(pod, taint).next().is_some()
}

fn matching<'a>(pod: &'a Value, taint: &'a Value) -> impl Iterator<Item = &'a Value> {
    list(pod, "/spec/tolerations").iter().filter(|toleration| {
        let (key, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
        let exists = text(toleration, "/operator") == "Exists";
        let keys = if key.is_empty() {
            exists
        } else {
            key == text(taint, "/key")
        };
        keys && (effect.is_empty() || effect == text(taint, "/effect"))
            && (exists || text(toleration, "/value") == text(taint, "/value"))
    })
}

/// How long a pod may stay beside a taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// As long as it likes.
    Forever,
    /// For so many seconds from when the taint was set; 0: not at all.
    Seconds(i64),
}

/// How long a pod tolerates a `NoExecute` taint: the shortest of what its tolerations say.
pub(crate) fn stay(pod: &Value, taint: &Value) -> Stay {
    let mut tolerations = matching(pod, taint).peekable();
    if tolerations.peek().is_none() {
        return Stay::Seconds(0);
    }
    tolerations
        .filter_map(|toleration| toleration.get("tolerationSeconds")?.as_i64())
        .min()
        .map_or(Stay::Forever, |seconds| Stay::Seconds(seconds.max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows() {
        let taint = json!({"key": "k", "value": "v", "effect": NO_EXECUTE});
        for (tolerations, expected) in [
            (json!([]), Stay::Seconds(0)),
            (json!([{"operator": "Exists"}]), Stay::Forever),
            (json!([{"key": "k", "operator": "Exists"}]), Stay::Forever),
            (
                json!([{"key": "k", "operator": "Exists", "effect": NO_SCHEDULE}]),
                Stay::Seconds(0),
            ),
            (json!([{"key": "k", "value": "v"}]), Stay::Forever),
            (
                json!([{"key": "k", "operator": "Equal", "value": "w"}]),
                Stay::Seconds(0),
            ),
            (json!([{"value": "v"}]), Stay::Seconds(0)),
            (
                json!([
                    {"key": "k", "operator": "Exists", "tolerationSeconds": 300},
                    {"key": "k", "value": "v", "effect": NO_EXECUTE, "tolerationSeconds": 20},
                ]),
                Stay::Seconds(20),
            ),
            (
                json!([{"key": "k", "operator": "Exists", "tolerationSeconds": -5}]),
                Stay::Seconds(0),
            ),
        ] {
            let pod = json!({"spec": {"tolerations": tolerations}});
            assert_eq!(stay(&pod, &taint), expected, "{tolerations}");
            assert_eq!(
                tolerated(&pod, &taint),
                expected != Stay::Seconds(0) || tolerations[0]["tolerationSeconds"] == -5
            );
        }
    }
}
