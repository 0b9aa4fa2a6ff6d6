//! The workspace record: the one durable truth about a workspace. Pods carry copies of it.
//!
//! A command (spawn, stop, upgrade …) is a pure change of the record, stored by compare-and-swap;
//! what then happens to pods follows from [`crate::upgrade::plan()`].

mod change;
mod object;

pub use change::{Intent, NotCancelled, NotUpgraded, Spawn};
pub use object::pod_object;
pub(crate) use object::{gate, set};

use crate::UnixSeconds;
use crate::claim::PlannedClaim;
use crate::container::Trouble;
use crate::mode::Mode;
use crate::operation::{Kind, Operation};
use crate::pod::{PodView, TemplateRef};
use crate::template::Timing;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Version of the stored form.
pub const VERSION: u32 = 1;

/// How long a deleted workspace is remembered, in seconds: longer than any create of one of its pods
/// may be on its way.
const REMEMBERED: UnixSeconds = 120;

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
    /// Recreate: a pod without claims shows that the node can get the new images.
    Probing {
        /// That pod.
        probe: PlannedPod,
    },
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

/// Who called something off, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {
    /// Subject of who did.
    pub actor: String,
    /// When.
    pub at: UnixSeconds,
}

/// An upgrade under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// Operation id.
    pub operation: String,
    /// What was asked for.
    #[serde(default)]
    pub kind: Kind,
    /// Subject of who asked.
    pub actor: String,
    /// The bulk operation that this upgrade is a part of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<String>,
    /// The failed operation that it tries again.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_of: Option<String>,
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
    /// Whether somebody called it off.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cancelled: Option<Cancelled>,
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
    /// Whether its owner's limit has not let it in yet: see [`crate::limit`]. Such a workspace is
    /// stopped, and never had a pod.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub reserved: bool,
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
    /// Since when nothing of a deleted workspace is left. The record stays a while, as a tombstone:
    /// what was asked for earlier and arrives late is recognised and removed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gone_at: Option<UnixSeconds>,
    /// Whether the id stays its owner's although the workspace is deleted: an admin has deleted it, and
    /// has not released the id.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub id_kept: bool,
    /// Its owner wants no upgrade by others before this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_before: Option<UnixSeconds>,
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

impl Record {
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

    /// Whether nothing is left of the workspace but this: to people it is not there any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.gone_at.is_some()
    }

    /// From when the id of a workspace that is gone is anybody's again. `None`: it is not gone, or its
    /// id stays its owner's.
    #[must_use]
    pub fn free_at(&self) -> Option<UnixSeconds> {
        let gone = self.gone_at.filter(|_| !self.id_kept);
        gone.map(|at| at.saturating_add(REMEMBERED))
    }

    /// Whether the pod is one of this workspace's: same namespace, same owner, same id.
    #[must_use]
    pub fn holds(&self, pod: &PodView) -> bool {
        pod.namespace == self.namespace && pod.owner == self.owner && pod.workspace == self.id
    }
}

#[cfg(test)]
pub(crate) mod tests;
