//! The admin listener over real sockets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use axum::{Router, routing::get};
use nogoo9_runtime::{
    admin::{self, Readiness},
    listen,
    secret::Secret,
};
use prometheus_client::{metrics::counter::Counter, registry::Registry};
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "0123456789012345678901";

async fn start(router: Router) -> (String, CancellationToken, tokio::task::JoinHandle<()>) {
    let listener = listen::bind("admin-listen", "127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { admin::serve(listener, router, stop).await.unwrap() }
    });
    (url, stop, task)
}

async fn fetch(url: &str) -> (u16, String) {
    let reply = reqwest::get(url).await.unwrap();
    (reply.status().as_u16(), reply.text().await.unwrap())
}

fn tls() {
    // reqwest wants a provider even where only http is used; a second call changes nothing.
    let _already = rustls::crypto::ring::default_provider().install_default();
}

#[tokio::test]
async fn readiness_lists_every_reason_until_all_are_green() {
    tls();
    let readiness = Readiness::new();
    let pods = readiness.register("pods", "waiting for the first list");
    let keys = readiness.register("keys", "waiting for session keys");
    let (url, stop, task) = start(admin::router(
        readiness.clone(),
        Arc::new(Registry::default()),
    ))
    .await;
    let ready = format!("{url}/readyz");
    assert_eq!(
        fetch(&ready).await,
        (
            503,
            "keys: waiting for session keys\npods: waiting for the first list\n".to_owned()
        )
    );
    assert_eq!(
        fetch(&format!("{url}/livez")).await,
        (200, "ok\n".to_owned())
    );
    pods.ready();
    assert_eq!(
        fetch(&ready).await,
        (503, "keys: waiting for session keys\n".to_owned())
    );
    keys.ready();
    assert_eq!(fetch(&ready).await, (200, "ok\n".to_owned()));
    keys.not_ready("control is gone");
    assert_eq!(
        fetch(&ready).await,
        (503, "keys: control is gone\n".to_owned())
    );
    readiness.show("age-seconds", || "7".to_owned());
    assert_eq!(
        fetch(&ready).await,
        (503, "keys: control is gone\nage-seconds: 7\n".to_owned())
    );
    keys.ready();
    assert_eq!(
        fetch(&ready).await,
        (200, "ok\nage-seconds: 7\n".to_owned())
    );
    stop.cancel();
    task.await.unwrap();
    assert!(reqwest::get(&ready).await.is_err(), "still listening");
}

#[tokio::test]
async fn metrics_are_open_metrics() {
    tls();
    let mut registry = Registry::default();
    let counter: Counter = Counter::default();
    registry.register("nogoo9_things", "Things seen", counter.clone());
    counter.inc_by(3);
    registry.register_collector(Box::new(admin::Tasks::here()));
    let (url, stop, task) = start(admin::router(Readiness::new(), Arc::new(registry))).await;
    let reply = reqwest::get(format!("{url}/metrics")).await.unwrap();
    assert_eq!(
        reply.headers()["content-type"],
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    let text = reply.text().await.unwrap();
    assert!(text.contains("nogoo9_things_total 3\n"), "{text}");
    let tasks = text
        .lines()
        .find_map(|line| line.strip_prefix("nogoo9_tasks "));
    assert!(
        tasks.is_some_and(|n| n.parse::<u32>().unwrap() > 0),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"), "{text}");
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn guarded_routes_need_the_token_and_the_rest_does_not() {
    tls();
    let private = || Router::new().route("/routes", get(|| async { "secret routes" }));
    let open = admin::router(Readiness::new(), Arc::new(Registry::default()));
    let guarded = admin::bearer(private(), Some(Secret::new(TOKEN)));
    let (url, stop, task) = start(open.merge(guarded)).await;
    let client = reqwest::Client::new();
    let routes = format!("{url}/routes");
    for (header, status) in [
        (None, 401),
        (Some(format!("Bearer {TOKEN}x")), 401),
        (Some("Bearer ".to_owned()), 401),
        (Some(TOKEN.to_owned()), 401),
        (Some(format!("Basic {TOKEN}")), 401),
        (Some(format!("bearer {TOKEN}")), 200),
    ] {
        let request = client.get(&routes);
        let request = match &header {
            Some(value) => request.header("authorization", value),
            None => request,
        };
        let reply = request.send().await.unwrap();
        assert_eq!(reply.status().as_u16(), status, "{header:?}");
        let text = reply.text().await.unwrap();
        assert_eq!(text == "secret routes", status == 200, "{header:?}");
    }
    assert_eq!(fetch(&format!("{url}/livez")).await.0, 200);
    stop.cancel();
    task.await.unwrap();

    let (url, stop, task) = start(admin::bearer(private(), None)).await;
    let (status, text) = fetch(&format!("{url}/routes")).await;
    assert_eq!(status, 403);
    assert!(text.contains("--admin-token-file"), "{text}");
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_port_in_use_names_the_flag() {
    let held = listen::bind("listen", "127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let addr = held.local_addr().unwrap();
    let error = listen::bind("listen", addr).await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "--listen {addr}: the port is in use; stop the program that holds it, or choose \
             another port"
        )
    );
}
