//! Who may still be using a pod, by what several proxies say, and successors that flap.

use super::simulation::Cluster;
use super::tests::{committed, kind, steps};
use super::*;
use crate::operation::{Phase as Shown, State};
use crate::pod::UpgradeState;
use crate::record::tests::running;
use crate::select;
use crate::select::tests::pod;
use crate::wire::Sessions;
use std::collections::BTreeMap;

/// What a proxy says: which pod it routes to, and how many sessions it has on `u1`.
fn says(active: Option<&str>, open: u32) -> Option<Sessions> {
    let sessions = [("u1".to_owned(), open)].into_iter();
    Some(Sessions {
        version: 1,
        active: active.map(ToOwned::to_owned),
        spare: Vec::new(),
        sessions: sessions.filter(|(_, open)| *open > 0).collect(),
        requests: BTreeMap::new(),
    })
}

/// What follows from these answers, `later` seconds from now.
fn after(cluster: &Cluster, answers: &[Option<Sessions>], later: i64) -> Plan {
    let proxies: Vec<ProxyReport> = answers
        .iter()
        .enumerate()
        .map(|(n, answer)| ProxyReport {
            proxy: format!("proxy {n}"),
            answer: answer.clone(),
        })
        .collect();
    let observed = Observed {
        record: cluster.record.as_ref().unwrap(),
        pods: &cluster.pods,
        probes: &[],
        proxies: &proxies,
        operation: Some(cluster.operation()),
        refused: None,
    };
    plan(&observed, cluster.now + later)
}

#[test]
fn the_old_pod_goes_when_all_proxies_agree_and_not_before() {
    let cluster = committed();
    let done = || says(Some("n1"), 0);
    for (answers, expected) in [
        (vec![done(), done()], "delete"),
        // One that has never heard of the workspace sends nobody anywhere.
        (vec![done(), says(None, 0)], "delete"),
        (vec![done(), says(Some("n1"), 1)], "wait"),
        (vec![done(), says(Some("u1"), 0)], "wait"),
        (vec![done(), None], "wait"),
        (vec![None, None], "wait"),
        (vec![says(None, 2), None, says(Some("u1"), 1)], "wait"),
    ] {
        assert_eq!(kind(&after(&cluster, &answers, 0)), expected, "{answers:?}");
        let bound = i64::from(running_drain_timeout(&cluster));
        assert_eq!(kind(&after(&cluster, &answers, bound)), "delete");
    }
    let Plan::Wait { reason, .. } = after(&cluster, &[says(None, 2), None, says(None, 1)], 0)
    else {
        panic!("it did not wait")
    };
    assert!(
        reason.to_string().contains("3 sessions are still open"),
        "{reason}"
    );
}

#[test]
fn a_proxy_that_has_not_heard_of_the_commit_keeps_the_way_back() {
    let cluster = committed();
    let heard = says(Some("n1"), 0);
    let behind = heard.clone().map(|heard| Sessions {
        spare: vec!["u1".into()],
        ..heard
    });
    let waits = after(&cluster, &[heard.clone(), behind], 0);
    let Plan::Wait { reason, .. } = &waits else {
        panic!("it did not wait: {waits:?}")
    };
    assert!(reason.to_string().contains("route"), "{reason}");
    let all_heard = [heard.clone(), heard];
    assert_eq!(kind(&after(&cluster, &all_heard, 0)), "delete");
}

fn running_drain_timeout(cluster: &Cluster) -> u32 {
    let record = cluster.record.as_ref().unwrap();
    record.upgrade.as_ref().unwrap().timing.drain_timeout
}

#[test]
fn a_successor_that_flaps_after_commit_proves_itself_once_more_before_the_old_pod_goes() {
    let mut cluster = committed();
    cluster.sessions.insert("u1".into(), 1);
    cluster.now += 60;
    cluster.set_ready("n1", false);
    steps(&mut cluster, &["wait"]);
    assert_eq!(select::active(&cluster.pods).unwrap().uid, "u1");
    cluster.sessions.clear();
    cluster.now += 10;
    cluster.set_ready("n1", true);
    assert!(matches!(
        cluster.plan(),
        Plan::Wait {
            reason: Wait::Settling { left: 5 },
            until: Some(until),
        } if until == cluster.now + 5
    ));
    // It was right not to trust it.
    cluster.now += 4;
    cluster.set_ready("n1", false);
    steps(&mut cluster, &["wait"]);
    cluster.now += 10;
    cluster.set_ready("n1", true);
    steps(&mut cluster, &["wait"]);
    cluster.now += 5;
    steps(&mut cluster, &["delete"]);
    assert!(cluster.pod("u1").deleting && !cluster.pod("n1").deleting);
}

