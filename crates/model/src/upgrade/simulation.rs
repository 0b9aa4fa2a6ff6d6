//! A cluster in a few lines: applies the planner's writes, lets things go wrong, and holds the
//! planner to its promises all along.

use super::*;
use crate::pod::{Phase as PodPhase, Ready, UpgradeOf, UpgradeState};
use crate::record::tests::{intent, recreate, running, spawned};
use crate::select;
use crate::select::tests::pod;
use crate::wire::Sessions;
use crate::{keys, operation};
use proptest::prelude::*;
use std::collections::BTreeMap;

pub(super) struct Cluster {
    pub record: Option<Record>,
    pub pods: Vec<PodView>,
    pub operations: BTreeMap<String, Operation>,
    pub now: i64,
    pub writes: Vec<Write>,
    /// Sessions open on each pod, by uid.
    pub sessions: BTreeMap<String, u32>,
    /// Requests being answered by each pod, by uid.
    pub requests: BTreeMap<String, u32>,
    /// What the API server says to every create.
    pub rejects: Option<Trouble>,
    refused: Option<Refused>,
    uids: u32,
}

impl Cluster {
    pub(super) fn new(record: Record, pods: Vec<PodView>) -> Self {
        Self {
            record: Some(record),
            pods,
            operations: BTreeMap::new(),
            now: 2000,
            writes: Vec::new(),
            sessions: Default::default(),
            requests: Default::default(),
            rejects: None,
            refused: None,
            uids: 0,
        }
    }

    /// A workspace with its ready pod and an upgrade that has just been asked for.
    pub(super) fn upgrading() -> Self {
        Self::new(
            running().begin_upgrade(intent("v2"), 2000).unwrap(),
            vec![pod("u1", 1)],
        )
    }

    /// The same, where only one pod can hold the volume.
    pub(super) fn recreating() -> Self {
        let mut record = running();
        record.exclusive = true;
        Self::new(
            record.begin_upgrade(recreate("v2"), 2000).unwrap(),
            vec![pod("u1", 1)],
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

    pub(super) fn pod(&mut self, uid: &str) -> &mut PodView {
        self.pods
            .iter_mut()
            .find(|pod| pod.uid == uid)
            .expect("such a pod")
    }

    /// One step of the executor.
    pub(super) fn step(&mut self) -> Plan {
        let planned = self.plan();
        if let Plan::Write(write) = &planned {
            self.apply(write);
            self.writes.push((**write).clone());
            if self.record.as_ref().is_some_and(|record| record.exclusive) {
                let holders = self.pods.iter().filter(|pod| pod.may_hold()).count();
                assert!(
                    holders <= 1,
                    "two pods may hold the volume: {:#?}",
                    self.pods
                );
            }
        }
        planned
    }

    fn apply(&mut self, write: &Write) {
        match write {
            Write::CreatePod { object } => self.create(object),
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
                    assert_eq!(*key, keys::LAST_UPGRADE_ERROR);
                    pod.last_upgrade_error = Some(value.clone());
                }
            }
            Write::Release { uid, .. } => {
                let pod = self.pod(uid);
                assert!(pod.gated && !pod.deleting, "released what is not held back");
                pod.gated = false;
            }
            Write::DeletePod { uid, why, .. } => {
                let others = self
                    .pods
                    .iter()
                    .filter(|pod| pod.uid != *uid && pod.is_live())
                    .count();
                match why {
                    DeleteReason::Superseded | DeleteReason::Aborted => {
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
                }
                self.pod(uid).deleting = true;
            }
            Write::PutRecord(record) | Write::DropClaims(record) => {
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
            Write::DeleteRecord => self.record = None,
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
                assert_eq!(
                    under_way,
                    !operation.state.is_terminal(),
                    "ended means that the next one can begin"
                );
                self.operations
                    .insert(operation.id.clone(), operation.clone());
            }
        }
    }

    fn create(&mut self, object: &serde_json::Value) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        if let Some(trouble) = &self.rejects {
            self.refused = Some(Refused {
                pod: name.to_owned(),
                why: Refusal::Rejected(trouble.clone()),
            });
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
        self.pods.push(new);
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
                Plan::Wait { .. } => self.now += 1,
            }
        }
        panic!("did not converge: {:?}\n{:#?}", self.plan(), self.record);
    }
}

