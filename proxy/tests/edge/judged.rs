//! What was held is judged once more before it goes to a pod, as if it came then.

use crate::client::{Connection, request};
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::{CONSOLE, Stage};
use crate::sockets;
use crate::upstream::Upstream;
use nogoo9_model::renew;
use std::time::Duration;

const HOST: &str = "dev.localhost:9009";
const LONG: [&str; 4] = ["--hold-timeout", "300", "--recreate-hold-timeout", "300"];

/// Sends a request, with a body if that has a length, and leaves the answer to be read.
async fn begin(
    stage: &Stage,
    line: (&str, &str),
    credential: (&str, &str),
    body: &str,
) -> Connection {
    let (method, host) = line;
    let length = body.len().to_string();
    let mut headers = vec![credential, ("Sec-Fetch-Site", "same-origin")];
    if !body.is_empty() {
        headers.push(("Content-Length", &length));
    }
    let mut connection = Connection::open(stage.address).await;
    let head = request(method, host, "/precious", &headers);
    connection.send(format!("{head}{body}")).await;
    connection
}

/// Waits until a request is refused that comes then; one that is let in is held, and calls itself off.
async fn refused(stage: &Stage, credential: (&str, &str)) {
    eventually(&format!("the end of {credential:?}"), || async {
        let mut anew = begin(stage, ("GET", HOST), credential, "").await;
        let answer = tokio::time::timeout(Duration::from_millis(200), anew.answer()).await;
        answer.is_ok_and(|answer| answer.status == 401)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_out_by_then_is_told_so_and_no_pod_is_asked() {
    let stage = Stage::with(&LONG).await;
    let (app, pod) = stage.starting("app", "dev").await;
    let nothing = Upstream::start("nothing").await;
    stage
        .run(&Spec::new("two", "two", 1, nothing.address))
        .await;
    nothing.kill();

    // A session that ends, one that control ends, a provider's token that ends, one that is revoked.
    let ended = stage.short_cookie("alice", HOST, 5);
    let revoked = format!("nogoo9={}", stage.token_fresh_for("s1", "user", HOST, 200));
    let bearer = format!(
        "Bearer {}",
        stage.bearer_for("alice", Duration::from_secs(1))
    );
    let personal = format!("Bearer ng9_{}", "a".repeat(40));
    stage.control.knows_bearer(Some("alice"));
    stage.control.says(HOST, renew::Answer::Refused);
    stage.control.says_slowly();
    let credentials = [
        ("Cookie", ended.as_str()),
        ("Cookie", &revoked),
        ("Authorization", &bearer),
        ("Authorization", &personal),
    ];
    let mut held = Vec::new();
    for credential in credentials {
        for (method, body) in [("GET", ""), ("DELETE", ""), ("POST", "body")] {
            let sent = begin(&stage, (method, HOST), credential, body).await;
            held.push((method, credential, sent));
        }
    }
    let mut socket = Connection::open(stage.address).await;
    socket.send(sockets::opening(&ended, HOST)).await;
    stage.held(13).await;
    // These had a pod that they could not reach.
    let host = format!("two.{CONSOLE}");
    let short = stage.short_cookie("alice", &host, 5);
    let short = ("Cookie", short.as_str());
    let mut lost = Vec::new();
    for (method, body) in [("GET", ""), ("POST", "body")] {
        lost.push(begin(&stage, (method, &host), short, body).await);
    }
    stage.held(15).await;

    stage.control.release();
    stage.control.knows_bearer(None);
    for mut lost in lost {
        let answer = lost.answer().await;
        assert_eq!(answer.status, 401, "{}", answer.text());
    }
    for credential in credentials {
        refused(&stage, credential).await;
    }
    stage.held(13).await;
    stage.cluster.set_ready(&pod, true).await;
    for (method, credential, mut held) in held {
        let answer = held.answer().await;
        assert_eq!(answer.status, 401, "{method} {credential:?}");
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["code"], "unauthenticated", "{method} {credential:?}");
    }
    assert_eq!(socket.head().await.status, 401);
    stage.held(0).await;
    assert_eq!(app.requests(), 0);
    assert_eq!(stage.get("dev", "/").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waited_for_its_workspace_is_judged_too() {
    let stage = Stage::with(&LONG).await;
    let starting = serde_json::json!({
        "version": 1, "status": "starting", "message": "It starts.", "canStart": true,
    });
    stage.control.tells("dev", 200, &starting);
    let short = stage.short_cookie("alice", HOST, 3);
    let short = ("Cookie", short.as_str());
    let mut out = begin(&stage, ("POST", HOST), short, "body").await;
    let mut still_in = stage.begin("POST", "dev", "/x", "body").await;
    stage.held(2).await;
    refused(&stage, short).await;
    stage.held(2).await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    assert_eq!(out.answer().await.status, 401);
    assert!(still_in.answer().await.text().starts_with("app\nPOST /x\n"));
    assert_eq!(app.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_origin_is_named_no_more_by_then_is_nobodys() {
    const APP: &str = "https://app.example.org";
    let stage = Stage::with(&LONG).await;
    let old = Upstream::start("old").await;
    let pod = Spec::new("old", "dev", 1, old.address);
    stage.run(&pod.with(&[("allow-origins", APP)])).await;
    let cookie = stage.cookie_on("alice", HOST);
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Origin", APP),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "cors"),
        ("Content-Length", "4"),
    ];
    let post = async || {
        let mut connection = Connection::open(stage.address).await;
        let head = request("POST", HOST, "/x", &headers);
        connection.send(format!("{head}body")).await;
        connection
    };
    assert_eq!(post().await.answer().await.status, 200);
    stage.cluster.quiesce("old").await;
    stage.routed("dev", None).await;
    let mut held = post().await;
    let mut own = stage.begin("POST", "dev", "/own", "body").await;
    stage.held(2).await;
    let (new, _) = stage.serving("new", "dev", 2).await;
    assert_eq!(held.answer().await.status, 401);
    assert_eq!(post().await.answer().await.status, 401);
    assert!(own.answer().await.text().starts_with("new\nPOST /own\n"));
    assert_eq!((old.requests(), new.requests()), (1, 1));
}
