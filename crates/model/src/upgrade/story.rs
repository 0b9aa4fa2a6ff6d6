//! What Kubernetes Events say about a write, on the pods that it concerns, so that
//! `kubectl describe pod` tells the story on old and new pod.
//!
//! Pure: a note's name is a function of the pod, the reason and the operation, so that whoever
//! tells it again tells the same Event.

use super::Write;
use crate::access::Visibility;
use crate::container::Trouble;
use crate::keys;
use crate::label::base32_sha256;
use crate::operation::{Kind, State};
use crate::pod::PodView;
use crate::record::{Phase, PlannedPod, Record, Upgrade};

/// Longest message, in bytes: the bound of `events.k8s.io/v1`.
const MAX_MESSAGE: usize = 1024;
/// Longest part of a pod's name in an Event's, in bytes. An Event's name has at most 253.
const MAX_NAME: usize = 200;

/// Reason of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// An upgrade has begun.
    UpgradeStarted,
    /// The new pod is let at the traffic, or at the volume.
    UpgradeTookOver,
    /// It ended well.
    UpgradeFinished,
    /// It ended, and the workspace stays on its old version.
    UpgradeFailed,
    /// A person ended it.
    UpgradeCancelled,
    /// The old version came back.
    Restored,
    /// A pod was lost and another took its place.
    Replaced,
    /// A pod that another spawner made is kept from now on.
    Adopted,
    /// A pod claims an id that is somebody else's.
    DuplicateIgnored,
    /// More pods were to be deleted than is plausible.
    DeletionsCapped,
    /// Who may open its pages is not understood.
    VisibilityUnclear,
    /// What it says of its extra ports is not understood.
    PortUnclear,
    /// Somebody made the workspace.
    Spawned,
    /// Somebody started it.
    Started,
    /// Somebody stopped it.
    Stopped,
    /// Somebody deleted it.
    Deleted,
}

impl Reason {
    /// As it stands in the Event.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UpgradeStarted => "UpgradeStarted",
            Self::UpgradeTookOver => "UpgradeTookOver",
            Self::UpgradeFinished => "UpgradeFinished",
            Self::UpgradeFailed => "UpgradeFailed",
            Self::UpgradeCancelled => "UpgradeCancelled",
            Self::Restored => "Restored",
            Self::Replaced => "Replaced",
            Self::Adopted => "Adopted",
            Self::DuplicateIgnored => "DuplicateIgnored",
            Self::DeletionsCapped => "DeletionsCapped",
            Self::VisibilityUnclear => "VisibilityUnclear",
            Self::PortUnclear => "PortUnclear",
            Self::Spawned => "Spawned",
            Self::Started => "Started",
            Self::Stopped => "Stopped",
            Self::Deleted => "Deleted",
        }
    }

    /// Whether somebody should look.
    #[must_use]
    pub fn is_warning(self) -> bool {
        matches!(
            self,
            Self::UpgradeFailed
                | Self::DuplicateIgnored
                | Self::DeletionsCapped
                | Self::VisibilityUnclear
                | Self::PortUnclear
        )
    }
}

/// One Event about one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's uid.
    pub uid: String,
    /// Why.
    pub reason: Reason,
    /// A sentence, of at most 1 KiB.
    pub message: String,
    /// The operation that it belongs to, or whatever else tells it from the next of its kind.
    about: String,
}

impl Note {
    fn new(namespace: &str, pod: (&str, &str), reason: Reason, about: &str, text: &str) -> Self {
        let mut end = text.len().min(MAX_MESSAGE);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            namespace: namespace.to_owned(),
            pod: pod.0.to_owned(),
            uid: pod.1.to_owned(),
            reason,
            message: text.get(..end).unwrap_or_default().to_owned(),
            about: about.to_owned(),
        }
    }

    fn on(pod: &PodView, reason: Reason, about: &str, text: &str) -> Self {
        Self::new(&pod.namespace, (&pod.name, &pod.uid), reason, about, text)
    }

    /// Name of the Event. Whoever tells the same again gives the same name.
    #[must_use]
    pub fn name(&self) -> String {
        let facts = [self.uid.as_str(), self.reason.as_str(), self.about.as_str()];
        let hash = base32_sha256(facts.join("\0").as_bytes(), 26);
        let end = self.pod.len().min(MAX_NAME);
        // Names of pods are ASCII: any end is a boundary.
        let stem = self.pod.get(..end).unwrap_or_default();
        format!("{}.{hash}", stem.trim_end_matches(['-', '.']))
    }
}

/// What a write that was made is worth telling, by the record as it was before.
#[must_use]
pub fn story(before: &Record, pods: &[PodView], write: &Write) -> Vec<Note> {
    match write {
        Write::PutRecord(next) => recorded(before, pods, next),
        Write::PutOperation(operation) if operation.state == State::Running => {
            let begun = before.upgrade.as_ref().filter(|upgrade| {
                let first = matches!(upgrade.phase, Phase::Starting | Phase::Probing { .. });
                first && upgrade.operation == operation.id
            });
            begun.map_or_else(Vec::new, |upgrade| {
                let tale = Tale {
                    record: before,
                    pods,
                    upgrade,
                };
                tale.started()
            })
        }
        _ => Vec::new(),
    }
}

