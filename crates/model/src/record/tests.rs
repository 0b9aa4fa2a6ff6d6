use super::*;
use crate::keys;
use crate::select::tests::pod;
use serde_json::json;

pub(crate) fn spawned() -> Record {
    let spawn = Spawn {
        id: "dev".into(),
        namespace: "ns".into(),
        owner: "alice".into(),
        name: "Dev".into(),
        template: TemplateRef {
            name: "sample".into(),
            version: "v1".into(),
        },
        inputs: Map::new(),
        manifest: json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"image": "one"}]}}),
        exclusive: false,
    };
    Record::spawn(spawn, 1000)
}

pub(crate) fn running() -> Record {
    let mut record = spawned();
    record.pod.uid = Some("u1".into());
    record
}

pub(crate) fn intent(version: &str) -> Intent {
    Intent {
        operation: "op-1".into(),
        kind: Kind::Upgrade,
        force: false,
        actor: "root".into(),
        parent: None,
        template: TemplateRef {
            name: "sample".into(),
            version: version.into(),
        },
        manifest: json!({"spec": {"containers": [{"image": "two"}]}}),
        mode: Mode::SideBySide,
        exclusive: false,
        claims: Vec::new(),
        timing: Timing::default(),
    }
}

/// The same, where only one pod can hold the volume.
pub(crate) fn recreate(version: &str) -> Intent {
    Intent {
        mode: Mode::Recreate,
        exclusive: true,
        ..intent(version)
    }
}

#[test]
fn an_upgrade_begins_with_everything_decided() {
    let begun = running().begin_upgrade(intent("v2"), 2000).unwrap();
    let upgrade = begun.upgrade.as_ref().unwrap();
    assert_eq!(
        (begun.owner.as_str(), upgrade.actor.as_str()),
        ("alice", "root"),
        "the actor is no owner"
    );
    assert_eq!((begun.generation, upgrade.successor.generation), (2, 2));
    assert!(upgrade.successor.name.starts_with("ws-alice-dev-up-"));
    assert_eq!((upgrade.started_at, upgrade.deadline), (2000, 2600));
    assert_eq!(upgrade.source, running().pod);
    assert_eq!(
        begun.manifest,
        running().manifest,
        "the old manifest stays until commit"
    );
}

#[test]
fn what_does_not_begin() {
    let refused = |record: &Record, intent| record.begin_upgrade(intent, 1).unwrap_err();
    assert_eq!(refused(&running(), intent("v1")), NotUpgraded::UpToDate);
    assert_eq!(refused(&spawned(), intent("v2")), NotUpgraded::Starting);
    assert_eq!(
        refused(&running().stop().unwrap(), intent("v2")),
        NotUpgraded::NotRunning
    );
    assert_eq!(
        refused(&running().delete().unwrap(), intent("v2")),
        NotUpgraded::NotRunning
    );
    let begun = running().begin_upgrade(intent("v2"), 1).unwrap();
    assert_eq!(refused(&begun, intent("v3")), NotUpgraded::UnderWay);
}

#[test]
fn desired_state_changes_once() {
    let stopped = running().stop().unwrap();
    assert!(stopped.stop().is_none() && running().start().is_none());
    let started = stopped.start().unwrap();
    assert_eq!(
        (
            started.desired,
            started.generation,
            started.pod.uid.as_ref()
        ),
        (Desired::Running, 2, None)
    );
    assert_ne!(started.pod.name, running().pod.name);
    let deleted = stopped.delete().unwrap();
    assert!(deleted.delete().is_none() && deleted.start().is_none() && deleted.stop().is_none());
}

#[test]
fn what_is_reserved_runs_as_it_was_planned_once_it_is_let_in() {
    let reserved = spawned().reserve();
    assert_eq!(
        (reserved.desired, reserved.reserved, &reserved.pod),
        (Desired::Stopped, true, &spawned().pod)
    );
    let stored = serde_json::to_value(&reserved).unwrap();
    assert_eq!(serde_json::from_value::<Record>(stored).unwrap(), reserved);
    assert!(reserved.stop().is_none());
    assert_eq!(reserved.start().unwrap(), spawned());
    assert_eq!(
        reserved.begin_upgrade(intent("v2"), 1).unwrap_err(),
        NotUpgraded::NotRunning
    );
    // Of records without a limit nothing is stored but what was always.
    let plain = serde_json::to_value(spawned()).unwrap();
    assert!(plain.get("reserved").is_none());
}

#[test]
fn a_record_survives_storage_and_fields_of_the_future() {
    let begun = running().begin_upgrade(intent("v2"), 2000).unwrap();
    let mut stored = serde_json::to_value(&begun).unwrap();
    stored["color"] = json!("blue");
    assert_eq!(serde_json::from_value::<Record>(stored).unwrap(), begun);
}

#[test]
fn objects_carry_what_routing_reads() {
    let begun = running().begin_upgrade(intent("v2"), 2000).unwrap();
    let upgrade = begun.upgrade.as_ref().unwrap();
    let object = pod_object(&upgrade.manifest, "ns", &upgrade.successor, Some(upgrade));
    let labels = &object["metadata"]["labels"];
    assert_eq!(
        (&labels[keys::GENERATION], &labels[keys::UPGRADE_STATE]),
        (&json!("2"), &json!("candidate"))
    );
    assert!(
        object["metadata"]["annotations"][keys::UPGRADE_OF]
            .as_str()
            .unwrap()
            .contains("op-1")
    );
    assert_eq!(object["spec"]["containers"][0]["image"], "two");
    let odd = pod_object(&json!({"metadata": "text"}), "ns", &begun.pod, None);
    assert_eq!(
        odd["metadata"]["name"],
        json!(begun.pod.name),
        "an odd manifest does no harm"
    );
}

#[test]
fn only_own_pods_are_held() {
    let record = running();
    assert!(record.holds(&pod("u1", 1)));
    let changes: [fn(&mut PodView); 3] = [
        |p| p.owner = "bob".into(),
        |p| p.namespace = "x".into(),
        |p| p.workspace = "y".into(),
    ];
    for change in changes {
        let mut other = pod("u1", 1);
        change(&mut other);
        assert!(!record.holds(&other));
    }
}
