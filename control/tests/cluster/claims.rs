//! Kills the executor at every write of a spawn with a claim, and of a deletion with data: whoever
//! goes on afterwards makes the claim once, before the pod, and deletes it before the record.

use crate::support::claimed::record;
use crate::support::{Fault, Faults, Site, WORKSPACES};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, ListParams, PostParams};
use nogoo9_control::cluster::Cluster;
use nogoo9_control::upgrade::{Proxies, pass};
use nogoo9_model::claim::PlannedClaim;
use nogoo9_model::keys;
use nogoo9_model::mode::Claim;
use serde_json::json;
use std::time::Duration;

const FAULTS: [(&str, Fault); 5] = [
    ("lost", Fault::Lost),
    ("reply-lost", Fault::ReplyLost),
    ("s500", Fault::Status(500)),
    ("s429", Fault::Status(429)),
    ("s409", Fault::Status(409)),
];

fn claims(site: &Site) -> Api<PersistentVolumeClaim> {
    Api::namespaced(site.admin.clone(), WORKSPACES)
}

async fn claims_of(site: &Site, id: &str) -> Vec<PersistentVolumeClaim> {
    let params = ListParams::default().labels(&format!("{}={id}", keys::WORKSPACE_ID));
    claims(site).list(&params).await.unwrap().items
}

/// One pass that may fail, then as many as it takes by one that knows nothing of it.
async fn through(site: &Site, id: &str, faults: &Faults) {
    let proxies = Proxies::new(Vec::new(), None).unwrap();
    let _ = pass(&site.cluster(faults), &proxies, id).await;
    let next = site.cluster(&Faults::default());
    for _ in 0..3 {
        pass(&next, &proxies, id).await.unwrap();
        site.kubelet().await;
    }
}

/// A running workspace that has a claim.
async fn spawned(site: &Site, id: &str, faults: &Faults) {
    let cluster: Cluster = site.cluster(&Faults::default());
    let record = record(id, cluster.now());
    cluster.create_record(&record).await.unwrap();
    through(site, id, faults).await;
}

#[tokio::test]
async fn the_claim_is_made_once_and_before_the_pod() {
    let site = Site::start().await;
    let calm = Faults::default();
    spawned(&site, "calm", &calm).await;
    let made = calm.made();
    let at = |what: &str| made.iter().position(|write| write.contains(what)).unwrap();
    assert!(at("persistentvolumeclaims") < at("/pods"), "{made:?}");
    for n in 1..=made.len() {
        for (kind, fault) in FAULTS {
            let id = format!("w{n}-{kind}");
            let faults = Faults::at(n, fault);
            spawned(&site, &id, &faults).await;
            assert!(faults.struck(), "{id}");
            let claims = claims_of(&site, &id).await;
            assert_eq!(claims.len(), 1, "{id}");
            let pods = site.cluster(&Faults::default()).pods(&id).await.unwrap();
            assert_eq!(pods.len(), 1, "{id}: {pods:?}");
        }
    }
}

/// Whether nothing is left of the workspace but the memory of it.
async fn is_gone(cluster: &Cluster, id: &str) -> bool {
    let stored = cluster.record(id).await.unwrap();
    stored.is_some_and(|stored| stored.value.is_gone())
}

