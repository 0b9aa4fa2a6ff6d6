//! The rows of a recreate, one by one.

use super::simulation::Cluster;
use super::tests::{kind, steps};
use super::*;
use crate::claim::PlannedClaim;
use crate::operation::{Phase as Shown, State};
use crate::pod::{Phase as PodPhase, UpgradeState};
use crate::record::tests::{recreate, running};
use crate::select::tests::pod;

/// A recreate whose successor `n1` waits behind its gate; the old pod `u1` holds new requests.
fn quiesced() -> Cluster {
    let mut cluster = Cluster::recreating();
    steps(
        &mut cluster,
        &[
            "operation",
            "create",
            "record",
            "record",
            "operation",
            "patch",
        ],
    );
    assert!(cluster.pod("n1").gated);
    assert_eq!(cluster.pod("u1").state, UpgradeState::Quiesced);
    cluster
}

/// The old pod is gone and the successor let go.
fn released() -> Cluster {
    let mut cluster = quiesced();
    steps(&mut cluster, &["record", "delete", "wait"]);
    cluster.pods.retain(|pod| !pod.deleting);
    steps(&mut cluster, &["record", "release", "wait"]);
    assert!(!cluster.pod("n1").gated);
    cluster
}

#[test]
fn the_whole_way() {
    let mut cluster = released();
    assert_eq!(cluster.operation().targets[0].phase, Shown::Replacing);
    cluster.set_ready("n1", true);
    steps(
        &mut cluster,
        &["patch", "record", "operation", "record", "patch", "done"],
    );
    let record = cluster.record.clone().unwrap();
    assert_eq!(
        (record.template.version.as_str(), record.pod.uid.as_deref()),
        ("v2", Some("n1"))
    );
    assert_eq!(record.previous.unwrap().template.version, "v1");
    assert_eq!(cluster.operation().state, State::Succeeded);
}

#[test]
fn requests_under_way_get_ten_seconds_and_sockets_none() {
    let mut cluster = quiesced();
    cluster.requests.insert("u1".into(), 2);
    let Plan::Wait { reason, until } = cluster.plan() else {
        panic!("it did not wait")
    };
    assert_eq!(
        reason.to_string(),
        "2 requests are still being answered by the old pod; it is replaced in 10 s at most"
    );
    assert_eq!(until, Some(cluster.now + 1));
    cluster.now += 10;
    assert_eq!(kind(&cluster.plan()), "record", "up to the bound");
    cluster.now -= 10;
    cluster.requests.clear();
    cluster.sessions.insert("u1".into(), 5);
    assert_eq!(
        kind(&cluster.plan()),
        "record",
        "sockets end with their pod"
    );
}

#[test]
fn what_the_cluster_refuses_leaves_the_old_pod_serving() {
    let mut cluster = Cluster::recreating();
    cluster.rejects = Some(Trouble::new("Forbidden", "exceeded quota: pods"));
    steps(
        &mut cluster,
        &[
            "operation",
            "create",
            "record",
            "operation",
            "patch",
            "record",
        ],
    );
    let old = cluster.pod("u1");
    assert_eq!(old.state, UpgradeState::Committed);
    assert_eq!(
        old.last_upgrade_error.as_deref(),
        Some("Forbidden: exceeded quota: pods")
    );
    steps(&mut cluster, &["operation", "record", "patch", "done"]);
    assert_eq!(cluster.operation().state, State::Failed);
    assert_eq!(cluster.pods.len(), 1);
}

#[test]
fn a_successor_lost_before_any_harm_gives_the_old_pod_its_requests_back() {
    let mut cluster = quiesced();
    cluster.pods.retain(|pod| pod.uid != "n1");
    steps(
        &mut cluster,
        &[
            "record",
            "operation",
            "patch",
            "record",
            "operation",
            "record",
            "patch",
            "done",
        ],
    );
    assert_eq!(cluster.pod("u1").state, UpgradeState::Committed);
    assert_eq!(cluster.operation().state, State::Failed);
}

#[test]
fn a_gate_that_somebody_takes_off_ends_it_before_any_harm() {
    let mut cluster = quiesced();
    cluster.pod("n1").gated = false;
    let planned = cluster.plan();
    assert!(
        matches!(&planned, Plan::Write(write) if matches!(&**write, Write::PutRecord(record)
            if matches!(&record.upgrade.as_ref().unwrap().phase, Phase::Aborting { why, .. } if why.reason == "GateRemoved"))),
        "{planned:?}"
    );
}

#[test]
fn an_image_that_cannot_be_pulled_brings_the_old_version_back_at_once() {
    let mut cluster = released();
    cluster.pod("n1").trouble = Some(Trouble::new("ImagePullBackOff", "no such image"));
    steps(&mut cluster, &["record", "operation", "create", "record"]);
    assert!(
        cluster.pod("n2").gated,
        "created before the failed one goes"
    );
    steps(&mut cluster, &["patch", "delete", "wait"]);
    cluster.pods.retain(|pod| !pod.deleting);
    steps(
        &mut cluster,
        &["release", "record", "operation", "record", "patch", "wait"],
    );
    cluster.set_ready("n2", true);
    steps(&mut cluster, &["patch", "done"]);
    let record = cluster.record.clone().unwrap();
    assert_eq!(
        (record.template.version.as_str(), record.pod.uid.as_deref()),
        ("v1", Some("n2"))
    );
    let error = record.manifest["metadata"]["annotations"][crate::keys::LAST_UPGRADE_ERROR].clone();
    assert_eq!(error, "ImagePullBackOff: no such image");
    assert_eq!(cluster.operation().state, State::Failed);
}

