//! Quotas, paging, subresources, other kinds, tokens and odd requests.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::core::v1::{Event, Namespace, Pod, ResourceQuota, Secret};
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, Patch, PostParams};
use kube::runtime::events::{Event as NewEvent, EventType, Recorder, Reporter};
use serde_json::{Value, json};

use crate::clients::{config_map, create, maps, patch, start};
use crate::support::*;

#[tokio::test]
async fn quota_is_enforced_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), NAMESPACE);
    let pods = pods(&client);
    pods.create(&create(), &pod("a")).await.unwrap();
    let quota: ResourceQuota = serde_json::from_value(
        json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2", "count/pods": "3"}}}),
    )
    .unwrap();
    let made = quotas.create(&create(), &quota).await.unwrap();
    assert_eq!(made.status.unwrap().used.unwrap()["pods"].0, "1");
    // Gated pods count too.
    let gated = pod_with("b", |p| {
        p["spec"]["schedulingGates"] = json!([{"name": "g"}]);
    });
    pods.create(&create(), &gated).await.unwrap();
    let (code, reason, message) = api_error(pods.create(&create(), &pod("c")).await.unwrap_err());
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        message,
        "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    );
    // An ended pod frees its place in `pods`, not in `count/pods`.
    pods.patch_status(
        "a",
        &patch(),
        &Patch::Merge(json!({"status": {"phase": "Failed"}})),
    )
    .await
    .unwrap();
    pods.create(&create(), &pod("c")).await.unwrap();
    let used = quotas.get("q").await.unwrap().status.unwrap().used.unwrap();
    assert_eq!(
        (used["pods"].0.as_str(), used["count/pods"].0.as_str()),
        ("2", "3")
    );
    let dry = PostParams {
        dry_run: true,
        field_manager: None,
    };
    assert_eq!(
        api_error(pods.create(&dry, &pod("d")).await.unwrap_err()).0,
        403
    );
    pods.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
    let used = quotas.get("q").await.unwrap().status.unwrap().used.unwrap();
    assert_eq!(used["count/pods"].0, "0");
    server.stop().await;
}

#[tokio::test]
async fn lists_are_paged_at_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let maps = maps(&client);
    for n in 0..5 {
        maps.create(&create(), &config_map(&format!("c{n}"), "1"))
            .await
            .unwrap();
    }
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    // What changes between the pages does not show in them.
    maps.delete("c3", &DeleteParams::default()).await.unwrap();
    maps.create(&create(), &config_map("c9", "1"))
        .await
        .unwrap();
    maps.patch("c4", &patch(), &Patch::Merge(json!({"data": {"k": "2"}})))
        .await
        .unwrap();
    let mut seen: Vec<ConfigMap> = first.items.clone();
    let mut token = first.metadata.continue_.clone();
    while let Some(next) = token {
        let page = maps
            .list(&ListParams::default().limit(2).continue_token(&next))
            .await
            .unwrap();
        assert_eq!(
            page.metadata.resource_version,
            first.metadata.resource_version
        );
        seen.extend(page.items);
        token = page.metadata.continue_;
    }
    let shown: Vec<String> = seen
        .iter()
        .map(|map| {
            format!(
                "{}={}",
                map.metadata.name.as_deref().unwrap(),
                map.data.as_ref().unwrap()["k"]
            )
        })
        .collect();
    assert_eq!(shown, ["c0=1", "c1=1", "c2=1", "c3=1", "c4=1"]);
    server.stop().await;
}

#[tokio::test]
async fn status_and_spec_are_written_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let pods = pods(&client);
    pods.create(&create(), &pod("p")).await.unwrap();
    let both = json!({
        "metadata": {"labels": {"from": "status"}},
        "spec": {"nodeName": "sneaky"}, "status": {"message": "by status"},
    });
    let after = pods
        .patch_status("p", &patch(), &Patch::Merge(&both))
        .await
        .unwrap();
    assert_eq!(
        after.status.as_ref().unwrap().message.as_deref(),
        Some("by status")
    );
    assert_eq!(after.meta().labels.as_ref().unwrap()["from"], "status");
    assert!(after.spec.unwrap().node_name.is_none());
    let sneaky =
        json!({"status": {"message": "by main"}, "metadata": {"labels": {"from": "main"}}});
    let after = pods
        .patch("p", &patch(), &Patch::Merge(&sneaky))
        .await
        .unwrap();
    assert_eq!(after.status.unwrap().message.as_deref(), Some("by status"));
    server.stop().await;
}

