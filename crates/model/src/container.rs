//! What a pod's containers say of themselves, as one reason and message for people.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde::{Deserialize, Serialize};

/// Why something does not work, in Kubernetes' own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// Short reason such as `ImagePullBackOff`.
    pub reason: String,
    /// The message behind it; may be empty.
    pub message: String,
}

/// Longest message, in bytes. It goes into annotations and records, which have bounds of their own,
/// and what is over them would be refused for ever.
const MAX_MESSAGE: usize = 8 * 1024;

impl Trouble {
    /// A trouble, with its message cut to a bound.
    #[must_use]
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE {
            let mut end = MAX_MESSAGE;
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
        }
        Self {
            reason: reason.into(),
            message,
        }
    }
}

/// Reasons that waiting does not mend, by itself and soon.
const HOPELESS: [&str; 7] = [
    "ImagePullBackOff",
    "FailedMount",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "CrashLoopBackOff",
];

/// How registries and runtimes say that an image cannot be had, and not only just now.
const NO_SUCH_IMAGE: [&str; 7] = [
    "not found",
    "no such host",
    "manifest unknown",
    "does not exist",
    "denied",
    "unauthorized",
    "authentication required",
];

impl Trouble {
    /// Whether a pod in this trouble is given up at once where nothing else serves meanwhile.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        HOPELESS.contains(&self.reason.as_str())
    }

    /// Whether only another template, or somebody's help, mends it: an image or a Secret that is not
    /// there. A registry that does not answer is none of that, nor is a program that crashes.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self.reason.as_str() {
            "CrashLoopBackOff" => false,
            "ImagePullBackOff" => {
                let message = self.message.to_lowercase();
                NO_SUCH_IMAGE.iter().any(|words| message.contains(words))
            }
            _ => self.is_hopeless(),
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.message.is_empty() {
            f.write_str(&self.reason)
        } else {
            write!(f, "{}: {}", self.reason, self.message)
        }
    }
}

/// Waiting reasons that say "not yet" and not "something is wrong".
const PATIENT: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The most telling trouble of a pod, if it has any.
///
/// Judged by waiting and terminated states and by `lastState`, since a kubelet may hardly ever show
/// `CrashLoopBackOff`; an unschedulable pod and a failed one speak through condition and status.
#[must_use]
pub fn trouble(pod: &Pod) -> Option<Trouble> {
    let status = pod.status.as_ref()?;
    let all = || {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    };
    all()
        .find_map(waiting)
        .or_else(|| all().find_map(terminated))
        .or_else(|| {
            let scheduled = status
                .conditions
                .iter()
                .flatten()
                .find(|c| c.type_ == "PodScheduled")?;
            let unschedulable =
                scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
            unschedulable.then(|| {
                Trouble::new(
                    "Unschedulable",
                    scheduled.message.clone().unwrap_or_default(),
                )
            })
        })
        .or_else(|| {
            let failed = status.phase.as_deref() == Some("Failed");
            failed.then(|| {
                Trouble::new(
                    status.reason.clone().unwrap_or_else(|| "Failed".into()),
                    status.message.clone().unwrap_or_default(),
                )
            })
        })
}

/// Restarts of the container that was restarted most.
#[must_use]
pub fn restarts(pod: &Pod) -> u32 {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    let main = status.and_then(|status| status.container_statuses.as_ref());
    let all = init.into_iter().chain(main).flatten();
    let counts = all.map(|container| u32::try_from(container.restart_count).unwrap_or(0));
    counts.max().unwrap_or(0)
}

pub(crate) fn waiting(container: &ContainerStatus) -> Option<Trouble> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    if PATIENT.contains(&reason) {
        return None;
    }
    let mut trouble = Trouble::new(reason, waiting.message.clone().unwrap_or_default());
    // A back-off's own message tells only how long it lasts; what ended the container tells why.
    if reason == "CrashLoopBackOff"
        && let Some(last) = terminated(container)
    {
        trouble = Trouble::new(reason, [last.to_string(), trouble.message].join("; "));
    }
    Some(trouble)
}

fn terminated(container: &ContainerStatus) -> Option<Trouble> {
    let of = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        let ended = state.as_ref()?.terminated.as_ref()?;
        (ended.exit_code != 0).then(|| {
            let exit = format!(
                "container {} ended with exit code {}",
                container.name, ended.exit_code
            );
            let message = match ended.message.as_deref().map(str::trim) {
                Some(text) if !text.is_empty() => format!("{exit}: {text}"),
                _ => exit,
            };
            Trouble::new(
                ended.reason.clone().unwrap_or_else(|| "Error".into()),
                message,
            )
        })
    };
    of(&container.state).or_else(|| {
        if container.ready {
            None
        } else {
            of(&container.last_state)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reasons() {
        let cases = [
            (json!({"phase": "Running", "containerStatuses": []}), None),
            (
                json!({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}),
                None,
            ),
            (
                json!({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"x\""}}}]}),
                Some("ImagePullBackOff: Back-off pulling image \"x\""),
            ),
            (
                json!({"containerStatuses": [{"name": "main", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no config\n"}}}]}),
                Some("Error: container main ended with exit code 1: no config"),
            ),
            (
                json!({"containerStatuses": [{"name": "main", "ready": true, "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}}]}),
                None,
            ),
            (
                json!({"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}, "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}),
                Some(
                    "CrashLoopBackOff: Error: container main ended with exit code 3; back-off 10s",
                ),
            ),
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]}),
                Some("Unschedulable: 0/1 nodes are available"),
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
                Some("Evicted: low on memory"),
            ),
        ];
        for (mut status, expected) in cases {
            for container in status["containerStatuses"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                for (key, value) in [
                    ("name", json!("main")),
                    ("image", json!("i")),
                    ("imageID", json!("")),
                    ("ready", json!(false)),
                    ("restartCount", json!(0)),
                ] {
                    if container.get(key).is_none() {
                        container[key] = value;
                    }
                }
            }
            let pod: Pod =
                serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap();
            assert_eq!(trouble(&pod).map(|t| t.to_string()).as_deref(), expected);
        }
    }
}
