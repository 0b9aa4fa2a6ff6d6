//! Pods that no record speaks of: left by another spawner, or the record was lost. Each becomes a
//! workspace with a record, made from what its pod says, and nobody's last pod is deleted.

use crate::container::Trouble;
use crate::mode::{self, Claim, Mode};
use crate::pod::PodView;
use crate::record::{Desired, PlannedPod, Record, Replacements, VERSION};
use crate::{UnixSeconds, carry, keys, select};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

/// How long a newer pod that is not ready may still become so, in seconds from its creation.
const PATIENCE: i64 = 600;

/// A pod, as it is and as it is understood.
#[derive(Debug, Clone)]
pub struct Found {
    /// As the API server has it.
    pub pod: Pod,
    /// As nogoo9 understands it.
    pub view: PodView,
}

/// What to do about pods without a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Adoption {
    /// Create this record; if one has appeared in between, that one counts.
    Adopt(Box<Record>),
    /// First tell on the pod that an upgrade of it failed.
    Mark {
        /// Pod.
        name: String,
        /// Precondition.
        uid: String,
        /// Precondition.
        resource_version: String,
        /// What failed.
        why: Trouble,
    },
    /// An upgrade that another spawner began may still end well.
    Wait {
        /// When to look again at the latest.
        until: UnixSeconds,
    },
    /// There is nothing to adopt: no pod that lives or could be brought back, or two claimants of
    /// the same age.
    Leave,
}

/// Decides about the pods of one id. `claim` answers for each claim name that a pod mounts.
#[must_use]
pub fn adopt(found: &[Found], claim: impl Fn(&str) -> Claim, now: UnixSeconds) -> Adoption {
    // A pod with a controller is that controller's.
    let free = found.iter().filter(|found| !is_controlled(&found.pod));
    let holder = select::claimants(free.map(|found| &found.view)).holder;
    let (gated, mut usable): (Vec<&PodView>, Vec<&PodView>) = holder
        .iter()
        .copied()
        .filter(|pod| !pod.deleting)
        .partition(|pod| pod.gated);
    // One that waits behind its gate is better than none.
    if usable.is_empty() {
        usable = gated;
    }
    let newest = usable.iter().copied().max_by_key(|pod| rank(pod));
    // One that has ended already is not waited for, but what became of it is told too.
    let last = usable.iter().copied().max_by_key(|pod| select::order(pod));
    let (Some(newest), Some(last)) = (newest, last) else {
        return Adoption::Leave;
    };
    let active = select::active(usable.iter().copied());
    let own = match active {
        Some(active) => {
            let newer = if newest.uid == active.uid {
                last
            } else {
                newest
            };
            match settle(active, newer, now) {
                Ok(own) => own,
                Err(not_yet) => return not_yet,
            }
        }
        None => newest,
    };
    let Some(found) = found.iter().find(|found| found.view.uid == own.uid) else {
        return Adoption::Leave;
    };
    Adoption::Adopt(Box::new(record(found, &holder, claim)))
}

/// Live before ended, then as traffic would choose.
fn rank(pod: &PodView) -> (bool, (u32, i64, &str)) {
    (pod.is_live(), select::order(pod))
}

/// A newer pod stands beside the one that serves: whether it will still take over.
fn settle<'a>(
    active: &'a PodView,
    newer: &PodView,
    now: UnixSeconds,
) -> Result<&'a PodView, Adoption> {
    if newer.uid == active.uid || select::order(newer) < select::order(active) {
        return Ok(active);
    }
    let until = newer.created.saturating_add(PATIENCE);
    if newer.is_live() && now < until {
        return Err(Adoption::Wait { until });
    }
    let why = newer.trouble.clone().unwrap_or_else(|| {
        let text = format!("the new pod was not ready within {PATIENCE} s");
        Trouble::new("DeadlineExceeded", text)
    });
    if active.last_upgrade_error.as_ref() == Some(&why.to_string()) {
        return Ok(active);
    }
    Err(Adoption::Mark {
        name: active.name.clone(),
        uid: active.uid.clone(),
        resource_version: active.resource_version.clone(),
        why,
    })
}

