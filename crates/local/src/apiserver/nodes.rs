//! What the node controllers of a cluster do: taint nodes by what they say of themselves, notice
//! kubelets that fell silent, and delete pods that may not stay where they are.
//!
//! A node that never sent a heartbeat is nobody's to watch. Silence is measured by this process's
//! own clock from the last change seen, so that neither a suspended laptop nor a restart of the
//! server looks like a dead kubelet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::eviction::disrupt;
use super::failure::Failure;
use super::involved;
use super::object::{self, list, text};
use super::pods;
use super::registry::Resource;
use super::removal::{self, DeleteOptions};
use super::store::{Key, Object, Store};
use super::taints::{self, NO_EXECUTE, NO_SCHEDULE, NOT_READY, Stay, UNREACHABLE, UNSCHEDULABLE};
use super::tx::{Tx, rfc3339};

/// How often silence and tolerated time are looked at.
const TICK: Duration = Duration::from_secs(1);
const NAME: &str = "node-controller";

/// Looks after nodes until told to stop. A node is lost after `grace` without a heartbeat.
pub(crate) async fn run(store: Arc<Store>, grace: Duration, shutdown: CancellationToken) {
    let mut silence = Silence::default();
    let mut seen = Vec::new();
    let mut changed = store.changed();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = tokio::select! {
            changed = changed.changed() => if changed.is_err() { return } else { false },
            _ = tick.tick() => true,
            () = shutdown.cancelled() => return,
        };
        let (nodes, _) = store.list(Resource::Nodes, None);
        // Most changes are of other kinds; what they mean for nodes can wait for the next tick.
        if !due && nodes == seen {
            continue;
        }
        let (pods, _) = store.list(Resource::Pods, None);
        for act in silence.judge(&nodes, &pods, grace, Instant::now(), Timestamp::now()) {
            let done = store.write(move |tx| carry_out(tx, &act)).await;
            if let Err(failure) = done {
                tracing::debug!(status = %failure.status(), "node not settled");
            }
        }
        seen = nodes;
    }
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
enum Act {
    /// The kubelet of this node fell silent.
    Lose(String),
    /// The taints of this node are not what its state asks for.
    Taint(String),
    /// This pod may not stay on its tainted node.
    Evict(Object),
    /// This pod's node does not exist.
    Collect(Object),
}

/// What was seen of nodes, and when.
#[derive(Debug, Default)]
struct Silence {
    /// The last heartbeat of each node, and when it was first seen.
    heard: HashMap<String, (String, Instant)>,
    /// Since when each node that pods name is missing.
    missing: HashMap<String, Instant>,
}

impl Silence {
    fn judge(
        &mut self,
        nodes: &[Object],
        pods: &[Object],
        grace: Duration,
        at: Instant,
        now: Timestamp,
    ) -> Vec<Act> {
        let mut acts = Vec::new();
        self.heard
            .retain(|name, _| nodes.iter().any(|node| object::name(node) == name));
        for node in nodes {
            let name = object::name(node);
            if self.silent(node, at) >= grace && is_ready(node) {
                acts.push(Act::Lose(name.to_owned()));
            } else if wanted_taints(node, now) != list(node, "/spec/taints") {
                acts.push(Act::Taint(name.to_owned()));
            }
        }
        let mut missing = HashMap::new();
        for pod in pods {
            let name = text(pod, "/spec/nodeName");
            if name.is_empty() {
                continue;
            }
            match nodes.iter().find(|node| object::name(node) == name) {
                Some(node) if must_go(pod, node, now) => acts.push(Act::Evict(Arc::clone(pod))),
                Some(_) => {}
                None => {
                    let since = self.missing.get(name).copied().unwrap_or(at);
                    missing.insert(name.to_owned(), since);
                    if at.saturating_duration_since(since) >= grace {
                        acts.push(Act::Collect(Arc::clone(pod)));
                    }
                }
            }
        }
        self.missing = missing;
        acts
    }

    /// How long a node has said nothing new.
    fn silent(&mut self, node: &Value, at: Instant) -> Duration {
        let beat = object::condition(node, "Ready").map_or("", |c| text(c, "/lastHeartbeatTime"));
        if beat.is_empty() {
            return Duration::ZERO;
        }
        let heard = self
            .heard
            .entry(object::name(node).to_owned())
            .or_insert_with(|| (beat.to_owned(), at));
        if heard.0 != beat {
            *heard = (beat.to_owned(), at);
        }
        at.saturating_duration_since(heard.1)
    }
}

fn is_ready(node: &Value) -> bool {
    object::condition(node, "Ready").is_some_and(|c| text(c, "/status") == "True")
}

