//! The workspace record: the one durable truth about a workspace. Pods carry copies of it.
//!
//! A command (spawn, stop, upgrade …) is a pure change of the record, stored by compare-and-swap;
//! what then happens to pods follows from [`crate::upgrade::plan()`].

use crate::claim::PlannedClaim;
use crate::container::Trouble;
use crate::mode::Mode;
use crate::operation::Operation;
use crate::pod::{PodView, TemplateRef};
use crate::template::Timing;
use crate::{UnixSeconds, keys, name};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Version of the stored form.
pub const VERSION: u32 = 1;

/// What its owner wants of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Desired {
    /// A pod runs.
    Running,
    /// No pod; record and claims stay.
    Stopped,
    /// No pod, and then no record.
    Deleted,
}

/// A pod that should exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPod {
    /// Its name, fixed before it is created.
    pub name: String,
    /// Its generation.
    pub generation: u32,
    /// Its uid once it was seen. A pod whose uid is known and that is gone has vanished; one that
    /// has none yet is still to be created.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uid: Option<String>,
}

/// How often a vanished pod was replaced lately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replacements {
    /// Replacements since it last ran well.
    pub count: u32,
    /// When the newest was decided.
    pub last_at: UnixSeconds,
}

/// How far an upgrade is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Phase {
    /// The successor is being made and proves itself.
    Starting,
    /// It took over; the old pod drains. Revocable until the old pod is deleted.
    Committed {
        /// When.
        at: UnixSeconds,
    },
    /// It is being taken back.
    Aborting {
        /// Since when.
        at: UnixSeconds,
        /// Why.
        why: Trouble,
    },
    /// Recreate: the old pod takes no new requests, those under way may end.
    Quiescing {
        /// Since when.
        at: UnixSeconds,
    },
    /// Recreate: the old pod is deleted; the successor waits behind its gate until it is gone.
    Replacing,
    /// Recreate: the successor was let go and has to become Ready.
    Released,
    /// Recreate: the successor failed after the old pod was gone. A pod of the old manifest is
    /// created behind a gate, and let go once the failed one is gone.
    Restoring {
        /// Why.
        why: Trouble,
        /// The pod that brings the old version back.
        restored: PlannedPod,
    },
}

/// An upgrade under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// Operation id.
    pub operation: String,
    /// Subject of who asked.
    pub actor: String,
    /// The bulk operation that this upgrade is a part of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<String>,
    /// How the pod is replaced.
    pub mode: Mode,
    /// When it was asked for.
    pub started_at: UnixSeconds,
    /// When a successor that is not Ready is given up; in a recreate counted from its release.
    pub deadline: UnixSeconds,
    /// Times set by the template.
    pub timing: Timing,
    /// The pod that is replaced.
    pub source: PlannedPod,
    /// The pod that replaces it.
    pub successor: PlannedPod,
    /// Template that the successor is rendered from.
    pub template: TemplateRef,
    /// The successor's manifest.
    pub manifest: Value,
    /// Whether two pods of that manifest cannot be at once.
    #[serde(default)]
    pub exclusive: bool,
    /// Claims that the workspace does not have yet. They become its own when the upgrade succeeds.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub claims: Vec<PlannedClaim>,
    /// How far it is.
    pub phase: Phase,
    /// Whether the successor was Ready when last looked at.
    pub ready_seen: bool,
    /// How often it stopped being Ready before commit.
    pub ready_losses: u32,
}

/// The newest upgrade that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finished {
    /// Its operation, as it ended.
    pub operation: Operation,
    /// Whether the stored operation says so. The record lets go of an upgrade first: whoever reads
    /// that an operation has ended can begin the next one.
    pub shown: bool,
}

/// The manifest that the workspace had before its newest upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Previous {
    /// Template that it was rendered from.
    pub template: TemplateRef,
    /// The manifest.
    pub manifest: Value,
}

