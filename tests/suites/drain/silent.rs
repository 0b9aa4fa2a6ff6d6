//! A proxy that cannot say what is open on the old pod: that counts as "not yet", up to the bound.

use super::link::Link;
use super::{LONG, NO_BOUND, begin, ended, template, text};
use nix::sys::signal::Signal;
use nogoo9_model::keys;
use nogoo9_tests::peer::Peer;
use nogoo9_tests::{Api, Cluster, Edge, Site};
use serde_json::json;
use std::sync::Arc;

/// A drain bound that is waited for, in seconds.
const BOUND: i64 = 8;

/// An upgrade whose traffic has moved and that waits for its old pod.
pub(super) struct Draining {
    alice: Api,
    cluster: Cluster,
    id: String,
    old: String,
    new: String,
    operation: String,
}

impl Draining {
    pub(super) async fn begin(site: &Site, id: &str, bound: &str) -> anyhow::Result<Self> {
        let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
        let offered = template(id)
            .annotation(keys::SETTLE, "0")
            .annotation(keys::DRAIN_TIMEOUT, bound);
        let id = site.spawn(&alice, &offered, json!({})).await?;
        let old = cluster.pod_names(&id).await?.remove(0);
        cluster.apply(&offered.version("2.0")).await?;
        let (new, operation) = begin(&alice, &id).await?;
        site.routed(&id, Some(&new)).await?;
        Ok(Self {
            alice,
            cluster,
            id,
            old,
            new,
            operation,
        })
    }

    /// It waits: both pods are there.
    async fn waits(&self) -> anyhow::Result<()> {
        let seen = self.alice.operation(&self.operation).await?;
        assert_eq!(seen["state"], "running", "{seen}");
        let pods = self.cluster.pod_names(&self.id).await?;
        assert_eq!(pods, [self.old.clone(), self.new.clone()]);
        Ok(())
    }

    /// It ends well. Returns how many seconds it took in all, by the cluster's clock.
    pub(super) async fn ends(&self) -> anyhow::Result<i64> {
        let seen = ended(&self.alice, &self.operation).await?;
        assert_eq!(seen["state"], "succeeded", "{seen}");
        self.cluster.only_pod(&self.id, &self.new, LONG).await?;
        let stored = self.cluster.operation(&self.operation).await?;
        let stored = stored.unwrap_or_default();
        let [began, ended] =
            ["startedAt", "finishedAt"].map(|at| stored[at].as_i64().unwrap_or_default());
        Ok(ended - began)
    }
}

/// While a proxy says nothing, or still sends requests to the old pod, that one stays: to the bound
/// where it is short, and else until the proxy is mended, or gone for good.
async fn kept(site: &Site, case: &str) -> anyhow::Result<Draining> {
    let short = Draining::begin(site, &format!("{case}-short"), &BOUND.to_string()).await?;
    let long = Draining::begin(site, &format!("{case}-long"), NO_BOUND).await?;
    let took = short.ends().await?;
    assert!(took >= BOUND, "{took} s");
    // The other was asked for all along.
    long.waits().await?;
    Ok(long)
}

pub(super) async fn dead(site: Arc<Site>) -> anyhow::Result<()> {
    let mut peer = Peer::start(&site, "dead", &[], None).await?;
    peer.signal(Signal::SIGKILL)?;
    peer.gone().await?;
    let long = kept(&site, "dead").await?;
    // Its pod is deleted: nobody expects a word of it any more.
    peer.unlist(&site).await?;
    long.ends().await?;
    Ok(())
}

pub(super) async fn cut_off(site: Arc<Site>) -> anyhow::Result<()> {
    let peer = Peer::start(&site, "mute", &[], None).await?;
    // The kernel still takes connections for it, and nobody answers.
    peer.signal(Signal::SIGSTOP)?;
    let long = kept(&site, "mute").await?;
    peer.signal(Signal::SIGCONT)?;
    long.ends().await?;
    peer.unlist(&site).await
}

pub(super) async fn deaf(site: Arc<Site>) -> anyhow::Result<()> {
    let link = Link::to(&Peer::own_kubeconfig(&site)?).await?;
    let peer = Peer::start(&site, "deaf", &[], Some(link.kubeconfig())).await?;
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let offered = template("unheard")
        .annotation(keys::SETTLE, "0")
        .annotation(keys::DRAIN_TIMEOUT, NO_BOUND);
    let id = site.spawn(&alice, &offered, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    peer.routed(&site, &id, &old).await?;
    link.cut();
    cluster.apply(&offered.version("2.0")).await?;
    let (new, operation) = begin(&alice, &id).await?;
    site.routed(&id, Some(&new)).await?;
    // Another workspace, of which that proxy has never heard, goes all the way meanwhile.
    let other = Draining::begin(&site, "unknown", NO_BOUND).await?;
    other.ends().await?;
    let served = |edge: Edge| {
        let id = id.clone();
        async move { anyhow::Ok(text(&edge.get(&id, "/info").await?.json()?["pod"])) }
    };
    assert_eq!(served(edge.clone()).await?, new);
    assert_eq!(served(peer.edge(&edge)).await?, old);
    assert_eq!(alice.operation(&operation).await?["state"], "running");
    link.mend();
    let seen = ended(&alice, &operation).await?;
    assert_eq!(seen["state"], "succeeded", "{seen}");
    assert_eq!(served(peer.edge(&edge)).await?, new);
    peer.unlist(&site).await
}
