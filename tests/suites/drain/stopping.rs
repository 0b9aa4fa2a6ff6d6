//! A proxy that stops: what is open through it counts until it is gone.

use super::silent::Draining;
use super::{LONG, NO_BOUND, begin, ended, template};
use nix::sys::signal::Signal;
use nogoo9_model::keys;
use nogoo9_tests::peer::Peer;
use nogoo9_tests::{Observation, Site, Socket, until};
use serde_json::json;
use std::sync::Arc;
use tokio_tungstenite::tungstenite::Message;

/// RFC 6455, section 7.4.1: "going away".
const GOING_AWAY: u16 = 1001;

pub(super) async fn until_it_is_gone(site: Arc<Site>) -> anyhow::Result<()> {
    // A load balancer gets minutes to look elsewhere, or less: a second signal ends it at once.
    let flags = ["--drain=300", "--stop-timeout=60"];
    let mut peer = Peer::start(&site, "stopping", &flags, None).await?;
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let offered = template("left")
        .annotation(keys::SETTLE, "0")
        .annotation(keys::DRAIN_TIMEOUT, NO_BOUND);
    let id = site.spawn(&alice, &offered, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    peer.routed(&site, &id, &old).await?;
    let through = peer.edge(&edge);
    let mut socket = Socket::open(&through, &edge.host(&id), "/echo", &[]).await?;

    peer.signal(Signal::SIGTERM)?;
    peer.listed_as_stopping(&site).await?;
    until("the other proxy to stop", LONG, || async {
        let ready = peer.ask(&site, "/readyz").await?;
        Ok(Observation::when(ready.0 == 503, (), ready))
    })
    .await?;
    cluster.apply(&offered.version("2.0")).await?;
    let (new, operation) = begin(&alice, &id).await?;
    site.routed(&id, Some(&new)).await?;
    peer.routed(&site, &id, &new).await?;
    // Another workspace goes all the way meanwhile: the stopping proxy answers, and has nothing open
    // there.
    let other = Draining::begin(&site, "vacant", NO_BOUND).await?;
    other.ends().await?;
    let message = Message::text("to the end");
    socket.send(message.clone()).await?;
    assert_eq!(socket.next().await?, message);
    assert_eq!(alice.operation(&operation).await?["state"], "running");
    assert_eq!(cluster.pod_names(&id).await?, [old, new.clone()]);

    // It is told that the time is over.
    peer.signal(Signal::SIGTERM)?;
    assert_eq!(socket.closed().await?, (GOING_AWAY, 0));
    peer.gone().await?;
    peer.unlist(&site).await?;
    let seen = ended(&alice, &operation).await?;
    assert_eq!(seen["state"], "succeeded", "{seen}");
    cluster.only_pod(&id, &new, LONG).await?;
    Ok(())
}