/// A workspace's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// Workspace id.
    pub id: String,
    /// Namespace of its pods.
    pub namespace: String,
    /// Owner's raw subject; never changes.
    pub owner: String,
    /// Name for people.
    pub name: String,
    /// First spawn.
    pub since: UnixSeconds,
    /// What its owner wants.
    pub desired: Desired,
    /// Template of [`Self::manifest`].
    pub template: TemplateRef,
    /// What the user set at spawn.
    pub inputs: Map<String, Value>,
    /// The greatest generation handed out.
    pub generation: u32,
    /// Manifest of the workspace's pod, without name, generation and upgrade keys.
    pub manifest: Value,
    /// Whether two pods of it cannot be at once, since they would share a volume or host port:
    /// then each pod has to be gone before the next may start.
    #[serde(default)]
    pub exclusive: bool,
    /// What its user set before, where another spawner made its first pod and told no inputs: see
    /// [`crate::carry::inherited`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inherited: Option<Value>,
    /// Manifest before the newest upgrade.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub previous: Option<Previous>,
    /// The workspace's volumes, those of earlier versions of the template too.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub claims: Vec<PlannedClaim>,
    /// Claims of an upgrade that failed. What was never bound to a volume is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unused_claims: Vec<PlannedClaim>,
    /// Whether [`Desired::Deleted`] takes the claims along.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub delete_data: bool,
    /// The workspace's pod.
    pub pod: PlannedPod,
    /// Replacements of vanished pods.
    #[serde(default)]
    pub replacements: Replacements,
    /// The upgrade under way.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub upgrade: Option<Upgrade>,
    /// The newest upgrade that ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last: Option<Finished>,
}

/// What a new workspace is made of.
#[derive(Debug, Clone)]
pub struct Spawn {
    /// Workspace id, checked.
    pub id: String,
    /// Namespace of its pods.
    pub namespace: String,
    /// Owner's raw subject.
    pub owner: String,
    /// Name for people.
    pub name: String,
    /// Template.
    pub template: TemplateRef,
    /// What the user set.
    pub inputs: Map<String, Value>,
    /// Rendered manifest.
    pub manifest: Value,
    /// Whether two pods of it cannot be at once.
    pub exclusive: bool,
}

/// What an upgrade is asked to do.
#[derive(Debug, Clone)]
pub struct Intent {
    /// Operation id, used if the upgrade begins.
    pub operation: String,
    /// Subject of who asks.
    pub actor: String,
    /// The bulk operation that it is a part of.
    pub parent: Option<String>,
    /// Template as it is now.
    pub template: TemplateRef,
    /// Manifest rendered from it for this workspace.
    pub manifest: Value,
    /// How the pod can be replaced.
    pub mode: Mode,
    /// Whether two pods of the new manifest cannot be at once.
    pub exclusive: bool,
    /// Claims that the new version asks for.
    pub claims: Vec<PlannedClaim>,
    /// Times set by the template.
    pub timing: Timing,
}

/// Why an upgrade does not begin. Nothing was touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUpgraded {
    /// One is under way already; its operation is the answer.
    #[error("an upgrade is already under way")]
    UnderWay,
    /// The pod already has the template's newest version.
    #[error("already at the newest version of its template")]
    UpToDate,
    /// It is stopped or being deleted.
    #[error("the workspace is not running: start it first")]
    NotRunning,
    /// Its pod was not created yet.
    #[error("the workspace is still starting: try again when its pod exists")]
    Starting,
}

impl Record {
    /// The record of a workspace that is to run.
    #[must_use]
    pub fn spawn(spawn: Spawn, now: UnixSeconds) -> Self {
        let pod = PlannedPod {
            name: name::spawned_pod(&spawn.owner, &spawn.id, &spawn.namespace, now, 1),
            generation: 1,
            uid: None,
        };
        Self {
            version: VERSION,
            id: spawn.id,
            namespace: spawn.namespace,
            owner: spawn.owner,
            name: spawn.name,
            since: now,
            desired: Desired::Running,
            template: spawn.template,
            inputs: spawn.inputs,
            generation: 1,
            manifest: spawn.manifest,
            exclusive: spawn.exclusive,
            inherited: None,
            previous: None,
            claims: Vec::new(),
            unused_claims: Vec::new(),
            delete_data: false,
            pod,
            replacements: Replacements::default(),
            upgrade: None,
            last: None,
        }
    }

    /// The record of the same workspace, wanted running. `None`: it is already, or is being deleted.
    #[must_use]
    pub fn start(&self) -> Option<Self> {
        (self.desired == Desired::Stopped).then(|| {
            let mut next = self.clone();
            next.desired = Desired::Running;
            next.replacements = Replacements::default();
            next.plan_next_pod();
            next
        })
    }

    /// The record of the same workspace, wanted stopped. `None`: it is already, or is being deleted.
    #[must_use]
    pub fn stop(&self) -> Option<Self> {
        (self.desired == Desired::Running).then(|| Self {
            desired: Desired::Stopped,
            ..self.clone()
        })
    }

    /// The record of the same workspace, wanted gone. `None`: it is already.
    #[must_use]
    pub fn delete(&self) -> Option<Self> {
        (self.desired != Desired::Deleted).then(|| Self {
            desired: Desired::Deleted,
            ..self.clone()
        })
    }

