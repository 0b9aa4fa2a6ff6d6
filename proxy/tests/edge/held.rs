//! What ends a hold beside a pod that comes: a proxy that stops, and what control says meanwhile.

use crate::client::Connection;
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::sockets;
use crate::upstream::Upstream;
use serde_json::{Value, json};

/// What is held here ends by what comes, not by the clock.
const PATIENT: [&str; 2] = ["--hold-timeout", "300"];

fn told(status: &str) -> Value {
    json!({"version": 1, "status": status, "message": format!("It is {status}."), "canStart": true})
}

/// A workspace whose requests are held: its pod is there, and not ready.
async fn waiting(stage: &Stage, workspace: &str) {
    let app = Upstream::start(workspace).await;
    let pod = Spec::new(workspace, workspace, 1, app.address);
    stage.cluster.create(&pod).await;
    stage.routed(workspace, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_when_its_proxy_stops_is_sent_to_the_next() {
    let flags = ["--stop-timeout", "300", "--close-window", "0"];
    let mut stage = Stage::with(&[&PATIENT[..], &flags].concat()).await;
    waiting(&stage, "dev").await;
    stage.control.tells("two", 200, &told("starting"));
    let host = format!("dev.{CONSOLE}");
    let cookie = stage.cookie_on("alice", &host);
    let mut socket = Connection::open(stage.address).await;
    socket.send(sockets::opening(&cookie, &host)).await;
    let mut held = vec![socket];
    held.push(stage.begin("GET", "dev", "/x", "").await);
    held.push(stage.begin("POST", "dev", "/x", "body").await);
    // One that has no pod at all.
    held.push(stage.begin("GET", "two", "/x", "").await);
    stage.held(4).await;
    let mut events = stage.begin("GET", "dev", "/.nogoo9/events", "").await;
    assert_eq!(events.head().await.status, 200);
    stage.signal("TERM");
    for connection in &mut held {
        let answer = connection.answer().await;
        assert_eq!(
            (answer.status, answer.header("retry-after")),
            (503, Some("5"))
        );
        assert!(answer.text().contains("This proxy stops"), "{answer:?}");
    }
    // A page that follows goes on with the next proxy: its stream ends in order.
    while !events.chunk().await.is_empty() {}
    // Nothing is left to wait for.
    let ended = tokio::time::timeout(crate::PATIENCE, stage.child.wait());
    assert!(ended.await.expect("it did not end").unwrap().success());
    let lines = stage.log().matches(" status=503 ").count();
    assert_eq!(lines, held.len());
}