fn is_controlled(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners
        .into_iter()
        .any(|owner| owner.controller == Some(true))
}

fn record(found: &Found, holder: &[&PodView], claim: impl Fn(&str) -> Claim) -> Record {
    let view = &found.view;
    let annotation = |key: &str| {
        let annotations = found.pod.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(key))
    };
    let inputs: Option<Map<String, Value>> =
        annotation(keys::SPAWN_INPUTS).and_then(|text| serde_json::from_str(text).ok());
    let generations = holder.iter().map(|pod| pod.generation);
    let spec = found.pod.spec.clone().unwrap_or_default();
    let manifest = cleaned(&found.pod, view);
    Record {
        version: VERSION,
        id: view.workspace.clone(),
        namespace: view.namespace.clone(),
        owner: view.owner.clone(),
        name: annotation(keys::WORKSPACE_NAME)
            .filter(|name| !name.is_empty())
            .unwrap_or(&view.workspace)
            .clone(),
        since: view.since,
        desired: Desired::Running,
        reserved: false,
        template: view.template.clone(),
        inherited: inputs.is_none().then(|| carry::inherited(&manifest)),
        inputs: inputs.unwrap_or_default(),
        generation: generations.max().unwrap_or(0),
        manifest,
        exclusive: mode::choose(&spec, claim, false) == Mode::Recreate,
        claims: Vec::new(),
        unused_claims: Vec::new(),
        delete_data: false,
        gone_at: None,
        id_kept: false,
        not_before: None,
        previous: None,
        pod: PlannedPod {
            name: view.name.clone(),
            generation: view.generation,
            uid: Some(view.uid.clone()),
        },
        replacements: Replacements::default(),
        upgrade: None,
        last: None,
    }
}

/// What the API server, admission and the scheduler add to every pod's spec.
const ADDED: [&str; 6] = [
    "nodeName",
    "serviceAccount",
    "priority",
    "preemptionPolicy",
    "ephemeralContainers",
    "schedulingGates",
];
/// How the volume of a service account's token is called, before five random characters.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// The manifest behind a pod: what another pod of the same workspace is made from.
fn cleaned(pod: &Pod, view: &PodView) -> Value {
    let mut labels = pod.metadata.labels.clone().unwrap_or_default();
    for key in [keys::GENERATION, keys::UPGRADE_STATE] {
        labels.remove(key);
    }
    let mut annotations = pod.metadata.annotations.clone().unwrap_or_default();
    for key in [keys::UPGRADE_OF, keys::LAST_UPGRADE] {
        annotations.remove(key);
    }
    // Once an annotation says whose it is and since when, every later pod says so too.
    annotations
        .entry(keys::USER_SUB.to_owned())
        .or_insert_with(|| view.owner.clone());
    if let Ok(since) = jiff::Timestamp::from_second(view.since) {
        annotations
            .entry(keys::WORKSPACE_SINCE.to_owned())
            .or_insert_with(|| since.to_string());
    }
    let mut spec = serde_json::to_value(pod.spec.clone().unwrap_or_default()).unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        for field in ADDED {
            spec.remove(field);
        }
        let is_token = |entry: &Value| {
            let name = entry.get("name").and_then(Value::as_str);
            name.is_some_and(|name| name.starts_with(TOKEN_VOLUME))
        };
        retain(spec.get_mut("volumes"), &is_token);
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                retain(container.get_mut("volumeMounts"), &is_token);
            }
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": view.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": spec,
    })
}

fn retain(list: Option<&mut Value>, drop: &impl Fn(&Value) -> bool) {
    if let Some(list) = list.and_then(Value::as_array_mut) {
        list.retain(|entry| !drop(entry));
    }
}

#[cfg(test)]
mod tests;
