//! Verbs and rules, through kube-rs.

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Client;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use serde_json::json;

use crate::support::*;

pub(crate) async fn start(dir: &tempfile::TempDir) -> (Server, Client) {
    let server = Server::start(dir.path()).await;
    let client = server.client().await;
    make_namespace(&client).await;
    (server, client)
}

pub(crate) fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": value}})).unwrap()
}

pub(crate) fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), NAMESPACE)
}

pub(crate) fn create() -> PostParams {
    PostParams::default()
}

pub(crate) fn patch() -> PatchParams {
    PatchParams::default()
}

#[tokio::test]
async fn a_new_pod_gets_what_a_real_server_fills() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let made = pods(&client).create(&create(), &pod("p")).await.unwrap();
    let made = serde_json::to_value(&made).unwrap();
    for (pointer, expected) in [
        ("/metadata/namespace", json!(NAMESPACE)),
        ("/metadata/generation", json!(1)),
        ("/spec/restartPolicy", json!("Always")),
        ("/spec/terminationGracePeriodSeconds", json!(30)),
        ("/spec/dnsPolicy", json!("ClusterFirst")),
        ("/spec/serviceAccountName", json!("default")),
        ("/spec/schedulerName", json!("default-scheduler")),
        (
            "/spec/containers/0/terminationMessagePath",
            json!("/dev/termination-log"),
        ),
        ("/spec/containers/0/imagePullPolicy", json!("IfNotPresent")),
        (
            "/spec/tolerations/1/key",
            json!("node.kubernetes.io/unreachable"),
        ),
        ("/status/phase", json!("Pending")),
        ("/status/qosClass", json!("BestEffort")),
    ] {
        assert_eq!(made.pointer(pointer), Some(&expected), "{pointer}");
    }
    assert_eq!(made["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert!(made["metadata"]["creationTimestamp"].is_string());
    server.stop().await;
}

#[tokio::test]
async fn create_refuses_and_generates_names() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let maps = maps(&client);
    maps.create(&create(), &config_map("c", "1")).await.unwrap();
    let (code, reason, message) = api_error(
        maps.create(&create(), &config_map("c", "1"))
            .await
            .unwrap_err(),
    );
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(message, "configmaps \"c\" already exists");

    let nowhere: Api<ConfigMap> = Api::namespaced(client.clone(), "nowhere");
    let (code, _, message) = api_error(
        nowhere
            .create(&create(), &config_map("c", "1"))
            .await
            .unwrap_err(),
    );
    assert_eq!(
        (code, message.as_str()),
        (404, "namespaces \"nowhere\" not found")
    );

    let mut generated = config_map("", "1");
    generated.metadata.name = None;
    generated.metadata.generate_name = Some("pre-".into());
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let name = maps
            .create(&create(), &generated)
            .await
            .unwrap()
            .metadata
            .name
            .unwrap();
        assert!(name.starts_with("pre-") && name.len() == 9, "{name}");
        names.insert(name);
    }
    assert_eq!(names.len(), 20);

    let long = "x".repeat(64);
    let bad = pod_with("p", |p| p["metadata"]["labels"] = json!({"a": long}));
    let (code, reason, message) =
        api_error(pods(&client).create(&create(), &bad).await.unwrap_err());
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(
        message.contains("must be no more than 63 characters"),
        "{message}"
    );
    let dry = PostParams {
        dry_run: true,
        field_manager: None,
    };
    maps.create(&dry, &config_map("dry", "1")).await.unwrap();
    assert_eq!(api_error(maps.get("dry").await.unwrap_err()).0, 404);
    server.stop().await;
}