#[test]
fn one_that_never_stops_flapping_keeps_the_old_pod_no_longer_than_the_bound() {
    let mut cluster = committed();
    cluster.now += 1799;
    cluster.set_ready("n1", false);
    cluster.set_ready("n1", true);
    steps(&mut cluster, &["wait"]);
    cluster.now += 1;
    steps(&mut cluster, &["delete"]);
}

#[test]
fn a_switch_revoked_with_sockets_on_both_pods_leaves_them_where_they_are() {
    let mut cluster = committed();
    cluster.sessions.insert("u1".into(), 1);
    cluster.sessions.insert("n1".into(), 2);
    cluster.set_ready("n1", false);
    cluster.now += 30;
    steps(
        &mut cluster,
        &["record", "operation", "patch", "patch", "wait"],
    );
    assert_eq!(cluster.operation().targets[0].phase, Shown::Aborting);
    // It may come round: nobody is sent to it any more.
    cluster.set_ready("n1", true);
    assert_eq!(cluster.pod("n1").state, UpgradeState::Aborted);
    assert_eq!(select::active(&cluster.pods).unwrap().uid, "u1");
    steps(&mut cluster, &["wait", "wait"]);
    cluster.sessions.remove("n1");
    steps(&mut cluster, &["delete", "wait"]);
    cluster.pods.retain(|pod| !pod.deleting);
    steps(
        &mut cluster,
        &["record", "operation", "record", "patch", "done"],
    );
    assert_eq!(cluster.operation().state, State::Failed);
    assert_eq!(cluster.pods.len(), 1);
    assert_eq!(cluster.sessions["u1"], 1, "nobody was sent away");
}

#[test]
fn a_candidate_that_is_given_up_drains_to_the_bound_at_most() {
    let mut cluster = committed();
    cluster.sessions.insert("n1".into(), 1);
    cluster.set_ready("n1", false);
    cluster.now += 30;
    steps(
        &mut cluster,
        &["record", "operation", "patch", "patch", "wait"],
    );
    cluster.now += 1800;
    steps(&mut cluster, &["delete"]);
    assert!(cluster.pod("n1").deleting && !cluster.pod("u1").deleting);
}

#[test]
fn what_an_upgrade_has_just_made_is_no_stray_to_who_read_the_record_before() {
    let mut cluster = committed();
    // Another replica read the record, was held up, and only then the pods: the write that it begins
    // with rests on the record, which is refused.
    let newer = cluster.record.replace(running());
    let Plan::Write(write) = cluster.plan() else {
        panic!("it did not write")
    };
    assert!(matches!(*write, Write::PutRecord(_)), "{write:?}");
    assert_ne!(newer, cluster.record);
}

#[test]
fn a_stray_of_another_version_loses_the_traffic_and_goes_once_nobody_uses_it() {
    let mut stray = pod("stray", 7);
    stray.template.version = "v9".into();
    let mut cluster = Cluster::new(running(), vec![pod("u1", 1), stray]);
    cluster.sessions.insert("stray".into(), 1);
    assert_eq!(select::active(&cluster.pods).unwrap().uid, "stray");
    steps(&mut cluster, &["record", "patch", "wait"]);
    assert_eq!(select::active(&cluster.pods).unwrap().uid, "u1");
    cluster.sessions.clear();
    steps(&mut cluster, &["delete"]);
    cluster.pods.retain(|pod| !pod.deleting);
    steps(&mut cluster, &["done"]);

    // Who serves while the workspace's own pod does not keeps the traffic until then.
    let mut stray = pod("stray", 7);
    stray.template.version = "v9".into();
    let mut cluster = Cluster::new(running(), vec![pod("u1", 1), stray]);
    cluster.set_ready("u1", false);
    steps(&mut cluster, &["record", "wait"]);
    cluster.set_ready("u1", true);
    steps(&mut cluster, &["patch", "delete"]);
}
