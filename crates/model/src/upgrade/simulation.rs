//! A cluster in a few lines: applies the planner's writes, lets things go wrong, and holds the
//! planner to its promises all along.

mod chance;
mod rival;
mod writes;

use super::*;
use crate::pod::{Phase as PodPhase, Ready, UpgradeOf, UpgradeState};
use crate::probe::{Finding, Probe};
use crate::record::tests::{intent, recreate, running, spawned};
use crate::select;
use crate::select::tests::pod;
use crate::wire::Sessions;
use crate::{keys, operation};
use rival::Seen;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Cluster {
    pub record: Option<Record>,
    pub pods: Vec<PodView>,
    pub probes: Vec<Probe>,
    pub operations: BTreeMap<String, Operation>,
    pub now: i64,
    pub writes: Vec<Write>,
    /// Sessions open on each pod, by uid.
    pub sessions: BTreeMap<String, u32>,
    /// Requests being answered by each pod, by uid.
    pub requests: BTreeMap<String, u32>,
    /// What the API server says to every create.
    pub rejects: Option<Trouble>,
    /// Pods that the cluster takes, those that have ended left out.
    pub quota: Option<usize>,
    refused: Option<Refused>,
    uids: u32,
    /// Counts changes of the record, and of pods.
    version: u64,
    /// What another executor has planned on what it saw, and what that was.
    other: Option<(Write, Seen)>,
    /// Pods that somebody else made, or let go.
    strange: BTreeSet<String>,
    /// Whether the write under way rests on what is there now.
    late: bool,
}

impl Cluster {
    pub(super) fn new(record: Record, pods: Vec<PodView>) -> Self {
        Self {
            record: Some(record),
            pods,
            probes: Vec::new(),
            operations: BTreeMap::new(),
            now: 2000,
            writes: Vec::new(),
            sessions: Default::default(),
            requests: Default::default(),
            rejects: None,
            quota: None,
            refused: None,
            uids: 0,
            version: 1,
            other: None,
            strange: BTreeSet::new(),
            late: false,
        }
    }

    /// A workspace with its ready pod and an upgrade that has just been asked for.
    pub(super) fn upgrading() -> Self {
        Self::new(
            running().begin_upgrade(intent("v2"), 2000).unwrap(),
            vec![pod("u1", 1)],
        )
    }

    /// The same, where only one pod can hold the volume, and the new image was found good.
    pub(super) fn recreating() -> Self {
        let mut cluster = Self::probing();
        let upgrade = cluster
            .record
            .as_mut()
            .and_then(|record| record.upgrade.as_mut());
        upgrade.expect("an upgrade").phase = Phase::Starting;
        cluster
    }

    /// The same, from the beginning.
    pub(super) fn probing() -> Self {
        let mut record = running();
        record.exclusive = true;
        let mut old = pod("u1", 1);
        old.node = Some("node-1".into());
        Self::new(
            record.begin_upgrade(recreate("v2"), 2000).unwrap(),
            vec![old],
        )
    }

    pub(super) fn plan(&self) -> Plan {
        let Some(record) = &self.record else {
            return Plan::Done;
        };
        let active = select::active(&self.pods).map(|pod| pod.uid.clone());
        let answer = Some(Sessions {
            version: 1,
            active,
            spare: Vec::new(),
            sessions: self.sessions.clone(),
            requests: self.requests.clone(),
        });
        let proxies = [ProxyReport {
            proxy: "edge".into(),
            answer,
        }];
        let observed = Observed {
            record,
            pods: &self.pods,
            probes: &self.probes,
            proxies: &proxies,
            operation: self.shown(),
            refused: self.refused.as_ref(),
        };
        plan(&observed, self.now)
    }

    /// The stored operation that the next decision is about.
    fn shown(&self) -> Option<&Operation> {
        let id = self.record.as_ref()?.operation_to_show()?;
        self.operations.get(id)
    }

    /// The operation of the upgrade that the simulation begins with.
    pub(super) fn operation(&self) -> &Operation {
        self.operations
            .get("op-1")
            .expect("the operation is stored")
    }

    /// A pod, to be changed.
    pub(super) fn pod(&mut self, uid: &str) -> &mut PodView {
        self.version += 1;
        let pod = self.pods.iter_mut().find(|pod| pod.uid == uid);
        let pod = pod.expect("such a pod");
        pod.resource_version = self.version.to_string();
        pod
    }

    /// One step of the executor.
    pub(super) fn step(&mut self) -> Plan {
        let planned = self.plan();
        // What was refused is known for one more look.
        self.refused = None;
        if let Plan::Write(write) = &planned {
            self.apply(write);
            self.writes.push((**write).clone());
        }
        planned
    }

    pub(super) fn set_ready(&mut self, uid: &str, ready: bool) {
        let now = self.now;
        let pod = self.pod(uid);
        if pod.ready.is != ready {
            pod.ready = Ready {
                is: ready,
                since: now,
            };
        }
        if ready {
            pod.phase = PodPhase::Running;
        }
    }

    /// From here on all goes well: pods become ready and end when told to, sessions close, time
    /// passes. Returns how many steps it took until there was nothing left to do.
    pub(super) fn calm(&mut self) -> usize {
        self.sessions.clear();
        for steps in 0..200 {
            self.pods.retain(|pod| !pod.deleting);
            self.probes.retain(|probe| !probe.deleting);
            for probe in &mut self.probes {
                if probe.finding == Finding::Nothing(None) {
                    probe.finding = Finding::Pulled;
                }
            }
            let now = self.now;
            for pod in self
                .pods
                .iter_mut()
                .filter(|pod| pod.is_live() && !pod.gated && !pod.ready.is)
            {
                pod.phase = PodPhase::Running;
                pod.ready = Ready {
                    is: true,
                    since: now,
                };
            }
            match self.step() {
                Plan::Done => return steps,
                Plan::Write(_) => {}
                Plan::Wait { reason, until } => {
                    self.now = until.unwrap_or(0).max(self.now + 1);
                    let serves = select::active(&self.pods).is_some();
                    match reason {
                        // What serves is not deleted to make room for what should: the quota grows.
                        Wait::Rejected { .. } if serves => self.quota = None,
                        _ => {}
                    }
                }
            }
        }
        panic!("did not converge: {:?}\n{:#?}", self.plan(), self.record);
    }
}

#[test]
fn a_spawned_workspace_gets_its_pod() {
    let mut cluster = Cluster::new(spawned(), Vec::new());
    cluster.calm();
    assert_eq!(cluster.pods.len(), 1);
    assert_eq!(cluster.record.unwrap().pod.uid.as_deref(), Some("n1"));
}

#[test]
fn a_deleted_one_leaves_nothing() {
    let mut cluster = Cluster::upgrading();
    cluster.step();
    cluster.step();
    cluster.record = cluster.record.as_ref().and_then(Record::delete);
    cluster.calm();
    assert!(cluster.record.is_none() && cluster.pods.is_empty());
    assert_eq!(cluster.operation().state, operation::State::Cancelled);
}
