use super::*;
use crate::record::tests::{recreate, running, spawned};
use crate::select::tests::pod;
use crate::upgrade::simulation::Cluster;
use crate::upgrade::{Plan, tests::kind};

/// Steps until the planner waits or is done, and what is told meanwhile: pod's uid, reason.
fn told(cluster: &mut Cluster, story: &mut Vec<Note>) {
    for _ in 0..40 {
        let (before, pods) = (cluster.record.clone().unwrap(), cluster.pods.clone());
        match cluster.step() {
            Plan::Write(write) => story.extend(super::story(&before, &pods, &write)),
            _ => return,
        }
    }
    panic!("it goes on for ever: {}", kind(&cluster.step()));
}

/// Pods and reasons, the same Event once.
fn heard(story: &[Note]) -> Vec<(&str, &'static str)> {
    let mut names = Vec::new();
    let mut heard = Vec::new();
    for note in story {
        if !names.contains(&note.name()) {
            names.push(note.name());
            heard.push((note.uid.as_str(), note.reason.as_str()));
        }
    }
    heard
}

#[test]
fn an_upgrade_is_told_on_both_pods() {
    let mut cluster = Cluster::upgrading();
    let mut story = Vec::new();
    told(&mut cluster, &mut story);
    cluster.set_ready("n1", true);
    told(&mut cluster, &mut story);
    cluster.now += 5;
    told(&mut cluster, &mut story);
    cluster.pods.retain(|pod| !pod.deleting);
    told(&mut cluster, &mut story);
    assert_eq!(
        heard(&story),
        [
            ("u1", "UpgradeStarted"),
            ("n1", "UpgradeStarted"),
            ("n1", "UpgradeTookOver"),
            ("u1", "UpgradeTookOver"),
            ("n1", "UpgradeFinished"),
        ]
    );
    assert_eq!(
        story[0].message,
        format!(
            "upgrade from sample v1 to sample v2 (op-1), asked for by root; pod {} is to take over",
            story[1].pod
        )
    );
}

#[test]
fn a_failure_is_told_with_its_reason_and_a_cancellation_is_none() {
    for (why, reason) in [
        (
            Trouble::new("ImagePullBackOff", "no such image"),
            "UpgradeFailed",
        ),
        (Trouble::new("Cancelled", "by alice"), "UpgradeCancelled"),
    ] {
        let mut cluster = Cluster::upgrading();
        let mut story = Vec::new();
        told(&mut cluster, &mut story);
        story.clear();
        let record = cluster.record.as_mut().unwrap();
        let upgrade = record.upgrade.as_mut().unwrap();
        let before = upgrade.clone();
        upgrade.phase = Phase::Aborting {
            at: 2000,
            why: why.clone(),
        };
        let after = record.clone();
        let mut old = after.clone();
        old.upgrade = Some(before);
        let write = Write::PutRecord(Box::new(after));
        story.extend(super::story(&old, &cluster.pods, &write));
        assert_eq!(heard(&story), [("n1", reason), ("u1", reason)]);
        assert!(story[0].message.contains(&why.message), "{:?}", story[0]);
    }
}

#[test]
fn a_restore_is_told_on_the_pod_that_came_back() {
    let mut before = running();
    before.exclusive = true;
    let mut before = before.begin_upgrade(recreate("v2"), 2000).unwrap();
    let restored = PlannedPod {
        name: "ws-alice-dev-back".into(),
        generation: 3,
        uid: Some("r1".into()),
    };
    let why = Trouble::new("CrashLoopBackOff", "exit code 1");
    if let Some(upgrade) = &mut before.upgrade {
        upgrade.phase = Phase::Restoring { why, restored };
    }
    let upgrade = before.upgrade.as_ref().unwrap();
    let why = Trouble::new("CrashLoopBackOff", "exit code 1");
    let Plan::Write(write) =
        crate::upgrade::act::finish(&before, upgrade, State::Failed, Some(why), 2100)
    else {
        panic!("finishing is a write")
    };
    let notes = story(&before, &[], &write);
    assert_eq!(heard(&notes), [("r1", "UpgradeFailed"), ("r1", "Restored")]);
    assert_eq!(
        notes[1].message,
        "brought back sample v1, since the upgrade failed: CrashLoopBackOff: exit code 1"
    );
}

