//! Rows where two things go wrong at once, or a clock or a node lies.

use super::simulation::Cluster;
use super::tests::{committed, kind, steps};
use super::*;
use crate::claim::PlannedClaim;
use crate::operation::State;
use crate::pod::{Phase as PodPhase, UpgradeOf, UpgradeState};
use crate::record::tests::{intent, recreate, running};
use crate::record::{PlannedPod, Record};
use crate::select;
use crate::select::tests::pod;

fn quota() -> Option<Trouble> {
    Some(Trouble::new("Forbidden", "exceeded quota: pods=1"))
}

/// The old pod has been told to go and its node does not answer.
fn old_pod_stuck() -> Cluster {
    let mut cluster = committed();
    steps(&mut cluster, &["delete", "wait"]);
    cluster.pod("u1").gone_by = Some(cluster.now + 30);
    cluster
}

#[test]
fn a_new_pod_that_is_lost_while_the_old_one_takes_long_to_end_is_made_again_at_once() {
    let mut cluster = old_pod_stuck();
    cluster.pods.retain(|pod| pod.uid != "n1");
    steps(
        &mut cluster,
        &["record", "operation", "record", "record", "create"],
    );
    assert!(cluster.pod("u1").deleting, "it has not ended yet");
    assert_eq!(cluster.record.unwrap().template.version, "v2");
}

#[test]
fn an_old_pod_on_a_dead_node_does_not_keep_the_upgrade_from_ending() {
    let mut cluster = old_pod_stuck();
    cluster.now += 59;
    steps(&mut cluster, &["wait"]);
    cluster.now += 1;
    steps(
        &mut cluster,
        &["record", "operation", "record", "patch", "done"],
    );
    assert_eq!(cluster.operation().state, State::Succeeded);
}

#[test]
fn a_given_up_candidate_on_a_dead_node_does_not_keep_the_upgrade_from_ending() {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation", "create", "record"]);
    cluster.now = 2600;
    steps(
        &mut cluster,
        &["record", "operation", "patch", "patch", "delete", "wait"],
    );
    cluster.pod("n1").gone_by = Some(2630);
    cluster.now = 2660;
    steps(
        &mut cluster,
        &["record", "operation", "record", "patch", "done"],
    );
    assert_eq!(cluster.operation().state, State::Failed);
}

/// The original and its node are gone, the successor cannot start, and both are known to be lost.
fn nothing_serves() -> Cluster {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation", "create", "record"]);
    cluster.pods.retain(|pod| pod.uid != "u1");
    cluster.pod("n1").trouble = Some(Trouble::new("ImagePullBackOff", ""));
    cluster.now = 2600;
    steps(
        &mut cluster,
        &[
            "record",
            "operation",
            "record",
            "operation",
            "record",
            "record",
        ],
    );
    cluster
}

#[test]
fn a_failed_successor_makes_room_where_a_quota_keeps_the_old_version_from_coming_back() {
    let mut cluster = nothing_serves();
    cluster.rejects = quota();
    steps(&mut cluster, &["create", "patch", "create", "delete"]);
    assert!(cluster.pod("n1").deleting);
    cluster.pods.clear();
    cluster.rejects = None;
    cluster.calm();
    assert_eq!(cluster.pods.len(), 1);
}

#[test]
fn a_pod_that_serves_makes_no_room() {
    let mut record = running();
    record.pod = PlannedPod {
        uid: None,
        ..record.pod
    };
    let mut cluster = Cluster::new(record, vec![pod("dup", 0)]);
    cluster.rejects = quota();
    steps(&mut cluster, &["create", "wait"]);
    assert!(select::is_routable(cluster.pod("dup")));
}

#[test]
fn a_failed_successor_goes_where_the_old_version_finds_no_node_beside_it() {
    let mut cluster = nothing_serves();
    steps(&mut cluster, &["create", "record"]);
    cluster.pod("n2").trouble = Some(Trouble::new("Unschedulable", "no room"));
    steps(&mut cluster, &["patch", "delete", "wait"]);
    assert!(cluster.pod("n1").deleting && !cluster.pod("n2").deleting);
}

#[test]
fn a_pod_that_is_left_behind_its_gate_is_let_go_once_nothing_else_holds_the_volume() {
    let mut record = running();
    record.exclusive = true;
    let mut gated = pod("u1", 1);
    gated.gated = true;
    gated.ready.is = false;
    gated.state = UpgradeState::Candidate;
    let mut leaving = pod("u0", 0);
    leaving.deleting = true;
    let mut cluster = Cluster::new(record, vec![gated, leaving]);
    steps(&mut cluster, &["wait"]);
    cluster.pods.retain(|pod| !pod.deleting);
    steps(&mut cluster, &["release", "wait"]);
}

#[test]
fn what_waits_behind_a_gate_goes_before_another_pod_may_hold_the_volume() {
    let mut record = running();
    record.exclusive = true;
    record.pod.uid = None;
    let mut gated = pod("left", 0);
    gated.gated = true;
    gated.ready.is = false;
    gated.upgrade_of = Some(UpgradeOf {
        operation: "op-0".into(),
        source_uid: "u0".into(),
    });
    let mut cluster = Cluster::new(record, vec![gated]);
    steps(&mut cluster, &["delete", "create"]);
}

