//! Bodies, large and slow, in both directions.

use super::{begin, succeeded};
use futures::{StreamExt as _, stream};
use http::Method;
use nogoo9_tests::{Edge, Site, Template};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Pseudo-random and reproducible, so that no part can stand in for another.
fn block(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(64 * 1024);
    while bytes.len() < 64 * 1024 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

pub(super) async fn uploads(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let template = Template::new("uploads", "1.0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let blocks = 800_u64; // 50 MiB
    let mut sum = Sha256::new();
    (0..blocks).for_each(|n| sum.update(block(n)));
    let expected = json!({"sha256": data_encoding::HEXLOWER.encode(sum.finalize().as_slice()), "bytes": blocks * 64 * 1024});

    // Chunked, and with its length said.
    let chunked = reqwest::Body::wrap_stream(stream::iter(
        (0..blocks).map(|n| Ok::<_, Infallible>(block(n))),
    ));
    let request = edge
        .request(Method::POST, &edge.host(&id), "/upload")?
        .body(chunked);
    assert_eq!(Edge::send(request).await?.json()?, expected);
    let whole: Vec<u8> = (0..blocks).flat_map(block).collect();
    let request = edge
        .request(Method::PUT, &edge.console(), &format!("/route/{id}/upload"))?
        .body(whole);
    assert_eq!(Edge::send(request).await?.json()?, expected);

    // One that is half sent when the workspace's traffic moves to a new pod.
    let (go_on, paused) = oneshot::channel::<()>();
    let (half, reached) = oneshot::channel::<()>();
    let first = stream::iter((0..blocks / 2).map(block));
    let pause = stream::once(async move {
        let _sent = half.send(());
        let _resumed = paused.await;
        Vec::new()
    })
    .filter(|_| std::future::ready(false));
    let second = stream::iter((blocks / 2..blocks).map(block));
    let body =
        reqwest::Body::wrap_stream(first.chain(pause).chain(second).map(Ok::<_, Infallible>));
    let request = edge
        .request(Method::POST, &edge.host(&id), "/upload")?
        .body(body);
    let upload = tokio::spawn(Edge::send(request));
    reached.await?;
    site.cluster()
        .await?
        .apply(&template.version("2.0"))
        .await?;
    let (pod, operation) = begin(&alice, &id).await?;
    site.routed(&id, Some(&pod)).await?;
    assert_eq!(edge.get(&id, "/info").await?.json()?["version"], "2.0");
    assert!(!upload.is_finished());
    let _resumed = go_on.send(());
    assert_eq!(upload.await??.json()?, expected);
    succeeded(&alice, &operation).await
}

pub(super) async fn streams(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let id = site
        .spawn(&alice, &Template::new("streams", "1.0"), json!({}))
        .await?;
    let all = edge.get(&id, "/chunks?n=50000").await?.text();
    let expected: String = (0..50_000).map(|n| format!("chunk {n}\n")).collect();
    assert!(all == expected, "{} of {} bytes", all.len(), expected.len());

    // The first part is here while the second is not even made: nothing collects a stream.
    let request = edge.request(Method::GET, &edge.host(&id), "/chunks?n=2&ms=300000")?;
    let mut slow = request.send().await?.bytes_stream();
    let first = slow.next().await.transpose()?.unwrap_or_default();
    assert_eq!(&first[..], b"chunk 0\n");
    drop(slow);

    let head = Edge::send(edge.request(Method::HEAD, &edge.host(&id), "/info")?).await?;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    Ok(())
}
