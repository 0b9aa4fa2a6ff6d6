//! Eviction, drains, and nodes whose kubelet falls silent.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch};
use serde_json::{Value, json};

use crate::clients::{create, patch, start};
use crate::support::*;

fn nodes(client: &Client) -> Api<Node> {
    Api::all(client.clone())
}

async fn beat(client: &Client, node: &str, at: &str) {
    let status = json!({"status": {"conditions": [{
        "type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": at,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    nodes(client)
        .patch_status(node, &patch(), &Patch::Merge(status))
        .await
        .unwrap();
}

async fn until_node(client: &Client, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    wait(&format!("node {name} is as wanted"), async || {
        let node = serde_json::to_value(nodes(client).get(name).await.unwrap()).unwrap();
        wanted(&node).then_some(node)
    })
    .await
}

fn ready(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|c| c["type"] == "Ready").unwrap();
    ready["status"].as_str().unwrap()
}

fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array();
    let text = |t: &Value| {
        format!(
            "{}:{}",
            t["key"].as_str().unwrap(),
            t["effect"].as_str().unwrap()
        )
    };
    taints.into_iter().flatten().map(text).collect()
}

async fn placed(pods: &Api<Pod>, name: &str) {
    until(pods, name, |p| p.spec.as_ref().unwrap().node_name.is_some()).await;
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<(&'a str, Option<&'a str>)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|c| c.type_ == kind)?;
    Some((found.status.as_str(), found.reason.as_deref()))
}

/// As a drain asks for it; kube's own call does not send the options.
async fn evict(client: &Client, pod: &str, options: Value) -> Result<Value, kube::Error> {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod, "namespace": NAMESPACE}, "deleteOptions": options,
    });
    let request = http::Request::post(format!(
        "/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
    ))
    .header("content-type", "application/json")
    .body(serde_json::to_vec(&eviction).unwrap())
    .unwrap();
    client.request(request).await
}

#[tokio::test]
async fn an_evicted_pod_ends_gracefully_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    make_node(&client, "local").await;
    let pods = pods(&client);
    let made = pods.create(&create(), &pod("p")).await.unwrap();
    placed(&pods, "p").await;
    let uid = made.metadata.uid.unwrap();
    evict(&client, "p", json!({"dryRun": ["All"]}))
        .await
        .unwrap();
    assert!(
        pods.get("p")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_none()
    );
    let other = evict(&client, "p", json!({"preconditions": {"uid": "another"}})).await;
    let (code, reason, _) = api_error(other.unwrap_err());
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    let options = json!({"gracePeriodSeconds": 7, "preconditions": {"uid": uid}});
    let answer = evict(&client, "p", options).await.unwrap();
    assert_eq!(answer["status"], "Success");
    let leaving = pods.get("p").await.unwrap();
    assert_eq!(leaving.metadata.deletion_grace_period_seconds, Some(7));
    assert_eq!(
        condition(&leaving, "DisruptionTarget"),
        Some(("True", Some("EvictionByEvictionAPI")))
    );
    let (code, ..) = api_error(evict(&client, "nobody", json!({})).await.unwrap_err());
    assert_eq!(code, 404);
    server.stop().await;
}

/// Plays the kubelet of pods that are being deleted, until there are none.
async fn finish(pods: &Api<Pod>, name: &str) {
    until(pods, name, |pod| pod.metadata.deletion_timestamp.is_some()).await;
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    pods.delete(name, &now).await.unwrap();
}

#[tokio::test]
async fn kubectl_drains_and_opens_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    make_node(&client, "local").await;
    let (pods, kubectl) = (pods(&client), server.kubectl());
    for (name, how) in [("evicted", None), ("deleted", Some("--disable-eviction"))] {
        pods.create(&create(), &pod(name)).await.unwrap();
        placed(&pods, name).await;
        let mut args = vec!["drain", "local", "--force", "--timeout=60s"];
        args.extend(how);
        let (output, ()) = tokio::join!(kubectl.run(&args, ""), finish(&pods, name));
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}{errors}");
        assert!(told.contains("node/local drained"), "{told}{errors}");

        let closed = until_node(&client, "local", |node| !taints(node).is_empty()).await;
        assert_eq!(closed["spec"]["unschedulable"], true);
        assert_eq!(
            taints(&closed),
            ["node.kubernetes.io/unschedulable:NoSchedule"]
        );
        pods.create(&create(), &pod("next")).await.unwrap();
        until(&pods, "next", |p| {
            condition(p, "PodScheduled") == Some(("False", Some("Unschedulable")))
        })
        .await;
        kubectl.ok(&["uncordon", "local"]).await;
        until_node(&client, "local", |node| taints(node).is_empty()).await;
        placed(&pods, "next").await;
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        pods.delete("next", &now).await.unwrap();
    }
    server.stop().await;
}

#[tokio::test]
async fn a_silent_node_is_lost_with_all_that_was_ready_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    make_node(&client, "local").await;
    let pods = pods(&client);
    let patient = pod_with("patient", |_| {});
    let hasty = pod_with("hasty", |p| {
        p["spec"]["tolerations"] = json!([{
            "key": "node.kubernetes.io/unreachable", "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 0,
        }]);
    });
    for pod in [&patient, &hasty] {
        pods.create(&create(), pod).await.unwrap();
        let name = pod.metadata.name.as_deref().unwrap();
        placed(&pods, name).await;
        make_ready(&pods, name).await;
    }
    beat(&client, "local", "2026-01-01T00:00:00Z").await;
    let lost = until_node(&client, "local", |node| ready(node) == "Unknown").await;
    assert_eq!(
        taints(&lost),
        [
            "node.kubernetes.io/unreachable:NoSchedule",
            "node.kubernetes.io/unreachable:NoExecute"
        ]
    );
    let patient = until(&pods, "patient", |p| {
        condition(p, "Ready").is_some_and(|(status, _)| status == "False")
    })
    .await;
    assert!(
        patient.metadata.deletion_timestamp.is_none(),
        "it tolerates 300 s of it"
    );
    let hasty = until(&pods, "hasty", |p| p.metadata.deletion_timestamp.is_some()).await;
    assert_eq!(
        condition(&hasty, "DisruptionTarget"),
        Some(("True", Some("DeletionByTaintManager")))
    );
    // No kubelet confirms it: it stays, and is not forced.
    assert!(pods.get_opt("hasty").await.unwrap().is_some());

    // Its kubelet speaks again, and goes on.
    let mut second = 0;
    let back = wait("the node is back", async || {
        second += 1;
        beat(
            &client,
            "local",
            &format!("2026-01-01T00:01:{:02}Z", second % 60),
        )
        .await;
        let node = serde_json::to_value(nodes(&client).get("local").await.unwrap()).unwrap();
        (taints(&node).is_empty() && ready(&node) == "True").then_some(node)
    })
    .await;
    assert_eq!(back["metadata"]["name"], "local");
    server.stop().await;
}

#[tokio::test]
async fn pods_of_a_deleted_node_are_collected() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    make_node(&client, "local").await;
    let pods = pods(&client);
    pods.create(&create(), &pod("p")).await.unwrap();
    placed(&pods, "p").await;
    nodes(&client)
        .delete("local", &DeleteParams::default())
        .await
        .unwrap();
    wait("the pod goes", async || {
        pods.get_opt("p").await.unwrap().is_none().then_some(())
    })
    .await;
    server.stop().await;
}