    /// The record with an upgrade under way.
    ///
    /// # Errors
    /// [`NotUpgraded`]: nothing to do, or nothing that can be done now.
    pub fn begin_upgrade(&self, intent: Intent, now: UnixSeconds) -> Result<Self, NotUpgraded> {
        if self.desired != Desired::Running {
            return Err(NotUpgraded::NotRunning);
        }
        if self.upgrade.is_some() {
            return Err(NotUpgraded::UnderWay);
        }
        if self.template == intent.template {
            return Err(NotUpgraded::UpToDate);
        }
        if self.pod.uid.is_none() {
            return Err(NotUpgraded::Starting);
        }
        let mut next = self.clone();
        next.generation = self.generation.saturating_add(1);
        next.upgrade = Some(Upgrade {
            successor: PlannedPod {
                name: name::upgrade_pod(
                    &self.owner,
                    &self.id,
                    &self.namespace,
                    &intent.operation,
                    next.generation,
                ),
                generation: next.generation,
                uid: None,
            },
            operation: intent.operation,
            actor: intent.actor,
            parent: intent.parent,
            mode: intent.mode,
            started_at: now,
            deadline: now.saturating_add(i64::from(intent.timing.deadline)),
            timing: intent.timing,
            source: self.pod.clone(),
            template: intent.template,
            manifest: intent.manifest,
            exclusive: intent.exclusive,
            claims: self.new_claims(intent.claims),
            phase: Phase::Starting,
            ready_seen: false,
            ready_losses: 0,
        });
        Ok(next)
    }

    /// Id of the operation whose stored form the next decision is about.
    #[must_use]
    pub fn operation_to_show(&self) -> Option<&str> {
        let ended = self.last.as_ref().filter(|last| !last.shown);
        ended.map(|last| last.operation.id.as_str()).or_else(|| {
            self.upgrade
                .as_ref()
                .map(|upgrade| upgrade.operation.as_str())
        })
    }

    /// Whether the pod is one of this workspace's: same namespace, same owner, same id.
    #[must_use]
    pub fn holds(&self, pod: &PodView) -> bool {
        pod.namespace == self.namespace && pod.owner == self.owner && pod.workspace == self.id
    }

    /// Plans the workspace's pod anew, under the next generation and name.
    pub(crate) fn plan_next_pod(&mut self) {
        self.generation = self.generation.saturating_add(1);
        self.pod = PlannedPod {
            name: name::spawned_pod(
                &self.owner,
                &self.id,
                &self.namespace,
                self.since,
                self.generation,
            ),
            generation: self.generation,
            uid: None,
        };
    }
}

/// The object to create for `pod`: the manifest with name, generation and upgrade keys set.
#[must_use]
pub fn pod_object(
    manifest: &Value,
    namespace: &str,
    pod: &PlannedPod,
    upgrade: Option<&Upgrade>,
) -> Value {
    let mut object = manifest.clone();
    set(&mut object, &["apiVersion"], json!("v1"));
    set(&mut object, &["kind"], json!("Pod"));
    set(&mut object, &["metadata", "name"], json!(pod.name));
    set(&mut object, &["metadata", "namespace"], json!(namespace));
    set(
        &mut object,
        &["metadata", "labels", keys::GENERATION],
        json!(pod.generation.to_string()),
    );
    if let Some(upgrade) = upgrade {
        if upgrade.mode == Mode::Recreate {
            gate(&mut object);
        }
        let state = crate::pod::UpgradeState::Candidate.as_str();
        set(
            &mut object,
            &["metadata", "labels", keys::UPGRADE_STATE],
            json!(state),
        );
        let of = json!({"operation": upgrade.operation, "sourceUid": upgrade.source.uid});
        set(
            &mut object,
            &["metadata", "annotations", keys::UPGRADE_OF],
            json!(of.to_string()),
        );
    }
    object
}

/// Adds our scheduling gate to those that the manifest brings.
pub(crate) fn gate(object: &mut Value) {
    let ours = json!({"name": keys::GATE});
    let gates = object.pointer("/spec/schedulingGates");
    let mut gates: Vec<Value> = gates.and_then(Value::as_array).cloned().unwrap_or_default();
    if !gates.contains(&ours) {
        gates.push(ours);
    }
    set(object, &["spec", "schedulingGates"], Value::Array(gates));
}

/// Sets a value deep inside, making the objects on the way; whatever stands there and is none gives way.
pub(crate) fn set(value: &mut Value, path: &[&str], new: Value) {
    let Some((first, rest)) = path.split_first() else {
        *value = new;
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    if let Some(object) = value.as_object_mut() {
        set(object.entry(*first).or_insert(Value::Null), rest, new);
    }
}

#[cfg(test)]
pub(crate) mod tests;
