use super::*;
use crate::access::Visibility;
use crate::pod::{Ready, Serving, TemplateRef};
use proptest::prelude::*;

/// A ready pod of alice's workspace `dev`.
pub(crate) fn pod(uid: &str, generation: u32) -> PodView {
    PodView {
        uid: uid.into(),
        name: format!("pod-{uid}"),
        namespace: "ns".into(),
        resource_version: "1".into(),
        workspace: "dev".into(),
        owner: "alice".into(),
        generation,
        generation_unreadable: false,
        created: 100,
        since: 100,
        phase: Phase::Running,
        ready: Ready {
            is: true,
            since: 100,
        },
        unseen: false,
        deleting: false,
        gone_by: None,
        node: None,
        gated: false,
        state: UpgradeState::Committed,
        ip: Some([127, 64, 0, 1].into()),
        host_network: false,
        serving: Serving {
            port: 3000,
            visibility: Visibility::Private,
            allow_origins: Default::default(),
            ports: Default::default(),
            strip_prefix: true,
            http2: false,
            identity_headers: true,
            affinity: false,
        },
        template: TemplateRef::default(),
        upgrade_of: None,
        last_upgrade_error: None,
        last_upgrade: None,
        restarts: 0,
        trouble: None,
    }
}

fn uid(pod: Option<&PodView>) -> Option<&str> {
    pod.map(|pod| pod.uid.as_str())
}

#[test]
fn routable_row_by_row() {
    type Row = (&'static str, fn(&mut PodView), bool);
    let rows: [Row; 12] = [
        ("ready", |_| {}, true),
        ("candidate", |p| p.state = UpgradeState::Candidate, true),
        ("no ip", |p| p.ip = None, false),
        ("deleting", |p| p.deleting = true, false),
        ("pending", |p| p.phase = Phase::Pending, false),
        ("succeeded", |p| p.phase = Phase::Succeeded, false),
        ("failed", |p| p.phase = Phase::Failed, false),
        ("unknown", |p| p.phase = Phase::Unknown, false),
        ("not ready", |p| p.ready.is = false, false),
        ("gated", |p| p.gated = true, false),
        ("aborted", |p| p.state = UpgradeState::Aborted, false),
        ("quiesced", |p| p.state = UpgradeState::Quiesced, false),
    ];
    for (what, change, expected) in rows {
        let mut pod = pod("a", 1);
        change(&mut pod);
        assert_eq!(is_routable(&pod), expected, "{what}");
        assert_eq!(active([&pod]).is_some(), expected, "{what}");
    }
}

#[test]
fn succession() {
    let old = pod("z", 1);
    let mut new = pod("a", 2);
    assert_eq!(uid(active([&old, &new])), Some("a"), "generation first");
    new.ready.is = false;
    assert_eq!(
        uid(active([&old, &new])),
        Some("z"),
        "an unready successor takes nothing"
    );
    assert_eq!(
        uid(newest_live([&old, &new])),
        Some("a"),
        "but names the status"
    );
    let (mut early, late) = (pod("z", 1), pod("a", 1));
    early.created = 99;
    assert_eq!(uid(active([&early, &late])), Some("a"), "then creation");
    assert_eq!(
        uid(active([&pod("a", 1), &pod("b", 1)])),
        Some("b"),
        "then uid"
    );
    assert_eq!(active([]), None);
}

#[test]
fn an_id_has_one_holder() {
    let (mine, mut theirs) = (pod("a", 1), pod("b", 9));
    theirs.owner = "mallory".into();
    theirs.since = 101;
    let parted = claimants([&theirs, &mine]);
    assert_eq!(
        (parted.holder, parted.ignored),
        (vec![&mine], vec![&theirs])
    );
    theirs.since = 100;
    let equal = claimants([&theirs, &mine]);
    assert_eq!(
        (equal.holder.len(), equal.ignored.len()),
        (0, 2),
        "equal claims: neither"
    );
    let mut elsewhere = pod("c", 1);
    elsewhere.namespace = "other".into();
    elsewhere.since = 50;
    assert_eq!(claimants([&mine, &elsewhere]).holder, vec![&elsewhere]);
}

prop_compose! {
    fn any_pod()(
        uid in "[a-d]", generation in 0u32..3, created in 0i64..3, since in 0i64..3, owner in "[xy]",
        ready: bool, deleting: bool, aborted: bool,
    ) -> PodView {
        let mut pod = pod(&uid, generation);
        pod.created = created;
        pod.since = since;
        pod.owner = owner;
        pod.ready.is = ready;
        pod.deleting = deleting;
        if aborted { pod.state = UpgradeState::Aborted; }
        pod
    }
}

proptest! {
    #[test]
    fn independent_of_order(pods in prop::collection::vec(any_pod(), 0..6), seed: u64) {
        // Uids are unique in a cluster; two that are equal here would make any order right.
        let mut pods = pods;
        pods.sort_by(|a, b| a.uid.cmp(&b.uid));
        pods.dedup_by(|a, b| a.uid == b.uid);
        let mut shuffled = pods.clone();
        let mut state = seed;
        for i in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(i, usize::try_from(state >> 33).unwrap() % (i + 1));
        }
        prop_assert_eq!(active(&pods), active(&shuffled));
        prop_assert_eq!(newest_live(&pods), newest_live(&shuffled));
        let uids = |claim: Vec<&PodView>| {
            let mut uids: Vec<_> = claim.into_iter().map(|p| p.uid.clone()).collect();
            uids.sort();
            uids
        };
        prop_assert_eq!(uids(claimants(&pods).holder), uids(claimants(&shuffled).holder));
    }

    #[test]
    fn active_is_routable_and_greatest(pods in prop::collection::vec(any_pod(), 0..6)) {
        match active(&pods) {
            None => prop_assert!(pods.iter().all(|pod| !is_routable(pod))),
            Some(best) => {
                prop_assert!(is_routable(best));
                prop_assert!(pods.iter().filter(|p| is_routable(p)).all(|p| order(p) <= order(best)));
            }
        }
    }
}
