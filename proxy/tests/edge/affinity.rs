//! Sessions that stay with the pod on which they have something open, where a template asks for it.

use crate::client::{Connection, request};
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::{CONSOLE, Stage};
use crate::sockets;
use crate::upstream::Upstream;

const AFFINITY: [(&str, &str); 1] = [("affinity", "session")];

/// An old pod and its server; its workspace asks for affinity, or does not.
async fn old(stage: &Stage, asks: bool) -> Upstream {
    let old = Upstream::start("old").await;
    let annotations: &[_] = if asks { &AFFINITY } else { &[] };
    let pod = Spec::new("old", "dev", 1, old.address).with(annotations);
    let uid = stage.cluster.run(&pod).await;
    stage.routed("dev", Some(&uid)).await;
    old
}

/// Its successor takes over.
async fn new(stage: &Stage) -> Upstream {
    let new = Upstream::start("new").await;
    let pod = Spec::new("new", "dev", 2, new.address).with(&AFFINITY);
    let uid = stage.cluster.run(&pod).await;
    stage.routed("dev", Some(&uid)).await;
    new
}

/// Who answers alice's browser.
async fn who(stage: &Stage) -> String {
    let answer = stage.get("dev", "/").await.text();
    answer.lines().next().unwrap().to_owned()
}

/// Who answers another session of alice's.
async fn who_else(stage: &Stage) -> String {
    let host = format!("dev.{CONSOLE}");
    let cookie = stage.short_cookie("alice", &host, 600);
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    let answer = stage.ask("GET", &host, "/", &headers).await.text();
    answer.lines().next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_follow_their_sessions_socket_until_it_ends() {
    let stage = Stage::start().await;
    let _old = old(&stage, true).await;
    let mut socket = sockets::open(&stage, "dev", "old").await;
    let _new = new(&stage).await;
    for _ in 0..5 {
        assert_eq!(who(&stage).await, "old");
        assert_eq!(
            who_else(&stage).await,
            "new",
            "another session holds nothing"
        );
    }
    let written = stage.begin("POST", "dev", "/", "body").await.answer().await;
    assert!(written.text().starts_with("old\nPOST"));
    // A new socket of the session belongs with the others.
    let mut second = sockets::open(&stage, "dev", "old").await;
    socket.send(sockets::frame(1, b"drop")).await;
    socket.rest().await;
    assert_eq!(who(&stage).await, "old");
    second.send(sockets::frame(1, b"drop")).await;
    second.rest().await;
    eventually("requests that go to the new pod", || async {
        who(&stage).await == "new"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_follow_a_stream_of_events_until_the_old_pod_goes() {
    let stage = Stage::start().await;
    let old = old(&stage, true).await;
    let mut stream = stage.begin("GET", "dev", "/events", "").await;
    assert_eq!(stream.head().await.status, 200);
    assert_eq!(stream.chunk().await, b"data: one\n\n");
    let _new = new(&stage).await;
    assert_eq!(who(&stage).await, "old");
    // The drain's bound: it is being deleted, and still there.
    stage.cluster.terminate("old").await;
    eventually("requests that go to the new pod", || async {
        who(&stage).await == "new"
    })
    .await;
    old.release();
    assert_eq!(stream.chunk().await, b"data: two\n\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_reached_is_not_followed() {
    let stage = Stage::start().await;
    let old = old(&stage, true).await;
    let _socket = sockets::open(&stage, "dev", "old").await;
    let _new = new(&stage).await;
    assert_eq!(who(&stage).await, "old");
    old.kill();
    assert_eq!(who(&stage).await, "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_annotation_new_requests_go_to_the_new_pod() {
    let stage = Stage::start().await;
    let _old = old(&stage, false).await;
    let mut socket = sockets::open(&stage, "dev", "old").await;
    let _new = new(&stage).await;
    assert_eq!(who(&stage).await, "new");
    socket.send(sockets::frame(1, b"still")).await;
    assert_eq!(sockets::text(&mut socket).await, "still");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_none_of_events_holds_nobody() {
    let stage = Stage::start().await;
    let old = old(&stage, true).await;
    let host = format!("dev.{CONSOLE}");
    let cookie = stage.cookie_on("alice", &host);
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    let mut slow = Connection::open(stage.address).await;
    slow.send(request("GET", &host, "/slow", &headers)).await;
    eventually("the request", || async { old.requests() == 1 }).await;
    let _new = new(&stage).await;
    assert_eq!(who(&stage).await, "new");
}
