//! Which node a pod fits on, or why it fits on none, in the scheduler's words.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::apiserver::claims::SELECTED_NODE;
use crate::apiserver::object::{self, list, text};
use crate::apiserver::pods;
use crate::apiserver::store::Object;
use crate::apiserver::taints::{
    self, NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, UNSCHEDULABLE,
};

/// The state of the cluster that a decision rests on.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) nodes: Vec<Object>,
    pub(super) pods: Vec<Object>,
    pub(super) claims: Vec<Object>,
}

/// The node for a pod.
pub(super) fn choose(pod: &Value, seen: &Seen) -> Result<String, String> {
    if seen.nodes.is_empty() {
        return Err("no nodes available to schedule pods".into());
    }
    let total = seen.nodes.len();
    let claims =
        claims(pod, seen).map_err(|why| format!("0/{total} nodes are available: {why}."))?;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for node in &seen.nodes {
        match unfit(pod, node, &claims, seen) {
            None => return Ok(object::name(node).to_owned()),
            Some(why) => *reasons.entry(why).or_default() += 1,
        }
    }
    let mut reasons: Vec<String> = reasons
        .into_iter()
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    reasons.sort();
    Err(format!(
        "0/{total} nodes are available: {}.",
        reasons.join(", ")
    ))
}

/// The claims that a pod mounts, all of them bound.
fn claims<'a>(pod: &Value, seen: &'a Seen) -> Result<Vec<&'a Object>, String> {
    let mut found = Vec::new();
    for name in pods::claims(pod) {
        let claim = seen.claims.iter().find(|claim| {
            object::name(claim) == name && object::namespace(claim) == object::namespace(pod)
        });
        let claim = claim.ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
        if object::terminating(claim) {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        found.push(claim);
    }
    if found
        .iter()
        .any(|claim| text(claim, "/status/phase") != "Bound")
    {
        return Err("pod has unbound immediate PersistentVolumeClaims".into());
    }
    Ok(found)
}

/// Why a pod does not fit on a node.
fn unfit(pod: &Value, node: &Value, claims: &[&Object], seen: &Seen) -> Option<String> {
    let ready = object::condition(node, "Ready").is_some_and(|c| text(c, "/status") == "True");
    let tainted = list(node, "/spec/taints")
        .iter()
        .any(|taint| [NOT_READY, UNREACHABLE].contains(&text(taint, "/key")));
    // The node controller may not have tainted it yet.
    if !ready && !tainted {
        return Some("node(s) had untolerated taint {node.kubernetes.io/not-ready: }".into());
    }
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true))
        && !taints::tolerated(pod, &taints::taint(UNSCHEDULABLE, NO_SCHEDULE))
    {
        return Some("node(s) were unschedulable".into());
    }
    let untolerated = list(node, "/spec/taints").iter().find(|taint| {
        matches!(text(taint, "/effect"), NO_SCHEDULE | NO_EXECUTE) && !taints::tolerated(pod, taint)
    });
    if let Some(taint) = untolerated {
        return Some(format!(
            "node(s) had untolerated taint {{{}: {}}}",
            text(taint, "/key"),
            text(taint, "/value")
        ));
    }
    if !selected(pod, node) {
        return Some("node(s) didn't match Pod's node affinity/selector".into());
    }
    let name = object::name(node);
    for claim in claims {
        let place = object::annotation(claim, SELECTED_NODE);
        if !place.is_empty() && place != name {
            return Some("node(s) didn't match PersistentVolume's node affinity".into());
        }
        let once = list(claim, "/spec/accessModes")
            .iter()
            .any(|mode| mode == "ReadWriteOncePod");
        if once && in_use(claim, seen) {
            return Some(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access \
                 mode already in-use by another pod"
                    .into(),
            );
        }
    }
    None
}

/// Whether a pod that is placed mounts a claim.
fn in_use(claim: &Value, seen: &Seen) -> bool {
    seen.pods.iter().any(|pod| {
        object::namespace(pod) == object::namespace(claim)
            && !text(pod, "/spec/nodeName").is_empty()
            && !pods::terminal(pod)
            && pods::claims(pod).any(|name| name == object::name(claim))
    })
}