/// The taints that a node should have: those that others set, and ours by its state.
fn wanted_taints(node: &Value, now: Timestamp) -> Vec<Value> {
    let current = list(node, "/spec/taints");
    let ours = |taint: &&Value| {
        let key = text(taint, "/key");
        [UNSCHEDULABLE, NOT_READY, UNREACHABLE].contains(&key)
    };
    let status = object::condition(node, "Ready").map_or("", |c| text(c, "/status"));
    let cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    let mut wanted = Vec::new();
    if cordoned {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    // A node that says nothing at all yet is not known to be unwell.
    let unwell = match status {
        "False" => Some(NOT_READY),
        "Unknown" => Some(UNREACHABLE),
        _ => None,
    };
    if let Some(key) = unwell {
        wanted.extend([(key, NO_SCHEDULE), (key, NO_EXECUTE)]);
    }
    let holds = |taint: &Value| {
        wanted
            .iter()
            .any(|(key, effect)| text(taint, "/key") == *key && text(taint, "/effect") == *effect)
    };
    let mut taints: Vec<Value> = current
        .iter()
        .filter(|taint| !ours(taint) || holds(taint))
        .cloned()
        .collect();
    for (key, effect) in &wanted {
        let there = taints
            .iter()
            .any(|taint| text(taint, "/key") == *key && text(taint, "/effect") == *effect);
        if !there {
            let mut taint = taints::taint(key, effect);
            taint["timeAdded"] = rfc3339(now).into();
            taints.push(taint);
        }
    }
    taints
}

/// Whether a pod has stayed on its node for as long as it tolerates the node's taints.
fn must_go(pod: &Value, node: &Value, now: Timestamp) -> bool {
    if object::terminating(pod) {
        return false;
    }
    let evicting = list(node, "/spec/taints")
        .iter()
        .filter(|taint| text(taint, "/effect") == NO_EXECUTE);
    evicting
        .into_iter()
        .any(|taint| match taints::stay(pod, taint) {
            Stay::Forever => false,
            Stay::Seconds(seconds) => {
                let since: Timestamp = text(taint, "/timeAdded").parse().unwrap_or(now);
                let due = since.saturating_add(SignedDuration::from_secs(seconds));
                due.is_ok_and(|due| due <= now)
            }
        })
}

fn carry_out(tx: &mut Tx<'_>, act: &Act) -> Result<(), Failure> {
    match act {
        Act::Lose(name) => lose(tx, name),
        Act::Taint(name) => {
            let key = Key::new("", name);
            if let Some(node) = tx.get(Resource::Nodes, &key) {
                let taints = wanted_taints(&node, tx.now());
                let mut node = node.as_ref().clone();
                object::set(&mut node, &["spec", "taints"], taints);
                tx.put(Resource::Nodes, node);
            }
            Ok(())
        }
        Act::Evict(pod) => remove(
            tx,
            pod,
            None,
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        ),
        Act::Collect(pod) => remove(
            tx,
            pod,
            Some(0),
            "DeletionByPodGC",
            "PodGC: node no longer exists",
        ),
    }
}

/// Nothing is known of the node any more, and nothing on it can be said to be ready.
fn lose(tx: &mut Tx<'_>, name: &str) -> Result<(), Failure> {
    let Some(node) = tx.get(Resource::Nodes, &Key::new("", name)) else {
        return Ok(());
    };
    let now = tx.now_text();
    let mut lost = node.as_ref().clone();
    let conditions = object::list_mut(&mut lost, &["status", "conditions"]);
    for condition in conditions.into_iter().flatten() {
        condition["status"] = "Unknown".into();
        condition["reason"] = "NodeStatusUnknown".into();
        condition["message"] = "Kubelet stopped posting node status.".into();
        condition["lastTransitionTime"] = now.as_str().into();
    }
    let taints = wanted_taints(&lost, tx.now());
    object::set(&mut lost, &["spec", "taints"], taints);
    tx.put(Resource::Nodes, lost);
    let message = format!("Node {name} status is now: NodeNotReady");
    involved::event(tx, &node, NAME, "Normal", "NodeNotReady", &message)?;
    for pod in tx.list(Resource::Pods, None) {
        let ready = object::condition(&pod, "Ready");
        if text(&pod, "/spec/nodeName") != name
            || ready.is_none_or(|ready| text(ready, "/status") != "True")
        {
            continue;
        }
        let mut pod = pod.as_ref().clone();
        if pods::set_condition(&mut pod, "Ready", "False", None, None, &now) {
            involved::event(
                tx,
                &pod,
                NAME,
                "Warning",
                "NodeNotReady",
                "Node is not ready",
            )?;
            tx.put(Resource::Pods, pod);
        }
    }
    tracing::warn!(node = name, "kubelet fell silent");
    Ok(())
}

/// Deletes a pod that was seen, and no other of its name.
fn remove(
    tx: &mut Tx<'_>,
    seen: &Object,
    grace: Option<i64>,
    reason: &str,
    message: &str,
) -> Result<(), Failure> {
    let key = Key::new(object::namespace(seen), object::name(seen));
    let Some(pod) = tx.get(Resource::Pods, &key) else {
        return Ok(());
    };
    if object::uid(&pod) != object::uid(seen) {
        return Ok(());
    }
    disrupt(tx, &key, &pod, reason, message);
    let options = DeleteOptions {
        grace,
        uid: Some(object::uid(seen).to_owned()),
        ..DeleteOptions::default()
    };
    removal::delete_in(tx, Resource::Pods, &key, &options)?;
    tracing::info!(
        pod = key.name,
        namespace = key.namespace,
        reason,
        "pod deleted"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GRACE: Duration = Duration::from_secs(40);

    fn node(ready: &str, beat: &str, spec: &Value) -> Object {
        let mut condition = json!({"type": "Ready", "status": ready});
        if !beat.is_empty() {
            condition["lastHeartbeatTime"] = beat.into();
        }
        Object::new(json!({
            "metadata": {"name": "n"}, "spec": spec, "status": {"conditions": [condition]},
        }))
    }

    fn pod(tolerations: &Value) -> Object {
        Object::new(json!({
            "metadata": {"name": "p"}, "spec": {"nodeName": "n", "tolerations": tolerations},
        }))
    }

    fn now() -> Timestamp {
        "2026-01-01T00:05:00Z".parse().unwrap()
    }

    #[test]
    fn a_node_is_lost_after_its_grace_without_a_new_heartbeat() {
        let mut silence = Silence::default();
        let begin = Instant::now();
        let mut judge = |beat: &str, after: u64| {
            let nodes = [node("True", beat, &json!({}))];
            silence.judge(
                &nodes,
                &[],
                GRACE,
                begin + Duration::from_secs(after),
                now(),
            )
        };
        assert_eq!(judge("a", 0), []);
        assert_eq!(judge("a", 39), []);
        assert_eq!(judge("b", 39), []);
        assert_eq!(judge("b", 78), []);
        assert_eq!(judge("b", 79), [Act::Lose("n".into())]);
        assert_eq!(judge("c", 80), []);
        assert_eq!(judge("", 500), [], "no kubelet, nobody to miss");
    }

    #[test]
    fn taints_follow_the_state_and_leave_others_alone() {
        let foreign = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
        let keys = |ready: &str, spec: Value| -> Vec<String> {
            let taints = wanted_taints(&node(ready, "", &spec), now());
            let name = |t: &Value| format!("{}:{}", text(t, "/key"), text(t, "/effect"));
            taints.iter().map(name).collect()
        };
        assert_eq!(keys("True", json!({"taints": [foreign]})), ["k:NoSchedule"]);
        assert_eq!(
            keys(
                "Unknown",
                json!({"taints": [foreign], "unschedulable": true})
            ),
            [
                "k:NoSchedule",
                "node.kubernetes.io/unschedulable:NoSchedule",
                "node.kubernetes.io/unreachable:NoSchedule",
                "node.kubernetes.io/unreachable:NoExecute",
            ]
        );
        let lost = wanted_taints(&node("Unknown", "", &json!({})), now());
        let later: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let again = wanted_taints(&node("Unknown", "", &json!({"taints": lost})), later);
        assert_eq!(again, lost, "since when stays");
        assert_eq!(
            wanted_taints(&node("True", "", &json!({"taints": lost})), later),
            Vec::<Value>::new()
        );
    }

    #[test]
    fn pods_stay_for_as_long_as_they_tolerate() {
        let taint = |at: &str| {
            json!({"taints": [
                {"key": UNREACHABLE, "effect": NO_EXECUTE, "timeAdded": at},
            ]})
        };
        let tolerate = |seconds: i64| {
            json!([
                {"key": UNREACHABLE, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": seconds},
            ])
        };
        let lost = node("Unknown", "", &taint("2026-01-01T00:00:00Z"));
        for (tolerations, gone) in [
            (json!([]), true),
            (tolerate(300), true),
            (tolerate(301), false),
            (json!([{"operator": "Exists"}]), false),
        ] {
            assert_eq!(
                must_go(&pod(&tolerations), &lost, now()),
                gone,
                "{tolerations}"
            );
        }
    }

    #[test]
    fn pods_of_a_node_that_is_gone_are_collected_in_the_end() {
        let mut silence = Silence::default();
        let begin = Instant::now();
        let pods = [pod(&json!([]))];
        let mut judge = |nodes: &[Object], after: u64| {
            silence.judge(
                nodes,
                &pods,
                GRACE,
                begin + Duration::from_secs(after),
                now(),
            )
        };
        assert_eq!(judge(&[], 0), []);
        assert_eq!(judge(&[node("True", "", &json!({}))], 30), []);
        assert_eq!(judge(&[], 41), []);
        assert_eq!(judge(&[], 81), [Act::Collect(Arc::clone(&pods[0]))]);
    }
}