#[tokio::test]
async fn leases_namespaces_secrets_and_events() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15,
                 "renewTime": "2026-01-01T00:00:00.123456Z"},
    }))
    .unwrap();
    let made = leases.create(&create(), &lease).await.unwrap();
    assert_eq!(made.spec, lease.spec);
    leases.replace("l", &create(), &made).await.unwrap();

    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"k": "v"}}))
            .unwrap();
    let made = secrets.create(&create(), &secret).await.unwrap();
    assert_eq!(
        (made.data.unwrap()["k"].0.as_slice(), made.string_data),
        (b"v".as_slice(), None)
    );

    // kube's recorder writes the second events group; the first shows the same event.
    let object = pods(&client)
        .create(&create(), &pod("p"))
        .await
        .unwrap()
        .object_ref(&());
    let recorder = Recorder::new(client.clone(), Reporter::from("tester"));
    let event = NewEvent {
        type_: EventType::Warning,
        reason: "Tested".into(),
        note: Some("a note".into()),
        action: "Testing".into(),
        secondary: None,
    };
    recorder.publish(&event, &object).await.unwrap();
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let tested = ListParams::default().fields("reason=Tested,involvedObject.name=p");
    let found = events.list(&tested).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message.as_deref(), Some("a note"));
    assert_eq!(found[0].reporting_component.as_deref(), Some("tester"));

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let (code, ..) = api_error(
        namespaces
            .delete("default", &DeleteParams::default())
            .await
            .unwrap_err(),
    );
    assert_eq!(code, 403);
    server.stop().await;
}

#[tokio::test]
async fn tokens_decide_what_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let (server, admin) = start(&dir).await;
    pods(&admin).create(&create(), &pod("p")).await.unwrap();
    let proxy = server.client_with("proxy-token").await;
    let reader = pods(&proxy);
    assert_eq!(
        reader
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let watch = reader
        .watch(&kube::api::WatchParams::default().timeout(60), "0")
        .await
        .unwrap();
    assert!(watch.boxed().try_next().await.unwrap().is_some());
    for refused in [
        reader.delete("p", &DeleteParams::default()).await.err(),
        reader.create(&create(), &pod("q")).await.err(),
        reader
            .logs("p", &kube::api::LogParams::default())
            .await
            .err(),
        maps(&proxy).list(&ListParams::default()).await.err(),
    ] {
        let (code, reason, message) = api_error(refused.expect("refused"));
        assert_eq!((code, reason.as_str()), (403, "Forbidden"));
        assert!(
            message.contains("is forbidden: User \"nogoo9-proxy\" cannot"),
            "{message}"
        );
    }
    let control = server.client_with("control-token").await;
    maps(&control)
        .create(&create(), &config_map("c", "1"))
        .await
        .unwrap();
    for token in ["", "wrong", "admin-toke"] {
        let (code, headers, status) = server
            .raw(reqwest::Method::GET, "/api/v1/pods", token, None)
            .await;
        assert_eq!(
            (code, &status["reason"]),
            (401, &json!("Unauthorized")),
            "{token}"
        );
        assert!(headers.contains_key("date"));
    }
    server.stop().await;
}

