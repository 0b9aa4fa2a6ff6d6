//! What control tells on pods, what it reads of them beside their status, and when it stops to
//! delete.

use crate::support::struck::{Case, asked, assert_ended, manifest, proxies, spawned, to_the_end};
use crate::support::{Faults, Site, WORKSPACES};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use nogoo9_control::cluster::{Cluster, DeletionCap};
use nogoo9_control::upgrade::{Next, pass};
use nogoo9_model::keys;
use nogoo9_model::pod::PodView;
use prometheus_client::metrics::gauge::Gauge;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait for an Event.
const PATIENCE: Duration = Duration::from_secs(120);

fn events_api(site: &Site) -> Api<Event> {
    Api::namespaced(site.admin.clone(), WORKSPACES)
}

/// Reasons told on a pod by control, sorted.
async fn reasons(site: &Site, uid: &str) -> Vec<String> {
    let fields = format!("involvedObject.uid={uid},reportingComponent=nogoo9-control");
    let params = ListParams::default().fields(&fields);
    let events = events_api(site).list(&params).await.unwrap();
    let mut reasons: Vec<String> = events.items.into_iter().filter_map(|e| e.reason).collect();
    reasons.sort_unstable();
    reasons
}

async fn until_told(site: &Site, uid: &str, expected: &[&str]) {
    let end = Instant::now() + PATIENCE;
    loop {
        let reasons = reasons(site, uid).await;
        if reasons == expected {
            return;
        }
        assert!(Instant::now() < end, "{reasons:?} instead of {expected:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn only_pod(cluster: &Cluster, id: &str) -> PodView {
    let pods = cluster.pods(id).await.unwrap();
    assert_eq!(pods.len(), 1, "{pods:?}");
    pods[0].clone()
}

#[tokio::test]
async fn the_story_is_told_once_on_old_and_new_pod_whoever_tells_it() {
    let site = Site::start().await;
    let whole = &["UpgradeFinished", "UpgradeStarted", "UpgradeTookOver"][..];
    for (case, new_pod) in [
        (Case::SideBySide, whole),
        (Case::Recreate, whole),
        (Case::Restore, &["Restored", "UpgradeFailed"]),
    ] {
        let id = case.name();
        asked(&site, case, id).await;
        let clean = site.cluster(&Faults::default());
        let old = only_pod(&clean, id).await;
        // Two of them, who both believe that they lead.
        let tellers = ["one", "two"].map(|name| site.cluster(&Faults::default()).with_events(name));
        to_the_end(&site, &tellers, id).await;
        assert_ended(&site, case, id).await;
        let new = only_pod(&clean, id).await;
        until_told(&site, &old.uid, &["UpgradeStarted", "UpgradeTookOver"]).await;
        until_told(&site, &new.uid, new_pod).await;
    }
    let params = ListParams::default().fields("reason=UpgradeFailed");
    for event in events_api(&site).list(&params).await.unwrap() {
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        let message = event.message.unwrap();
        assert!(
            message.contains("(op-restore) failed: ImagePullBackOff: no such image"),
            "{message}"
        );
    }
}

/// Makes a pod look as one does whose kubelet works on its volumes.
async fn creating(site: &Site, pod: &str) {
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}});
    let pods = site.pods_api();
    let _bound: serde_json::Value = pods
        .create_subresource("binding", pod, &PostParams::default(), &binding)
        .await
        .unwrap();
    let status = json!({"status": {"phase": "Pending", "containerStatuses": [{
        "name": "main", "image": "image:v2", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}}}]}});
    let params = PatchParams::default();
    pods.patch_status(pod, &params, &Patch::Merge(&status))
        .await
        .unwrap();
}

