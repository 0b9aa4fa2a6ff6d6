//! The design's rows, one by one.

use super::simulation::Cluster;
use super::*;
use crate::container::Trouble;
use crate::operation::{Phase as Shown, State};
use crate::pod::{Phase as PodPhase, UpgradeState};
use crate::record::tests::running;
use crate::select::tests::pod;
use crate::wire::Sessions;

pub(super) fn kind(plan: &Plan) -> &'static str {
    match plan {
        Plan::Done => "done",
        Plan::Wait { .. } => "wait",
        Plan::Write(write) => match **write {
            Write::CreatePod { .. } => "create",
            Write::CreateProbe { .. } => "probe",
            Write::Bury(_) => "bury",
            Write::PatchPod { .. } => "patch",
            Write::Release { .. } => "release",
            Write::DeletePod { .. } => "delete",
            Write::PutRecord(_) => "record",
            Write::DropClaims(_) => "claims",
            Write::DeleteRecord => "forget",
            Write::PutOperation(_) => "operation",
        },
    }
}

pub(super) fn steps(cluster: &mut Cluster, expected: &[&str]) {
    for (i, expected) in expected.iter().enumerate() {
        assert_eq!(
            kind(&cluster.step()),
            *expected,
            "step {i}: {:?}",
            cluster.writes.last()
        );
    }
}

/// An upgrade whose successor `n1` is ready and has just taken over.
pub(super) fn committed() -> Cluster {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation", "create", "record", "wait"]);
    cluster.set_ready("n1", true);
    steps(&mut cluster, &["record", "wait"]);
    cluster.now += 5;
    steps(&mut cluster, &["record", "operation", "patch"]);
    cluster
}

