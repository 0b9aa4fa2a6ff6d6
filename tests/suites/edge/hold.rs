//! Requests for a workspace that has no ready pod yet.

use super::LONG;
use anyhow::Context as _;
use http::{Method, StatusCode};
use nogoo9_tests::{Api, Edge, NAVIGATION, Observation, Site, Socket, Template, until};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tokio_tungstenite::tungstenite::Message;

/// Spawns a workspace, and returns as soon as the proxy knows of its pod.
async fn spawn_starting(site: &Site, api: &Api, template: &Template) -> anyhow::Result<String> {
    let id = template.name().to_owned();
    site.cluster().await?.apply(template).await?;
    api.post("/api/v1/workspaces", &json!({"template": id, "id": id}))
        .await?
        .expect(201)?;
    until("the proxy to know of the pod", LONG, || async {
        let routes = site.proxy_admin("/routes").await?;
        Ok(Observation::when(
            routes["routes"].get(&id).is_some(),
            (),
            routes,
        ))
    })
    .await?;
    Ok(id)
}

/// Waits until the proxy holds exactly that many requests.
async fn held(site: &Site, wanted: usize) -> anyhow::Result<()> {
    let proxy = Api::new(&site.ready().admin_proxy, None)?;
    let line = format!("nogoo9_proxy_held_requests {wanted}");
    until(&line, LONG, || async {
        let metrics = proxy.get("/metrics").await?.body;
        let metrics = metrics.as_str().unwrap_or_default();
        let now = metrics
            .lines()
            .find(|text| text.starts_with("nogoo9_proxy_held_requests"));
        Ok(Observation::when(now == Some(line.as_str()), (), now))
    })
    .await
}

pub(super) async fn until_ready(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    // It is ready as soon as this is there, and not before.
    let file = site.data_dir().join("slowstart-is-ready");
    let ready = json!({"exec": {"command": ["test", "-e", &file]}, "periodSeconds": 1});
    let template = Template::new("slowstart", "1.0").container("readinessProbe", ready);
    let id = spawn_starting(&site, &alice, &template).await?;
    assert_eq!(alice.workspace(&id).await?["status"], "starting");

    // A read, a write with its body, and a socket, all sent before the pod is ready.
    let body = vec![7_u8; 300_000];
    let sum = data_encoding::HEXLOWER.encode(Sha256::digest(&body).as_slice());
    let host = edge.host(&id);
    let post = edge.request(Method::POST, &host, "/upload")?.body(body);
    let all_held = async {
        held(&site, 3).await?;
        std::fs::write(&file, "").context("the file that makes it ready")
    };
    let (read, written, socket, seen) = tokio::join!(
        edge.get(&id, "/info"),
        Edge::send(post),
        Socket::open(&edge, &host, "/echo", &[]),
        all_held
    );
    seen?;
    assert_eq!(read?.json()?["workspace"], id.as_str());
    assert_eq!(written?.json()?, json!({"sha256": sum, "bytes": 300_000}));
    let mut socket = socket?;
    socket.send(Message::text("held")).await?;
    assert_eq!(socket.next().await?, Message::text("held"));
    socket.close().await;
    Ok(())
}

pub(super) async fn waiting_page(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let template = Template::new("pulling", "1.0_slow-pull-60m");
    let id = spawn_starting(&site, &alice, &template).await?;
    for (host, path, status_path) in [
        (edge.host(&id), "/".to_owned(), "/.nogoo9/status".to_owned()),
        (
            edge.console(),
            format!("/route/{id}/"),
            format!("/route/{id}/.nogoo9/status"),
        ),
    ] {
        let mut request = edge.request(Method::GET, &host, &path)?;
        for (name, value) in NAVIGATION {
            request = request.header(name, value);
        }
        let page = Edge::send(request).await?;
        assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(
            page.header("retry-after").is_some()
                && page
                    .header("content-type")
                    .is_some_and(|t| t.starts_with("text/html"))
        );
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert!(
            page.text()
                .contains(&format!("data-status=\"{status_path}\"")),
            "{}",
            page.text()
        );
        let status = Edge::send(edge.request(Method::GET, &host, &status_path)?)
            .await?
            .json()?;
        assert!(
            status["status"].is_string() && status["status"] != "serving",
            "{status}"
        );
        assert!(
            status["message"].as_str().is_some_and(|m| !m.is_empty()),
            "{status}"
        );
        let bobs = site.edge("bob").await?;
        assert_eq!(
            Edge::send(bobs.request(Method::GET, &host, &status_path)?)
                .await?
                .status,
            StatusCode::NOT_FOUND
        );
    }
    Ok(())
}

pub(super) async fn no_longer_than_the_bound(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let id = spawn_starting(&site, &alice, &Template::new("never", "1.0_slow-pull-60m")).await?;
    let host = edge.host(&id);
    let (answer, socket) = tokio::join!(
        edge.get(&id, "/info"),
        Socket::open(&edge, &host, "/echo", &[])
    );
    let answer = answer?;
    assert_eq!(
        (answer.status, answer.header("retry-after").is_some()),
        (StatusCode::SERVICE_UNAVAILABLE, true)
    );
    assert_eq!(socket.err().as_ref().and_then(Socket::refused), Some(503));
    Ok(())
}
