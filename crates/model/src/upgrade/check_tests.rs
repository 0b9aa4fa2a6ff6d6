//! New images are checked before a recreate touches anything; failures that are final are told at
//! once; whoever calls an upgrade off has it back as it was.

use super::simulation::Cluster;
use super::tests::{committed, kind, steps};
use super::*;
use crate::operation::{Phase as Shown, State};
use crate::pod::UpgradeState;
use crate::probe::Finding;
use crate::record::{Cancelled, NotCancelled};
use crate::{keys, select};

/// A recreate whose probe `p1` was made.
fn probed() -> Cluster {
    let mut cluster = Cluster::probing();
    steps(&mut cluster, &["operation", "probe", "record", "wait"]);
    assert_eq!(cluster.operation().targets[0].phase, Shown::Checking);
    cluster
}

fn finds(cluster: &mut Cluster, finding: Finding) {
    cluster.probes[0].finding = finding;
}

fn complains(cluster: &mut Cluster, reason: &str, message: &str) {
    finds(
        cluster,
        Finding::Nothing(Some(Trouble::new(reason, message))),
    );
}

fn cancel(cluster: &mut Cluster) -> Result<(), NotCancelled> {
    let by = Cancelled {
        actor: "root".into(),
        at: cluster.now,
    };
    let record = cluster.record.as_ref().unwrap();
    if let Some(next) = record.cancel_upgrade("op-1", by)? {
        cluster.record = Some(next);
    }
    Ok(())
}

#[test]
fn an_image_that_is_there_lets_the_recreate_begin() {
    let mut cluster = probed();
    finds(&mut cluster, Finding::Pulled);
    steps(
        &mut cluster,
        &["record", "delete", "operation", "create", "record"],
    );
    assert!(cluster.pods.iter().any(|pod| pod.gated), "behind the gate");
    cluster.calm();
    assert_eq!(cluster.operation().state, State::Succeeded);
    assert!(cluster.probes.is_empty());
}

#[test]
fn an_image_that_is_not_there_is_told_at_once_and_nothing_was_touched() {
    for (reason, message) in [
        ("ImagePullBackOff", "Back-off pulling image: x: not found"),
        ("CreateContainerConfigError", "secret \"nope\" not found"),
        ("FailedMount", "configmap \"nope\" not found"),
    ] {
        let mut cluster = probed();
        complains(&mut cluster, reason, message);
        cluster.calm();
        let old = cluster.pod("u1");
        assert_eq!(old.state, UpgradeState::Committed, "never quiesced");
        assert_eq!(
            old.last_upgrade_error.as_deref(),
            Some(format!("{reason}: {message}").as_str())
        );
        assert_eq!(cluster.operation().state, State::Failed);
        assert_eq!((cluster.pods.len(), cluster.probes.len()), (1, 0));
        let touched = cluster.writes.iter().any(|write| {
            matches!(write, Write::CreatePod { .. } | Write::Release { .. })
                || matches!(write, Write::DeletePod { uid, .. } if uid == "u1")
        });
        assert!(!touched, "{:?}", cluster.writes);
    }
}

#[test]
fn a_registry_that_is_away_is_waited_for_up_to_the_deadline() {
    let mut cluster = probed();
    complains(&mut cluster, "ImagePullBackOff", "connection refused");
    cluster.now += 130;
    let Plan::Wait { reason, until } = cluster.plan() else {
        panic!("it did not wait")
    };
    assert_eq!(
        reason.to_string(),
        "checking the new image: ImagePullBackOff: connection refused, 2 m 10 s of 10 m"
    );
    assert_eq!(until, Some(2600));
    cluster.now = 2600;
    cluster.calm();
    assert_eq!(cluster.operation().state, State::Failed);
    assert_eq!(cluster.pods[0].uid, "u1");
}