#[test]
fn the_whole_way() {
    let mut cluster = committed();
    assert_eq!(cluster.operation().targets[0].phase, Shown::Draining);
    cluster.sessions.insert("u1".into(), 2);
    steps(&mut cluster, &["wait", "wait"]);
    cluster.sessions.clear();
    steps(&mut cluster, &["delete", "wait"]);
    assert!(
        matches!(cluster.writes.last(), Some(Write::DeletePod { uid, why: DeleteReason::Superseded, .. }) if uid == "u1")
    );
    cluster.pods.retain(|pod| !pod.deleting);
    steps(
        &mut cluster,
        &["record", "operation", "record", "patch", "done"],
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
fn the_old_pod_stays_while_anything_is_open_up_to_the_bound() {
    let mut cluster = committed();
    cluster.sessions.insert("u1".into(), 1);
    cluster.now += 1795;
    steps(&mut cluster, &["wait"]);
    cluster.now += 10;
    steps(&mut cluster, &["delete"]);
}

#[test]
fn a_proxy_that_is_silent_or_behind_counts_as_not_yet() {
    let cluster = committed();
    let record = cluster.record.as_ref().unwrap();
    let behind = Some(Sessions {
        version: 1,
        active: Some("u1".into()),
        ..Sessions::default()
    });
    for (answer, left) in [
        (None, "do not answer"),
        (behind, "still routes to the old one"),
    ] {
        let proxies = [ProxyReport {
            proxy: "edge".into(),
            answer,
        }];
        let observed = Observed {
            record,
            pods: &cluster.pods,
            probes: &[],
            proxies: &proxies,
            operation: Some(cluster.operation()),
            refused: None,
        };
        let Plan::Wait { reason, until } = plan(&observed, cluster.now) else {
            panic!("it did not wait")
        };
        assert!(reason.to_string().contains(left), "{reason}");
        assert_eq!(until, Some(cluster.now + 1));
        assert_eq!(
            kind(&plan(&observed, cluster.now + 1800)),
            "delete",
            "up to the bound"
        );
    }
}

#[test]
fn a_registry_that_is_away_is_waited_for_with_its_reason_and_is_given_up_at_the_deadline() {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation", "create", "record"]);
    cluster.pod("n1").trouble = Some(Trouble::new("ImagePullBackOff", "connection refused"));
    cluster.now += 130;
    let Plan::Wait { reason, until } = cluster.plan() else {
        panic!("it did not wait")
    };
    assert_eq!(
        reason.to_string(),
        "waiting for the image: ImagePullBackOff: connection refused, 2 m 10 s of 10 m"
    );
    assert_eq!(until, Some(2600));
    cluster.now = 2600;
    steps(
        &mut cluster,
        &["record", "operation", "patch", "patch", "delete", "wait"],
    );
    assert_eq!(
        cluster.pod("u1").last_upgrade_error.as_deref(),
        Some("ImagePullBackOff: connection refused")
    );
    assert_eq!(cluster.pod("n1").state, UpgradeState::Aborted);
    cluster.pods.retain(|pod| !pod.deleting);
    steps(
        &mut cluster,
        &["record", "operation", "record", "patch", "done"],
    );
    let record = cluster.record.clone().unwrap();
    assert_eq!(
        (record.template.version.as_str(), record.pod.uid.as_deref()),
        ("v1", Some("u1"))
    );
    let operation = cluster.operation();
    assert_eq!(operation.state, State::Failed);
    assert_eq!(
        operation.targets[0].error.as_ref().unwrap().reason,
        "ImagePullBackOff"
    );
}

#[test]
fn three_losses_of_readiness_before_commit_give_it_up() {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation", "create", "record", "wait"]);
    for _ in 0..2 {
        cluster.set_ready("n1", true);
        steps(&mut cluster, &["record", "wait"]);
        cluster.set_ready("n1", false);
        steps(&mut cluster, &["record", "wait"]);
    }
    cluster.set_ready("n1", true);
    steps(&mut cluster, &["record"]);
    cluster.set_ready("n1", false);
    steps(&mut cluster, &["record", "operation", "patch", "patch"]);
    assert!(
        cluster
            .pod("u1")
            .last_upgrade_error
            .as_ref()
            .unwrap()
            .starts_with("ReadinessLost")
    );
}

#[test]
fn thirty_seconds_unready_after_commit_give_the_old_pod_its_traffic_back() {
    let mut cluster = committed();
    cluster.sessions.insert("u1".into(), 1);
    cluster.now += 10;
    cluster.set_ready("n1", false);
    steps(&mut cluster, &["wait"]);
    cluster.now += 29;
    steps(&mut cluster, &["wait"]);
    cluster.now += 1;
    steps(
        &mut cluster,
        &["record", "operation", "patch", "patch", "delete"],
    );
    assert!(
        matches!(cluster.writes.last(), Some(Write::DeletePod { uid, why: DeleteReason::Aborted, .. }) if uid == "n1")
    );
}

#[test]
fn a_successor_that_ends_is_given_up_at_once() {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation", "create", "record"]);
    cluster.pod("n1").phase = PodPhase::Failed;
    cluster.pod("n1").trouble = Some(Trouble::new("Evicted", "low on memory"));
    steps(
        &mut cluster,
        &["record", "operation", "patch", "patch", "delete"],
    );
    assert_eq!(
        cluster.pod("u1").last_upgrade_error.as_deref(),
        Some("Evicted: low on memory")
    );
}

#[test]
fn a_successor_that_somebody_deletes_is_given_up_with_that_reason() {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation", "create", "record"]);
    // A kubelet that was quicker has marked it as failed already, without a word.
    cluster.pod("n1").deleting = true;
    cluster.pod("n1").phase = PodPhase::Failed;
    cluster.pod("n1").trouble = Some(Trouble::new("Failed", ""));
    steps(&mut cluster, &["record", "operation", "patch", "wait"]);
    assert_eq!(
        cluster.pod("u1").last_upgrade_error.as_deref(),
        Some("PodDeleted: the new pod was deleted before it could take over")
    );
}

#[test]
fn a_taken_name_is_answered_by_the_next_generation() {
    let mut cluster = Cluster::upgrading();
    let planned = cluster
        .record
        .as_ref()
        .unwrap()
        .upgrade
        .as_ref()
        .unwrap()
        .successor
        .name
        .clone();
    let mut foreign = pod("f", 1);
    foreign.name = planned.clone();
    foreign.owner = "bob".into();
    cluster.pods.push(foreign);
    steps(
        &mut cluster,
        &[
            "operation",
            "create",
            "record",
            "operation",
            "create",
            "record",
        ],
    );
    let successor = cluster
        .record
        .as_ref()
        .unwrap()
        .upgrade
        .as_ref()
        .unwrap()
        .successor
        .clone();
    assert_ne!(successor.name, planned);
    assert_eq!(
        (successor.generation, successor.uid.as_deref()),
        (3, Some("n1"))
    );
}

#[test]
fn a_pod_that_vanished_comes_back_with_the_next_generation_and_a_growing_pause() {
    let mut cluster = Cluster::new(running(), Vec::new());
    steps(&mut cluster, &["record", "create", "record", "wait"]);
    assert_eq!(cluster.pods[0].generation, 2);
    cluster.pods.clear();
    let Plan::Wait {
        reason: Wait::BackOff { left: 2 },
        until,
    } = cluster.plan()
    else {
        panic!("{:?}", cluster.plan())
    };
    cluster.now = until.unwrap();
    steps(&mut cluster, &["record", "create", "record"]);
    cluster.pods.clear();
    assert!(matches!(
        cluster.plan(),
        Plan::Wait {
            reason: Wait::BackOff { left: 4 },
            ..
        }
    ));
}

#[test]
fn a_duplicate_goes_when_it_is_routed_past_and_unused() {
    let mut own = pod("u1", 1);
    own.generation = 5;
    let mut record = running();
    record.pod.generation = 5;
    let mut cluster = Cluster::new(record, vec![own, pod("dup", 1)]);
    cluster.sessions.insert("dup".into(), 1);
    steps(&mut cluster, &["wait"]);
    cluster.sessions.clear();
    steps(&mut cluster, &["delete"]);
    assert!(matches!(cluster.writes.last(), Some(Write::DeletePod { uid, .. }) if uid == "dup"));
}

#[test]
fn a_duplicate_that_took_the_traffic_becomes_the_workspaces_own_unless_it_is_another_version() {
    let record = running();
    let mut newer = pod("u2", 2);
    newer.template = record.template.clone();
    let mut cluster = Cluster::new(record, vec![pod("u1", 1), newer]);
    steps(&mut cluster, &["record", "delete"]);
    assert!(cluster.pod("u1").deleting && !cluster.pod("u2").deleting);
    let mut strange = pod("u2", 2);
    strange.template.version = "v9".into();
    let mut cluster = Cluster::new(running(), vec![pod("u1", 1), strange]);
    steps(&mut cluster, &["record", "patch", "delete"]);
    let states = cluster.pods.iter().map(|pod| (pod.state, pod.deleting));
    assert_eq!(
        states.collect::<Vec<_>>(),
        [
            (UpgradeState::Committed, false),
            (UpgradeState::Aborted, true)
        ]
    );
}

#[test]
fn others_pods_of_the_same_id_are_left_alone() {
    let mut theirs = pod("x", 9);
    theirs.owner = "bob".into();
    let mut cluster = Cluster::new(running(), vec![pod("u1", 1), theirs]);
    steps(&mut cluster, &["done"]);
}

#[test]
fn the_original_lost_with_a_failed_successor_is_made_again() {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation", "create", "record"]);
    cluster.pods.retain(|pod| pod.uid != "u1");
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
            "create",
            "record",
        ],
    );
    cluster.calm();
    assert_eq!(cluster.pods.len(), 1);
    assert_eq!(
        (
            cluster.pods[0].generation,
            cluster.record.unwrap().template.version.as_str()
        ),
        (3, "v1")
    );
}

#[test]
fn a_pod_that_the_api_server_refuses_ends_the_upgrade_at_once() {
    let mut cluster = Cluster::upgrading();
    cluster.rejects = Some(Trouble::new("Forbidden", "exceeded quota: pods=1"));
    steps(
        &mut cluster,
        &[
            "operation",
            "create",
            "record",
            "operation",
            "patch",
            "record",
            "operation",
            "record",
        ],
    );
    assert_eq!(
        cluster.pod("u1").last_upgrade_error.as_deref(),
        Some("Forbidden: exceeded quota: pods=1")
    );
    assert_eq!(cluster.operation().state, State::Failed);
    let mut spawning = Cluster::new(crate::record::tests::spawned(), Vec::new());
    spawning.rejects = Some(Trouble::new("Forbidden", "exceeded quota: pods=1"));
    steps(&mut spawning, &["create"]);
    assert!(matches!(
        spawning.step(),
        Plan::Wait {
            reason: Wait::Rejected { .. },
            ..
        }
    ));
}
