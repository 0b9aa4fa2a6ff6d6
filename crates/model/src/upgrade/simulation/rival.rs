//! Another executor beside the one that is looked at: it plans, is held up, and writes when much else
//! has happened.

use super::*;

/// What a planned write rests on.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    record: Record,
    operation: Option<Operation>,
}

impl Cluster {
    /// The other executor looks and plans, and is held up before it writes.
    pub(super) fn other_plans(&mut self) {
        let refused = self.refused.take();
        self.other = match (self.plan(), &self.record) {
            (Plan::Write(write), Some(record)) => {
                let seen = Seen {
                    record: record.clone(),
                    operation: self.shown().cloned(),
                };
                Some((*write, seen))
            }
            _ => None,
        };
        self.refused = refused;
    }

    /// Its write arrives, whatever happened meanwhile; the API server takes it if its conditions
    /// still hold.
    pub(super) fn other_writes(&mut self) {
        let Some((write, seen)) = self.other.take() else {
            return;
        };
        let same_pod = |uid: &str, version: &str| {
            let mut pods = self.pods.iter();
            pods.any(|pod| pod.uid == *uid && pod.resource_version == version)
                || self.probes.iter().any(|probe| probe.uid == *uid)
        };
        let holds = match &write {
            Write::PutRecord(_) | Write::DropClaims(_) | Write::Bury(_) | Write::DeleteRecord => {
                self.record.as_ref() == Some(&seen.record)
            }
            Write::PutOperation(next) => self.operations.get(&next.id) == seen.operation.as_ref(),
            Write::PatchPod {
                uid,
                resource_version,
                ..
            }
            | Write::DeletePod {
                uid,
                resource_version,
                ..
            } => same_pod(uid, resource_version),
            Write::Release { uid, .. } => {
                let mut pods = self.pods.iter();
                pods.any(|pod| pod.uid == *uid && pod.gated && !pod.deleting)
            }
            // It holds nothing, so it may come whenever it wants.
            Write::CreateProbe { .. } => true,
            // What is created late and without a gate is the one thing that nothing holds back.
            Write::CreatePod { object } => {
                !seen.record.exclusive || object.pointer("/spec/schedulingGates").is_some()
            }
        };
        if holds {
            let refused = self.refused.take();
            self.late = true;
            self.apply(&write);
            self.late = false;
            self.refused = refused;
        }
    }
}