#[test]
fn a_pod_whose_node_fell_silent_is_left_alone_until_it_is_back() {
    let mut cluster = probed();
    cluster.set_ready("u1", false);
    cluster.pods[0].unseen = true;
    cluster.now += 5;
    let Plan::Wait { reason, .. } = cluster.plan() else {
        panic!("it did not wait")
    };
    assert_eq!(
        reason.to_string(),
        "checking the new image: NodeNotReady: node node-1 does not answer; the pod on it is left alone, 5 s of 10 m"
    );
    cluster.set_ready("u1", true);
    cluster.pods[0].unseen = false;
    finds(&mut cluster, Finding::Pulled);
    cluster.calm();
    assert_eq!(cluster.operation().state, State::Succeeded);

    // Where it does not come back, that is why the upgrade failed.
    let mut cluster = probed();
    cluster.set_ready("u1", false);
    cluster.pods[0].unseen = true;
    cluster.now = 2600;
    steps(&mut cluster, &["record"]);
    cluster.calm();
    let error = cluster.operation().targets[0].error.clone().unwrap();
    assert_eq!(error.reason, "NodeNotReady");
    assert_eq!(cluster.pod("u1").state, UpgradeState::Committed);
}

#[test]
fn what_cannot_be_checked_is_no_reason_to_fail() {
    type Change = fn(&mut Cluster);
    let changes: [Change; 4] = [
        |cluster| finds(cluster, Finding::Turned),
        |cluster| cluster.probes.clear(),
        |cluster| cluster.probes[0].deleting = true,
        // What serves nobody has nothing to lose.
        |cluster| cluster.set_ready("u1", false),
    ];
    for change in changes {
        let mut cluster = probed();
        change(&mut cluster);
        steps(&mut cluster, &["record"]);
        cluster.calm();
        assert_eq!(cluster.operation().state, State::Succeeded);
    }
}

#[test]
fn what_the_cluster_refuses_is_refused_before_the_probe_is_made() {
    let mut cluster = Cluster::probing();
    cluster.rejects = Some(Trouble::new("Invalid", "spec.containers: bad"));
    steps(&mut cluster, &["operation", "probe", "record"]);
    assert!(cluster.probes.is_empty());
    cluster.calm();
    assert_eq!(
        cluster.pod("u1").last_upgrade_error.as_deref(),
        Some("Invalid: spec.containers: bad")
    );
    assert_eq!(cluster.pods.len(), 1);
}

#[test]
fn a_probe_that_nobody_waits_for_goes() {
    let mut cluster = probed();
    cluster.record = cluster.record.as_ref().and_then(Record::stop);
    steps(&mut cluster, &["delete", "record"]);
    cluster.calm();
    assert!(cluster.pods.is_empty() && cluster.probes.is_empty());
}

#[test]
fn side_by_side_gives_up_at_once_what_waiting_does_not_mend() {
    for (reason, message, restarts, expected) in [
        ("ErrImagePull", "not found", 0, "wait"),
        ("ImagePullBackOff", "x: not found", 0, "record"),
        ("ImagePullBackOff", "i/o timeout", 0, "wait"),
        ("InvalidImageName", "", 0, "record"),
        (
            "CreateContainerConfigError",
            "secret not found",
            0,
            "record",
        ),
        ("CrashLoopBackOff", "not found", 4, "wait"),
        ("CrashLoopBackOff", "", 5, "record"),
    ] {
        let mut cluster = Cluster::upgrading();
        steps(&mut cluster, &["operation", "create", "record"]);
        cluster.pod("n1").trouble = Some(Trouble::new(reason, message));
        cluster.pod("n1").restarts = restarts;
        assert_eq!(kind(&cluster.plan()), expected, "{reason} {message}");
    }
}

#[test]
fn an_upgrade_is_called_off_until_its_old_pod_goes() {
    type Begin = fn() -> Cluster;
    let begun: [Begin; 3] = [probed, Cluster::upgrading, committed];
    for begin in begun {
        let mut cluster = begin();
        cancel(&mut cluster).unwrap();
        cancel(&mut cluster).unwrap();
        cluster.calm();
        assert_eq!(cluster.operation().state, State::Cancelled);
        let old = cluster.pod("u1");
        assert_eq!(
            (old.state, old.last_upgrade_error.as_ref()),
            (UpgradeState::Committed, None),
            "calling off is no error"
        );
        assert!(old.last_upgrade.as_ref().unwrap().contains("cancelled"));
        assert_eq!((cluster.pods.len(), cluster.probes.len()), (1, 0));
    }
    let mut gone = committed();
    steps(&mut gone, &["delete"]);
    cancel(&mut gone).unwrap();
    gone.calm();
    assert_eq!(gone.operation().state, State::Succeeded, "too late");
    let mut replacing = Cluster::recreating();
    for _ in 0..30 {
        if matches!(
            replacing
                .record
                .as_ref()
                .unwrap()
                .upgrade
                .as_ref()
                .unwrap()
                .phase,
            Phase::Replacing
        ) {
            break;
        }
        replacing.step();
        replacing.now += 1;
    }
    assert_eq!(cancel(&mut replacing), Err(NotCancelled::TooLate));
    replacing.calm();
    assert_eq!(cancel(&mut replacing), Err(NotCancelled::NotUnderWay));
}