#[test]
fn claims_become_the_workspaces_own_only_with_a_version_that_runs() {
    let home = PlannedClaim::new("alice", "dev", "ns", "home", serde_json::json!({}));
    let with_claim = || {
        let mut record = running();
        record.exclusive = true;
        let mut intent = recreate("v2");
        intent.claims = vec![home.clone()];
        let record = record.begin_upgrade(intent, 2000).unwrap();
        Cluster::new(record, vec![pod("u1", 1)])
    };
    let mut failing = with_claim();
    failing.rejects = Some(Trouble::new("Forbidden", "exceeded quota"));
    for _ in 0..11 {
        failing.step();
    }
    let record = failing.record.as_ref().unwrap();
    assert!(record.claims.is_empty());
    assert_eq!(record.unused_claims, std::slice::from_ref(&home));
    steps(&mut failing, &["claims", "done"]);
    assert!(failing.record.unwrap().unused_claims.is_empty());
    let mut well = with_claim();
    well.calm();
    let record = well.record.unwrap();
    assert_eq!((record.claims, record.unused_claims), (vec![home], vec![]));
}

#[test]
fn never_ready_is_given_up_at_the_deadline_counted_from_the_release() {
    let mut cluster = released();
    cluster.now += 599;
    assert_eq!(kind(&cluster.plan()), "wait");
    cluster.now += 1;
    steps(&mut cluster, &["record", "operation"]);
    let error = cluster.operation().targets[0].error.clone().unwrap();
    assert_eq!(
        error.to_string(),
        "DeadlineExceeded: the new pod was not ready within 600 s"
    );
}

#[test]
fn a_container_that_keeps_failing_is_given_up_after_three_restarts() {
    let mut cluster = released();
    cluster.pod("n1").trouble = Some(Trouble::new("Error", "container main ended"));
    cluster.pod("n1").restarts = 2;
    assert_eq!(kind(&cluster.plan()), "wait");
    cluster.pod("n1").restarts = 3;
    assert_eq!(kind(&cluster.plan()), "record");
}

#[test]
fn a_pod_on_a_dead_node_is_waited_for_with_the_remedy_and_never_forced() {
    let mut cluster = quiesced();
    steps(&mut cluster, &["record", "delete"]);
    cluster.pod("u1").gone_by = Some(2030);
    cluster.pod("u1").node = Some("node2".into());
    let Plan::Wait { until, .. } = cluster.plan() else {
        panic!("it did not wait")
    };
    assert_eq!(until, Some(2060));
    cluster.now = 100_000;
    let Plan::Wait { reason, .. } = cluster.plan() else {
        panic!("it did not wait")
    };
    let text = reason.to_string();
    assert!(text.contains("node node2 does not answer"), "{text}");
    assert!(text.contains("kubectl delete node node2"), "{text}");
    assert!(cluster.pod("n1").gated);
}

#[test]
fn a_lost_pod_with_a_claim_comes_back_only_once_the_old_object_is_gone() {
    let mut record = running();
    record.exclusive = true;
    let mut cluster = Cluster::new(record, vec![pod("u1", 1)]);
    cluster.pod("u1").phase = PodPhase::Failed;
    steps(&mut cluster, &["record", "delete", "wait"]);
    assert_eq!(cluster.pods.len(), 1, "nothing else holds the claim");
    cluster.pods.clear();
    steps(&mut cluster, &["create", "record"]);
}

#[test]
fn a_duplicate_takes_the_place_of_a_lost_pod() {
    let mut record = running();
    record.exclusive = true;
    let mut other = pod("u2", 0);
    other.template = record.template.clone();
    let mut cluster = Cluster::new(record, vec![other]);
    steps(&mut cluster, &["record", "done"]);
    assert_eq!(cluster.record.unwrap().pod.uid.as_deref(), Some("u2"));
}

#[test]
fn stopped_in_the_middle_it_keeps_the_old_version_and_leaves_no_pod() {
    let mut cluster = released();
    cluster.record = cluster.record.as_ref().unwrap().stop();
    cluster.calm();
    assert!(cluster.pods.is_empty());
    assert_eq!(cluster.operation().state, State::Cancelled);
    cluster.record = cluster.record.as_ref().unwrap().start();
    cluster.calm();
    assert_eq!(cluster.record.as_ref().unwrap().template.version, "v1");
    assert_eq!(cluster.pods.len(), 1);
}

#[test]
fn the_next_upgrade_begins_after_a_failed_one() {
    let mut cluster = released();
    cluster.pod("n1").trouble = Some(Trouble::new("ErrImageNeverPull", ""));
    for _ in 0..4 {
        cluster.step();
    }
    cluster.calm();
    let mut again = recreate("v3");
    again.operation = "op-2".into();
    let record = cluster.record.as_ref().unwrap();
    cluster.record = Some(record.begin_upgrade(again, cluster.now).unwrap());
    cluster.calm();
    let record = cluster.record.unwrap();
    assert_eq!(record.template.version, "v3");
    let annotations = record.manifest.pointer("/metadata/annotations");
    assert!(
        annotations.is_none(),
        "the old error went with its manifest"
    );
}
