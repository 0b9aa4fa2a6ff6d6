//! Kills the executor at every write of an upgrade, in every way: the write lost, its reply lost,
//! an error answered. Whoever goes on afterwards has no memory of it, and it must end well.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod support;

use nogoo9_control::cluster::{Cluster, ClusterError};
use nogoo9_control::upgrade::{Proxies, pass};
use nogoo9_model::mode::Mode;
use nogoo9_model::operation::State;
use nogoo9_model::pod::{PodView, TemplateRef};
use nogoo9_model::record::{Intent, Record, Spawn};
use nogoo9_model::template::Timing;
use nogoo9_model::{keys, label};
use serde_json::{Map, Value, json};
use support::{Fault, Faults, Site, WORKSPACES};

/// Far more passes than any schedule takes.
const PASSES: usize = 60;

fn manifest(id: &str, version: &str) -> Value {
    json!({
        "metadata": {
            "labels": {
                keys::TYPE: keys::TYPE_WORKSPACE, keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER,
                keys::WORKSPACE_ID: id, keys::USER_SUB: label::owner("alice"),
            },
            "annotations": {keys::USER_SUB: "alice", keys::TEMPLATE_REF: "t", keys::TEMPLATE_VERSION: version},
        },
        "spec": {"containers": [{"name": "main", "image": format!("image:{version}")}]},
    })
}

fn template(version: &str) -> TemplateRef {
    TemplateRef {
        name: "t".into(),
        version: version.into(),
    }
}

async fn proxies() -> Proxies {
    Proxies::new(Vec::new(), None).unwrap()
}

/// A running workspace with an upgrade just asked for.
async fn asked(site: &Site, id: &str) {
    let cluster = site.cluster(&Faults::default());
    let spawn = Spawn {
        id: id.into(),
        namespace: WORKSPACES.into(),
        owner: "alice".into(),
        name: id.into(),
        template: template("v1"),
        inputs: Map::new(),
        manifest: manifest(id, "v1"),
    };
    cluster
        .create_record(&Record::spawn(spawn, cluster.now()))
        .await
        .unwrap();
    let proxies = proxies().await;
    pass(&cluster, &proxies, id).await.unwrap();
    site.kubelet().await;
    pass(&cluster, &proxies, id).await.unwrap();
    let stored = cluster.record(id).await.unwrap().unwrap();
    let intent = Intent {
        operation: format!("op-{id}"),
        actor: "root".into(),
        template: template("v2"),
        manifest: manifest(id, "v2"),
        mode: Mode::SideBySide,
        timing: Timing {
            deadline: 600,
            settle: 0,
            drain_timeout: 600,
        },
    };
    let next = stored.value.begin_upgrade(intent, cluster.now()).unwrap();
    cluster.put_record(&stored, &next).await.unwrap();
}

/// Passes until the record has let go of the upgrade; failed passes are what the faults are for.
async fn to_the_end(site: &Site, clusters: &[Cluster], id: &str) -> Vec<ClusterError> {
    let mut failures = Vec::new();
    let proxies = proxies().await;
    for _ in 0..PASSES {
        let passes = clusters.iter().map(|cluster| pass(cluster, &proxies, id));
        let outcomes = futures::future::join_all(passes).await;
        failures.extend(outcomes.into_iter().filter_map(Result::err));
        site.kubelet().await;
        let record = clusters[0].record(id).await.unwrap().unwrap().value;
        let shown = record.last.is_some_and(|last| last.shown);
        if record.upgrade.is_none() && shown {
            return failures;
        }
    }
    panic!("{id} did not end: {failures:?}");
}

async fn assert_upgraded(site: &Site, id: &str) {
    let cluster = site.cluster(&Faults::default());
    let record = cluster.record(id).await.unwrap().unwrap().value;
    assert_eq!(record.template, template("v2"), "{id}");
    let pods: Vec<PodView> = cluster.pods(id).await.unwrap();
    assert_eq!(pods.len(), 1, "{id}: {pods:?}");
    assert_eq!(record.pod.uid.as_ref(), Some(&pods[0].uid));
    assert_eq!(
        (pods[0].template.version.as_str(), pods[0].owner.as_str()),
        ("v2", "alice")
    );
    assert_eq!(pods[0].generation, record.pod.generation);
    let operation = cluster
        .operation(&format!("op-{id}"))
        .await
        .unwrap()
        .unwrap()
        .value;
    assert_eq!(
        (operation.state, operation.actor.as_str()),
        (State::Succeeded, "root")
    );
}

#[tokio::test]
async fn every_write_may_be_the_last() {
    let site = Site::start().await;
    let mut struck = 0;
    for n in 1..=20 {
        for (kind, fault) in [
            ("lost", Fault::Lost),
            ("reply-lost", Fault::ReplyLost),
            ("s500", Fault::Status(500)),
            ("s429", Fault::Status(429)),
            ("s409", Fault::Status(409)),
        ] {
            let id = format!("w{n}-{kind}");
            asked(&site, &id).await;
            let faults = Faults::at(n, fault);
            let failures = to_the_end(&site, &[site.cluster(&faults)], &id).await;
            assert_upgraded(&site, &id).await;
            if faults.struck() {
                struck += 1;
                // Beside the fault only races with the scheduler, which marks pods too.
                let others = failures
                    .iter()
                    .filter(|failure| !matches!(failure, ClusterError::Conflict { .. }));
                assert!(
                    others.count() <= 1,
                    "{id}: one fault, one failed pass: {failures:?}"
                );
            }
            assert_order(&faults.made(), &id);
        }
    }
    assert!(
        struck >= 5 * 9,
        "an upgrade takes at least nine writes; {struck} faults struck"
    );
    assert_eq!(
        site.pods().await.len(),
        20 * 5,
        "one pod a workspace, nothing left over"
    );
}

/// The record says what is meant before a pod is made, and the old pod goes last.
fn assert_order(made: &[String], id: &str) {
    let first = |what: &str| made.iter().position(|write| write.starts_with(what));
    let pods = format!("/api/v1/namespaces/{WORKSPACES}/pods");
    let created = first(&format!("POST {pods}")).unwrap_or_else(|| panic!("{id}: {made:#?}"));
    let operation = first("POST /api/v1/namespaces/nogoo9-system/configmaps").unwrap();
    let marked = first(&format!("PATCH {pods}")).unwrap();
    let deleted = first(&format!("DELETE {pods}")).unwrap();
    assert!(
        operation < created && created < marked && marked < deleted,
        "{id}: {made:#?}"
    );
}

#[tokio::test]
async fn two_executors_at_once_do_it_once() {
    let site = Site::start().await;
    for round in 0..10 {
        let id = format!("both-{round}");
        asked(&site, &id).await;
        let faults = [Faults::default(), Faults::default()];
        let clusters = [site.cluster(&faults[0]), site.cluster(&faults[1])];
        let failures = to_the_end(&site, &clusters, &id).await;
        for failure in &failures {
            assert!(
                matches!(
                    failure,
                    ClusterError::Conflict { .. } | ClusterError::Exists { .. }
                ),
                "only lost races: {failure:?}"
            );
        }
        assert_upgraded(&site, &id).await;
    }
    assert_eq!(site.pods().await.len(), 10);
}