#[tokio::test]
async fn writes_with_an_old_version_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let maps = maps(&client);
    let first = maps.create(&create(), &config_map("c", "1")).await.unwrap();
    let mut second = first.clone();
    second.data.as_mut().unwrap().insert("k".into(), "2".into());
    let second = maps.replace("c", &create(), &second).await.unwrap();
    assert_ne!(
        first.metadata.resource_version,
        second.metadata.resource_version
    );

    let (code, reason, message) =
        api_error(maps.replace("c", &create(), &first).await.unwrap_err());
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(
        message.contains("the object has been modified"),
        "{message}"
    );
    let stale = json!({"metadata": {"resourceVersion": first.metadata.resource_version}, "data": {"k": "3"}});
    let (code, ..) = api_error(
        maps.patch("c", &patch(), &Patch::Merge(&stale))
            .await
            .unwrap_err(),
    );
    assert_eq!(code, 409);
    // A patch of another object's uid is refused, and so is a PUT.
    let alien = json!({"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}});
    let (code, ..) = api_error(
        maps.patch("c", &patch(), &Patch::Merge(&alien))
            .await
            .unwrap_err(),
    );
    assert_eq!(code, 422);
    let mut alien = second.clone();
    alien.metadata.uid = Some("00000000-0000-4000-8000-000000000000".into());
    let (code, _, message) = api_error(maps.replace("c", &create(), &alien).await.unwrap_err());
    assert_eq!(code, 409);
    assert!(
        message.contains("Precondition failed: UID in precondition"),
        "{message}"
    );
    // No change, no new version.
    let same = maps.replace("c", &create(), &second).await.unwrap();
    assert_eq!(
        same.metadata.resource_version,
        second.metadata.resource_version
    );
    let same = maps
        .patch("c", &patch(), &Patch::Merge(json!({"data": {"k": "2"}})))
        .await
        .unwrap();
    assert_eq!(
        same.metadata.resource_version,
        second.metadata.resource_version
    );

    let frozen = json!({"immutable": true});
    maps.patch("c", &patch(), &Patch::Merge(&frozen))
        .await
        .unwrap();
    let change = json!({"data": {"k": "9"}});
    let (code, _, message) = api_error(
        maps.patch("c", &patch(), &Patch::Merge(&change))
            .await
            .unwrap_err(),
    );
    assert_eq!(code, 422);
    assert!(
        message.contains("field is immutable when `immutable` is set"),
        "{message}"
    );
    server.stop().await;
}

#[tokio::test]
async fn exactly_one_of_many_writers_wins() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let maps = maps(&client);
    let base = maps.create(&create(), &config_map("c", "0")).await.unwrap();
    let attempts = (0..20).map(|n| {
        let (maps, mut mine) = (maps.clone(), base.clone());
        mine.data
            .as_mut()
            .unwrap()
            .insert("k".into(), format!("writer {n}"));
        async move { maps.replace("c", &create(), &mine).await }
    });
    let outcomes = futures::future::join_all(attempts).await;
    let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 19));
    assert!(lost.into_iter().all(|l| api_error(l.unwrap_err()).0 == 409));
    let creates = (0..20).map(|_| {
        let maps = maps.clone();
        async move {
            maps.create(&create(), &config_map("race", "1"))
                .await
                .is_ok()
        }
    });
    let made = futures::future::join_all(creates).await;
    assert_eq!(made.into_iter().filter(|made| *made).count(), 1);
    server.stop().await;
}