/// What may happen between two steps.
#[derive(Debug, Clone)]
enum Event {
    Pass(i64),
    Ready(usize, bool),
    Fail(usize),
    Vanish(usize),
    Terminated,
    Sessions(usize, u32),
    NewUpgrade,
    Stop,
    Start,
    Steps(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1i64..400).prop_map(Event::Pass),
        4 => (0usize..3, any::<bool>()).prop_map(|(i, ready)| Event::Ready(i, ready)),
        1 => (0usize..3).prop_map(Event::Fail),
        1 => (0usize..3).prop_map(Event::Vanish),
        2 => Just(Event::Terminated),
        1 => (0usize..3, 0u32..3).prop_map(|(i, n)| Event::Sessions(i, n)),
        1 => Just(Event::NewUpgrade),
        1 => Just(Event::Stop),
        1 => Just(Event::Start),
        8 => (1u8..6).prop_map(Event::Steps),
    ]
}

fn happen(cluster: &mut Cluster, event: &Event, serial: usize) {
    let uid = |cluster: &Cluster, i: usize| cluster.pods.get(i).map(|pod| pod.uid.clone());
    let change = |cluster: &mut Cluster, next: Option<Record>| {
        if let Some(next) = next {
            cluster.record = Some(next);
        }
    };
    match event {
        Event::Pass(seconds) => cluster.now += seconds,
        Event::Ready(i, ready) => {
            if let Some(uid) = uid(cluster, *i)
                && cluster.pod(&uid).is_live()
                && !cluster.pod(&uid).gated
            {
                cluster.set_ready(&uid, *ready);
            }
        }
        Event::Fail(i) => {
            if let Some(uid) = uid(cluster, *i)
                && !cluster.pod(&uid).gated
            {
                cluster.set_ready(&uid, false);
                cluster.pod(&uid).phase = PodPhase::Failed;
            }
        }
        Event::Vanish(i) => {
            if *i < cluster.pods.len() {
                cluster.pods.remove(*i);
            }
        }
        Event::Terminated => cluster.pods.retain(|pod| !pod.deleting),
        Event::Sessions(i, n) => {
            if let Some(uid) = uid(cluster, *i) {
                cluster.sessions.insert(uid, *n);
            }
        }
        Event::NewUpgrade => {
            let exclusive = cluster.record.as_ref().is_some_and(|r| r.exclusive);
            let mut intent = if exclusive {
                recreate(&format!("v{serial}"))
            } else {
                intent(&format!("v{serial}"))
            };
            intent.operation = format!("op-{serial}");
            let next = cluster
                .record
                .as_ref()
                .and_then(|r| r.begin_upgrade(intent, cluster.now).ok());
            change(cluster, next);
        }
        Event::Stop => {
            let next = cluster.record.as_ref().and_then(Record::stop);
            change(cluster, next);
        }
        Event::Start => {
            let next = cluster.record.as_ref().and_then(Record::start);
            change(cluster, next);
        }
        Event::Steps(n) => {
            for _ in 0..*n {
                cluster.step();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn whatever_happens_it_converges_and_then_rests(
        events in prop::collection::vec(event(), 0..40),
        exclusive in any::<bool>(),
    ) {
        let mut cluster = if exclusive { Cluster::recreating() } else { Cluster::upgrading() };
        for (serial, event) in events.iter().enumerate() {
            happen(&mut cluster, event, serial + 10);
        }
        let wanted = cluster.record.as_ref().map(|record| record.desired);
        cluster.calm();
        let record = cluster.record.clone().unwrap();
        prop_assert!(record.upgrade.is_none());
        prop_assert_eq!(Some(record.desired), wanted);
        let live = cluster.pods.iter().filter(|pod| pod.is_live()).count();
        prop_assert_eq!(live, usize::from(record.desired == Desired::Running));
        prop_assert_eq!(cluster.pods.len(), live, "nothing left over");
        prop_assert!(cluster.operations.values().all(|operation| operation.state.is_terminal()));
        prop_assert_eq!(cluster.plan(), Plan::Done);
    }

    #[test]
    fn every_step_may_be_the_last(cut in 0usize..40, exclusive in any::<bool>()) {
        // A crash between two writes is a planner that starts anew: it has no memory to lose. What
        // a crash can do is make a write twice, so each is made twice here.
        let mut cluster = if exclusive { Cluster::recreating() } else { Cluster::upgrading() };
        for step in 0..60 {
            if let Plan::Write(write) = cluster.plan()
                && step == cut
                && matches!(*write, Write::CreatePod { .. })
            {
                cluster.apply(&write);
            }
            let now = cluster.now;
            cluster.pods.retain(|pod| !pod.deleting);
            for pod in &mut cluster.pods {
                if !pod.ready.is && !pod.gated { pod.phase = PodPhase::Running; pod.ready = Ready { is: true, since: now }; }
            }
            if let Plan::Wait { .. } = cluster.step() { cluster.now += 1; }
        }
        cluster.calm();
        prop_assert_eq!(cluster.operation().state, operation::State::Succeeded);
        prop_assert_eq!(cluster.record.unwrap().template.version, "v2");
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