#[tokio::test]
async fn answers_to_odd_requests_are_status_objects() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _client) = start(&dir).await;
    let post = reqwest::Method::POST;
    let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let big = |size: usize| {
        json!({"metadata": {"name": "big"}, "data": {"k": "x".repeat(size)}})
            .to_string()
            .into_bytes()
    };
    let text = |value: Value| value.to_string().into_bytes();
    for (method, path, body, code, reason) in [
        (
            reqwest::Method::GET,
            "/nothing".to_owned(),
            None,
            404,
            "NotFound",
        ),
        (
            reqwest::Method::GET,
            "/apis/apps/v1/deployments".into(),
            None,
            404,
            "NotFound",
        ),
        (
            reqwest::Method::GET,
            "/api/v1/pods?fieldSelector=spec.foo%3Dx".into(),
            None,
            400,
            "BadRequest",
        ),
        (
            reqwest::Method::GET,
            "/api/v1/pods?labelSelector=a%20b".into(),
            None,
            400,
            "BadRequest",
        ),
        (
            reqwest::Method::GET,
            "/api/v1/pods?resourceVersion=999999".into(),
            None,
            504,
            "Timeout",
        ),
        (
            reqwest::Method::GET,
            "/api/v1/pods?limit=x".into(),
            None,
            400,
            "BadRequest",
        ),
        (
            reqwest::Method::PUT,
            maps.clone(),
            None,
            405,
            "MethodNotAllowed",
        ),
        (
            post.clone(),
            "/api/v1/pods".into(),
            Some(("application/json", text(json!({})))),
            405,
            "MethodNotAllowed",
        ),
        (
            post.clone(),
            maps.clone(),
            Some(("application/json", b"{".to_vec())),
            400,
            "BadRequest",
        ),
        (
            post.clone(),
            maps.clone(),
            Some(("application/cbor", b"k8s".to_vec())),
            415,
            "UnsupportedMediaType",
        ),
        (
            post.clone(),
            maps.clone(),
            Some(("application/json", text(json!({"kind": "Pod"})))),
            400,
            "BadRequest",
        ),
        (
            post.clone(),
            maps.clone(),
            Some(("application/json", text(json!({"data": {"k": 1}})))),
            400,
            "BadRequest",
        ),
        (
            post.clone(),
            format!("{maps}?dryRun=Some"),
            Some(("application/json", text(json!({})))),
            400,
            "BadRequest",
        ),
        (
            post.clone(),
            maps.clone(),
            Some(("application/json", big(1_600_000))),
            413,
            "RequestEntityTooLarge",
        ),
        (
            post.clone(),
            maps.clone(),
            Some(("application/json", big(3_200_000))),
            413,
            "RequestEntityTooLarge",
        ),
    ] {
        let (status, headers, answer) = server.raw(method, &path, "admin-token", body).await;
        assert_eq!(
            (status, &answer["reason"]),
            (code, &json!(reason)),
            "{path}: {answer}"
        );
        assert_eq!(answer["kind"], "Status");
        assert_eq!(answer["code"], code);
        assert!(headers.contains_key("date"), "{path}");
    }
    let unknown = text(json!({"metadata": {"name": "w"}, "dta": {}}));
    let (status, headers, _) = server
        .raw(
            post,
            &maps,
            "admin-token",
            Some(("application/json", unknown)),
        )
        .await;
    assert_eq!(status, 201);
    assert_eq!(headers["warning"], "299 - \"unknown field \\\"dta\\\"\"");
    server.stop().await;
}

#[tokio::test]
async fn binding_is_refused_where_it_makes_no_sense() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let pods: Api<Pod> = pods(&client);
    // Another scheduler's pod: the built-in one leaves it alone.
    let own = pod_with("p", |p| p["spec"]["schedulerName"] = "mine".into());
    pods.create(&create(), &own).await.unwrap();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/p/binding");
    let binding = |node: &str| {
        json!({"target": {"kind": "Node", "name": node}, "metadata": {"name": "p"}})
            .to_string()
            .into_bytes()
    };
    for (node, code) in [("", 400), ("one", 201), ("two", 409)] {
        let body = Some(("application/json", binding(node)));
        let (status, _, answer) = server
            .raw(reqwest::Method::POST, &path, "admin-token", body)
            .await;
        assert_eq!(status, code, "{answer}");
    }
    let bound = pods.get("p").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("one"));
    server.stop().await;
}