fn selected(pod: &Value, node: &Value) -> bool {
    let labels = node.pointer("/metadata/labels");
    let wanted = pod.pointer("/spec/nodeSelector").and_then(Value::as_object);
    wanted
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, ready: &str, spec: &Value) -> Object {
        Object::new(json!({
            "metadata": {"name": name, "labels": {"zone": name}},
            "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
    }

    fn claim(phase: &str, mode: &str, node: &str) -> Object {
        Object::new(json!({
            "metadata": {"name": "data", "namespace": "n", "annotations": {SELECTED_NODE: node}},
            "spec": {"accessModes": [mode]},
            "status": {"phase": phase},
        }))
    }

    fn pod(name: &str, on: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "n"},
            "spec": {"nodeName": on, "volumes": [
                {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
            ]},
        })
    }

    #[test]
    fn a_ready_open_matching_node_is_chosen() {
        let pod = json!({"spec": {}});
        let picky = json!({"spec": {"nodeSelector": {"zone": "b"}}});
        let seen = |nodes: Vec<Object>| Seen {
            nodes,
            ..Seen::default()
        };
        let nodes = seen(vec![
            node("a", "True", &json!({})),
            node("b", "True", &json!({})),
        ]);
        assert_eq!(choose(&pod, &nodes).unwrap(), "a");
        assert_eq!(choose(&picky, &nodes).unwrap(), "b");
        assert_eq!(
            choose(&pod, &Seen::default()).unwrap_err(),
            "no nodes available to schedule pods"
        );
        let gone = json!({"taints": [
            {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
        ]});
        let nodes = seen(vec![
            node("a", "True", &json!({})),
            node("x", "Unknown", &json!({})),
            node("y", "True", &json!({"unschedulable": true})),
            node("z", "Unknown", &gone),
        ]);
        assert_eq!(
            choose(&picky, &nodes).unwrap_err(),
            "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 \
             node(s) had untolerated taint {node.kubernetes.io/not-ready: }, 1 node(s) had \
             untolerated taint {node.kubernetes.io/unreachable: }, 1 node(s) were unschedulable."
        );
        let patient = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
        assert_eq!(
            choose(
                &patient,
                &seen(vec![node("y", "True", &json!({"unschedulable": true}))])
            )
            .unwrap(),
            "y"
        );
    }

    #[test]
    fn claims_must_be_there_bound_and_within_reach() {
        let nodes = || vec![node("a", "True", &json!({})), node("b", "True", &json!({}))];
        let with = |claims: Vec<Object>, others: Vec<Value>| Seen {
            nodes: nodes(),
            claims,
            pods: others.into_iter().map(Object::new).collect(),
        };
        let mut leaving = claim("Bound", "ReadWriteOnce", "").as_ref().clone();
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        for (seen, expected) in [
            (
                with(vec![], vec![]),
                Err("0/2 nodes are available: persistentvolumeclaim \"data\" not found."),
            ),
            (
                with(vec![Object::new(leaving)], vec![]),
                Err("0/2 nodes are available: persistentvolumeclaim \"data\" is being deleted."),
            ),
            (
                with(vec![claim("Pending", "ReadWriteOnce", "")], vec![]),
                Err("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
            ),
            (
                with(vec![claim("Bound", "ReadWriteOnce", "")], vec![]),
                Ok("a"),
            ),
            (
                with(vec![claim("Bound", "ReadWriteOnce", "b")], vec![]),
                Ok("b"),
            ),
            (
                with(vec![claim("Bound", "ReadWriteOnce", "c")], vec![]),
                Err(
                    "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity.",
                ),
            ),
            (
                with(
                    vec![claim("Bound", "ReadWriteOnce", "b")],
                    vec![pod("q", "b")],
                ),
                Ok("b"),
            ),
            (
                with(
                    vec![claim("Bound", "ReadWriteOncePod", "")],
                    vec![pod("q", "")],
                ),
                Ok("a"),
            ),
            (
                with(
                    vec![claim("Bound", "ReadWriteOncePod", "")],
                    vec![pod("q", "b")],
                ),
                Err(
                    "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.",
                ),
            ),
        ] {
            let chosen = choose(&pod("p", ""), &seen);
            assert_eq!(chosen.as_deref().map_err(String::as_str), expected);
        }
    }
}
