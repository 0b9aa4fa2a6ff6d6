use super::*;
use nogoo9_model::container::Trouble;
use nogoo9_model::mode::Mode;
use nogoo9_model::operation::{Kind, Phase, State};
use nogoo9_model::pod::TemplateRef;
use nogoo9_model::record::{Intent, Spawn};
use nogoo9_model::template::Timing;
use serde_json::json;
use std::collections::BTreeMap;

const NOW: i64 = 1_700_000_100;

fn template_ref(version: &str) -> TemplateRef {
    TemplateRef {
        name: "sample".into(),
        version: version.into(),
    }
}

/// A workspace whose pod was seen.
fn record() -> Record {
    let spawn = Spawn {
        id: "dev".into(),
        namespace: "ws".into(),
        owner: "alice".into(),
        name: "Desk".into(),
        template: template_ref("v1"),
        inputs: serde_json::Map::new(),
        manifest: json!({"metadata": {"annotations": {}}}),
        exclusive: false,
    };
    let mut record = Record::spawn(spawn, NOW - 100);
    record.pod.uid = Some("u1".into());
    record
}

fn upgrading() -> Record {
    let intent = Intent {
        operation: "op-1".into(),
        kind: Kind::Upgrade,
        force: false,
        actor: "alice".into(),
        parent: None,
        template: template_ref("v2"),
        manifest: json!({}),
        mode: Mode::SideBySide,
        timing: Timing::default(),
        exclusive: false,
        claims: Vec::new(),
    };
    record().begin_upgrade(intent, NOW - 30).unwrap()
}

/// An upgrade whose successor took over.
fn committed() -> Record {
    let mut record = upgrading();
    if let Some(upgrade) = &mut record.upgrade {
        upgrade.successor.uid = Some("u2".into());
        upgrade.phase = record::Phase::Committed { at: NOW - 5 };
        upgrade.ready_seen = true;
    }
    record
}

fn pod(name: &str, uid: &str, generation: u32, status: &serde_json::Value) -> PodView {
    let pod = json!({
        "metadata": {
            "name": name, "uid": uid, "namespace": "ws", "resourceVersion": "1",
            "creationTimestamp": "2023-11-14T22:14:10Z",
            "labels": {
                keys::TYPE: "workspace", keys::MANAGED_BY: "nogoo9-spawner", keys::WORKSPACE_ID: "dev",
                keys::USER_SUB: "alice", keys::GENERATION: generation.to_string(),
            },
            "annotations": {keys::UPGRADE_OF: r#"{"operation": "op-1", "sourceUid": "u1"}"#},
        },
        "status": status,
    });
    PodView::from_pod(&serde_json::from_value(pod).unwrap()).unwrap()
}

fn ready() -> serde_json::Value {
    json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]})
}

fn unschedulable() -> serde_json::Value {
    json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}]})
}