/// What is told of a workspace that gets its first record because of a pod that was there.
#[must_use]
pub fn adopted(record: &Record) -> Vec<Note> {
    let text = format!(
        "kept from now on as the pod of workspace {}, template {}",
        record.id,
        version(&record.template.name, &record.template.version)
    );
    planned(record, &record.pod, Reason::Adopted, &record.id, &text)
}

/// What is told of pods with a workspace's id that are not the workspace's.
#[must_use]
pub fn ignored(record: &Record, pods: &[PodView]) -> Vec<Note> {
    let strangers = pods.iter().filter(|pod| !record.holds(pod));
    strangers
        .map(|pod| {
            let text = format!(
                "workspace {} is another owner's: nothing is routed to this pod, and nobody upgrades or deletes it",
                record.id
            );
            Note::on(pod, Reason::DuplicateIgnored, &record.id, &text)
        })
        .collect()
}

/// What is told of the workspace's pods whose annotations are not understood: who may open it, and what
/// it serves beside its port.
#[must_use]
pub fn unclear(record: &Record, pods: &[PodView]) -> Vec<Note> {
    let mine = pods.iter().filter(|pod| record.holds(pod));
    mine.flat_map(|pod| {
        let ports = pod.serving.ports.problems();
        let ports = ports.map(|problem| Note::on(pod, Reason::PortUnclear, problem, problem));
        unclear_visibility(pod).into_iter().chain(ports)
    })
    .collect()
}

fn unclear_visibility(pod: &PodView) -> Option<Note> {
    let Visibility::Unclear(said) = &pod.serving.visibility else {
        return None;
    };
    let text = format!(
        "annotation {} is '{said}', which is not understood: nobody but the owner opens the pages. Use private, \
             authenticated, or a list of user:SUB and role:ROLE",
        keys::VISIBILITY
    );
    Some(Note::on(pod, Reason::VisibilityUnclear, said, &text))
}

/// What is told, on one of its pods, of what somebody did to a workspace.
#[must_use]
pub fn asked(reason: Reason, id: &str, actor: &str, pod: &PodView) -> Note {
    let done = reason.as_str().to_ascii_lowercase();
    let text = format!("workspace {id} was {done} by {actor}");
    Note::on(pod, reason, actor, &text)
}

/// What is told of a pod that stays for now since too many are to be deleted.
#[must_use]
pub fn capped(record: &Record, pod: &PodView, most: u32) -> Note {
    let text = format!(
        "this pod of workspace {} is to be deleted, and so are more than {most} others within a minute: each waits \
         for its turn; look at why there are so many",
        record.id
    );
    Note::on(pod, Reason::DeletionsCapped, &record.id, &text)
}

fn recorded(before: &Record, pods: &[PodView], next: &Record) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(upgrade) = &before.upgrade {
        let tale = Tale {
            record: before,
            pods,
            upgrade,
        };
        match &next.upgrade {
            Some(after) => notes.extend(tale.went_on(after)),
            None => notes.extend(tale.ended(next)),
        }
    } else if before.pod.uid.is_none() && next.replacements.count > 0 {
        let text = format!(
            "takes the place of a pod of workspace {} that was lost",
            next.id
        );
        notes.extend(planned(next, &next.pod, Reason::Replaced, "", &text));
    } else if next.replacements != before.replacements {
        let lost = pods
            .iter()
            .find(|pod| Some(&pod.uid) == before.pod.uid.as_ref());
        let why = lost.and_then(|pod| pod.trouble.as_ref());
        let why = why.map_or_else(|| "it ended".to_owned(), Trouble::to_string);
        let text = format!("pod {} takes its place: {why}", next.pod.name);
        notes.extend(lost.map(|pod| Note::on(pod, Reason::Replaced, "", &text)));
    }
    notes
}

/// An upgrade, and who can be told of it.
struct Tale<'a> {
    record: &'a Record,
    pods: &'a [PodView],
    upgrade: &'a Upgrade,
}

