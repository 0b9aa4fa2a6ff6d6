//! Whatever may happen to a workspace, in any order: the planner keeps its promises all along, and
//! once it is calm the workspace is as its owner wants it.

use super::*;
use crate::record::Cancelled;
use proptest::prelude::*;

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
    Cancel,
    Stop,
    Start,
    /// Somebody makes a pod with the workspace's labels: of its version or another, gated or not.
    Stray {
        generation: u32,
        same: bool,
        gated: bool,
        ready: bool,
    },
    /// Somebody takes the gate off a pod.
    Ungate(usize),
    /// A pod's containers cannot start.
    Hopeless(usize),
    /// What the probes show.
    Found(Finding),
    /// Somebody removes the probes, or the kubelet ends those that are to go.
    NoProbes,
    /// So many pods are allowed, and no more.
    Quota(Option<usize>),
    /// Another executor plans, and is held up before its write.
    OtherPlans,
    /// Its write arrives.
    OtherWrites,
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
        1 => (0u32..4, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(generation, same, gated, ready)| Event::Stray { generation, same, gated, ready }
        ),
        1 => (0usize..3).prop_map(Event::Ungate),
        1 => (0usize..3).prop_map(Event::Hopeless),
        2 => prop_oneof![
            Just(Finding::Pulled),
            Just(Finding::Turned),
            Just(Finding::Nothing(Some(Trouble::new("ErrImagePull", "connection refused")))),
            Just(Finding::Nothing(Some(Trouble::new("ImagePullBackOff", "not found")))),
        ].prop_map(Event::Found),
        1 => Just(Event::NoProbes),
        1 => Just(Event::Cancel),
        1 => prop::option::of(1usize..4).prop_map(Event::Quota),
        2 => Just(Event::OtherPlans),
        2 => Just(Event::OtherWrites),
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
        Event::Terminated => {
            cluster.pods.retain(|pod| !pod.deleting);
            cluster.probes.retain(|probe| !probe.deleting);
        }
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
        Event::Stray {
            generation,
            same,
            gated,
            ready,
        } => {
            cluster.uids += 1;
            let mut stray = pod(&format!("s{}", cluster.uids), *generation);
            stray.created = cluster.now;
            stray.gated = *gated;
            stray.ready.is = *ready && !*gated;
            if *same && let Some(record) = &cluster.record {
                stray.template = record.template.clone();
            }
            cluster.strange.insert(stray.uid.clone());
            cluster.pods.push(stray);
        }
        Event::Ungate(i) => {
            if let Some(uid) = uid(cluster, *i) {
                cluster.pod(&uid).gated = false;
                cluster.strange.insert(uid);
            }
        }
        Event::Hopeless(i) => {
            if let Some(uid) = uid(cluster, *i)
                && !cluster.pod(&uid).gated
            {
                cluster.set_ready(&uid, false);
                cluster.pod(&uid).trouble = Some(Trouble::new("ImagePullBackOff", ""));
            }
        }
        Event::Found(finding) => {
            for probe in &mut cluster.probes {
                probe.finding = finding.clone();
            }
        }
        Event::NoProbes => cluster.probes.clear(),
        Event::Cancel => {
            let by = Cancelled {
                actor: "root".into(),
                at: cluster.now,
            };
            let next = cluster.record.as_ref().and_then(|record| {
                let operation = record.upgrade.as_ref()?.operation.clone();
                record.cancel_upgrade(&operation, by).ok().flatten()
            });
            change(cluster, next);
        }
        Event::Quota(most) => cluster.quota = *most,
        Event::OtherPlans => cluster.other_plans(),
        Event::OtherWrites => cluster.other_writes(),
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
        let mut cluster = if exclusive { Cluster::probing() } else { Cluster::upgrading() };
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
        prop_assert_eq!(cluster.pods.len() + cluster.probes.len(), live, "nothing left over");
        prop_assert!(cluster.operations.values().all(|operation| operation.state.is_terminal()));
        prop_assert_eq!(cluster.plan(), Plan::Done);
    }

    #[test]
    fn every_step_may_be_the_last(cut in 0usize..40, exclusive in any::<bool>()) {
        // A crash between two writes is a planner that starts anew: it has no memory to lose. What
        // a crash can do is make a write twice, so each is made twice here.
        let mut cluster = if exclusive { Cluster::probing() } else { Cluster::upgrading() };
        for step in 0..60 {
            if let Plan::Write(write) = cluster.plan()
                && step == cut
                && matches!(*write, Write::CreatePod { .. })
            {
                cluster.apply(&write);
            }
            let now = cluster.now;
            cluster.pods.retain(|pod| !pod.deleting);
            cluster.probes.retain(|probe| !probe.deleting);
            for probe in &mut cluster.probes {
                probe.finding = Finding::Pulled;
            }
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
