//! A recreate under load: between the old pod's end and the new one's start nothing serves, and
//! nobody is told so.

use super::{LONG, begin, succeeded};
use futures::future::try_join_all;
use http::Method;
use nogoo9_tests::{Edge, Site, Socket, Template};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Requests that may not be repeated among them: those are the hard ones.
const WORKERS: usize = 12;

/// One user's requests, one after the other; returns how many were answered.
async fn user(edge: Edge, id: String, n: usize, stop: Arc<AtomicBool>) -> anyhow::Result<usize> {
    let host = edge.host(&id);
    let mut answered = 0;
    while !stop.load(Ordering::SeqCst) {
        match n % 3 {
            0 => {
                let answer = edge.get(&id, "/info").await?;
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
            1 => {
                let body = vec![7_u8; 10_000];
                let request = edge.request(Method::POST, &host, "/upload")?.body(body);
                let answer = Edge::send(request).await?;
                assert_eq!(answer.status, 200, "{}", answer.text());
                assert_eq!(answer.json()?["bytes"], 10_000);
            }
            _ => {
                Socket::open(&edge, &host, "/echo", &[])
                    .await?
                    .close()
                    .await;
            }
        }
        answered += 1;
    }
    Ok(answered)
}

pub(super) async fn under_load(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let template = Template::new("recreated", "1.0").files(None);
    let id = site.spawn(&alice, &template, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    let stop = Arc::new(AtomicBool::new(false));
    let users: Vec<_> = (0..WORKERS)
        .map(|n| tokio::spawn(user(edge.clone(), id.clone(), n, stop.clone())))
        .collect();
    let mut kept = Socket::open(&edge, &edge.host(&id), "/echo", &[]).await?;

    cluster.apply(&template.version("2.0")).await?;
    let (pod, operation) = begin(&alice, &id).await?;
    succeeded(&alice, &operation).await?;
    cluster.only_pod(&id, &pod, LONG).await?;
    assert_ne!(pod, old);
    assert_eq!(edge.get(&id, "/info").await?.json()?["pod"], pod.as_str());
    stop.store(true, Ordering::SeqCst);
    for answered in try_join_all(users).await? {
        assert!(answered? > 0);
    }
    // What was open on the old pod was ended with a word that lets clients come back at once.
    assert_eq!(kept.closed().await?.0, 1012);
    Ok(())
}