impl Tale<'_> {
    fn started(&self) -> Vec<Note> {
        // The successor is told when it is seen.
        let text = format!(
            "{}, asked for by {}; pod {} is to take over",
            self.way(),
            self.upgrade.actor,
            self.upgrade.successor.name
        );
        self.source(Reason::UpgradeStarted, &text)
    }

    fn went_on(&self, after: &Upgrade) -> Vec<Note> {
        let mut notes = Vec::new();
        let of = |planned_pod: &PlannedPod, reason, text: &str| {
            planned(
                self.record,
                planned_pod,
                reason,
                &self.upgrade.operation,
                text,
            )
        };
        if self.upgrade.successor.uid.is_none() && after.successor.uid.is_some() {
            let text = format!(
                "made for the {}; it replaces pod {}",
                self.way(),
                after.source.name
            );
            notes.extend(of(&after.successor, Reason::UpgradeStarted, &text));
            // Who asked has stored the operation already: then its first sign is this.
            notes.extend(self.started());
        }
        match (&self.upgrade.phase, &after.phase) {
            (Phase::Committed { .. }, Phase::Committed { .. })
            | (Phase::Replacing, Phase::Replacing)
            | (Phase::Released, Phase::Released)
            | (Phase::Aborting { .. }, Phase::Aborting { .. })
            | (Phase::Restoring { .. }, Phase::Restoring { .. }) => {}
            (_, Phase::Committed { .. }) => {
                let text = format!(
                    "takes all new requests of workspace {} from now on",
                    self.record.id
                );
                notes.extend(of(&after.successor, Reason::UpgradeTookOver, &text));
                let text = format!(
                    "pod {} takes all new requests from now on; this one goes when nobody uses it any more",
                    after.successor.name
                );
                notes.extend(self.source(Reason::UpgradeTookOver, &text));
            }
            (_, Phase::Replacing) => {
                let text = format!(
                    "ends, so that pod {} may have what only one pod can hold",
                    after.successor.name
                );
                notes.extend(self.source(Reason::UpgradeTookOver, &text));
            }
            (_, Phase::Released) => {
                let text = format!("starts now: pod {} is gone", after.source.name);
                notes.extend(of(&after.successor, Reason::UpgradeTookOver, &text));
            }
            (_, Phase::Aborting { why, .. } | Phase::Restoring { why, .. }) => {
                let (reason, text) = self.failure(why);
                notes.extend(of(&after.successor, reason, &text));
                notes.extend(self.source(reason, &text));
            }
            _ => {}
        }
        notes
    }

    fn ended(&self, next: &Record) -> Vec<Note> {
        let Some(last) = &next.last else {
            return Vec::new();
        };
        let about = &self.upgrade.operation;
        match last.operation.state {
            State::Running => Vec::new(),
            State::Succeeded => {
                let text = format!("{} is done", self.way());
                let mut notes = planned(next, &next.pod, Reason::UpgradeFinished, about, &text);
                notes.extend(self.source(Reason::UpgradeFinished, &text));
                notes
            }
            State::Failed | State::Cancelled => {
                let error = last.operation.targets.first();
                let error = error.and_then(|target| target.error.clone());
                let why = error.unwrap_or_else(|| Trouble::new("Failed", ""));
                let (reason, text) = match last.operation.state {
                    State::Cancelled => (Reason::UpgradeCancelled, self.cancelled(&why)),
                    _ => self.failure(&why),
                };
                let mut notes = planned(next, &next.pod, reason, about, &text);
                if let Phase::Restoring { restored, .. } = &self.upgrade.phase {
                    let text = format!(
                        "brought back {}, since the {} failed: {why}",
                        version(&next.template.name, &next.template.version),
                        self.word()
                    );
                    notes.extend(planned(next, restored, Reason::Restored, about, &text));
                }
                notes
            }
        }
    }

    fn failure(&self, why: &Trouble) -> (Reason, String) {
        if why.reason == "Cancelled" {
            return (Reason::UpgradeCancelled, self.cancelled(why));
        }
        let text = format!("{} failed: {why}", self.way());
        (Reason::UpgradeFailed, text)
    }

    fn cancelled(&self, why: &Trouble) -> String {
        format!("{} was cancelled: {}", self.way(), why.message)
    }

    fn word(&self) -> &'static str {
        match self.upgrade.kind {
            Kind::Rollback => "rollback",
            _ => "upgrade",
        }
    }

    fn way(&self) -> String {
        format!(
            "{} from {} to {} ({})",
            self.word(),
            version(&self.record.template.name, &self.record.template.version),
            version(&self.upgrade.template.name, &self.upgrade.template.version),
            self.upgrade.operation
        )
    }

    /// On the old pod, if it is still there.
    fn source(&self, reason: Reason, text: &str) -> Vec<Note> {
        let uid = self.upgrade.source.uid.as_ref();
        let there = self.pods.iter().find(|pod| Some(&pod.uid) == uid);
        let note = there.map(|pod| Note::on(pod, reason, &self.upgrade.operation, text));
        note.into_iter().collect()
    }
}

/// On a pod whose uid is known.
fn planned(
    record: &Record,
    pod: &PlannedPod,
    reason: Reason,
    about: &str,
    text: &str,
) -> Vec<Note> {
    let uid = pod.uid.as_deref();
    let note = uid.map(|uid| Note::new(&record.namespace, (&pod.name, uid), reason, about, text));
    note.into_iter().collect()
}

fn version(template: &str, version: &str) -> String {
    format!("{template} {version}")
}

#[cfg(test)]
mod tests;
