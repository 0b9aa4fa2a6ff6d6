//! The scheduler: places pods without a node on a node that is ready.
//!
//! It runs beside the store as another writer of it, by the rules of the `binding` subresource.

mod fit;

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::binding::bind_in;
use super::failure::Failure;
use super::involved;
use super::object::{self, text};
use super::pods;
use super::registry::Resource;
use super::store::{Key, Object, Store};
use super::tx::Tx;
use fit::Seen;

const NAME: &str = "default-scheduler";

/// Places pods until told to stop.
pub(crate) async fn run(store: Arc<Store>, shutdown: CancellationToken) {
    let mut changed = store.changed();
    loop {
        changed.borrow_and_update();
        let (all, _) = store.list(Resource::Pods, None);
        let waiting: Vec<Object> = all
            .iter()
            .filter(|pod| wants_a_node(pod))
            .cloned()
            .collect();
        if !waiting.is_empty() {
            let seen = Seen {
                nodes: store.list(Resource::Nodes, None).0,
                claims: store.list(Resource::PersistentVolumeClaims, None).0,
                pods: all,
            };
            for pod in waiting {
                let decision = fit::choose(&pod, &seen);
                let placed = decision.is_ok();
                if let Err(failure) = record(&store, &pod, decision).await {
                    // It changed meanwhile; the change wakes the next round.
                    tracing::debug!(status = %failure.status(), "pod not placed");
                }
                // What it holds now counts for those after it: the change wakes the next round.
                if placed && pods::claims(&pod).next().is_some() {
                    break;
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
                    involved::event(tx, &pod, NAME, "Normal", "Scheduled", &message)
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
    involved::event(tx, seen, NAME, "Warning", "FailedScheduling", why)
}
