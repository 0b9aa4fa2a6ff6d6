//! What a workspace waits for that has no pod to send requests to: typed, for people to read. Pure.

use nogoo9_model::pod::{Phase, PodView, UpgradeState};
use nogoo9_model::select::{is_routable, newest_live};

/// How far a workspace's next pod is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// What it waits for; `None`: nothing is on the way.
    pub waits_for: Option<WaitsFor>,
    /// How its last upgrade failed, as `reason: message`; for its owner and admins.
    pub last_error: Option<String>,
}

/// What a pod waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsFor {
    /// The pod before it ends first.
    OldPod,
    /// Nobody has looked for a node yet.
    Scheduling,
    /// No node takes it.
    Node,
    /// A volume that is not there yet, or is on another node.
    Volume,
    /// Its node prepares it: images are pulled, volumes mounted.
    Containers,
    /// Its image, which cannot be pulled.
    Image,
    /// A program that ends again and again, or does not start.
    Program,
    /// It runs, and does not say yet that it is ready.
    Readiness,
    /// It is ready, and takes no connections on its port.
    Port,
    /// It is ready, and another pod says that it has the same address.
    Address,
    /// Its node says nothing.
    SilentNode,
}

impl WaitsFor {
    /// One word for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::OldPod => "old-pod",
            Self::Scheduling => "scheduling",
            Self::Node => "node",
            Self::Volume => "volume",
            Self::Containers => "containers",
            Self::Image => "image",
            Self::Program => "program",
            Self::Readiness => "readiness",
            Self::Port => "port",
            Self::Address => "address",
            Self::SilentNode => "silent-node",
        }
    }

    /// A sentence for people.
    #[must_use]
    pub fn sentence(&self) -> &'static str {
        match self {
            Self::OldPod => "Its old pod has to end first.",
            Self::Scheduling => "It waits to be given a node.",
            Self::Node => "No node has room for it at the moment.",
            Self::Volume => "It waits for its volume.",
            Self::Containers => "Its image is being pulled, or its container made.",
            Self::Image => "Its image cannot be pulled.",
            Self::Program => "Its program does not start, or has ended.",
            Self::Readiness => "It runs and gets ready.",
            Self::Port => "It says that it is ready, and takes no connections.",
            Self::Address => {
                "It is ready, and another pod says that it has the same address: which of them is there cannot be told."
            }
            Self::SilentNode => "Its node does not answer.",
        }
    }
}

/// How far the pods of one workspace are, of which requests may go to none: none is ready, or those that
/// are have a `contested` address.
#[must_use]
pub fn progress(pods: &[&PodView], contested: impl Fn(&PodView) -> bool) -> Progress {
    let newest = newest_live(pods.iter().copied());
    let mut by_age: Vec<&PodView> = pods.to_vec();
    by_age.sort_unstable_by_key(|pod| std::cmp::Reverse((pod.generation, pod.created)));
    Progress {
        waits_for: newest.map(|newest| {
            if is_routable(newest) && contested(newest) {
                return WaitsFor::Address;
            }
            waits_for(newest, pods)
        }),
        last_error: by_age.iter().find_map(|pod| pod.last_upgrade_error.clone()),
    }
}

