//! Requests and streams across a change of pods.

use super::{LONG, begin, succeeded, text};
use futures::StreamExt as _;
use futures::stream;
use http::Method;
use kube::ResourceExt as _;
use nix::sys::signal::Signal;
use nogoo9_model::keys;
use nogoo9_tests::{Edge, Observation, Site, Template, until};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;

/// Half of an upload.
const HALF: &[u8] = &[7; 10_000];

/// A body whose second half is sent when `told` says so.
fn in_two_halves(mut told: watch::Receiver<bool>) -> reqwest::Body {
    let second = async move {
        // Without anybody left to say so, the upload breaks off.
        let said = told.wait_for(|go_on| *go_on).await;
        said.map(|_| HALF).map_err(std::io::Error::other)
    };
    let first = stream::iter([Ok::<_, std::io::Error>(HALF)]);
    reqwest::Body::wrap_stream(first.chain(stream::once(second)))
}

pub(super) async fn in_flight(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let template = Template::new("inflight", "1.0").annotation(keys::SETTLE, "0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    let uid = cluster.pods(&id).await?.remove(0).uid().unwrap_or_default();
    // Uploads that go on when they are told to.
    let (go_on, told) = watch::channel(false);
    let mut uploads = Vec::new();
    for _ in 0..24 {
        let request = edge
            .request(Method::POST, &edge.host(&id), "/upload")?
            .body(in_two_halves(told.clone()));
        uploads.push(tokio::spawn(Edge::send(request)));
    }
    let open = || async {
        let path = format!("/sessions?workspace={id}");
        let sessions = site.proxy_admin(&path).await?;
        let on_old = sessions["sessions"][&uid].as_u64();
        Ok(Observation::when(on_old == Some(24), (), sessions))
    };
    until("all of them to be under way", LONG, open).await?;
    cluster.apply(&template.version("2.0")).await?;
    let (pod, operation) = begin(&alice, &id).await?;
    site.routed(&id, Some(&pod)).await?;
    // New requests are the new pod's while the old ones are still with the old.
    assert_eq!(edge.get(&id, "/info").await?.json()?["pod"], pod.as_str());
    until("all of them to be with the old pod", LONG, open).await?;
    assert_eq!(cluster.pod_names(&id).await?, [old, pod.clone()]);
    go_on.send(true)?;
    for upload in uploads {
        let answer = upload.await??;
        assert_eq!(answer.json()?["bytes"], 2 * HALF.len(), "{}", answer.text());
    }
    succeeded(&alice, &operation).await?;
    cluster.only_pod(&id, &pod, LONG).await?;
    Ok(())
}

/// The next event of a stream: the JSON of its data.
async fn event(
    stream: &mut (impl futures::Stream<Item = reqwest::Result<bytes::Bytes>> + Unpin),
    rest: &mut String,
) -> anyhow::Result<Option<Value>> {
    loop {
        if let Some((event, after)) = rest.split_once("\n\n") {
            let data: String = event
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .collect();
            let event = serde_json::from_str(&data).ok();
            *rest = after.to_owned();
            if event.is_some() {
                return Ok(event);
            }
            continue;
        }
        match stream.next().await {
            Some(bytes) => rest.push_str(&String::from_utf8_lossy(&bytes?)),
            None => return Ok(None),
        }
    }
}

pub(super) async fn clock(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let template = Template::new("clock", "1.0").annotation(keys::SETTLE, "0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    let open = || async {
        let request = edge
            .request(Method::GET, &edge.host(&id), "/events")?
            .timeout(2 * LONG);
        Ok::<_, anyhow::Error>(request.send().await?.bytes_stream())
    };
    let (mut stream, mut rest) = (open().await?, String::new());
    let mut seen = vec![event(&mut stream, &mut rest).await?];
    cluster.apply(&template.version("2.0")).await?;
    let (pod, operation) = begin(&alice, &id).await?;
    site.routed(&id, Some(&pod)).await?;
    for _ in 0..2 {
        seen.push(event(&mut stream, &mut rest).await?);
    }
    // Not one tick lost, all from the old pod, which is kept for this stream.
    for (n, event) in seen.iter().flatten().enumerate() {
        assert_eq!(
            (&event["seq"], text(&event["pod"])),
            (&json!(n), old.clone())
        );
    }
    assert_eq!(seen.iter().flatten().count(), 3);
    assert_eq!(alice.operation(&operation).await?["state"], "running");
    assert_eq!(cluster.pod_names(&id).await?, [old, pod.clone()]);

    // Whoever opens it anew hears the new pod; the old one goes with its last listener.
    let (mut again, mut rest_again) = (open().await?, String::new());
    let first = event(&mut again, &mut rest_again)
        .await?
        .unwrap_or_default();
    assert_eq!(
        (text(&first["pod"]), &first["version"]),
        (pod.clone(), &json!("2.0"))
    );
    drop(stream);
    succeeded(&alice, &operation).await?;
    cluster.only_pod(&id, &pod, LONG).await?;
    let second = event(&mut again, &mut rest_again)
        .await?
        .unwrap_or_default();
    assert_eq!(second["seq"], 1);
    Ok(())
}

pub(super) async fn dead_program(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let id = site
        .spawn(&alice, &Template::new("mortal", "1.0"), json!({}))
        .await?;
    let pod = cluster.pods(&id).await?.remove(0);
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    assert_eq!(edge.get(&id, "/info").await?.status, 200);

    // The program is gone at once, as after the kernel's out-of-memory killer; the pod still counts
    // as ready until its probe fails or its status changes.
    let census = site.census()?;
    let shim = census
        .with_command(&uid)
        .into_iter()
        .find(|process| process.command.contains("pod-shim"));
    let shim = shim.unwrap_or_else(|| unreachable!("no shim of {uid}: {census:?}"));
    let program = census.children(shim.pid).into_iter().next().cloned();
    let program = program.unwrap_or_else(|| unreachable!("no program under {shim:?}"));
    program.signal(Signal::SIGKILL)?;
    let requests = (0..100).map(|_| edge.get(&id, "/info"));
    for answer in futures::future::join_all(requests).await {
        assert_eq!(
            answer?.json()?["pod"],
            pod.metadata.name.clone().unwrap_or_default().as_str()
        );
    }
    assert!(!program.runs());
    Ok(())
}
