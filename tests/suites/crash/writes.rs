//! A blow at each write of an upgrade, one after the other, in the order of the writes.

use super::LONG;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use nogoo9_model::{keys, name};
use nogoo9_tests::{Cluster, Observation, Options, Site, Template, until};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// Every write to objects whose name `is_ours` accepts, as it happens; without those of the kubelet,
/// if what changes status alone is `status_is_noise`.
async fn writes<K>(
    api: Api<K>,
    from: String,
    status_is_noise: bool,
    is_ours: impl Fn(&str) -> bool + Send + 'static,
) -> anyhow::Result<BoxStream<'static, String>>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = api
        .watch(&WatchParams::default().timeout(200), &from)
        .await?
        .boxed();
    let mut last = BTreeMap::new();
    let ours = events.filter_map(move |event| {
        let Ok(
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object),
        ) = event
        else {
            return std::future::ready(None);
        };
        let name = object.name_any();
        let meta = object.meta();
        let facts = (
            meta.labels.clone(),
            meta.annotations.clone(),
            meta.deletion_timestamp.is_some(),
        );
        let same = last.insert(name.clone(), facts.clone()) == Some(facts);
        let counts = is_ours(&name) && !(status_is_noise && same);
        std::future::ready(counts.then_some(name))
    });
    Ok(ours.boxed())
}

/// All writes that an upgrade of this workspace makes.
async fn all_writes(cluster: &Cluster, id: &str) -> anyhow::Result<BoxStream<'static, String>> {
    let from = cluster
        .pods_api()
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let record = name::record(id);
    let prefix = format!("ws-alice-{id}-");
    Ok(stream::select_all([
        writes(cluster.secrets_api(), from.clone(), false, move |name| {
            name == record
        })
        .await?,
        writes(cluster.config_maps_api(), from.clone(), false, |name| {
            name.starts_with("nogoo9-op-")
        })
        .await?,
        writes(cluster.pods_api(), from, true, move |name| {
            name.starts_with(&prefix)
        })
        .await?,
    ])
    .boxed())
}

/// Upgrades one workspace again and again; in round n the part dies at the n-th write. Ends when an
/// upgrade has not that many.
async fn rounds(site: &Site, part: &'static str) -> anyhow::Result<()> {
    let (alice, cluster, edge) = (
        site.api("alice").await?,
        site.cluster().await?,
        site.edge("alice").await?,
    );
    let id = format!("writes-{part}");
    let template = Template::new(&id, "0.0").annotation(keys::SETTLE, "0");
    site.spawn(&alice, &template, json!({})).await?;
    for round in 1..60 {
        let version = format!("{round}.0");
        cluster.apply(&template.clone().version(&version)).await?;
        let mut writes = all_writes(&cluster, &id).await?;
        let answer = until("the upgrade to begin", LONG, || async {
            // What was killed in the last round may still be on its way back.
            let reply = alice.act(&id, "upgrade").await?;
            Ok(Observation::when(
                reply.status == 200 && reply.body["status"] == "upgrading",
                reply.body.clone(),
                reply,
            ))
        })
        .await?;
        let (pod, operation) = (
            answer["podName"].as_str().unwrap_or_default(),
            answer["operationId"].as_str().unwrap_or_default(),
        );
        let over = async {
            cluster.only_pod(&id, pod, LONG).await?;
            at_rest(&cluster, &id, pod).await
        };
        tokio::pin!(over);
        let mut seen = 0;
        let killed = loop {
            tokio::select! {
                biased;
                Some(_) = writes.next() => {
                    seen += 1;
                    if seen == round {
                        break true;
                    }
                }
                ended = &mut over => {
                    ended?;
                    break false;
                }
            }
        };
        if killed {
            site.kill(part).await?;
            cluster.only_pod(&id, pod, LONG).await?;
            at_rest(&cluster, &id, pod).await?;
        }
        assert_eq!(
            cluster.operation(operation).await?.unwrap_or_default()["state"],
            "succeeded",
            "round {round}"
        );
        site.routed(&id, Some(pod)).await?;
        assert_eq!(
            edge.get(&id, "/info").await?.json()?["version"],
            version.as_str(),
            "round {round}"
        );
        if !killed {
            assert!(round > 6, "an upgrade has more than {seen} writes");
            alice
                .ask(
                    http::Method::DELETE,
                    &format!("/api/v1/workspaces/{id}"),
                    None,
                )
                .await?
                .expect(200)?;
            return cluster.gone(&id, LONG).await;
        }
    }
    anyhow::bail!("an upgrade that takes more than 60 writes")
}

async fn at_rest(cluster: &Cluster, id: &str, pod: &str) -> anyhow::Result<()> {
    until(&format!("{id} to be at rest"), LONG, || async {
        let Ok(record) = cluster.record(id).await else {
            return Ok(Observation::NotYet("no answer".into()));
        };
        let record = record.unwrap_or_default();
        let rests = record["upgrade"].is_null() && record["last"]["shown"] == true;
        Ok(Observation::when(
            rests && record["pod"]["name"] == pod,
            (),
            record,
        ))
    })
    .await
}

/// On a site of its own for each part: what takes long here is the supervisor's pause before it
/// starts again what dies again and again, and two can wait at once.
pub(super) async fn killed_at_every_write(_: Arc<Site>) -> anyhow::Result<()> {
    let rounds = async |part| {
        let site = Site::up(Options::default()).await?;
        if let Err(error) = rounds(&site, part).await {
            return Err(error.context(format!("{part} killed\n{}", site.dump().await)));
        }
        site.stop().await
    };
    tokio::try_join!(rounds("control"), rounds("apiserver"))?;
    Ok(())
}
