//! Commands: pure changes of a record, to be stored by compare-and-swap.

use super::{Cancelled, Desired, Phase, PlannedPod, Record, Replacements, Upgrade, VERSION};
use crate::claim::PlannedClaim;
use crate::mode::Mode;
use crate::operation::Kind;
use crate::pod::TemplateRef;
use crate::template::Timing;
use crate::{UnixSeconds, name, probe};
use serde_json::{Map, Value};

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
    /// What is asked for.
    pub kind: Kind,
    /// Whether it also begins where the version is the same.
    pub force: bool,
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
    #[error(
        "something else is under way on the workspace: wait until that operation ends, or cancel it with cancel_operation"
    )]
    UnderWay,
    /// The pod already has the template's newest version.
    #[error("already at the newest version of its template")]
    UpToDate,
    /// It is stopped or being deleted.
    #[error("the workspace is not running: start it first")]
    NotRunning,
    /// It was never upgraded, so there is nothing to go back to.
    #[error("there is no earlier version to go back to: it has not been upgraded yet")]
    NoPrevious,
    /// Its pod was not created yet.
    #[error("the workspace is still starting: try again when its pod exists")]
    Starting,
}

/// Why an upgrade is not called off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCancelled {
    /// The operation is not under way.
    #[error("the operation is not under way any more")]
    NotUnderWay,
    /// The old pod is gone or going: there is nothing to go back to.
    #[error(
        "too late: the old pod is already being replaced. Wait until the operation ends, then roll the workspace back"
    )]
    TooLate,
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
            reserved: false,
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
            gone_at: None,
            id_kept: false,
            not_before: None,
            pod,
            replacements: Replacements::default(),
            upgrade: None,
            last: None,
        }
    }

    /// The record of a workspace of the same owner under the id of one that is gone; `None`: that one
    /// is not gone, or was somebody else's. Its pods have other names than any before.
    #[must_use]
    pub fn succeed(&self, new: Self) -> Option<Self> {
        (self.gone_at.is_some() && self.owner == new.owner && self.namespace == new.namespace).then(
            || {
                let mut next = Self {
                    generation: self.generation,
                    ..new
                };
                next.plan_next_pod();
                next
            },
        )
    }

    /// The record of a new workspace that takes its place and does not run yet.
    #[must_use]
    pub fn reserve(&self) -> Self {
        Self {
            desired: Desired::Stopped,
            reserved: true,
            ..self.clone()
        }
    }

    /// The record of the same workspace, wanted running. `None`: it is already, or is being deleted.
    #[must_use]
    pub fn start(&self) -> Option<Self> {
        (self.desired == Desired::Stopped).then(|| {
            let mut next = self.clone();
            next.desired = Desired::Running;
            // The pod that was planned for it was never asked for.
            if std::mem::take(&mut next.reserved) {
                return next;
            }
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

    /// The record of a workspace that is being deleted, or gone, whose id stays its owner's or not.
    /// `None`: it is so already, or is not being deleted.
    #[must_use]
    pub fn keep_id(&self, keep: bool) -> Option<Self> {
        (self.desired == Desired::Deleted && self.id_kept != keep).then(|| Self {
            id_kept: keep,
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
        if !intent.force && self.template == intent.template {
            return Err(NotUpgraded::UpToDate);
        }
        if self.pod.uid.is_none() {
            return Err(NotUpgraded::Starting);
        }
        let mut next = self.clone();
        next.generation = self.generation.saturating_add(1);
        let phase = if intent.mode == Mode::Recreate && probe::is_due(&intent.manifest) {
            let probe = probe::planned(self, &intent.operation, next.generation);
            Phase::Probing { probe }
        } else {
            Phase::Starting
        };
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
            kind: intent.kind,
            actor: intent.actor,
            parent: intent.parent,
            retry_of: None,
            mode: intent.mode,
            started_at: now,
            deadline: now.saturating_add(i64::from(intent.timing.deadline)),
            timing: intent.timing,
            source: self.pod.clone(),
            template: intent.template,
            manifest: intent.manifest,
            exclusive: intent.exclusive,
            claims: self.new_claims(intent.claims),
            phase,
            ready_seen: false,
            ready_losses: 0,
            cancelled: None,
        });
        Ok(next)
    }

    /// The record whose upgrade, which has just begun, tries that failed operation again.
    #[must_use]
    pub fn retrying(mut self, operation: Option<&str>) -> Self {
        if let Some(upgrade) = &mut self.upgrade {
            upgrade.retry_of = operation.map(ToOwned::to_owned);
        }
        self
    }

    /// The record with that upgrade called off. `None`: it is already, or is being taken back anyway.
    ///
    /// # Errors
    /// [`NotCancelled`].
    pub fn cancel_upgrade(
        &self,
        operation: &str,
        by: Cancelled,
    ) -> Result<Option<Self>, NotCancelled> {
        let upgrade = self
            .upgrade
            .as_ref()
            .filter(|upgrade| upgrade.operation == operation)
            .ok_or(NotCancelled::NotUnderWay)?;
        match upgrade.phase {
            _ if upgrade.cancelled.is_some() => Ok(None),
            Phase::Aborting { .. } => Ok(None),
            Phase::Replacing | Phase::Released | Phase::Restoring { .. } => {
                Err(NotCancelled::TooLate)
            }
            Phase::Probing { .. }
            | Phase::Starting
            | Phase::Committed { .. }
            | Phase::Quiescing { .. } => {
                let mut next = self.clone();
                if let Some(upgrade) = &mut next.upgrade {
                    upgrade.cancelled = Some(by);
                }
                Ok(Some(next))
            }
        }
    }

    /// The record with another time before which only its owner upgrades it. `None`: it is so
    /// already.
    #[must_use]
    pub fn keep_until(&self, not_before: Option<UnixSeconds>) -> Option<Self> {
        (self.not_before != not_before).then(|| Self {
            not_before,
            ..self.clone()
        })
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
