//! Graceful deletion: `CheckGracefulDelete` of pods and `rest.BeforeDelete`, as pure functions.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::apiserver::object;
use crate::apiserver::pods;
use crate::apiserver::tx::rfc3339;

/// What a DELETE does to a pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Deletion {
    /// It goes now.
    Immediate,
    /// It is marked, and goes when the kubelet deletes it with grace 0.
    Graceful(Value),
    /// It is marked already, and this request asks for no shorter grace.
    Pending,
}

/// Decides what a DELETE with `grace` seconds does to a pod.
pub(crate) fn decide(pod: &Value, grace: Option<i64>, now: Timestamp) -> Deletion {
    if object::terminating(pod) {
        let current = pod
            .pointer("/metadata/deletionGracePeriodSeconds")
            .and_then(Value::as_i64);
        let Some(current) = current else {
            return Deletion::Immediate;
        };
        // A second delete can only shorten the first.
        let Some(asked) = grace.map(floor_negative) else {
            return Deletion::Pending;
        };
        if asked == 0 {
            return Deletion::Immediate;
        }
        if asked >= current {
            return Deletion::Pending;
        }
        let marked: Timestamp = object::text(pod, "/metadata/deletionTimestamp")
            .parse()
            .unwrap_or(now);
        let at = later(marked, asked - current);
        return Deletion::Graceful(mark(pod, at, asked));
    }
    let asked = grace.or_else(|| {
        pod.pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
    });
    let unplaced = object::text(pod, "/spec/nodeName").is_empty();
    let period = if unplaced || pods::terminal(pod) {
        0
    } else {
        floor_negative(asked.unwrap_or(0))
    };
    if period == 0 {
        return Deletion::Immediate;
    }
    let mut marked = mark(pod, later(now, period), period);
    if let Some(generation) = pod.pointer("/metadata/generation").and_then(Value::as_i64) {
        object::set(&mut marked, &["metadata", "generation"], generation + 1);
    }
    Deletion::Graceful(marked)
}

/// A negative grace means one second.
fn floor_negative(grace: i64) -> i64 {
    if grace < 0 { 1 } else { grace }
}

fn later(at: Timestamp, seconds: i64) -> Timestamp {
    at.saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(at)
}

fn mark(pod: &Value, at: Timestamp, grace: i64) -> Value {
    let mut pod = pod.clone();
    object::set(&mut pod, &["metadata", "deletionTimestamp"], rfc3339(at));
    object::set(&mut pod, &["metadata", "deletionGracePeriodSeconds"], grace);
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(node: &str, phase: &str) -> Value {
        json!({
            "metadata": {"name": "p", "generation": 1},
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30},
            "status": {"phase": phase},
        })
    }

    fn terminating(grace: i64) -> Value {
        let mut pod = pod("local", "Running");
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        pod
    }

    /// The grace and timestamp after a decision, or its name.
    fn outcome(pod: &Value, grace: Option<i64>) -> String {
        let now: Timestamp = "2026-01-01T00:00:40Z".parse().unwrap();
        match decide(pod, grace, now) {
            Deletion::Immediate => "immediate".into(),
            Deletion::Pending => "pending".into(),
            Deletion::Graceful(pod) => format!(
                "{} {}",
                pod["metadata"]["deletionGracePeriodSeconds"],
                object::text(&pod, "/metadata/deletionTimestamp")
            ),
        }
    }

    #[test]
    fn rules_of_the_first_delete() {
        for (pod, grace, expected) in [
            (pod("", "Pending"), None, "immediate"),
            (pod("", "Pending"), Some(60), "immediate"),
            (pod("local", "Failed"), None, "immediate"),
            (pod("local", "Succeeded"), Some(5), "immediate"),
            (pod("local", "Running"), Some(0), "immediate"),
            (pod("local", "Running"), None, "30 2026-01-01T00:01:10Z"),
            (pod("local", "Pending"), Some(5), "5 2026-01-01T00:00:45Z"),
            (pod("local", "Running"), Some(-7), "1 2026-01-01T00:00:41Z"),
        ] {
            assert_eq!(outcome(&pod, grace), expected, "{pod} {grace:?}");
        }
    }

    #[test]
    fn a_second_delete_only_shortens() {
        for (current, grace, expected) in [
            (30, None, "pending"),
            (30, Some(30), "pending"),
            (30, Some(60), "pending"),
            (30, Some(10), "10 2026-01-01T00:00:40Z"),
            (30, Some(0), "immediate"),
            (30, Some(-1), "1 2026-01-01T00:00:31Z"),
        ] {
            assert_eq!(
                outcome(&terminating(current), grace),
                expected,
                "{current} {grace:?}"
            );
        }
    }

    #[test]
    fn marking_moves_the_generation_once() {
        let now: Timestamp = "2026-01-01T00:00:40Z".parse().unwrap();
        let Deletion::Graceful(marked) = decide(&pod("local", "Running"), None, now) else {
            panic!("not graceful");
        };
        assert_eq!(marked["metadata"]["generation"], 2);
        let Deletion::Graceful(again) = decide(&marked, Some(3), now) else {
            panic!("not graceful");
        };
        assert_eq!(again["metadata"]["generation"], 2);
    }
}
