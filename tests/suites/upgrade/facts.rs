//! What `upgrade_workspace` promises when it returns.

use super::{ended, text};
use anyhow::bail;
use futures::StreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use nogoo9_model::{keys, name};
use nogoo9_tests::{Observation, Site, Socket, Template, until};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;
use std::sync::Arc;

/// An image that a test never sees pulled.
const NEVER: &str = "2.0_slow-pull-60m";

/// Resource versions are the order of writes, over all objects of this API server.
fn order(object: &impl kube::ResourceExt) -> u64 {
    object
        .resource_version()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// The first write since `from` that `wanted` accepts, as resource version. What was written before
/// the call is told too.
async fn first_write<K>(
    api: Api<K>,
    from: String,
    wanted: impl Fn(&K, bool) -> bool + Send,
) -> anyhow::Result<u64>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let watch = WatchParams::default().timeout(120);
    let mut events = api.watch(&watch, &from).await?.boxed();
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(object) if wanted(&object, true) => return Ok(order(&object)),
            WatchEvent::Modified(object) if wanted(&object, false) => return Ok(order(&object)),
            _ => {}
        }
    }
    bail!("never written")
}

pub(super) async fn returns_at_once_with_durable_facts(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let template = Template::new("facts", "1.0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let old = cluster.pod_names(&id).await?;
    cluster.apply(&template.version(NEVER)).await?;
    let from = cluster
        .pods_api()
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();

    let answer = until("the new version to be known", super::LONG, || async {
        let answer = alice.upgrade(&id).await?;
        Ok(Observation::when(
            answer["status"] == "upgrading",
            answer.clone(),
            answer,
        ))
    })
    .await?;

    let (pod, operation) = (text(&answer["podName"]), text(&answer["operationId"]));
    assert_eq!(answer["id"], id.as_str());
    assert_eq!(answer["mode"], "side-by-side");
    assert_eq!([text(&answer["previousPodName"])], old.as_slice());
    assert_ne!(answer["fromVersion"], answer["toVersion"]);
    assert!(
        pod.starts_with("ws-alice-facts-up-") && pod.len() == "ws-alice-facts-up-".len() + 5,
        "{pod}"
    );
    assert!(
        operation.starts_with("op-") && operation.len() == 29,
        "{operation}"
    );
    assert!(
        text(&answer["next"]).contains("wait_for_operation"),
        "{answer}"
    );

    // What was promised is stored, under these very names …
    let record = cluster.record(&id).await?.unwrap_or_default();
    assert_eq!(record["upgrade"]["operation"], operation.as_str());
    assert_eq!(record["upgrade"]["successor"]["name"], pod.as_str());
    let stored = cluster.operation(&operation).await?.unwrap_or_default();
    assert_eq!(
        (&stored["state"], &stored["actor"]),
        (&json!("running"), &json!("alice"))
    );
    assert_eq!(stored["targets"][0]["podName"], pod.as_str());

    // … and was so before the new pod was created.
    let (record, map) = (name::record(&id), name::operation(&operation));
    let with_upgrade = first_write(cluster.secrets_api(), from.clone(), |secret, _| {
        secret.name_any() == record
            && nogoo9_tests::record_of(secret).unwrap_or_default()["upgrade"]["operation"]
                == operation.as_str()
    });
    let operation_added = first_write(cluster.config_maps_api(), from.clone(), |object, _| {
        object.name_any() == map
    });
    let pod_added = first_write(cluster.pods_api(), from, |object, added| {
        added && object.name_any() == pod
    });
    let (with_upgrade, operation_added, pod_added) =
        tokio::try_join!(with_upgrade, operation_added, pod_added)?;
    assert!(
        with_upgrade < pod_added,
        "record at {with_upgrade}, pod at {pod_added}"
    );
    assert!(
        operation_added < pod_added,
        "operation at {operation_added}, pod at {pod_added}"
    );

    // The old pod is as it was, and serves.
    let pods = cluster.pods(&id).await?;
    assert_eq!(pods.len(), 2);
    assert_eq!(pods[0].name_any(), old[0]);
    assert!(pods[0].metadata.deletion_timestamp.is_none());
    assert_eq!(pods[1].labels()[keys::UPGRADE_STATE], "candidate");
    assert_eq!(
        site.edge("alice").await?.get(&id, "/info").await?.json()?["pod"],
        old[0].as_str()
    );
    let seen = alice.workspace(&id).await?;
    assert_eq!(
        (&seen["status"], &seen["podName"]),
        (&json!("upgrading"), &json!(old[0]))
    );
    assert_eq!(seen["operationId"], operation.as_str());
    Ok(())
}

pub(super) async fn asked_again_means_the_same_operation(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let template = Template::new("again", "1.0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    cluster.apply(&template.clone().version(NEVER)).await?;
    let first = super::begin(&alice, &id).await?;

    // At once, by many, over both surfaces, by an admin too, and with a template that moved on.
    let (mcp, admin) = (site.mcp("alice").await?, site.api("admin").await?);
    let (by_json, by_mcp, by_admin) = tokio::join!(
        futures::future::join_all((0..8).map(|_| alice.upgrade(&id))),
        mcp.call("upgrade_workspace", json!({"id": id})),
        admin.upgrade(&id),
    );
    cluster.apply(&template.version("3.0")).await?;
    let moved_on = alice.upgrade(&id).await;
    let answers = by_json
        .into_iter()
        .chain([by_mcp?.ok(), by_admin, moved_on]);
    for answer in answers {
        let answer = answer?;
        for field in [
            "operationId",
            "podName",
            "previousPodName",
            "status",
            "toVersion",
        ] {
            assert_eq!(answer[field], first[field], "{field}");
        }
    }
    assert!(cluster.pods(&id).await?.len() <= 2);
    Ok(())
}

pub(super) async fn waits_end_with_every_step(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let template = Template::new("waits", "1.0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let edge = site.edge("alice").await?;
    let mut socket = Some(Socket::open(&edge, &edge.host(&id), "/echo", &[]).await?);
    cluster.apply(&template.version("2.0")).await?;
    let answer = super::begin(&alice, &id).await?;
    let operation = text(&answer["operationId"]);

    // With the last revision given each wait ends with what is new. The socket keeps the old pod, and
    // with it the upgrade's last step, until that step was told.
    let mut phases = Vec::new();
    let mut revision = String::new();
    loop {
        let path =
            format!("/api/v1/operations/{operation}/wait?seconds=25&sinceRevision={revision}");
        let seen = alice.get(&path).await?.expect(200)?;
        revision = text(&seen["revision"]);
        phases.push(text(&seen["targets"][0]["phase"]));
        if seen["targets"][0]["phase"] == "draining"
            && let Some(socket) = socket.take()
        {
            socket.close().await;
        }
        if seen["done"] == true {
            assert_eq!(seen["state"], "succeeded", "{seen}");
            assert!(
                seen["finishedAt"].is_string() && seen["next"].is_null(),
                "{seen}"
            );
            break;
        }
    }
    phases.dedup();
    // The first may be over by the time of the first wait.
    let phases: Vec<&str> = phases.iter().map(String::as_str).collect();
    assert!(
        phases.ends_with(&["draining", "done"])
            && ["starting", "draining", "done"].ends_with(&phases),
        "{phases:?}"
    );
    assert_eq!(
        ended(&alice, &operation).await?["targets"][0]["podName"],
        answer["podName"]
    );
    let pod = cluster
        .only_pod(&id, &text(&answer["podName"]), super::LONG)
        .await?;
    assert_eq!(
        pod.labels().get(keys::UPGRADE_STATE).map(String::as_str),
        Some("committed")
    );
    until(
        "the record to let go of the upgrade",
        super::LONG,
        || async {
            let record = cluster.record(&id).await?.unwrap_or_default();
            let at_rest = record["upgrade"].is_null() && record["pod"]["name"] == answer["podName"];
            Ok(Observation::when(at_rest, (), record))
        },
    )
    .await?;
    Ok(())
}

pub(super) async fn up_to_date_touches_nothing(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let id = site
        .spawn(&alice, &Template::new("current", "1.0"), json!({}))
        .await?;
    let secret = || async { cluster.secrets_api().get(&name::record(&id)).await };
    let before = until("the record to come to rest", super::LONG, || async {
        let record = cluster.record(&id).await?.unwrap_or_default();
        Ok(Observation::when(
            record["pod"]["uid"].is_string(),
            secret().await?.resource_version(),
            record,
        ))
    })
    .await?;
    let pods = cluster.pod_names(&id).await?;

    let answer = alice.upgrade(&id).await?;
    assert_eq!(answer["status"], "up_to_date");
    assert_eq!(answer["podName"], pods[0].as_str());
    assert_eq!(
        (answer["fromVersion"].clone(), answer["operationId"].clone()),
        (answer["toVersion"].clone(), json!(null))
    );
    assert_eq!(alice.workspace(&id).await?["outdated"], false);
    assert_eq!(
        (
            secret().await?.resource_version(),
            cluster.pod_names(&id).await?
        ),
        (before, pods)
    );
    Ok(())
}
