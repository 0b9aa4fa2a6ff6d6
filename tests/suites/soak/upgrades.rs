//! An upgrade every few seconds, of one workspace after the other, each of which must succeed.

use super::LONG;
use anyhow::Context as _;
use nogoo9_model::keys;
use nogoo9_tests::{Api, Cluster, Observation, Site, Template, patiently};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// One upgrade begins in each.
const EVERY: Duration = Duration::from_secs(5);

/// What became of them.
#[derive(Debug, Default)]
pub(super) struct Upgrades {
    pub(super) side_by_side: u64,
    pub(super) recreated: u64,
    /// Not begun, since the last one of that workspace was still under way.
    pub(super) skipped: u64,
    pub(super) failed: Vec<String>,
}

/// A workspace's template: every second workspace has a volume, so that it is recreated.
pub(super) fn template(number: usize, version: u64) -> Template {
    let probe = json!({
        "httpGet": {"path": "/healthz", "port": 3000},
        "periodSeconds": 1,
        "timeoutSeconds": 30,
        "failureThreshold": 20,
    });
    let template = Template::new(&id(number), &format!("{version}.0"))
        .container("readinessProbe", probe)
        .annotation(keys::SETTLE, "0")
        .annotation(keys::DRAIN_TIMEOUT, "15");
    if number % 2 == 1 {
        template.files(None)
    } else {
        template
    }
}

pub(super) fn id(number: usize) -> String {
    format!("soak-{number}")
}

/// Upgrades until it is to stop; returns once the last one has ended.
pub(super) async fn go_on(
    site: Arc<Site>,
    workspaces: usize,
    stop: CancellationToken,
) -> anyhow::Result<Upgrades> {
    let (api, cluster) = (site.api("alice").await?, site.cluster().await?);
    let seen = Arc::new(Mutex::new(Upgrades::default()));
    let busy: Arc<Mutex<BTreeMap<usize, u64>>> = Arc::default();
    let mut under_way = JoinSet::new();
    let mut ticks = tokio::time::interval(EVERY);
    for turn in 0_u64.. {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => break,
        }
        let number = usize::try_from(turn)? % workspaces;
        let version = 2 + turn / workspaces as u64;
        if lock(&busy).insert(number, version).is_some() {
            lock(&seen).skipped += 1;
            continue;
        }
        let (api, cluster) = (api.clone(), cluster.clone());
        let (seen, busy) = (Arc::clone(&seen), Arc::clone(&busy));
        under_way.spawn(async move {
            let ended = one(&api, &cluster, number, version).await;
            lock(&busy).remove(&number);
            let mut seen = lock(&seen);
            match ended {
                Ok(()) if number % 2 == 1 => seen.recreated += 1,
                Ok(()) => seen.side_by_side += 1,
                Err(error) => seen
                    .failed
                    .push(format!("{} to {version}.0: {error:#}", id(number))),
            }
        });
        while under_way.try_join_next().is_some() {}
    }
    while under_way.join_next().await.is_some() {}
    let seen = std::mem::take(&mut *lock(&seen));
    Ok(seen)
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One upgrade, to its end. Control may be away at any time: then it is asked again.
async fn one(api: &Api, cluster: &Cluster, number: usize, version: u64) -> anyhow::Result<()> {
    cluster.apply(&template(number, version)).await?;
    let id = id(number);
    let operation = patiently("an upgrade to begin", LONG, || async {
        let reply = api.act(&id, "upgrade").await?;
        let operation = reply.body["operationId"].as_str().map(ToOwned::to_owned);
        Ok(match operation {
            Some(operation) if reply.status == 200 => Observation::Holds(operation),
            _ => Observation::NotYet(format!("{reply:?}")),
        })
    })
    .await?;
    let ended: Value = patiently("an upgrade to end", LONG, || async {
        let reply = api.get(&format!("/api/v1/operations/{operation}")).await?;
        let ended = reply.status == 200 && reply.body["done"] == true;
        Ok(Observation::when(ended, reply.body.clone(), reply))
    })
    .await?;
    anyhow::ensure!(ended["state"] == "succeeded", "{ended}");
    let pods = cluster.pods(&id).await?;
    let image = format!("nogoo9-sample:{version}.0");
    let newest = pods.last().context("no pod")?;
    let containers = newest.spec.iter().flat_map(|spec| &spec.containers);
    let images: Vec<_> = containers.filter_map(|it| it.image.clone()).collect();
    anyhow::ensure!(images == [image.clone()], "{images:?} instead of {image}");
    Ok(())
}