#[tokio::test]
async fn a_deletion_with_data_leaves_no_claim_and_ends_with_the_record() {
    let site = Site::start().await;
    let cluster = site.cluster(&Faults::default());
    let delete = async |id: &str, faults: &Faults| {
        spawned(&site, id, &Faults::default()).await;
        let stored = cluster.record(id).await.unwrap().unwrap();
        let next = stored.value.delete_with_data().unwrap();
        cluster.put_record(&stored, &next).await.unwrap();
        through(&site, id, faults).await;
    };
    let calm = Faults::default();
    delete("calm", &calm).await;
    let made = calm.made();
    let kinds: Vec<&str> = made
        .iter()
        .map(|write| write.split('/').nth_back(1).unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["pods", "persistentvolumeclaims", "secrets"],
        "{made:?}"
    );
    for n in 1..=made.len() {
        for (kind, fault) in FAULTS {
            let id = format!("w{n}-{kind}");
            let faults = Faults::at(n, fault);
            delete(&id, &faults).await;
            assert!(faults.struck(), "{id}");
            assert!(is_gone(&cluster, &id).await, "{id}");
            assert!(cluster.pods(&id).await.unwrap().is_empty(), "{id}");
            let left = claims_of(&site, &id).await;
            let staying = left
                .iter()
                .filter(|c| c.metadata.deletion_timestamp.is_none());
            assert_eq!(staying.count(), 0, "{id}");
        }
    }
}

#[tokio::test]
async fn a_claim_of_that_name_that_is_anothers_is_not_touched() {
    let site = Site::start().await;
    let cluster = site.cluster(&Faults::default());
    let record = record("dev", cluster.now());
    let mut theirs = nogoo9_model::claim::object(&record, &record.claims[0]);
    theirs["metadata"]["annotations"][keys::USER_SUB] = json!("mallory");
    let theirs: PersistentVolumeClaim = serde_json::from_value(theirs).unwrap();
    let theirs = claims(&site)
        .create(&PostParams::default(), &theirs)
        .await
        .unwrap();
    cluster.create_record(&record).await.unwrap();
    let proxies = Proxies::new(Vec::new(), None).unwrap();
    pass(&cluster, &proxies, "dev").await.unwrap();
    assert!(site.pods().await.is_empty(), "no pod of hers mounts it");
    let stored = cluster.record("dev").await.unwrap().unwrap();
    let next = stored.value.delete_with_data().unwrap();
    cluster.put_record(&stored, &next).await.unwrap();
    pass(&cluster, &proxies, "dev").await.unwrap();
    assert!(is_gone(&cluster, "dev").await);
    let left = claims(&site).get(&record.claims[0].object).await.unwrap();
    assert_eq!(left.metadata.uid, theirs.metadata.uid);
    assert!(left.metadata.deletion_timestamp.is_none());
}

/// What decides how a pod can be replaced, read from real claims, before and after they are bound.
#[tokio::test]
async fn what_a_claim_can_do_is_read_from_it_or_from_its_plan() {
    let site = Site::start().await;
    let cluster = site.cluster(&Faults::default());
    let modes = |once_pod: bool, writable: bool| Claim::Modes { once_pod, writable };
    for (mode, expected) in [
        ("ReadWriteOnce", modes(false, true)),
        ("ReadWriteMany", modes(false, true)),
        ("ReadWriteOncePod", modes(true, true)),
        ("ReadOnlyMany", modes(false, false)),
    ] {
        let spec = json!({"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}});
        let planned = PlannedClaim::new(
            "alice",
            "dev",
            WORKSPACES,
            &mode.to_lowercase(),
            spec.clone(),
        );
        let name = planned.object.as_str();
        assert_eq!(
            cluster.claim(name, Some(&planned)).await,
            expected,
            "{mode}, planned"
        );
        assert_eq!(
            cluster.claim(name, None).await,
            Claim::Unreadable,
            "{mode}, unknown"
        );
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let object = serde_json::from_value(object).unwrap();
        claims(&site)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        // The plan is of no account once there is a claim.
        let other = PlannedClaim {
            spec: json!({"accessModes": []}),
            ..planned.clone()
        };
        assert_eq!(
            cluster.claim(name, Some(&other)).await,
            expected,
            "{mode}, made"
        );
        let bound = async {
            loop {
                let claim = claims(&site).get(name).await.unwrap();
                if claim
                    .status
                    .and_then(|status| status.access_modes)
                    .is_some()
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), bound)
            .await
            .unwrap();
        assert_eq!(cluster.claim(name, None).await, expected, "{mode}, bound");
    }
}
