//! What schedulers and controllers do around the API server, in front of the process kubelet: the
//! same here as on a real cluster, where these tests pass too (`NOGOO9_TEST_KUBECONFIG`; it needs a
//! scheduler and the controllers).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a failed step fails the test

#[path = "kubelet_support/cluster.rs"]
mod kubelet_support;

use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kubelet_support::*;
use serde_json::{Value, json};

/// Creates a pod that only this kubelet's node can take, for the cluster's own scheduler.
async fn schedule(cluster: &Cluster, name: &str, mut spec: Value) {
    spec["nodeSelector"] = json!({"kubernetes.io/hostname": cluster.node});
    let pod = json!({"metadata": {"name": name}, "spec": spec});
    let pod = serde_json::from_value(pod).unwrap();
    cluster
        .pods()
        .create(&PostParams::default(), &pod)
        .await
        .unwrap();
}

fn runs() -> Value {
    json!({"terminationGracePeriodSeconds": 5, "containers": [script("exec sleep 1000")]})
}

fn mounts(claim: &str) -> Value {
    let mut spec = runs();
    spec["volumes"] = json!([{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]);
    spec
}

fn details<'a>(pod: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let conditions = pod["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|c| c["type"] == kind);
    let text = |key: &str| found.and_then(|c| c[key].as_str()).unwrap_or_default();
    (text("reason"), text("message"))
}

async fn unschedulable(cluster: &Cluster, name: &str, because: &str) {
    cluster
        .until(name, because, |pod| {
            let (reason, message) = details(pod, "PodScheduled");
            reason == "Unschedulable" && message.contains(because)
        })
        .await;
}

async fn taints(cluster: &Cluster) -> Vec<String> {
    let node = cluster.nodes().get(&cluster.node).await.unwrap();
    let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
    taints
        .iter()
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect()
}

/// The node as schedulers want it: known, Ready and without the taint of its first moments.
async fn open(cluster: &Cluster) {
    wait_for("the node takes pods", async || {
        let Ok(Some(node)) = cluster.nodes().get_opt(&cluster.node).await else {
            return false;
        };
        let ready = condition(&serde_json::to_value(node).unwrap(), "Ready") == "True";
        ready && taints(cluster).await.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_waits_for_claims_that_are_missing_or_cannot_be_bound() {
    let cluster = Cluster::start().await;
    open(&cluster).await;
    schedule(&cluster, "early", mounts("absent")).await;
    unschedulable(
        &cluster,
        "early",
        "persistentvolumeclaim \"absent\" not found",
    )
    .await;

    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let claim = json!({"metadata": {"name": "stuck"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "missing",
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    let claim = serde_json::from_value(claim).unwrap();
    claims.create(&PostParams::default(), &claim).await.unwrap();
    schedule(&cluster, "late", mounts("stuck")).await;
    let unbound = "pod has unbound immediate PersistentVolumeClaims";
    unschedulable(&cluster, "late", unbound).await;
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let about = ListParams::default().fields("involvedObject.name=stuck,reason=ProvisioningFailed");
    wait_for("the claim says why", async || {
        let found = events.list(&about).await.unwrap().items;
        let message = found.first().and_then(|event| event.message.clone());
        message.is_some_and(|m| m == "storageclass.storage.k8s.io \"missing\" not found")
    })
    .await;
    let status = claims.get("stuck").await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    for pod in ["early", "late"] {
        cluster.delete(pod, 0).await;
        cluster.until_gone(pod).await;
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_priority_class_that_nobody_made_is_refused() {
    let cluster = Cluster::start().await;
    let mut spec = runs();
    spec["priorityClassName"] = json!("nope");
    let pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
    let refused = cluster.pods().create(&PostParams::default(), &pod).await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(
        (status.code, status.reason.as_str(), status.message.as_str()),
        (
            403,
            "Forbidden",
            "pods \"p\" is forbidden: no PriorityClass with name nope was found"
        )
    );
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_holds_a_pod_until_a_patch_that_tests_removes_it() {
    let cluster = Cluster::start().await;
    open(&cluster).await;
    let mut spec = runs();
    spec["schedulingGates"] = json!([{"name": "nogoo9/upgrade"}]);
    schedule(&cluster, "p", spec).await;
    cluster
        .until("p", "gated", |pod| {
            details(pod, "PodScheduled").0 == "SchedulingGated"
        })
        .await;
    let remove = |gate: &str| {
        let patch = json!([
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": gate},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]);
        Patch::Json::<()>(serde_json::from_value(patch).unwrap())
    };
    let pods = cluster.pods();
    let refused = pods
        .patch("p", &PatchParams::default(), &remove("other"))
        .await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 422));
    pods.patch("p", &PatchParams::default(), &remove("nogoo9/upgrade"))
        .await
        .unwrap();
    let pod = cluster.until_ready("p").await;
    assert_eq!(pod["spec"]["nodeName"], json!(cluster.node));
    cluster.delete("p", 5).await;
    cluster.until_gone("p").await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cordoned_node_is_drained_by_eviction_and_takes_pods_again() {
    let cluster = Cluster::start().await;
    open(&cluster).await;
    schedule(&cluster, "before", runs()).await;
    cluster.until_ready("before").await;
    let cordon = async |closed: bool| {
        let patch = Patch::Strategic(json!({"spec": {"unschedulable": closed}}));
        cluster
            .nodes()
            .patch(&cluster.node, &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    cordon(true).await;
    wait_for("it is tainted", async || {
        taints(&cluster).await == ["node.kubernetes.io/unschedulable:NoSchedule"]
    })
    .await;
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "before", "namespace": cluster.namespace},
        "deleteOptions": {"gracePeriodSeconds": 5},
    });
    let path = format!(
        "/api/v1/namespaces/{}/pods/before/eviction",
        cluster.namespace
    );
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&eviction).unwrap())
        .unwrap();
    let answer: Value = cluster.client.request(request).await.unwrap();
    assert_eq!(answer["status"], "Success");
    // It may be gone already; while it is there, it says why it goes.
    if let Some(pod) = cluster.pods().get_opt("before").await.unwrap() {
        let pod = serde_json::to_value(pod).unwrap();
        assert_eq!(
            details(&pod, "DisruptionTarget"),
            ("EvictionByEvictionAPI", "Eviction API: evicting")
        );
    }
    cluster.until_gone("before").await;

    schedule(&cluster, "after", runs()).await;
    unschedulable(&cluster, "after", "were unschedulable").await;
    cordon(false).await;
    cluster.until_ready("after").await;
    wait_for("no taint is left", async || {
        taints(&cluster).await.is_empty()
    })
    .await;
    cluster.delete("after", 5).await;
    cluster.until_gone("after").await;
    cluster.end().await;
}
