//! WebSockets.

use super::{LONG, begin, succeeded};
use nogoo9_model::keys;
use nogoo9_tests::{Site, Socket, Template};
use serde_json::json;
use std::sync::Arc;
use tokio_tungstenite::tungstenite::Message;

/// RFC 6455's successor codes: "service restart".
const RESTART: u16 = 1012;

pub(super) async fn every_byte(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let id = site
        .spawn(&alice, &Template::new("sockets", "1.0"), json!({}))
        .await?;
    for (host, path) in [
        (edge.host(&id), "/echo".to_owned()),
        (edge.console(), format!("/route/{id}/echo")),
    ] {
        let mut socket = Socket::open(&edge, &host, &path, &[]).await?;
        let mut sent = vec![
            Message::text(""),
            Message::text("Grüße ☀"),
            Message::binary(Vec::new()),
        ];
        // Around every boundary of the frame format, and larger than any buffer.
        for length in [1_usize, 125, 126, 127, 65_535, 65_536, 1 << 20, 3 << 20] {
            sent.push(Message::binary(
                (0..length)
                    .map(|n| u8::try_from(n % 251).unwrap_or_default())
                    .collect::<Vec<_>>(),
            ));
        }
        for message in &sent {
            socket.send(message.clone()).await?;
            assert!(
                &socket.next().await? == message,
                "a message of {} bytes on {path}",
                message.len()
            );
        }
        // Many at once come back in order.
        for n in 0..2_000 {
            socket.send(Message::text(n.to_string())).await?;
        }
        for n in 0..2_000 {
            assert_eq!(socket.next().await?, Message::text(n.to_string()));
        }
        socket.close().await;
    }
    Ok(())
}

pub(super) async fn end_with_the_pod(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let id = site
        .spawn(&alice, &Template::new("ending", "1.0"), json!({}))
        .await?;
    let mut sockets = Vec::new();
    for path in ["/echo", "/shell"] {
        sockets.push((path, Socket::open(&edge, &edge.host(&id), path, &[]).await?));
    }
    let pod = site.cluster().await?.pod_names(&id).await?.remove(0);
    site.cluster().await?.delete_pod(&pod).await?;
    for (path, socket) in &mut sockets {
        assert_eq!(socket.closed().await?.0, RESTART, "{path}");
    }
    // Whoever connects again lands on the pod that came in its place.
    let mut socket = Socket::open(&edge, &edge.host(&id), "/echo", &[]).await?;
    socket.send(Message::text("again")).await?;
    assert_eq!(socket.next().await?, Message::text("again"));
    // A workspace that is deleted closes them likewise.
    alice
        .ask(
            http::Method::DELETE,
            &format!("/api/v1/workspaces/{id}"),
            None,
        )
        .await?
        .expect(200)?;
    assert_eq!(socket.closed().await?, (RESTART, 0));
    Ok(())
}

pub(super) async fn up_to_the_bound(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let template = Template::new("bounded", "1.0")
        .annotation(keys::SETTLE, "0")
        .annotation(keys::DRAIN_TIMEOUT, "20");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    let mut socket = Socket::open(&edge, &edge.host(&id), "/echo", &[]).await?;
    cluster.apply(&template.version("2.0")).await?;
    let (pod, operation) = begin(&alice, &id).await?;
    site.routed(&id, Some(&pod)).await?;

    // It goes on, on the old pod, which is kept for it …
    for n in 0..20 {
        socket.send(Message::text(format!("after {n}"))).await?;
        assert_eq!(socket.next().await?, Message::text(format!("after {n}")));
    }
    let sessions = site
        .proxy_admin(&format!("/sessions?workspace={id}"))
        .await?;
    let counts: Vec<u64> = sessions["sessions"]
        .as_object()
        .into_iter()
        .flat_map(|map| map.values())
        .filter_map(|n| n.as_u64())
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 1, "{sessions}");
    assert_eq!(cluster.pod_names(&id).await?, [old, pod.clone()]);
    // … until the bound; then it is told.
    assert_eq!(socket.closed().await?, (RESTART, 0));
    succeeded(&alice, &operation).await?;
    cluster.only_pod(&id, &pod, LONG).await?;
    Ok(())
}
