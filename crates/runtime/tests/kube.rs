//! The Kubernetes client against a small server: clock, and errors that lead on.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::{
    Json, Router,
    http::{StatusCode, header},
    response::IntoResponse as _,
    routing::get,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use nogoo9_runtime::kube::{KubeError, Retry, connect};
use serde_json::json;

fn kubeconfig(dir: &Path, server: &str) -> PathBuf {
    let path = dir.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{token: hunter2}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// A server that answers lists of pods with `status`, in the year 2100.
async fn api_server(status: u16) -> String {
    let pods = move || async move {
        let status = StatusCode::from_u16(status).unwrap();
        let body = if status.is_success() {
            json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []})
        } else {
            json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
                   "message": "who are you", "reason": "Unauthorized", "code": status.as_u16()})
        };
        let date = [(header::DATE, "Fri, 01 Jan 2100 00:00:00 GMT")];
        (status, date, Json(body)).into_response()
    };
    let router = Router::new().route("/api/v1/namespaces/here/pods", get(pods));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

#[tokio::test]
async fn the_clock_is_the_servers() {
    let dir = tempfile::tempdir().unwrap();
    let path = kubeconfig(dir.path(), &api_server(200).await);
    let connection = connect(Some(&path), Retry::On).await.unwrap();
    assert!(!connection.clock.is_synced());
    connection.check("here").await.unwrap();
    assert!(connection.clock.is_synced());
    let year_2100 = 4_102_444_800;
    assert!((year_2100..year_2100 + 60).contains(&connection.clock.now()));
    let second = connection.with_retry(Retry::Off).unwrap();
    assert!((year_2100..year_2100 + 60).contains(&second.clock.now()));
}

#[tokio::test]
async fn refused_credentials_are_not_transient() {
    let dir = tempfile::tempdir().unwrap();
    let path = kubeconfig(dir.path(), &api_server(401).await);
    let connection = connect(Some(&path), Retry::On).await.unwrap();
    let error = connection.check("here").await.unwrap_err();
    assert!(matches!(error, KubeError::Refused { .. }), "{error}");
    assert!(!error.is_transient());
    let text = error.to_string();
    assert!(
        text.contains("--kubeconfig") && text.contains("who are you"),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_that_is_gone_is_transient_and_named() {
    let dir = tempfile::tempdir().unwrap();
    // Bound, so that nobody else gets the port, and never listening.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let path = kubeconfig(dir.path(), &url);
    let connection = connect(Some(&path), Retry::On).await.unwrap();
    let error = connection.check("here").await.unwrap_err();
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(text.contains(&url) && text.contains("refused"), "{text}");
    assert!(text.contains("--kubeconfig"), "{text}");
}

#[tokio::test]
async fn bad_files_are_named_and_never_quoted() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let error = connect(Some(&missing), Retry::On).await.err().unwrap();
    assert!(error.to_string().contains("--kubeconfig"), "{error}");

    let broken = dir.path().join("broken");
    std::fs::write(&broken, "apiVersion: v1\nusers: [token: hunter2\n").unwrap();
    let empty = dir.path().join("empty");
    std::fs::write(&empty, "apiVersion: v1\nkind: Config\n").unwrap();
    for path in [broken, empty] {
        let error = connect(Some(&path), Retry::On).await.err().unwrap();
        assert!(matches!(error, KubeError::Content { .. }), "{error}");
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("--kubeconfig"), "{text}");
    }
}

#[tokio::test]
async fn a_busy_server_says_how_long_it_wants_to_be_left_alone_and_writes_are_not_repeated() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let busy = move || {
        count.fetch_add(1, Ordering::Relaxed);
        // As the API server's flow control does it: plain text, and a header.
        let after = [(header::RETRY_AFTER, "9")];
        async move { (StatusCode::TOO_MANY_REQUESTS, after, "Too many requests") }
    };
    let router = Router::new().route("/api/v1/namespaces/here/pods", get(busy.clone()).post(busy));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let dir = tempfile::tempdir().unwrap();
    let path = kubeconfig(dir.path(), &url);
    let connection = connect(Some(&path), Retry::Off).await.unwrap();
    assert_eq!(connection.pressure.left(), Duration::ZERO);
    let pods: Api<Pod> = Api::namespaced(connection.client.clone(), "here");
    let refused = pods.create(&PostParams::default(), &Pod::default()).await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((status.code, calls.load(Ordering::Relaxed)), (429, 1));
    let left = connection.pressure.left();
    assert!(
        left > Duration::ZERO && left <= Duration::from_secs(9),
        "{left:?}"
    );
    let other = connection.with_retry(Retry::On).unwrap();
    assert!(other.pressure.left() > Duration::ZERO, "both know");
}
