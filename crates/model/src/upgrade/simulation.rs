//! A cluster in a few lines: applies the planner's writes, lets things go wrong, and holds the
//! planner to its promises all along.

use super::*;
use crate::pod::{Phase as PodPhase, Ready, UpgradeOf, UpgradeState};
use crate::probe::{Finding, Probe};
use crate::record::tests::{intent, recreate, running, spawned};
use crate::select;
use crate::select::tests::pod;
use crate::wire::Sessions;
use crate::{keys, operation};
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

/// What a planned write rests on.
#[derive(Debug, Clone)]
struct Seen {
    record: Record,
    operation: Option<Operation>,
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

    /// The other executor looks and plans, and is held up before it writes.
    fn other_plans(&mut self) {
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
    fn other_writes(&mut self) {
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

    /// A pod without a gate comes to be: nothing else may hold what only one can.
    fn assert_alone(&self, uid: &str) {
        let exclusive = self.record.as_ref().is_some_and(|record| record.exclusive);
        // Who is late cannot know of what somebody else did meanwhile.
        let counts = |pod: &&PodView| !self.late || !self.strange.contains(&pod.uid);
        let others = self.pods.iter().filter(|pod| pod.uid != uid);
        assert!(
            !exclusive || !others.filter(counts).any(PodView::may_hold),
            "two pods may hold the volume: {:#?}",
            self.pods
        );
    }

    pub(super) fn apply(&mut self, write: &Write) {
        match write {
            Write::CreatePod { object } => self.create(object),
            Write::CreateProbe { object, successor } => self.create_probe(object, successor),
            Write::DeletePod {
                uid,
                why: DeleteReason::Probe,
                ..
            } => {
                let mut probes = self.probes.iter_mut();
                let probe = probes.find(|probe| probe.uid == *uid);
                probe.expect("a probe is no workspace's pod").deleting = true;
            }
            Write::PatchPod {
                uid,
                labels,
                annotations,
                ..
            } => {
                let pod = self.pod(uid);
                for (key, value) in labels {
                    assert_eq!(*key, keys::UPGRADE_STATE);
                    pod.state = match value.as_str() {
                        "committed" => UpgradeState::Committed,
                        "aborted" => UpgradeState::Aborted,
                        "quiesced" => UpgradeState::Quiesced,
                        other => panic!("{other}"),
                    };
                }
                for (key, value) in annotations {
                    match *key {
                        keys::LAST_UPGRADE_ERROR => pod.last_upgrade_error = Some(value.clone()),
                        keys::LAST_UPGRADE => pod.last_upgrade = Some(value.clone()),
                        other => panic!("{other}"),
                    }
                }
            }
            Write::Release { uid, .. } => {
                let pod = self.pod(uid);
                assert!(pod.gated && !pod.deleting, "released what is not held back");
                pod.gated = false;
                self.assert_alone(uid);
            }
            Write::DeletePod { uid, why, .. } => {
                let others = self
                    .pods
                    .iter()
                    .filter(|pod| pod.uid != *uid && pod.is_live())
                    .count();
                match why {
                    _ if self.late => {}
                    DeleteReason::Superseded | DeleteReason::Aborted | DeleteReason::Duplicate => {
                        let active = select::active(&self.pods).map(|pod| pod.uid.as_str());
                        assert_ne!(
                            active,
                            Some(uid.as_str()),
                            "deleted a pod that is routed to"
                        );
                        assert!(others > 0, "deleted the last pod");
                    }
                    DeleteReason::Blocking => {
                        let active = select::active(&self.pods).map(|pod| pod.uid.as_str());
                        assert_ne!(active, Some(uid.as_str()), "deleted what serves");
                    }
                    DeleteReason::Ended => assert!(!self.pod(uid).is_live()),
                    DeleteReason::Stopped | DeleteReason::Deleted => {}
                    DeleteReason::Probe => panic!("a workspace's pod is no probe"),
                }
                self.pod(uid).deleting = true;
            }
            Write::PutRecord(record) | Write::DropClaims(record) | Write::Bury(record) => {
                let before = self.record.as_ref().expect("a record");
                assert_eq!(
                    (&record.owner, &record.id, record.since),
                    (&before.owner, &before.id, before.since)
                );
                assert!(
                    record.generation >= before.generation,
                    "generations only grow"
                );
                assert_ne!(**record, *before, "a write that changes nothing");
                self.record = Some((**record).clone());
                self.refused = None;
            }
            Write::DeleteRecord => {
                let record = self.record.take().expect("a record");
                assert!(
                    record.gone_at.is_some_and(|at| at + 120 <= self.now),
                    "forgot too early"
                );
            }
            Write::PutOperation(operation) => {
                let stored = self.operations.get(&operation.id);
                assert!(
                    stored.is_none_or(|stored| !stored.state.is_terminal()),
                    "an ended operation was changed"
                );
                let upgrade = self
                    .record
                    .as_ref()
                    .and_then(|record| record.upgrade.as_ref());
                let under_way = upgrade.is_some_and(|upgrade| upgrade.operation == operation.id);
                assert!(
                    self.late || under_way != operation.state.is_terminal(),
                    "ended means that the next one can begin"
                );
                self.operations
                    .insert(operation.id.clone(), operation.clone());
            }
        }
    }

    fn create_probe(&mut self, object: &serde_json::Value, successor: &serde_json::Value) {
        assert!(
            self.late || self.pods.iter().any(select::is_routable),
            "there is something to lose"
        );
        let name = |object: &serde_json::Value| {
            object["metadata"]["name"]
                .as_str()
                .expect("a name")
                .to_owned()
        };
        if self.refuse(&name(successor)) || self.refuse(&name(object)) {
            return;
        }
        self.uids += 1;
        let taken = self.probes.iter().any(|probe| probe.name == name(object));
        if taken {
            self.refused = Some(Refused {
                pod: name(object),
                why: Refusal::NameTaken,
            });
            return;
        }
        self.probes.push(Probe {
            uid: format!("p{}", self.uids),
            name: name(object),
            workspace: "dev".into(),
            resource_version: "1".into(),
            deleting: false,
            finding: Finding::Nothing(None),
        });
    }

    /// Whether the API server refuses a pod of that name.
    fn refuse(&mut self, name: &str) -> bool {
        let living = |pod: &&PodView| !matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded);
        let full = self
            .quota
            .is_some_and(|most| self.pods.iter().filter(living).count() >= most);
        let quota = full.then(|| Trouble::new("Forbidden", "exceeded quota: pods"));
        let why = self.rejects.clone().or(quota).map(Refusal::Rejected);
        let refused = why.is_some();
        self.refused = why
            .map(|why| Refused {
                pod: name.to_owned(),
                why,
            })
            .or(self.refused.take());
        refused
    }

    fn create(&mut self, object: &serde_json::Value) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        if self.refuse(name) {
            return;
        }
        if self.pods.iter().any(|pod| pod.name == name) {
            self.refused = Some(Refused {
                pod: name.to_owned(),
                why: Refusal::NameTaken,
            });
            return;
        }
        self.uids += 1;
        let generation = object["metadata"]["labels"][keys::GENERATION]
            .as_str()
            .expect("a generation");
        let mut new = pod(
            &format!("n{}", self.uids),
            generation.parse().expect("a number"),
        );
        new.name = name.to_owned();
        new.created = self.now;
        new.node = Some("node-1".into());
        new.phase = PodPhase::Pending;
        new.ready = Ready {
            is: false,
            since: self.now,
        };
        if let Some(of) = object["metadata"]["annotations"][keys::UPGRADE_OF].as_str() {
            new.upgrade_of = Some(serde_json::from_str::<UpgradeOf>(of).expect("upgrade-of"));
            new.state = UpgradeState::Candidate;
        }
        new.gated = object.pointer("/spec/schedulingGates").is_some();
        let record = self.record.as_ref().expect("a record");
        let upgrade = record.upgrade.as_ref();
        new.template = upgrade
            .filter(|upgrade| upgrade.successor.name == new.name)
            .map_or(&record.template, |upgrade| &upgrade.template)
            .clone();
        let (uid, free) = (new.uid.clone(), !new.gated);
        self.pods.push(new);
        if free {
            self.assert_alone(&uid);
        }
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

mod chance;
