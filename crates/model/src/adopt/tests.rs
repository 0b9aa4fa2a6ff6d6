use super::*;
use crate::upgrade::{Observed, Plan, Write, plan};

fn found(uid: &str, created: i64, ready: bool) -> Found {
    pod_with(uid, created, ready, |_| {})
}

/// A pod as no-crd leaves it: no generation, owner in the label, a token volume from admission.
fn pod_with(uid: &str, created: i64, ready: bool, change: impl FnOnce(&mut Value)) -> Found {
    let time = jiff::Timestamp::from_second(created).unwrap().to_string();
    let mut object = json!({
        "metadata": {
            "name": format!("ws-alice-dev-up-{uid}"), "namespace": "ws", "uid": uid,
            "resourceVersion": "7", "creationTimestamp": time,
            "labels": {
                keys::TYPE: keys::TYPE_WORKSPACE, keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER,
                keys::WORKSPACE_ID: "dev", keys::USER_SUB: "alice",
            },
            "annotations": {
                keys::WORKSPACE_PORT: "8443", keys::WORKSPACE_NAME: "Dev box",
                keys::TEMPLATE_REF: "code", keys::TEMPLATE_VERSION: "1",
            },
        },
        "spec": {
            "nodeName": "n1", "serviceAccountName": "coder", "serviceAccount": "coder",
            "priority": 0,
            "volumes": [{"name": "kube-api-access-x1y2z", "emptyDir": {}}],
            "containers": [{
                "name": "main", "image": "code:1",
                "volumeMounts": [{"name": "kube-api-access-x1y2z", "mountPath": "/var/run/secrets"}],
            }],
        },
        "status": {
            "phase": if ready { "Running" } else { "Pending" }, "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    });
    change(&mut object);
    let pod: Pod = serde_json::from_value(object).unwrap();
    Found {
        view: PodView::from_pod(&pod).unwrap(),
        pod,
    }
}

fn decide(found: &[Found], now: i64) -> Adoption {
    adopt(found, |_| Claim::Unreadable, now)
}

fn adopted(found: &[Found], now: i64) -> Record {
    match decide(found, now) {
        Adoption::Adopt(record) => *record,
        other => panic!("{other:?}"),
    }
}

/// Uids of the pods that are deleted once the record is there, and whether it then rests.
fn tidied(record: &Record, found: &[Found]) -> (Vec<String>, bool) {
    let mut pods: Vec<PodView> = found.iter().map(|found| found.view.clone()).collect();
    let mut gone = Vec::new();
    for _ in 0..10 {
        let observed = Observed {
            record,
            pods: &pods,
            probes: &[],
            proxies: &[],
            operation: None,
            refused: None,
        };
        match plan(&observed, 5000) {
            Plan::Write(write) => match *write {
                Write::DeletePod { uid, .. } => {
                    pods.retain(|pod| pod.uid != uid);
                    gone.push(uid);
                }
                other => panic!("{other:?}"),
            },
            Plan::Done => return (gone, true),
            Plan::Wait { .. } => return (gone, false),
        }
    }
    panic!("it does not end");
}

#[test]
fn one_pod_becomes_a_record_that_leaves_it_alone() {
    let found = [found("a", 100, true)];
    let record = adopted(&found, 5000);
    assert_eq!(
        (
            record.id.as_str(),
            record.owner.as_str(),
            record.name.as_str()
        ),
        ("dev", "alice", "Dev box")
    );
    assert_eq!(
        (record.since, record.generation, record.inherited.is_some()),
        (100, 0, true)
    );
    assert_eq!(record.template.version, "1");
    assert_eq!(tidied(&record, &found), (vec![], true));
}

#[test]
fn the_manifest_is_what_the_next_pod_is_made_from() {
    let record = adopted(&[found("a", 100, true)], 5000);
    let spec = &record.manifest["spec"];
    assert_eq!(spec["serviceAccountName"], "coder");
    for field in ["nodeName", "serviceAccount", "priority"] {
        assert!(spec.get(field).is_none(), "{field}");
    }
    assert_eq!(spec["volumes"], json!([]));
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([]));
    let annotations = &record.manifest["metadata"]["annotations"];
    assert_eq!(annotations[keys::USER_SUB], "alice");
    assert_eq!(annotations[keys::WORKSPACE_SINCE], "1970-01-01T00:01:40Z");
    assert_eq!(annotations[keys::WORKSPACE_PORT], "8443");
    assert!(record.manifest.get("status").is_none());
}

#[test]
fn of_a_pair_the_newer_one_wins_once_it_is_ready() {
    let pair = [found("old", 100, true), found("new", 200, true)];
    let record = adopted(&pair, 5000);
    assert_eq!(record.pod.uid.as_deref(), Some("new"));
    assert_eq!(tidied(&record, &pair), (vec!["old".into()], true));
}

#[test]
fn an_upgrade_under_way_gets_its_ten_minutes() {
    let pair = [found("old", 100, true), found("new", 200, false)];
    assert_eq!(decide(&pair, 799), Adoption::Wait { until: 800 });
    let Adoption::Mark { uid, why, .. } = decide(&pair, 800) else {
        panic!("the original is told first")
    };
    assert_eq!(
        (uid.as_str(), why.reason.as_str()),
        ("old", "DeadlineExceeded")
    );
    let marked = pod_with("old", 100, true, |pod| {
        pod["metadata"]["annotations"][keys::LAST_UPGRADE_ERROR] = json!(why.to_string());
    });
    let pair = [marked, found("new", 200, false)];
    let record = adopted(&pair, 800);
    assert_eq!(record.pod.uid.as_deref(), Some("old"));
    assert_eq!(tidied(&record, &pair), (vec!["new".into()], true));
}

#[test]
fn a_newer_pod_that_has_ended_is_not_waited_for_but_told_of() {
    let ended = pod_with("new", 200, false, |pod| {
        pod["status"]["phase"] = json!("Failed");
        pod["status"]["reason"] = json!("Evicted");
    });
    let pair = [found("old", 100, true), ended.clone()];
    let Adoption::Mark { uid, why, .. } = decide(&pair, 201) else {
        panic!("the original is told first")
    };
    assert_eq!((uid.as_str(), why.reason.as_str()), ("old", "Evicted"));
    let marked = pod_with("old", 100, true, |pod| {
        pod["metadata"]["annotations"][keys::LAST_UPGRADE_ERROR] = json!(why.to_string());
    });
    assert_eq!(
        adopted(&[marked, ended], 201).pod.uid.as_deref(),
        Some("old")
    );
    // What ended before the one that serves was made is nobody's upgrade of it.
    let elder = pod_with("elder", 50, false, |pod| {
        pod["status"]["phase"] = json!("Failed");
    });
    let pair = [elder, found("old", 100, true)];
    assert_eq!(adopted(&pair, 201).pod.uid.as_deref(), Some("old"));
}

#[test]
fn three_duplicates_end_as_one() {
    let three = [
        found("a", 100, true),
        found("b", 300, true),
        found("c", 200, true),
    ];
    let record = adopted(&three, 5000);
    assert_eq!(record.pod.uid.as_deref(), Some("b"));
    let (mut gone, rests) = tidied(&record, &three);
    gone.sort();
    assert_eq!((gone, rests), (vec!["a".into(), "c".into()], true));
}

#[test]
fn an_evicted_pod_is_adopted_so_that_it_comes_back_and_one_that_is_deleted_is_not() {
    let evicted = pod_with("a", 100, false, |pod| {
        pod["status"]["phase"] = json!("Failed");
    });
    assert_eq!(adopted(&[evicted], 5000).pod.uid.as_deref(), Some("a"));
    let leaving = pod_with("a", 100, true, |pod| {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    assert_eq!(decide(&[leaving], 5000), Adoption::Leave);
    assert_eq!(decide(&[], 5000), Adoption::Leave);
}

#[test]
fn a_pod_behind_its_gate_is_adopted_only_where_there_is_no_other() {
    let gated = pod_with("new", 200, false, |pod| {
        pod["spec"]["schedulingGates"] = json!([{"name": keys::GATE}]);
    });
    let both = [found("old", 100, true), gated.clone()];
    assert_eq!(adopted(&both, 201).pod.uid.as_deref(), Some("old"));
    let record = adopted(std::slice::from_ref(&gated), 201);
    assert_eq!(record.pod.uid.as_deref(), Some("new"));
    assert!(record.manifest["spec"].get("schedulingGates").is_none());
    let observed = Observed {
        record: &record,
        pods: &[gated.view],
        probes: &[],
        proxies: &[],
        operation: None,
        refused: None,
    };
    let next = plan(&observed, 201);
    assert!(
        matches!(&next, Plan::Write(write) if matches!(**write, Write::Release { .. })),
        "{next:?}"
    );
}

#[test]
fn a_pod_of_a_controller_is_left_to_it() {
    let owned = pod_with("a", 100, true, |pod| {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "x", "controller": true,
        }]);
    });
    assert_eq!(decide(&[owned], 5000), Adoption::Leave);
}

#[test]
fn of_two_owners_the_elder_keeps_the_id_and_the_other_is_left_alone() {
    let bob = pod_with("b", 200, true, |pod| {
        pod["metadata"]["labels"][keys::USER_SUB] = json!("bob");
    });
    let both = [found("a", 100, true), bob];
    let record = adopted(&both, 5000);
    assert_eq!(record.owner, "alice");
    assert_eq!(tidied(&record, &both), (vec![], true));
    let twin = pod_with("b", 100, true, |pod| {
        pod["metadata"]["labels"][keys::USER_SUB] = json!("bob");
    });
    assert_eq!(
        decide(&[found("a", 100, true), twin], 5000),
        Adoption::Leave
    );
}

#[test]
fn a_claim_makes_it_exclusive_and_inputs_are_read_where_they_are() {
    let with_claim = pod_with("a", 100, true, |pod| {
        pod["spec"]["volumes"] =
            json!([{"name": "h", "persistentVolumeClaim": {"claimName": "home"}}]);
        pod["metadata"]["annotations"][keys::SPAWN_INPUTS] = json!("{\"cpu\": 2}");
    });
    let record = adopted(&[with_claim], 5000);
    assert!(record.exclusive && record.inherited.is_none());
    assert_eq!(record.inputs["cpu"], 2);
}
