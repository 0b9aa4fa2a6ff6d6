//! The READY, STATUS and RESTARTS columns of pods, after `printPod` of
//! `pkg/printers/internalversion`.

use jiff::Timestamp;
use serde_json::Value;

use crate::apiserver::object::{self, list, text};
use crate::apiserver::pods;
use crate::apiserver::table::age;

/// What kubectl shows of a pod's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) ready: String,
    pub(crate) status: String,
    pub(crate) restarts: String,
}

/// Restarts, and when the last one was.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: String,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += container
            .get("restartCount")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        let finished = text(container, "/lastState/terminated/finishedAt");
        if finished > self.last.as_str() {
            self.last = finished.to_owned();
        }
    }
}

pub(crate) fn summarise(pod: &Value, now: Timestamp) -> Summary {
    let own_reason = text(pod, "/status/reason");
    let mut reason = match (own_reason, text(pod, "/status/phase")) {
        ("", phase) => phase.to_owned(),
        (own, _) => own.to_owned(),
    };
    let scheduled = object::condition(pod, "PodScheduled");
    if scheduled.is_some_and(|c| text(c, "/reason") == "SchedulingGated") {
        reason = "SchedulingGated".into();
    }
    let mut restarts = Restarts::default();
    let initialising = initialising(pod, &mut restarts);
    let initialised =
        object::condition(pod, "Initialized").is_some_and(|c| text(c, "/status") == "True");
    let mut ready = 0;
    if let Some(why) = &initialising {
        reason.clone_from(why);
    }
    if initialising.is_none() || initialised {
        restarts = Restarts::default();
        let mut running = false;
        for container in list(pod, "/status/containerStatuses").iter().rev() {
            restarts.add(container);
            let waiting = text(container, "/state/waiting/reason");
            if !waiting.is_empty() {
                reason = waiting.to_owned();
            } else if let Some(ended) = container.pointer("/state/terminated") {
                reason = ended_reason(ended);
            } else if container.get("ready") == Some(&Value::Bool(true))
                && container.pointer("/state/running").is_some()
            {
                running = true;
                ready += 1;
            }
        }
        if reason == "Completed" && running {
            let ready =
                object::condition(pod, "Ready").is_some_and(|c| text(c, "/status") == "True");
            reason = if ready {
                "Running".into()
            } else {
                "NotReady".into()
            };
        }
    }
    if object::terminating(pod) {
        if own_reason == "NodeLost" {
            reason = "Unknown".into();
        } else if !pods::terminal(pod) {
            reason = "Terminating".into();
        }
    }
    let total = list(pod, "/spec/containers").len();
    let restarts = match (restarts.count, restarts.last.as_str()) {
        (count, "") | (count @ 0, _) => count.to_string(),
        (count, last) => format!("{count} ({} ago)", age(last, now)),
    };
    Summary {
        ready: format!("{ready}/{total}"),
        status: reason,
        restarts,
    }
}

/// What the first init container that has not succeeded does; `None` when none is left.
fn initialising(pod: &Value, restarts: &mut Restarts) -> Option<String> {
    let total = list(pod, "/spec/initContainers").len();
    for (index, container) in list(pod, "/status/initContainerStatuses")
        .iter()
        .enumerate()
    {
        restarts.add(container);
        let waiting = text(container, "/state/waiting/reason");
        match container.pointer("/state/terminated") {
            Some(ended) if ended.get("exitCode").and_then(Value::as_i64) == Some(0) => {}
            Some(ended) => return Some(format!("Init:{}", ended_reason(ended))),
            None if !waiting.is_empty() && waiting != "PodInitializing" => {
                return Some(format!("Init:{waiting}"));
            }
            None => return Some(format!("Init:{index}/{total}")),
        }
    }
    None
}

fn ended_reason(ended: &Value) -> String {
    let number = |field: &str| ended.get(field).and_then(Value::as_i64).unwrap_or(0);
    match (text(ended, "/reason"), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn show(status: &Value) -> String {
        show_pod(
            &json!({"spec": {"containers": [{}, {}], "initContainers": [{}]}, "status": status}),
        )
    }

    fn show_pod(pod: &Value) -> String {
        let summary = summarise(pod, "2026-01-01T00:10:00Z".parse().unwrap());
        format!("{} {} {}", summary.ready, summary.status, summary.restarts)
    }

    #[test]
    fn states() {
        let running = json!({"ready": true, "state": {"running": {}}});
        let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
        for (status, expected) in [
            (json!({"phase": "Pending"}), "0/2 Pending 0"),
            (
                json!({"phase": "Failed", "reason": "Evicted"}),
                "0/2 Evicted 0",
            ),
            (
                json!({"phase": "Pending", "conditions":
                    [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
                "0/2 SchedulingGated 0",
            ),
            (
                json!({"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]}),
                "0/2 ContainerCreating 0",
            ),
            (
                json!({"phase": "Pending", "containerStatuses": [waiting("ErrImagePull")]}),
                "0/2 ErrImagePull 0",
            ),
            (
                json!({"phase": "Pending", "containerStatuses":
                    [waiting("ImagePullBackOff"), running]}),
                "1/2 ImagePullBackOff 0",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [running, running]}),
                "2/2 Running 0",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                     "lastState": {"terminated": {"finishedAt": "2026-01-01T00:08:30Z"}}}]}),
                "0/2 CrashLoopBackOff 3 (90s ago)",
            ),
            (
                json!({"phase": "Failed", "containerStatuses":
                    [{"state": {"terminated": {"exitCode": 3}}}]}),
                "0/2 ExitCode:3 0",
            ),
            (
                json!({"phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses":
                        [{"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}, running]}),
                "1/2 Running 0",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}),
                "0/2 Init:0/1 0",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses":
                    [{"restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
                "0/2 Init:CrashLoopBackOff 2",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses":
                    [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
                "0/2 Init:Error 0",
            ),
        ] {
            assert_eq!(show(&status), expected, "{status}");
        }
    }

    #[test]
    fn deletion_shows_unless_the_pod_has_ended() {
        let mut pod = json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:09:00Z"},
            "spec": {"containers": [{}]},
            "status": {"phase": "Running"},
        });
        assert_eq!(show_pod(&pod), "0/1 Terminating 0");
        pod["status"]["phase"] = "Succeeded".into();
        assert_eq!(show_pod(&pod), "0/1 Succeeded 0");
    }
}
