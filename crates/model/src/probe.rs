//! Probe pods: before a recreate touches anything, a pod without claims, on the old pod's node,
//! shows that the node can get the new images and that what their containers refer to is there. Its
//! command cannot exist, so nothing of the new version runs: a container that failed to *start* had
//! its image.
//!
//! Which states a kubelet shows was measured on Kubernetes 1.37 with containerd; see the tests.

use crate::container::{Trouble, waiting};
use crate::pod::UpgradeOf;
use crate::record::{PlannedPod, Record, Upgrade, set};
use crate::{keys, label, name};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};

/// What every container of a probe is told to run.
const NO_PROGRAM: &str = "/nogoo9-probe-starts-nothing";
/// Kinds of volumes that a probe mounts: they hold no data of the workspace, and a pod waits for
/// ever for one whose source is missing.
const MOUNTED: [&str; 3] = ["configMap", "secret", "projected"];
/// What of the pod's spec decides which images it gets, and how.
const CARRIED: [&str; 5] = [
    "imagePullSecrets",
    "serviceAccountName",
    "securityContext",
    "runtimeClassName",
    "hostUsers",
];
/// The same of a container's.
const CARRIED_BY_CONTAINER: [&str; 6] = [
    "name",
    "image",
    "imagePullPolicy",
    "env",
    "envFrom",
    "securityContext",
];

/// A probe as the planner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Uid.
    pub uid: String,
    /// Name.
    pub name: String,
    /// Workspace that it was made for.
    pub workspace: String,
    /// Version for conditional writes.
    pub resource_version: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What it has shown.
    pub finding: Finding,
}

/// What a probe has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Nothing yet; with what its containers complain of.
    Nothing(Option<Trouble>),
    /// The node has all images.
    Pulled,
    /// The node did not take it, for reasons that are the node's.
    Turned,
}

impl Probe {
    /// Reads a probe; `None`: the pod is none of ours.
    #[must_use]
    pub fn from_pod(pod: &Pod) -> Option<Self> {
        let labels = pod.metadata.labels.as_ref()?;
        let is = |key: &str, value: &str| labels.get(key).is_some_and(|is| is == value);
        if !is(keys::TYPE, keys::TYPE_PROBE) || !is(keys::MANAGED_BY, keys::MANAGED_BY_SPAWNER) {
            return None;
        }
        Some(Self {
            uid: pod.metadata.uid.clone()?,
            name: pod.metadata.name.clone()?,
            workspace: labels.get(keys::WORKSPACE_ID)?.clone(),
            resource_version: pod.metadata.resource_version.clone().unwrap_or_default(),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            finding: finding(pod),
        })
    }

    /// Sets a trouble that the pod's status does not tell, such as a volume that cannot be mounted.
    pub fn complain(&mut self, trouble: Trouble) {
        if self.finding == Finding::Nothing(None) {
            self.finding = Finding::Nothing(Some(trouble));
        }
    }
}

fn finding(pod: &Pod) -> Finding {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_deref());
    let containers = containers.unwrap_or_default();
    let asked = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
    if asked > 0 && containers.len() == asked && containers.iter().all(has_image) {
        return Finding::Pulled;
    }
    let failed = status.and_then(|status| status.phase.as_deref()) == Some("Failed");
    if failed && containers.is_empty() {
        return Finding::Turned;
    }
    let missing = containers.iter().filter(|container| !has_image(container));
    Finding::Nothing(missing.filter_map(waiting).next())
}

/// Whether the container's image is on the node.
fn has_image(container: &ContainerStatus) -> bool {
    let Some(state) = &container.state else {
        return false;
    };
    let begun = state.running.is_some() || state.terminated.is_some();
    begun
        || state.waiting.as_ref().is_some_and(|waiting| {
            let reason = waiting.reason.as_deref().unwrap_or_default();
            // Where the program is looked for before the container is made, the complaint names it.
            let message = waiting.message.as_deref().unwrap_or_default();
            matches!(reason, "RunContainerError" | "CrashLoopBackOff")
                || message.contains(NO_PROGRAM)
        })
}

/// Whether there is anything to probe for.
pub(crate) fn is_due(manifest: &Value) -> bool {
    containers(manifest).next().is_some()
}

/// The probe that `upgrade` of this record makes.
pub(crate) fn planned(record: &Record, operation: &str, generation: u32) -> PlannedPod {
    PlannedPod {
        name: name::probe_pod(
            &record.owner,
            &record.id,
            &record.namespace,
            operation,
            generation,
        ),
        generation,
        uid: None,
    }
}

/// The object to create for the probe, on that node.
pub(crate) fn object(record: &Record, upgrade: &Upgrade, probe: &PlannedPod, node: &str) -> Value {
    let manifest = &upgrade.manifest;
    let of = UpgradeOf {
        operation: upgrade.operation.clone(),
        source_uid: upgrade.source.uid.clone().unwrap_or_default(),
    };
    let volumes: Vec<&Value> = volumes(manifest).collect();
    let containers: Vec<Value> = containers(manifest)
        .map(|container| checked(container, &volumes))
        .collect();
    let mut spec = json!({
        "nodeName": node,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "tolerations": [{"operator": "Exists"}],
        "containers": containers,
        "volumes": volumes,
    });
    carry(manifest.get("spec"), &mut spec, &CARRIED);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": probe.name,
            "namespace": record.namespace,
            "labels": {
                keys::TYPE: keys::TYPE_PROBE,
                keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER,
                keys::WORKSPACE_ID: record.id,
                keys::USER_SUB: label::owner(&record.owner),
            },
            "annotations": {
                keys::UPGRADE_OF: serde_json::to_string(&of).unwrap_or_default(),
            },
        },
        "spec": spec,
    })
}

/// Init containers stand beside the others: where one of them fails, the rest would never be pulled.
fn containers(manifest: &Value) -> impl Iterator<Item = &Value> {
    let list = |path: &str| {
        let list = manifest.pointer(path).and_then(Value::as_array);
        list.into_iter().flatten()
    };
    list("/spec/initContainers").chain(list("/spec/containers"))
}

fn volumes(manifest: &Value) -> impl Iterator<Item = &Value> {
    let volumes = manifest.pointer("/spec/volumes").and_then(Value::as_array);
    let all = volumes.into_iter().flatten();
    all.filter(|volume| MOUNTED.iter().any(|kind| volume.get(kind).is_some()))
}

fn checked(container: &Value, volumes: &[&Value]) -> Value {
    // As little as a container can do with: the old pod still has what the node has to give.
    let mut checked = json!({
        "command": [NO_PROGRAM],
        "resources": {
            "requests": {"cpu": "1m", "memory": "16Mi"},
            "limits": {"cpu": "100m", "memory": "32Mi"},
        },
    });
    carry(Some(container), &mut checked, &CARRIED_BY_CONTAINER);
    let known = |mount: &&Value| {
        volumes
            .iter()
            .any(|volume| volume.get("name") == mount.get("name"))
    };
    let mounts = container.get("volumeMounts").and_then(Value::as_array);
    let mounts: Vec<&Value> = mounts.into_iter().flatten().filter(known).collect();
    set(&mut checked, &["volumeMounts"], json!(mounts));
    checked
}

fn carry(from: Option<&Value>, to: &mut Value, keys: &[&str]) {
    for key in keys {
        if let Some(value) = from.and_then(|from| from.get(key)) {
            set(to, &[key], value.clone());
        }
    }
}

#[cfg(test)]
mod tests;