#[test]
fn a_holder_that_appears_before_the_release_is_cleared_first() {
    let mut cluster = Cluster::recreating();
    cluster.pods.clear();
    steps(
        &mut cluster,
        &[
            "operation",
            "create",
            "record",
            "record",
            "operation",
            "record",
        ],
    );
    cluster.pods.push(pod("stray", 0));
    steps(&mut cluster, &["record", "patch", "delete", "wait"]);
    assert!(cluster.pod("n1").gated && cluster.pod("stray").deleting);
    cluster.pods.retain(|pod| !pod.deleting);
    steps(&mut cluster, &["record", "release"]);
}

#[test]
fn a_node_whose_clock_is_ahead_does_not_hold_up_an_upgrade() {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation", "create", "record", "wait"]);
    cluster.set_ready("n1", true);
    cluster.pod("n1").ready.since = cluster.now + 86_400;
    steps(&mut cluster, &["record", "wait"]);
    cluster.now += 5;
    steps(&mut cluster, &["record", "operation", "patch"]);
    cluster.sessions.insert("u1".into(), 1);
    cluster.set_ready("n1", false);
    cluster.pod("n1").ready.since = cluster.now + 86_400;
    cluster.now += 30;
    steps(&mut cluster, &["record", "operation"]);
    assert_eq!(
        cluster.operation().targets[0].phase,
        crate::operation::Phase::Aborting
    );
}

#[test]
fn a_clock_that_was_ahead_once_does_not_keep_a_lost_pod_from_coming_back() {
    let mut record = running();
    record.replacements.count = 3;
    record.replacements.last_at = 2000 + 86_400;
    let mut cluster = Cluster::new(record, Vec::new());
    steps(&mut cluster, &["record", "create"]);
}

#[test]
fn a_claim_that_the_workspaces_pod_mounts_is_never_unused() {
    let home = PlannedClaim::new("alice", "dev", "ns", "home", serde_json::json!({}));
    let mut record: Record = running();
    record.exclusive = true;
    let volume =
        serde_json::json!({"name": "h", "persistentVolumeClaim": {"claimName": home.object}});
    crate::record::set(
        &mut record.manifest,
        &["spec", "volumes"],
        serde_json::json!([volume]),
    );
    // Adopted: the record does not list it yet.
    let mut asked = recreate("v2");
    asked.claims = vec![home.clone()];
    let mut cluster = Cluster::new(
        record.begin_upgrade(asked, 2000).unwrap(),
        vec![pod("u1", 1)],
    );
    cluster.rejects = quota();
    for _ in 0..11 {
        cluster.step();
    }
    steps(&mut cluster, &["done"]);
    let record = cluster.record.unwrap();
    assert_eq!((record.claims, record.unused_claims), (vec![home], vec![]));
}

#[test]
fn the_next_upgrade_beats_a_stray_pod_of_a_greater_generation() {
    let mut cluster = Cluster::new(running(), vec![pod("u1", 1), pod("stray", 7)]);
    steps(&mut cluster, &["record"]);
    let record = cluster.record.as_ref().unwrap();
    let next = record.begin_upgrade(intent("v2"), cluster.now).unwrap();
    assert_eq!(next.upgrade.as_ref().unwrap().successor.generation, 8);
    cluster.record = Some(next);
    cluster.calm();
    let active = select::active(&cluster.pods).unwrap();
    assert_eq!((active.generation, cluster.pods.len()), (8, 1));
}

#[test]
fn a_candidate_that_comes_to_be_after_its_upgrade_has_ended_takes_no_traffic() {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation"]);
    let Plan::Write(create) = cluster.plan() else {
        panic!("it creates the candidate")
    };
    // The API server is slow to create it, and refuses the same when it is asked again.
    cluster.rejects = quota();
    steps(
        &mut cluster,
        &[
            "create",
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
    cluster.rejects = None;
    cluster.apply(&create);
    cluster.set_ready("n1", true);
    steps(&mut cluster, &["patch", "delete"]);
    assert!(cluster.pod("n1").deleting);
    assert_eq!(cluster.pod("u1").state, UpgradeState::Committed);
}

#[test]
fn a_message_has_a_bound_that_annotations_and_records_can_hold() {
    let long = Trouble::new("Error", "ä".repeat(300_000));
    assert!(long.message.len() <= 8192 && long.message.starts_with('ä'));
    let mut cluster = Cluster::upgrading();
    cluster.rejects = Some(long);
    steps(
        &mut cluster,
        &["operation", "create", "record", "operation", "patch"],
    );
    assert!(cluster.pod("u1").last_upgrade_error.as_ref().unwrap().len() < 10_000);
    assert_eq!(kind(&cluster.plan()), "record");
    assert_ne!(cluster.pod("u1").phase, PodPhase::Failed);
}