fn waits_for(newest: &PodView, pods: &[&PodView]) -> WaitsFor {
    let before = |pod: &&&PodView| pod.uid != newest.uid && pod.may_hold();
    if newest.gated && pods.iter().any(|pod| before(&pod)) || newest.state == UpgradeState::Quiesced
    {
        return WaitsFor::OldPod;
    }
    if newest.unseen {
        return WaitsFor::SilentNode;
    }
    if let Some(trouble) = &newest.trouble {
        let message = trouble.message.to_lowercase();
        return match trouble.reason.as_str() {
            "Unschedulable" if message.contains("volume") => WaitsFor::Volume,
            "Unschedulable" => WaitsFor::Node,
            "FailedMount" | "FailedAttachVolume" => WaitsFor::Volume,
            reason if reason.contains("Image") => WaitsFor::Image,
            _ => WaitsFor::Program,
        };
    }
    match (newest.phase, &newest.node) {
        (Phase::Running, _) => WaitsFor::Readiness,
        (_, Some(_)) => WaitsFor::Containers,
        (_, None) => WaitsFor::Scheduling,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of pods whose addresses are their own.
    fn progress(pods: &[&PodView]) -> Progress {
        super::progress(pods, |_| false)
    }

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn pod(uid: &str, generation: u32, spec: &Value, status: &Value) -> PodView {
        let object: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": uid, "namespace": "n", "uid": uid,
                "labels": {
                    "nogoo9/type": "workspace", "nogoo9/managed-by": "nogoo9-spawner",
                    "nogoo9/workspace-id": "dev", "nogoo9/generation": generation.to_string(),
                },
                "annotations": {"nogoo9/user-sub": "alice"},
            },
            "spec": spec, "status": status,
        }))
        .unwrap();
        PodView::from_pod(&object).unwrap()
    }

    fn spec(node: bool, gated: bool) -> Value {
        let mut spec = json!({"containers": []});
        if node {
            spec["nodeName"] = json!("n1");
        }
        if gated {
            spec["schedulingGates"] = json!([{"name": "nogoo9/upgrade"}]);
        }
        spec
    }

    fn waiting(reason: &str) -> Value {
        json!({"phase": "Pending", "containerStatuses": [
            {"name": "m", "image": "", "imageID": "", "ready": false, "restartCount": 0,
             "state": {"waiting": {"reason": reason, "message": "said"}}}]})
    }

    fn unschedulable(message: &str) -> Value {
        json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]})
    }

    #[test]
    fn what_one_pod_waits_for() {
        let pending = json!({"phase": "Pending"});
        let silent = json!({"phase": "Running", "conditions": [
            {"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]});
        for (spec, status, wanted) in [
            (spec(false, false), pending.clone(), WaitsFor::Scheduling),
            (spec(true, false), pending, WaitsFor::Containers),
            (
                spec(true, false),
                waiting("ContainerCreating"),
                WaitsFor::Containers,
            ),
            (
                spec(true, false),
                waiting("ImagePullBackOff"),
                WaitsFor::Image,
            ),
            (spec(true, false), waiting("ErrImagePull"), WaitsFor::Image),
            (
                spec(true, false),
                waiting("CrashLoopBackOff"),
                WaitsFor::Program,
            ),
            (
                spec(true, false),
                waiting("CreateContainerConfigError"),
                WaitsFor::Program,
            ),
            (
                spec(false, false),
                unschedulable("0/3 nodes: Insufficient cpu"),
                WaitsFor::Node,
            ),
            (
                spec(false, false),
                unschedulable("unbound PersistentVolumeClaims"),
                WaitsFor::Volume,
            ),
            (
                spec(true, false),
                json!({"phase": "Running"}),
                WaitsFor::Readiness,
            ),
            (spec(true, false), silent, WaitsFor::SilentNode),
        ] {
            let pod = pod("a", 1, &spec, &status);
            assert_eq!(progress(&[&pod]).waits_for, Some(wanted), "{status}");
        }
        assert_eq!(progress(&[]), Progress::default());
    }

    #[test]
    fn a_successor_waits_for_the_old_pod() {
        let running = json!({"phase": "Running"});
        let mut old = pod("old", 1, &spec(true, false), &running);
        let new = pod("new", 2, &spec(false, true), &json!({"phase": "Pending"}));
        old.deleting = true;
        assert_eq!(progress(&[&old, &new]).waits_for, Some(WaitsFor::OldPod));
        assert_eq!(progress(&[&new]).waits_for, Some(WaitsFor::Scheduling));
        old.deleting = false;
        old.state = UpgradeState::Quiesced;
        assert_eq!(progress(&[&old]).waits_for, Some(WaitsFor::OldPod));
    }

    #[test]
    fn the_newest_pods_error_is_told() {
        let running = json!({"phase": "Running"});
        let mut old = pod("old", 1, &spec(true, false), &running);
        let mut new = pod("new", 2, &spec(true, false), &running);
        old.last_upgrade_error = Some("A: first".to_owned());
        assert_eq!(
            progress(&[&old, &new]).last_error.as_deref(),
            Some("A: first")
        );
        new.last_upgrade_error = Some("B: second".to_owned());
        assert_eq!(
            progress(&[&old, &new]).last_error.as_deref(),
            Some("B: second")
        );
    }
}