#[tokio::test]
async fn gates_hold_a_pod_until_they_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let pods = pods(&client);
    let gated = pod_with("p", |p| {
        p["spec"]["schedulingGates"] = json!([{"name": "nogoo9/upgrade"}, {"name": "other/gate"}]);
    });
    let made = pods.create(&create(), &gated).await.unwrap();
    let conditions = made.status.unwrap().conditions.unwrap();
    assert_eq!(conditions[0].type_, "PodScheduled");
    assert_eq!(conditions[0].reason.as_deref(), Some("SchedulingGated"));

    make_node(&client, "local").await;
    let free = pods.create(&create(), &pod("free")).await.unwrap();
    assert!(free.spec.unwrap().node_name.is_none());
    // Once the free pod is placed, the scheduler has seen both.
    until(&pods, "free", |p| {
        p.spec.as_ref().unwrap().node_name.as_deref() == Some("local")
    })
    .await;
    assert!(
        pods.get("p")
            .await
            .unwrap()
            .spec
            .unwrap()
            .node_name
            .is_none()
    );

    let added =
        json!([{"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": "late/gate"}}]);
    let added: json_patch::Patch = serde_json::from_value(added).unwrap();
    let (code, _, message) = api_error(
        pods.patch("p", &patch(), &Patch::Json::<()>(added))
            .await
            .unwrap_err(),
    );
    assert_eq!(code, 422);
    assert!(
        message.contains("only deletion is allowed, but found new scheduling gate 'late/gate'"),
        "{message}"
    );

    let ungate = |name: &str| -> json_patch::Patch {
        serde_json::from_value(json!([
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": name},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]))
        .unwrap()
    };
    let (code, ..) = api_error(
        pods.patch("p", &patch(), &Patch::Json::<()>(ungate("other/gate")))
            .await
            .unwrap_err(),
    );
    assert_eq!(code, 422);
    pods.patch("p", &patch(), &Patch::Json::<()>(ungate("nogoo9/upgrade")))
        .await
        .unwrap();
    pods.patch("p", &patch(), &Patch::Json::<()>(ungate("other/gate")))
        .await
        .unwrap();
    let placed = until(&pods, "p", |p| {
        p.spec.as_ref().unwrap().node_name.as_deref() == Some("local")
    })
    .await;
    let conditions = placed.status.unwrap().conditions.unwrap();
    assert_eq!(
        (conditions[0].type_.as_str(), conditions[0].status.as_str()),
        ("PodScheduled", "True")
    );
    server.stop().await;
}

#[tokio::test]
async fn without_a_ready_node_a_pod_is_unschedulable_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let pods = pods(&client);
    pods.create(&create(), &pod("p")).await.unwrap();
    let waiting = until(&pods, "p", |p| {
        p.status
            .as_ref()
            .and_then(|s| s.conditions.as_ref())
            .is_some_and(|c| !c.is_empty())
    })
    .await;
    let condition = &waiting.status.unwrap().conditions.unwrap()[0];
    assert_eq!(condition.reason.as_deref(), Some("Unschedulable"));
    assert_eq!(
        condition.message.as_deref(),
        Some("no nodes available to schedule pods")
    );
    make_node(&client, "local").await;
    until(&pods, "p", |p| p.spec.as_ref().unwrap().node_name.is_some()).await;
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let of_pod = ListParams::default().fields("involvedObject.name=p");
    let reasons: std::collections::BTreeSet<String> = events
        .list(&of_pod)
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|e| e.reason)
        .collect();
    assert_eq!(
        reasons.into_iter().collect::<Vec<_>>(),
        ["FailedScheduling", "Scheduled"]
    );
    server.stop().await;
}

#[tokio::test]
async fn deletion_is_graceful_and_guarded() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let pods = pods(&client);
    // Never placed: gone at once.
    let made = pods.create(&create(), &pod("p")).await.unwrap();
    let wrong = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some("other".into()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let (code, reason, message) = api_error(pods.delete("p", &wrong).await.unwrap_err());
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(
        message.contains("the UID in the precondition (other) does not match"),
        "{message}"
    );
    let dry = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    pods.delete("p", &dry).await.unwrap();
    let right = DeleteParams {
        preconditions: Some(Preconditions {
            uid: made.metadata.uid,
            resource_version: None,
        }),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    pods.delete("p", &right).await.unwrap();
    assert_eq!(api_error(pods.get("p").await.unwrap_err()).0, 404);

    // Placed: marked, and a second delete only shortens.
    make_node(&client, "local").await;
    pods.create(&create(), &pod("q")).await.unwrap();
    until(&pods, "q", |p| p.spec.as_ref().unwrap().node_name.is_some()).await;
    let grace = |seconds: u32| DeleteParams {
        grace_period_seconds: Some(seconds),
        ..DeleteParams::default()
    };
    for (delete, expected) in [
        (DeleteParams::default(), 30),
        (grace(60), 30),
        (grace(5), 5),
        (DeleteParams::default(), 5),
    ] {
        let left = pods
            .delete("q", &delete)
            .await
            .unwrap()
            .left()
            .expect("the pod");
        assert_eq!(left.metadata.deletion_grace_period_seconds, Some(expected));
        assert!(left.metadata.deletion_timestamp.is_some());
    }
    // A name that is being deleted is still taken.
    assert_eq!(
        api_error(pods.create(&create(), &pod("q")).await.unwrap_err()).0,
        409
    );
    pods.delete("q", &grace(0)).await.unwrap();
    assert_eq!(api_error(pods.get("q").await.unwrap_err()).0, 404);
    server.stop().await;
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let maps = maps(&client);
    let mut held = config_map("c", "1");
    held.metadata.finalizers = Some(vec!["test/hold".into()]);
    maps.create(&create(), &held).await.unwrap();
    let marked = maps
        .delete("c", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .expect("held");
    assert!(marked.metadata.deletion_timestamp.is_some());
    maps.patch(
        "c",
        &patch(),
        &Patch::Merge(json!({"metadata": {"finalizers": null}})),
    )
    .await
    .unwrap();
    assert_eq!(api_error(maps.get("c").await.unwrap_err()).0, 404);
    server.stop().await;
}
