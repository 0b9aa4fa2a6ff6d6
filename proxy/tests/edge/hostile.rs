//! What people try who want into another's workspace, and requests that catch the edge at a bad
//! moment.

use crate::client::{Connection, request};
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;
use std::time::Duration;

/// A held request of alice for the workspace `dev`, which has no pod that is ready.
async fn hold(stage: &Stage) -> Connection {
    let before = stage.metric("held_requests").await;
    let connection = stage.begin("GET", "dev", "/x", "").await;
    stage.held(before + 1).await;
    connection
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_request_does_not_follow_its_id_to_another_owner() {
    let stage = Stage::start().await;
    let (hers, his) = (Upstream::start("hers").await, Upstream::start("his").await);
    stage
        .cluster
        .create(&Spec::new("hers", "dev", 1, hers.address))
        .await;
    stage.routed("dev", None).await;
    let mut held = hold(&stage).await;
    // She deletes the workspace, and he spawns one of the same id.
    stage.cluster.terminate("hers").await;
    stage.cluster.finish("hers").await;
    stage
        .run(&Spec::new("his", "dev", 1, his.address).of("bob"))
        .await;
    let answer = held.answer().await;
    assert_eq!(his.requests(), 0, "{}", answer.text());
    assert_eq!(answer.status, 404);
    assert_eq!(
        answer.timeless().body,
        stage.get("none", "/x").await.body,
        "as for what is not there"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_the_protocol_is_told_so() {
    let stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let (host, cookie) = stage.alice("dev");
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Connection", "close, x-forwarded-for"),
    ];
    let mut connection = Connection::open(stage.address).await;
    connection.send(request("GET", &host, "/x", &headers)).await;
    let answer = connection.answer().await;
    assert_eq!(answer.status, 400);
    assert!(
        answer.text().contains("\"invalid_request\""),
        "{}",
        answer.text()
    );
    assert_eq!(app.requests(), 0);
    let headers = [headers[0], headers[1], ("Transfer-Encoding", "chunked")];
    let mut connection = Connection::open(stage.address).await;
    connection
        .send(format!(
            "{}-1\r\n",
            request("POST", &host, "/slow", &headers)
        ))
        .await;
    assert_eq!(connection.answer().await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_http_1_0_gets_no_chunks() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    app.release();
    stage.run(&Spec::new("app", "dev", 1, app.address)).await;
    let host = format!("dev.{CONSOLE}");
    let token = format!("Bearer {}", stage.bearer("alice"));
    let mut connection = Connection::open(stage.address).await;
    let headers = [
        ("Authorization", token.as_str()),
        ("Connection", "keep-alive"),
    ];
    let ask = request("GET", &host, "/events", &headers);
    connection.send(ask.replace("HTTP/1.1", "HTTP/1.0")).await;
    let answer = connection.answer().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!(answer.text(), "data: one\n\ndata: two\n\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_accepted_after_its_end_is_answered_in_full() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let token = format!(
        "Bearer {}",
        stage.bearer_for("alice", Duration::from_secs(1))
    );
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let host = format!("dev.{CONSOLE}");
    let answer = stage
        .ask("GET", &host, "/x", &[("Authorization", &token)])
        .await;
    assert_eq!(answer.status, 200);
    assert!(
        answer.text().starts_with("app\nGET /x\n"),
        "{}",
        answer.text()
    );
}
