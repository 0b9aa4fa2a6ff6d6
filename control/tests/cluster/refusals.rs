//! What a call of control does not do: on what it has read too long ago, on what is not its own, and
//! when the API server says no.

use crate::support::claimed::record;
use crate::support::{Fault, Faults, Site, WORKSPACES};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use nogoo9_control::cluster::{Cluster, ClusterError, Stored};
use nogoo9_control::upgrade::{Proxies, pass};
use nogoo9_model::keys;
use nogoo9_model::record::Record;
use serde_json::{Value, json};

async fn passes(site: &Site, id: &str) {
    let (cluster, proxies) = (
        site.cluster(&Faults::default()),
        Proxies::new(Vec::new(), None).unwrap(),
    );
    for _ in 0..3 {
        pass(&cluster, &proxies, id).await.unwrap();
        site.kubelet().await;
    }
}

/// A running workspace with a claim, as its record was read.
async fn spawned(site: &Site, id: &str) -> (Cluster, Stored<Record>) {
    let cluster = site.cluster(&Faults::default());
    cluster
        .create_record(&record(id, cluster.now()))
        .await
        .unwrap();
    passes(site, id).await;
    let stored = cluster.record(id).await.unwrap().unwrap();
    (cluster, stored)
}

async fn claim_uids(site: &Site) -> Vec<String> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(site.admin.clone(), WORKSPACES);
    let list = api.list(&ListParams::default()).await.unwrap().items;
    let staying = list
        .iter()
        .filter(|claim| claim.metadata.deletion_timestamp.is_none());
    staying.map(|claim| claim.uid().unwrap()).collect()
}

fn is_conflict<T>(answer: &Result<T, ClusterError>) -> bool {
    matches!(answer, Err(ClusterError::Conflict { .. }))
}

#[tokio::test]
async fn who_read_the_record_of_a_former_workspace_does_not_delete_the_claims_of_the_next() {
    let site = Site::start().await;
    let (cluster, stored) = spawned(&site, "dev").await;
    let deleted = stored.value.delete_with_data().unwrap();
    cluster.put_record(&stored, &deleted).await.unwrap();
    let former = cluster.record("dev").await.unwrap().unwrap();
    passes(&site, "dev").await;
    let gone = cluster.record("dev").await.unwrap().unwrap();
    assert!(gone.value.is_gone());
    // Two minutes later.
    cluster.delete_record(&gone).await.unwrap();
    // The same owner takes the same id again: the claim has the same name.
    spawned(&site, "dev").await;
    let before = claim_uids(&site).await;
    assert_eq!(before.len(), 1);
    assert!(is_conflict(&cluster.delete_claims(&former).await));
    assert_eq!(claim_uids(&site).await, before);
}

#[tokio::test]
async fn a_claim_is_not_dropped_for_a_record_that_has_changed() {
    let site = Site::start().await;
    let cluster = site.cluster(&Faults::default());
    // Nobody binds a claim of this class.
    let mut unbound = record("dev", cluster.now());
    unbound.claims[0].spec["storageClassName"] = json!("nobodys");
    cluster.create_record(&unbound).await.unwrap();
    passes(&site, "dev").await;
    let stored = cluster.record("dev").await.unwrap().unwrap();
    let mut unused = stored.value.clone();
    unused.unused_claims = std::mem::take(&mut unused.claims);
    cluster.put_record(&stored, &unused).await.unwrap();
    let seen = cluster.record("dev").await.unwrap().unwrap();
    let mut next = seen.value.clone();
    next.unused_claims.clear();
    // An upgrade that wants it begins in between.
    let mut other = seen.value.clone();
    other.name = "renamed".into();
    cluster.put_record(&seen, &other).await.unwrap();
    assert!(is_conflict(
        &cluster.drop_unbound_claims(&seen, &next).await
    ));
    assert_eq!(claim_uids(&site).await.len(), 1);
    let now = cluster.record("dev").await.unwrap().unwrap();
    cluster.drop_unbound_claims(&now, &next).await.unwrap();
    assert_eq!(claim_uids(&site).await.len(), 0);
}

