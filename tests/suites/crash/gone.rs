//! A part that stays away for a while.

use super::LONG;
use futures::future::join_all;
use nix::sys::signal::Signal;
use nogoo9_model::keys;
use nogoo9_tests::{Edge, Observation, Site, Socket, Template, until};
use serde_json::json;
use std::sync::Arc;
use tokio_tungstenite::tungstenite::Message;

/// The workspace serves, on new connections and on an open socket.
async fn serves(edge: &Edge, id: &str, socket: &mut Socket, pod: &str) -> anyhow::Result<()> {
    for answer in join_all((0..200).map(|_| edge.get(id, "/info"))).await {
        assert_eq!(answer?.json()?["pod"], pod);
    }
    let mut fresh = Socket::open(edge, &edge.host(id), "/echo", &[]).await?;
    for socket in [socket, &mut fresh] {
        socket.send(Message::text("still here")).await?;
        assert_eq!(socket.next().await?, Message::text("still here"));
    }
    fresh.close().await;
    Ok(())
}

async fn without(site: &Site, part: &'static str) -> anyhow::Result<()> {
    let (alice, cluster, edge) = (
        site.api("alice").await?,
        site.cluster().await?,
        site.edge("alice").await?,
    );
    let id = format!("without-{part}");
    let template = Template::new(&id, "1.0").annotation(keys::SETTLE, "0");
    site.spawn(&alice, &template, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    let mut socket = Socket::open(&edge, &edge.host(&id), "/echo", &[]).await?;
    cluster.apply(&template.version("2.0")).await?;

    let down = site.take_down(part).await?;
    serves(&edge, &id, &mut socket, &old).await?;
    // A new upgrade is refused, in words, and leaves no half of itself.
    let refused = alice.act(&id, "upgrade").await?;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.body["code"], "unavailable", "{refused:?}");
    serves(&edge, &id, &mut socket, &old).await?;
    down.back().await?;

    let answer = until("an upgrade to begin", LONG, || async {
        let reply = alice.act(&id, "upgrade").await?;
        Ok(Observation::when(
            reply.status == 200,
            reply.body.clone(),
            reply,
        ))
    })
    .await?;
    assert_eq!(answer["status"], "upgrading", "{answer}");
    let pod = answer["podName"].as_str().unwrap_or_default().to_owned();
    site.routed(&id, Some(&pod)).await?;
    socket.send(Message::text("all along")).await?;
    assert_eq!(socket.next().await?, Message::text("all along"));
    socket.close().await;
    cluster.only_pod(&id, &pod, LONG).await?;
    Ok(())
}

pub(super) async fn without_control_the_edge_serves_on(site: Arc<Site>) -> anyhow::Result<()> {
    without(&site, "control").await
}

pub(super) async fn without_the_api_server_the_edge_serves_on(
    site: Arc<Site>,
) -> anyhow::Result<()> {
    without(&site, "apiserver").await
}

pub(super) async fn a_proxy_that_is_told_to_stop_says_so(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let id = site
        .spawn(&alice, &Template::new("proxystop", "1.0"), json!({}))
        .await?;
    let mut socket = Socket::open(&edge, &edge.host(&id), "/echo", &[]).await?;
    let proxy = site.process("proxy")?;
    proxy.signal(Signal::SIGTERM)?;
    assert_eq!(socket.closed().await?, (1001, 0));
    until("another proxy", LONG, || async {
        let pid = site.pid("proxy")?;
        Ok(Observation::when(
            pid.is_some_and(|pid| pid != proxy.pid),
            (),
            pid,
        ))
    })
    .await?;
    site.routed(&id, None).await?;
    assert_eq!(
        edge.get(&id, "/info").await?.json()?["workspace"],
        id.as_str()
    );
    Ok(())
}

pub(super) async fn a_pods_shim_killed(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster, edge) = (
        site.api("alice").await?,
        site.cluster().await?,
        site.edge("alice").await?,
    );
    let id = site
        .spawn(&alice, &Template::new("shimless", "1.0"), json!({}))
        .await?;
    let mut socket = Socket::open(&edge, &edge.host(&id), "/shell", &[]).await?;
    socket
        .send(Message::binary("sleep 1000 & echo st''arted\n"))
        .await?;
    let mut screen = String::new();
    while !screen.contains("started") {
        screen += &String::from_utf8_lossy(&socket.next().await?.into_data());
    }
    let pod = cluster.pods(&id).await?.remove(0);
    let uid = pod.metadata.uid.unwrap_or_default();
    let before = site.census()?;
    let shims = before.with_command(&uid);
    let shim = *shims
        .iter()
        .find(|process| process.command.contains("pod-shim"))
        .unwrap_or(&shims[0]);
    shim.signal(Signal::SIGKILL)?;
    // Program, shell and what runs in it go with it; the kubelet starts the container anew.
    until("the container to run again, alone", LONG, || async {
        let left: Vec<_> = before
            .descendants(shim.pid)
            .into_iter()
            .filter(|process| process.runs())
            .cloned()
            .collect();
        let pod = cluster.pods(&id).await?.remove(0);
        let restarts: i32 = pod
            .status
            .iter()
            .flat_map(|s| s.container_statuses.iter().flatten())
            .map(|c| c.restart_count)
            .sum();
        Ok(Observation::when(
            left.is_empty() && restarts == 1,
            (),
            (left, restarts),
        ))
    })
    .await?;
    assert!(before.descendants(shim.pid).len() >= 3, "{before:?}");
    assert_eq!(
        edge.get(&id, "/info").await?.json()?["workspace"],
        id.as_str()
    );
    Ok(())
}
