//! Background care: the namespaces that always exist, and events that have had their time.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::BUILT_IN_NAMESPACES;
use super::failure::Failure;
use super::object::{self, text};
use super::registry::{Resource, Served};
use super::service::{Target, create_in};
use super::store::{Key, Object, Store};

/// Events live this long, as in a real cluster.
const EVENT_LIFE: SignedDuration = SignedDuration::from_hours(1);
/// Events kept at most.
const EVENTS_KEPT: usize = 5000;
/// Pace of the sweep.
const SWEEP: Duration = Duration::from_secs(60);

/// Makes the namespaces that every cluster has.
pub(crate) async fn bootstrap(store: &Store) -> Result<(), Failure> {
    store
        .write(|tx| {
            let resource = Resource::Namespaces;
            let info = resource.info();
            let served = Served {
                resource,
                group: info.group,
                version: info.version,
            };
            for name in BUILT_IN_NAMESPACES {
                if tx.get(resource, &Key::new("", name)).is_some() {
                    continue;
                }
                let target = Target {
                    served,
                    namespace: String::new(),
                    name: String::new(),
                };
                let namespace = json!({
                    "kind": info.kind, "apiVersion": info.api_version(),
                    "metadata": {"name": name},
                });
                create_in(tx, &target, namespace)?;
            }
            Ok(())
        })
        .await
}

/// Sweeps until told to stop.
pub(crate) async fn run(store: Arc<Store>, shutdown: CancellationToken) {
    let mut tick = tokio::time::interval(SWEEP);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = shutdown.cancelled() => return,
        }
        let (events, _) = store.list(Resource::Events, None);
        let stale = stale(events, Timestamp::now());
        if stale.is_empty() {
            continue;
        }
        let swept = store
            .write(move |tx| {
                for event in stale {
                    let key = Key::new(object::namespace(&event), object::name(&event));
                    // Still the same: not one that has been counted up meanwhile.
                    if tx
                        .get(Resource::Events, &key)
                        .is_some_and(|now| now == event)
                    {
                        tx.delete(Resource::Events, event.as_ref().clone());
                    }
                }
                Ok(())
            })
            .await;
        if let Err(failure) = swept {
            tracing::warn!(status = %failure.status(), "old events could not be removed");
        }
    }
}

/// Events past their time, and the oldest beyond the number kept.
fn stale(mut events: Vec<Object>, now: Timestamp) -> Vec<Object> {
    let seen = |event: &Object| -> Timestamp {
        [
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/eventTime",
            "/metadata/creationTimestamp",
        ]
        .into_iter()
        .find_map(|pointer| text(event, pointer).parse().ok())
        .unwrap_or(Timestamp::MIN)
    };
    events.sort_by_key(|event| std::cmp::Reverse(seen(event)));
    let oldest = now.checked_sub(EVENT_LIFE).unwrap_or(Timestamp::MIN);
    let young = events
        .iter()
        .take_while(|event| seen(event) >= oldest)
        .count();
    events.split_off(young.min(EVENTS_KEPT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_events_go() {
        let event = |name: &str, at: &str| {
            Object::new(json!({"metadata": {"name": name}, "lastTimestamp": at}))
        };
        let events = vec![
            event("old", "2026-01-01T00:00:00Z"),
            event("new", "2026-01-01T01:30:00Z"),
            event("none", ""),
        ];
        let names: Vec<String> = stale(events, "2026-01-01T02:00:00Z".parse().unwrap())
            .iter()
            .map(|e| object::name(e).to_owned())
            .collect();
        assert_eq!(names, ["old", "none"]);
    }
}