async fn failed_mount(site: &Site, pod: &PodView, name: &str, message: &str) {
    let event: Event = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": WORKSPACES},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": WORKSPACES, "name": pod.name, "uid": pod.uid},
        "type": "Warning", "reason": "FailedMount", "message": message,
        "source": {"component": "kubelet"}, "reportingComponent": "kubelet", "reportingInstance": "n1",
    }))
    .unwrap();
    events_api(site)
        .create(&PostParams::default(), &event)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_volume_whose_secret_is_missing_ends_the_upgrade_and_a_slow_one_does_not() {
    let site = Site::start().await;
    let id = "unmounted";
    asked(&site, Case::SideBySide, id).await;
    let clean = site.cluster(&Faults::default());
    until_quiet(&clean, id).await;
    let pods = clean.pods(id).await.unwrap();
    let candidate = pods.iter().max_by_key(|pod| pod.generation).unwrap();
    creating(&site, &candidate.name).await;
    // It is looked at again soon, although no event will tell.
    let next = until_quiet(&clean, id).await;
    let soon = site.now() + 10;
    assert!(
        matches!(next, Next::At(at) if at <= soon),
        "{next:?} and not by {soon}"
    );
    let slow = "MountVolume.SetUp failed for volume \"s\" : failed to sync secret cache: timed out waiting for the condition";
    failed_mount(&site, candidate, "slow", slow).await;
    let later = site.cluster_ahead(&Faults::default(), 60);
    until_quiet(&later, id).await;
    assert_eq!(clean.pods(id).await.unwrap().len(), 2);
    assert_eq!(
        error(&clean, id, &candidate.uid).await,
        None,
        "it may still come"
    );
    let missing = "MountVolume.SetUp failed for volume \"s\" : secret \"gone\" not found";
    failed_mount(&site, candidate, "missing", missing).await;
    until_quiet(&later, id).await;
    let told = error(&clean, id, &candidate.uid).await;
    assert_eq!(told, Some(format!("FailedMount: {missing}")));
}

/// What the pod beside this one says of its last upgrade.
async fn error(cluster: &Cluster, id: &str, candidate: &str) -> Option<String> {
    let pods = cluster.pods(id).await.unwrap();
    let original = pods.into_iter().find(|pod| pod.uid != candidate);
    original.unwrap().last_upgrade_error
}

#[tokio::test]
async fn more_deletions_than_are_plausible_wait_and_are_told() {
    let site = Site::start().await;
    let id = "crowded";
    spawned(&site, Case::SideBySide, id).await;
    for n in 0..13 {
        let mut pod = manifest(Case::SideBySide, id, "v1");
        pod["metadata"]["name"] = json!(format!("ended-{n}"));
        pod["metadata"]["labels"][keys::GENERATION] = json!("1");
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let pods = site.pods_api();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let status = Patch::Merge(json!({"status": {"phase": "Failed", "reason": "Evicted"}}));
        let params = PatchParams::default();
        pods.patch_status(&pod.name_any(), &params, &status)
            .await
            .unwrap();
    }
    let gauge = Gauge::default();
    let cluster = site.cluster(&Faults::default());
    let cluster = cluster
        .with_cap(DeletionCap::new(gauge.clone()))
        .with_events("test");
    let next = until_quiet(&cluster, id).await;
    let now = site.now();
    assert!(
        matches!(next, Next::At(at) if at > now && at <= now + 62),
        "{next:?}"
    );
    assert_eq!((cluster.pods(id).await.unwrap().len(), gauge.get()), (4, 1));
    let why = cluster.deletions().waits(id).unwrap().to_string();
    assert!(why.starts_with("more than 10 pods"), "{why}");
    let end = Instant::now() + PATIENCE;
    let capped = ListParams::default().fields("reason=DeletionsCapped");
    while events_api(&site)
        .list(&capped)
        .await
        .unwrap()
        .items
        .is_empty()
    {
        assert!(Instant::now() < end, "it is told on the pod");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // In a large cluster so many are plausible.
    cluster.deletions().set_workspaces(10_000);
    until_quiet(&cluster, id).await;
    assert_eq!((cluster.pods(id).await.unwrap().len(), gauge.get()), (1, 0));
}

/// Passes until one meets no race: what marks pods beside us may come in between.
async fn until_quiet(cluster: &Cluster, id: &str) -> Next {
    let proxies = proxies().await;
    for _ in 0..50 {
        if let Ok(next) = pass(cluster, &proxies, id).await {
            return next;
        }
    }
    panic!("every pass met a race")
}