fn image_missing() -> serde_json::Value {
    let waiting = json!({"reason": "ErrImagePull", "message": "not found"});
    json!({"phase": "Pending", "containerStatuses": [{"name": "m", "image": "i", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": waiting}}]})
}

fn live(pods: &[PodView]) -> Live<'_> {
    Live {
        pods,
        ..Live::default()
    }
}

fn wanted(desired: Desired) -> Record {
    Record {
        desired,
        ..record()
    }
}

#[test]
fn statuses_and_their_sentences() {
    let own = record().pod.name;
    let own = |status: &serde_json::Value| pod(&own, "u1", 1, status);
    let mut half = upgrading();
    let successor = half.upgrade.as_ref().unwrap().successor.name.clone();
    if let Some(upgrade) = &mut half.upgrade {
        upgrade.successor.uid = Some("u2".into());
    }
    let next = pod(&successor, "u2", 2, &image_missing());
    for (record, pods, status, message) in [
        (record(), vec![own(&ready())], Status::Running, "Running"),
        (
            record(),
            vec![own(&json!({"phase": "Pending"}))],
            Status::Starting,
            "Starting: waiting for the pod to become ready, 50 s",
        ),
        (
            record(),
            vec![own(&image_missing())],
            Status::Failing,
            "Not running: waiting for the image: ErrImagePull: not found, 50 s",
        ),
        (
            record(),
            vec![own(&unschedulable())],
            Status::Starting,
            "Starting: waiting for the pod: Unschedulable: no node, 50 s",
        ),
        (
            record(),
            vec![],
            Status::Starting,
            "Starting: creating the pod",
        ),
        (
            upgrading(),
            vec![own(&ready())],
            Status::Upgrading,
            "Upgrading: creating the new pod",
        ),
        (
            half.clone(),
            vec![own(&ready()), next.clone()],
            Status::Upgrading,
            "Upgrading: waiting for the image: ErrImagePull: not found, 30 s of 10 m",
        ),
        (
            half,
            vec![next],
            Status::Starting,
            "Upgrading: waiting for the image: ErrImagePull: not found, 30 s of 10 m",
        ),
        // Whoever looks while the old pod drains sees what serves, not what is left to be done.
        (
            committed(),
            vec![own(&ready()), pod(&successor, "u2", 2, &ready())],
            Status::Running,
            "Running; the old pod drains: new requests go to the new pod; the old one is ending",
        ),
        (
            committed(),
            vec![own(&ready()), pod(&successor, "u2", 2, &image_missing())],
            Status::Upgrading,
            "Upgrading: the new pod is not ready; the old one takes over again in 25 s",
        ),
        (
            wanted(Desired::Stopped),
            vec![own(&ready())],
            Status::Stopping,
            "Stopping: waiting for the pod to end",
        ),
        (wanted(Desired::Stopped), vec![], Status::Stopped, "Stopped"),
        (
            wanted(Desired::Deleted),
            vec![own(&ready())],
            Status::Deleting,
            "Being deleted",
        ),
    ] {
        let seen = super::status(&record, live(&pods), NOW);
        assert_eq!(seen, (status, message.to_owned()));
    }
}

#[test]
fn extra_ports_are_those_of_the_pod_that_serves() {
    let public = |path_mode| nogoo9_runtime::args::Public {
        listen: ([127, 0, 0, 1], 0).into(),
        url: "https://console.example".parse().unwrap(),
        workspace_domain: nogoo9_runtime::args::WorkspaceDomain {
            host: "ws.example".into(),
            port: Some(8443),
        },
        path_mode,
        path_host: None,
    };
    let mut record = record();
    record.manifest = json!({"metadata": {"annotations": {
        "nogoo9/api.web.port": "8080", "nogoo9/api.web.path": "/w",
    }}});
    let links = Links::new(&public(true));
    let shown =
        |record: &Record, pods: &[PodView]| -> Vec<(String, u16, Option<String>, Option<String>)> {
            let seen = workspace(
                record,
                live(pods),
                Err(&TemplateError::not_found("sample")),
                &links,
                NOW,
            );
            let ports = seen.ports.into_iter();
            ports
                .map(|port| (port.name, port.port, port.url, port.path_url))
                .collect()
        };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        shown(&record, &[]),
        [(
            "web".to_owned(),
            8080,
            some("https://web--dev.ws.example:8443/"),
            some("https://dev.ws.example:8443/w/")
        )]
    );
    let mut serving = pod(&record.pod.name, "u1", 1, &ready());
    let pairs = [("nogoo9/api.docs.port".to_owned(), "1".to_owned())];
    serving.serving.ports = ExtraPorts::parse(&pairs.into());
    assert_eq!(
        shown(&record, &[serving]),
        [(
            "docs".to_owned(),
            1,
            some("https://docs--dev.ws.example:8443/"),
            None
        )]
    );
    // An adopted id that fits no host has paths alone.
    record.id = "My.Box".into();
    assert_eq!(
        shown(&record, &[]),
        [(
            "web".to_owned(),
            8080,
            None,
            some("https://console.example/route/My.Box/w/")
        )]
    );
}

#[test]
fn outdated_only_if_the_template_is_there_and_differs() {
    let links = Links::new(&nogoo9_runtime::args::Public {
        listen: ([127, 0, 0, 1], 0).into(),
        url: "https://console.example".parse().unwrap(),
        workspace_domain: nogoo9_runtime::args::WorkspaceDomain {
            host: "ws.example".into(),
            port: None,
        },
        path_mode: false,
        path_host: None,
    });
    let document = crate::template::Document {
        name: "sample".into(),
        annotations: BTreeMap::new(),
        data: BTreeMap::from([("spec".into(), "containers: [{name: m, image: i}]".into())]),
    };
    let template = crate::template::parse(&document).unwrap();
    let gone = TemplateError::NotFound {
        name: "sample".into(),
    };
    let mut same = record();
    same.template.version.clone_from(&template.version);
    // Of an upgrade under way the version counts that took over, whatever is left to be done.
    let mut newest = committed();
    if let Some(upgrade) = &mut newest.upgrade {
        upgrade.template.version.clone_from(&template.version);
    }
    for (record, template, outdated) in [
        (&same, Ok(&template), Outdated::No),
        (&record(), Ok(&template), Outdated::Yes),
        (&record(), Err(&gone), Outdated::Unknown),
        (&newest, Ok(&template), Outdated::No),
    ] {
        let seen = workspace(record, Live::default(), template, &links, NOW);
        assert_eq!(seen.outdated, outdated);
        assert_eq!(
            seen.latest_version,
            template.ok().map(|t| t.version.clone())
        );
        assert_eq!(seen.url.as_deref(), Some("https://dev.ws.example/"));
        assert_eq!((seen.path_url, seen.last_upgrade_error), (None, None));
        assert_eq!(seen.created_at, "2023-11-14T22:13:20Z");
    }
}

#[test]
fn operations_tell_how_they_ended() {
    let record = upgrading();
    let begun = record.upgrade.as_ref().unwrap();
    let running = nogoo9_model::upgrade::running_operation(&record, begun);
    let ended = |state, error| {
        let mut ended = running.clone();
        ended.state = state;
        ended.finished_at = Some(NOW);
        for target in &mut ended.targets {
            target.state = state;
            target.phase = Phase::Done;
            target.error.clone_from(&error);
        }
        ended
    };
    let pull = Some(Trouble::new("ErrImagePull", "not found"));
    let pod = &begun.successor.name;
    for (stored, reason, done, message) in [
        (running.clone(), None, false, "Upgrading".to_owned()),
        (
            running.clone(),
            Some("waiting"),
            false,
            "Upgrading: waiting".to_owned(),
        ),
        (
            ended(State::Succeeded, None),
            None,
            true,
            format!("Upgraded from v1 to v2; pod {pod} serves"),
        ),
        (
            ended(State::Failed, pull),
            None,
            true,
            "Failed: ErrImagePull: not found. The workspace stays on version v1".to_owned(),
        ),
    ] {
        let seen = operation(&stored, "7".into(), reason);
        assert_eq!((seen.done, seen.message), (done, message));
        assert_eq!(
            seen.next.is_some(),
            !done,
            "what to do next, while there is something"
        );
        assert_eq!(seen.revision, "7");
    }
}