#[test]
fn pods_lost_adopted_and_in_the_way() {
    // Lost: the ended pod and then its successor.
    let mut cluster = Cluster::new(running(), vec![pod("u1", 1)]);
    cluster.pod("u1").phase = crate::pod::Phase::Failed;
    cluster.pod("u1").trouble = Some(Trouble::new("Evicted", "low on memory"));
    let mut story = Vec::new();
    told(&mut cluster, &mut story);
    assert_eq!(heard(&story), [("u1", "Replaced"), ("n1", "Replaced")]);
    assert!(story[0].message.ends_with(": Evicted: low on memory"));
    // A workspace that was never lost has nothing to tell.
    let mut cluster = Cluster::new(spawned(), Vec::new());
    story.clear();
    told(&mut cluster, &mut story);
    assert_eq!(heard(&story), []);
    assert_eq!(heard(&adopted(&running())), [("u1", "Adopted")]);
    let mut stranger = pod("x1", 9);
    stranger.owner = "mallory".into();
    let pods = [pod("u1", 1), stranger];
    assert_eq!(
        heard(&ignored(&running(), &pods)),
        [("x1", "DuplicateIgnored")]
    );
    let capped = capped(&running(), &pods[0], 10);
    assert_eq!(capped.reason.as_str(), "DeletionsCapped");
    assert!(capped.reason.is_warning() && !Reason::Restored.is_warning());
}

#[test]
fn a_visibility_that_is_not_understood_is_told_on_its_pods() {
    let mut pods = vec![pod("u1", 1), pod("u2", 2), pod("x1", 3)];
    let unclear_one = |said: &str| Visibility::Unclear(said.to_owned());
    pods[1].serving.visibility = unclear_one("everyone");
    // A stranger's is not ours to mend.
    pods[2].owner = "mallory".into();
    pods[2].serving.visibility = unclear_one("everyone");
    let notes = unclear(&running(), &pods);
    assert_eq!(heard(&notes), [("u2", "VisibilityUnclear")]);
    assert!(notes[0].message.contains("is 'everyone'") && notes[0].reason.is_warning());
    pods[1].serving.visibility = unclear_one("public");
    let other = unclear(&running(), &pods);
    assert_ne!(
        other[0].name(),
        notes[0].name(),
        "another slip is told anew"
    );
}

#[test]
fn what_is_not_understood_of_extra_ports_is_told_on_their_pods() {
    let annotations = [
        ("nogoo9/api.web.port".to_owned(), "0".to_owned()),
        ("nogoo9/api.docs.path".to_owned(), "/docs".to_owned()),
    ];
    let mut pods = vec![pod("u1", 1), pod("u2", 2), pod("x1", 3)];
    pods[2].owner = "mallory".into();
    for pod in &mut pods[1..] {
        pod.serving.ports = crate::ports::ExtraPorts::parse(&annotations.clone().into());
    }
    let notes = unclear(&running(), &pods);
    assert_eq!(
        heard(&notes),
        [("u2", "PortUnclear"), ("u2", "PortUnclear")]
    );
    assert!(notes[0].message.contains("api.web.port is '0'") && notes[0].reason.is_warning());
    assert_ne!(notes[0].name(), notes[1].name(), "each is told");
}

#[test]
fn names_are_the_same_for_the_same_and_fit() {
    let long = "é".repeat(2000);
    let name = "p".repeat(253);
    let note = |uid, reason, about: &str| Note::new("ns", (&name, uid), reason, about, &long);
    let one = note("u1", Reason::UpgradeFailed, "op-1");
    assert_eq!(one.name(), note("u1", Reason::UpgradeFailed, "op-1").name());
    for other in [
        note("u2", Reason::UpgradeFailed, "op-1"),
        note("u1", Reason::Restored, "op-1"),
        note("u1", Reason::UpgradeFailed, "op-2"),
    ] {
        assert_ne!(one.name(), other.name());
    }
    assert!(one.name().len() <= 253 && one.message.len() == 1024);
}
