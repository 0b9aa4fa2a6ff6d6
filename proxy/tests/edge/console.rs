//! What is told of requests to control that it does not answer.

use crate::client::{Connection, request};
use crate::proxy::{CONSOLE, Stage};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

/// Sends a call of the API, or a person's navigation.
async fn call(stage: &Stage, method: &str, page: bool) -> crate::client::Answer {
    let body = if method == "POST" { "body" } else { "" };
    let length = body.len().to_string();
    let mut headers = vec![("Content-Length", length.as_str())];
    if page {
        headers.push(("Sec-Fetch-Mode", "navigate"));
    }
    let mut connection = Connection::open(stage.address).await;
    let head = request(method, CONSOLE, "/api/v1/workspaces", &headers);
    connection.send(format!("{head}{body}")).await;
    connection.answer().await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_have_done_it_is_not_to_be_asked_again() {
    let stage = Stage::start().await;
    let address = stage.control.address;
    stage.control.kill();
    // Nothing was sent: it may come again.
    for (method, page) in [("GET", false), ("POST", false), ("GET", true)] {
        let unreached = call(&stage, method, page).await;
        let again = unreached.header("retry-after");
        assert_eq!((unreached.status, again), (503, Some("5")), "{method}");
    }
    let listener = TcpListener::bind(address).await.unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let takes = {
        let taken = taken.clone();
        async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = Vec::new();
                let whole = |bytes: &[u8]| bytes.ends_with(b"body") || bytes.starts_with(b"GET");
                while !(whole(&bytes) && bytes.windows(4).any(|four| four == b"\r\n\r\n")) {
                    assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
                }
                taken.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let takes = tokio::spawn(takes);
    for (nth, (method, page)) in [("POST", false), ("GET", false), ("GET", true)]
        .into_iter()
        .enumerate()
    {
        let broken = call(&stage, method, page).await;
        let again = broken.header("retry-after");
        assert_eq!((broken.status, again), (502, None), "{method}");
        assert_eq!(taken.load(Ordering::SeqCst), nth + 1, "{method}");
        let kind = if page {
            "text/html"
        } else {
            "application/json"
        };
        assert!(broken.header("content-type").unwrap().starts_with(kind));
        assert!(
            broken.text().contains("nobody can know"),
            "{}",
            broken.text()
        );
    }
    takes.abort();
}

/// One that closes a connection at the very moment at which something comes over it that must not be
/// repeated is asked over another one.
#[tokio::test(flavor = "multi_thread")]
async fn what_must_not_be_repeated_takes_no_connection_that_was_used() {
    let stage = Stage::start().await;
    let before = stage.control.connections();
    for _ in 0..2 {
        assert_eq!(call(&stage, "GET", false).await.status, 200);
    }
    assert_eq!(stage.control.connections(), before + 1);
    for nth in 1..3 {
        assert_eq!(call(&stage, "POST", false).await.status, 200);
        assert_eq!(stage.control.connections(), before + 1 + nth);
    }
    assert_eq!(call(&stage, "GET", false).await.status, 200);
    assert_eq!(stage.control.connections(), before + 3);
}