#[test]
fn a_deleted_workspace_is_remembered_until_nothing_can_arrive_any_more() {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation"]);
    let late = match cluster.plan() {
        Plan::Write(write) => write,
        other => panic!("{other:?}"),
    };
    cluster.record = cluster.record.as_ref().and_then(Record::delete);
    steps(
        &mut cluster,
        &["record", "operation", "record", "delete", "wait"],
    );
    cluster.pods.clear();
    steps(&mut cluster, &["bury", "wait"]);
    cluster.now += 100;
    cluster.apply(&late);
    steps(&mut cluster, &["delete"]);
    cluster.pods.clear();
    steps(&mut cluster, &["wait"]);
    cluster.now += 20;
    steps(&mut cluster, &["forget", "done"]);
}

#[test]
fn an_id_that_is_kept_outlives_the_workspace_until_it_is_released() {
    let running = crate::record::tests::running();
    assert_eq!(running.keep_id(true), None, "it is not being deleted");
    let deleted = running.delete().unwrap();
    assert_eq!(deleted.keep_id(false), None, "it is so already");
    let mut kept = deleted.keep_id(true).unwrap();
    kept.gone_at = Some(10);
    assert_eq!((kept.is_gone(), kept.free_at()), (true, None));
    let mut cluster = Cluster::upgrading();
    cluster.pods.clear();
    cluster.record = Some(kept.clone());
    cluster.now += 1_000_000;
    steps(&mut cluster, &["done"]);
    // Its owner has it back; then it is theirs to give up.
    let again = kept.succeed(crate::record::tests::spawned()).unwrap();
    assert!(!again.id_kept && again.gone_at.is_none());
    let released = kept.keep_id(false).unwrap();
    assert_eq!(released.free_at(), Some(130));
    cluster.record = Some(released);
    steps(&mut cluster, &["forget", "done"]);
}

#[test]
fn only_its_owner_takes_over_an_id_that_is_remembered() {
    let mut gone = crate::record::tests::running();
    gone.generation = 7;
    let new = || crate::record::tests::spawned();
    assert_eq!(gone.succeed(new()), None, "it is not gone");
    gone.gone_at = Some(10);
    let next = gone.succeed(new()).unwrap();
    assert_eq!((next.generation, next.pod.generation), (8, 8));
    assert_eq!((next.gone_at, next.desired), (None, Desired::Running));
    let mut stranger = new();
    stranger.owner = "bob".into();
    assert_eq!(gone.succeed(stranger), None);
}

#[test]
fn an_old_failure_is_not_told_of_a_later_success() {
    let mut cluster = Cluster::upgrading();
    steps(&mut cluster, &["operation", "create", "record"]);
    cluster.pod("n1").trouble = Some(Trouble::new("InvalidImageName", "x"));
    steps(&mut cluster, &["record"]);
    cluster.calm();
    let record = cluster.record.clone().unwrap();
    let error = |manifest: &serde_json::Value| {
        manifest["metadata"]["annotations"][keys::LAST_UPGRADE_ERROR].clone()
    };
    assert_eq!(error(&record.manifest), "InvalidImageName: x");
    let mut intent = crate::record::tests::intent("v3");
    intent.operation = "op-2".into();
    cluster.record = Some(record.begin_upgrade(intent, cluster.now).unwrap());
    cluster.calm();
    let record = cluster.record.clone().unwrap();
    assert_eq!(record.template.version, "v3");
    let previous = record.previous.unwrap().manifest;
    assert!(error(&record.manifest).is_null() && error(&previous).is_null());
    let active = select::active(&cluster.pods).unwrap();
    assert_eq!(active.last_upgrade_error, None);
    assert!(active.last_upgrade.as_ref().unwrap().contains("op-2"));
}
