//! What happened to a workspace: the Events of its pods, and its operations.
//!
//! Events are looked up by the uids of pods that are the workspace's own: a name is used again, and an
//! id may have been somebody else's before.

use super::types::{GetWorkspaceEvents, MAX_EVENTS, WorkspaceEvent, WorkspaceEvents};
use super::{Answer, Parts, ServiceError, view, workspaces};
use k8s_openapi::api::core::v1::Event;
use nogoo9_model::UnixSeconds;
use nogoo9_model::access::Caller;
use nogoo9_model::operation::{Kind, Operation, State};
use nogoo9_model::record::Record;

/// Pods whose Events are looked at; a workspace has one, two during an upgrade.
const MAX_PODS: usize = 8;
/// Longest message, in characters.
const MAX_MESSAGE: usize = 1024;

pub(super) async fn events(
    parts: &Parts,
    caller: &Caller,
    args: &GetWorkspaceEvents,
) -> Answer<WorkspaceEvents> {
    if args.limit == 0 || args.limit > MAX_EVENTS {
        return Err(ServiceError::Invalid {
            argument: "limit",
            problem: format!("use 1 to {MAX_EVENTS}"),
        });
    }
    let record = &workspaces::readable(parts, caller, &args.id).await?;
    let mut all = Vec::new();
    for uid in pods(parts, record).await? {
        let events = parts.cluster.events_of_pod(&uid).await?;
        all.extend(events.iter().map(of_pod));
    }
    let operations = parts.caches.operations().list();
    all.extend(
        operations
            .iter()
            .filter_map(|stored| of_operation(&stored.value, record)),
    );
    // The same second: the order that they came in, which is the cluster's.
    all.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    all.truncate(args.limit as usize);
    Ok(WorkspaceEvents {
        id: record.id.clone(),
        events: all.into_iter().map(|(_, event)| event).collect(),
    })
}

/// Uids of the workspace's pods: those that there are, and those that its record knows of.
async fn pods(parts: &Parts, record: &Record) -> Answer<Vec<String>> {
    let mut pods = parts.cluster.pods(&record.id).await?;
    pods.retain(|pod| record.holds(pod));
    pods.sort_by_key(|pod| std::cmp::Reverse((pod.created, pod.generation)));
    let mut uids: Vec<String> = pods.into_iter().map(|pod| pod.uid).collect();
    let upgrade = record.upgrade.as_ref();
    let known = [Some(&record.pod)]
        .into_iter()
        .chain([
            upgrade.map(|upgrade| &upgrade.source),
            upgrade.map(|upgrade| &upgrade.successor),
        ])
        .flatten();
    for uid in known.filter_map(|pod| pod.uid.as_ref()) {
        if !uids.contains(uid) {
            uids.push(uid.clone());
        }
    }
    uids.truncate(MAX_PODS);
    Ok(uids)
}

fn of_pod(event: &Event) -> (UnixSeconds, WorkspaceEvent) {
    let at = happened(event);
    let shown = WorkspaceEvent {
        at: view::time(at),
        kind: event.type_.clone().unwrap_or_else(|| "Normal".to_owned()),
        reason: event.reason.clone().unwrap_or_default(),
        message: bounded(event.message.as_deref().unwrap_or_default()),
        object_kind: "Pod".to_owned(),
        object_name: event.involved_object.name.clone().unwrap_or_default(),
        count: event.count.filter(|count| *count > 1),
    };
    (at, shown)
}

/// When it happened last. There are three ways to say so, by the age of whoever tells.
fn happened(event: &Event) -> UnixSeconds {
    let series = event.series.as_ref();
    let precise = series
        .and_then(|series| series.last_observed_time.as_ref())
        .or(event.event_time.as_ref())
        .map(|time| time.0.as_second());
    let plain = event
        .last_timestamp
        .as_ref()
        .or(event.first_timestamp.as_ref())
        .or(event.metadata.creation_timestamp.as_ref())
        .map(|time| time.0.as_second());
    precise.max(plain).unwrap_or_default()
}

/// What an operation did to this workspace, if it did: while it was this owner's.
fn of_operation(operation: &Operation, record: &Record) -> Option<(UnixSeconds, WorkspaceEvent)> {
    let target = operation
        .targets
        .iter()
        .find(|target| target.workspace == record.id && target.owner == record.owner)?;
    let at = operation.finished_at.unwrap_or(operation.started_at);
    let (kind, reason) = match operation.state {
        State::Running => ("Normal", "OperationRunning"),
        State::Succeeded => ("Normal", "OperationSucceeded"),
        State::Failed => ("Warning", "OperationFailed"),
        State::Cancelled => ("Normal", "OperationCancelled"),
    };
    let why = target
        .error
        .as_ref()
        .map(|why| format!(": {why}"))
        .unwrap_or_default();
    let message = format!(
        "{}, asked for by {} at {}{why}",
        word(operation.kind),
        operation.actor,
        view::time(operation.started_at)
    );
    let shown = WorkspaceEvent {
        at: view::time(at),
        kind: kind.to_owned(),
        reason: reason.to_owned(),
        message: bounded(&message),
        object_kind: "Operation".to_owned(),
        object_name: operation.id.clone(),
        count: None,
    };
    Some((at, shown))
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Upgrade | Kind::UpgradeAll => "upgrade",
        Kind::Rollback => "rollback",
    }
}

fn bounded(text: &str) -> String {
    text.chars().take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(value: &serde_json::Value) -> Event {
        let mut event = json!({"metadata": {}, "involvedObject": {"kind": "Pod", "name": "p"}});
        event
            .as_object_mut()
            .unwrap()
            .extend(value.as_object().unwrap().clone());
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn an_event_tells_when_it_happened_last() {
        for (value, at) in [
            (json!({}), 0),
            (
                json!({"metadata": {"creationTimestamp": "1970-01-01T00:01:00Z"}}),
                60,
            ),
            (
                json!({"firstTimestamp": "1970-01-01T00:01:00Z", "lastTimestamp": "1970-01-01T00:02:00Z"}),
                120,
            ),
            (json!({"eventTime": "1970-01-01T00:03:00.500000Z"}), 180),
            (
                json!({"eventTime": "1970-01-01T00:03:00.500000Z",
                    "series": {"count": 4, "lastObservedTime": "1970-01-01T00:05:00.000000Z"}}),
                300,
            ),
        ] {
            assert_eq!(happened(&event(&value)), at, "{value}");
        }
        let (_, shown) = of_pod(&event(&json!({"message": "m".repeat(5000), "count": 1})));
        assert_eq!((shown.message.len(), shown.count), (1024, None));
        let (_, shown) = of_pod(&event(
            &json!({"type": "Warning", "reason": "BackOff", "count": 7}),
        ));
        assert_eq!((shown.kind.as_str(), shown.count), ("Warning", Some(7)));
    }
}