#[tokio::test]
async fn a_pod_that_has_changed_since_is_not_deleted() {
    let site = Site::start().await;
    let (cluster, _) = spawned(&site, "dev").await;
    let mark = [(keys::LAST_UPGRADE_ERROR, "it serves again".to_owned())];
    // The scheduler marks it too.
    let pod = loop {
        let pod = cluster.pods("dev").await.unwrap().remove(0);
        let version = &pod.resource_version;
        let marked = cluster
            .patch_pod(&pod.name, &pod.uid, version, &[], &mark)
            .await;
        if marked.is_ok() {
            break pod;
        }
        assert!(is_conflict(&marked));
    };
    let late = cluster
        .delete_pod(&pod.name, &pod.uid, &pod.resource_version)
        .await;
    assert!(is_conflict(&late));
    assert!(!cluster.pods("dev").await.unwrap()[0].deleting);
}

#[tokio::test]
async fn a_release_that_is_forbidden_is_no_lost_race() {
    let site = Site::start().await;
    let (cluster, stored) = spawned(&site, "dev").await;
    let mut object = stored.value.manifest.clone();
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("Pod");
    object["metadata"]["name"] = json!("gated");
    object["spec"]["schedulingGates"] = json!([{"name": keys::GATE}]);
    cluster.create_pod(&object).await.unwrap();
    let pods = cluster.pods("dev").await.unwrap();
    let gated = pods.iter().find(|pod| pod.name == "gated").unwrap();
    for (code, conflict) in [(403, false), (409, true)] {
        let faulty = site.cluster(&Faults::at(1, Fault::Status(code)));
        let answer = faulty.release_pod("gated", &gated.uid).await;
        assert_eq!(is_conflict(&answer), conflict, "{answer:?}");
        assert!(answer.is_err());
    }
    // Another pod of that name: the test in the patch fails.
    assert!(is_conflict(&cluster.release_pod("gated", "another").await));
    cluster.release_pod("gated", &gated.uid).await.unwrap();
}

#[tokio::test]
async fn a_record_that_lives_in_another_namespace_is_left_alone() {
    let site = Site::start().await;
    let (cluster, stored) = spawned(&site, "dev").await;
    let mut moved = stored.value.delete_with_data().unwrap();
    moved.namespace = "elsewhere".into();
    cluster.put_record(&stored, &moved).await.unwrap();
    passes(&site, "dev").await;
    assert!(cluster.record("dev").await.unwrap().is_some());
    assert_eq!(site.pods().await.len(), 1);
    assert_eq!(claim_uids(&site).await.len(), 1);
}

#[tokio::test]
async fn an_upgrade_that_has_begun_may_make_its_record_larger() {
    let site = Site::start().await;
    let (cluster, stored) = spawned(&site, "dev").await;
    let padded = |record: &Record, bytes: usize| {
        let mut next = record.clone();
        next.manifest["metadata"]["annotations"]["padding"] = Value::from("x".repeat(bytes));
        next
    };
    let too_large = |answer| matches!(answer, Err(ClusterError::TooLarge { .. }));
    assert!(too_large(
        cluster
            .create_record(&padded(&record("big", 0), 200 * 1024))
            .await
    ));
    let mut begun = stored.value.clone();
    begun.upgrade = serde_json::from_value(json!({
        "operation": "op-1", "actor": "root", "mode": "recreate", "startedAt": 1, "deadline": 2,
        "timing": {"deadline": 600, "settle": 0, "drainTimeout": 600},
        "source": stored.value.pod, "successor": stored.value.pod, "template": stored.value.template,
        "manifest": {}, "phase": {"is": "starting"}, "readySeen": false, "readyLosses": 0,
    }))
    .unwrap();
    assert!(too_large(
        cluster
            .put_record(&stored, &padded(&begun, 200 * 1024))
            .await
    ));
    cluster
        .put_record(&stored, &padded(&begun, 190 * 1024))
        .await
        .unwrap();
    let stored = cluster.record("dev").await.unwrap().unwrap();
    cluster
        .put_record(&stored, &padded(&begun, 220 * 1024))
        .await
        .unwrap();
    let stored = cluster.record("dev").await.unwrap().unwrap();
    assert!(too_large(
        cluster
            .put_record(&stored, &padded(&begun, 300 * 1024))
            .await
    ));
}
