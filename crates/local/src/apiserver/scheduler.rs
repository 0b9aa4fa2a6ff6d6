//! The scheduler: places pods without a node on a node that is ready.
//!
//! It runs beside the store as another writer of it, by the rules of the `binding` subresource.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::binding::bind_in;
use super::failure::Failure;
use super::names::new_uid;
use super::object::{self, text};
use super::pods;
use super::registry::Resource;
use super::store::{Key, Object, Store};
use super::tx::Tx;

const NAME: &str = "default-scheduler";

/// Places pods until told to stop.
pub(crate) async fn run(store: Arc<Store>, shutdown: CancellationToken) {
    let mut changed = store.changed();
    loop {
        changed.borrow_and_update();
        let (all, _) = store.list(Resource::Pods, None);
        let waiting: Vec<Object> = all.into_iter().filter(|pod| wants_a_node(pod)).collect();
        if !waiting.is_empty() {
            let (nodes, _) = store.list(Resource::Nodes, None);
            for pod in waiting {
                let decision = choose(&pod, &nodes);
                if let Err(failure) = record(&store, &pod, decision).await {
                    // It changed meanwhile; the change wakes the next round.
                    tracing::debug!(status = %failure.status(), "pod not placed");
                }
            }
        }
        tokio::select! {
            changed = changed.changed() => if changed.is_err() { return },
            () = shutdown.cancelled() => return,
        }
    }
}

fn wants_a_node(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && text(pod, "/spec/schedulerName") == NAME
        && !pods::gated(pod)
        && !object::terminating(pod)
        && !pods::terminal(pod)
}

/// The node for a pod, or why there is none, in the scheduler's words.
fn choose(pod: &Value, nodes: &[Object]) -> Result<String, String> {
    let (mut unready, mut closed, mut other) = (0, 0, 0);
    for node in nodes {
        let ready = object::condition(node, "Ready").is_some_and(|c| text(c, "/status") == "True");
        if !ready {
            unready += 1;
        } else if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
            closed += 1;
        } else if !selected(pod, node) {
            other += 1;
        } else {
            return Ok(object::name(node).to_owned());
        }
    }
    if nodes.is_empty() {
        return Err("no nodes available to schedule pods".into());
    }
    let reasons: Vec<String> = [
        (
            unready,
            "node(s) had untolerated taint {node.kubernetes.io/not-ready: }",
        ),
        (closed, "node(s) were unschedulable"),
        (other, "node(s) didn't match Pod's node affinity/selector"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, why)| format!("{count} {why}"))
    .collect();
    Err(format!(
        "0/{} nodes are available: {}.",
        nodes.len(),
        reasons.join(", ")
    ))
}

fn selected(pod: &Value, node: &Value) -> bool {
    let labels = node.pointer("/metadata/labels");
    let wanted = pod.pointer("/spec/nodeSelector").and_then(Value::as_object);
    wanted
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value))
}

async fn record(
    store: &Store,
    pod: &Object,
    decision: Result<String, String>,
) -> Result<(), Failure> {
    let pod = Arc::clone(pod);
    store
        .write(move |tx| {
            let key = Key::new(object::namespace(&pod), object::name(&pod));
            match decision {
                Ok(node) => {
                    let binding = json!({"metadata": {"uid": object::uid(&pod)}});
                    bind_in(tx, &key, &node, &binding)?;
                    let message = format!(
                        "Successfully assigned {}/{} to {node}",
                        key.namespace, key.name
                    );
                    event(tx, &pod, "Normal", "Scheduled", &message)
                }
                Err(why) => unschedulable(tx, &key, &pod, &why),
            }
        })
        .await
}

fn unschedulable(tx: &mut Tx<'_>, key: &Key, seen: &Value, why: &str) -> Result<(), Failure> {
    let Some(pod) = tx.get(Resource::Pods, key) else {
        return Ok(());
    };
    if object::uid(&pod) != object::uid(seen) || !wants_a_node(&pod) {
        return Ok(());
    }
    let mut pod = pod.as_ref().clone();
    let now = tx.now_text();
    let news = pods::set_condition(
        &mut pod,
        "PodScheduled",
        "False",
        Some("Unschedulable"),
        Some(why),
        &now,
    );
    if !news {
        return Ok(());
    }
    tx.put(Resource::Pods, pod);
    event(tx, seen, "Warning", "FailedScheduling", why)
}

fn event(
    tx: &mut Tx<'_>,
    pod: &Value,
    kind: &str,
    reason: &str,
    message: &str,
) -> Result<(), Failure> {
    let uid = new_uid()?;
    let (now, micros) = (
        tx.now_text(),
        tx.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
    );
    let (namespace, name) = (object::namespace(pod), object::name(pod));
    let suffix = uid.get(..8).unwrap_or_default();
    tx.put(
        Resource::Events,
        json!({
            "kind": "Event", "apiVersion": "v1",
            "metadata": {
                "name": format!("{name}.{suffix}"), "namespace": namespace, "uid": uid,
                "creationTimestamp": now,
            },
            "involvedObject": {
                "kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": name,
                "uid": object::uid(pod),
                "resourceVersion": text(pod, "/metadata/resourceVersion"),
            },
            "type": kind, "reason": reason, "message": message, "action": "Binding",
            "eventTime": micros,
            "source": {"component": NAME},
            "reportingComponent": NAME, "reportingInstance": NAME,
        }),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, ready: &str, unschedulable: bool) -> Object {
        Arc::new(json!({
            "metadata": {"name": name, "labels": {"zone": name}},
            "spec": {"unschedulable": unschedulable},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
    }

    #[test]
    fn a_ready_open_matching_node_is_chosen() {
        let pod = json!({"spec": {}});
        let picky = json!({"spec": {"nodeSelector": {"zone": "b"}}});
        let nodes = [node("a", "True", false), node("b", "True", false)];
        assert_eq!(choose(&pod, &nodes).unwrap(), "a");
        assert_eq!(choose(&picky, &nodes).unwrap(), "b");
        assert_eq!(
            choose(&pod, &[]).unwrap_err(),
            "no nodes available to schedule pods"
        );
        let nodes = [
            node("a", "True", false),
            node("x", "Unknown", false),
            node("y", "True", true),
        ];
        assert_eq!(
            choose(&picky, &nodes).unwrap_err(),
            "0/3 nodes are available: 1 node(s) had untolerated taint \
             {node.kubernetes.io/not-ready: }, 1 node(s) were unschedulable, 1 node(s) didn't \
             match Pod's node affinity/selector."
        );
    }
}
