//! Those that have no pod yet, or none any more: what asks for them is held, or told how things stand.

use super::{alice, body, told};
use crate::client::{Connection, NAVIGATE, request};
use crate::cluster::Spec;
use crate::proxy::Stage;
use crate::upstream::Upstream;
use serde_json::json;

/// What is held here ends by what comes, not by the clock.
const PATIENT: [&str; 2] = ["--hold-timeout", "300"];

#[tokio::test(flavor = "multi_thread")]
async fn one_that_starts_is_held_until_it_has_a_pod() {
    let stage = Stage::with(&PATIENT).await;
    stage.control.tells("dev", 200, &told("starting"));
    let page = alice(&stage, "GET", "dev", "/", &NAVIGATE).await;
    assert_eq!((page.status, page.header("retry-after")), (503, Some("2")));
    assert!(
        page.text().contains("It is starting.")
            && page.text().contains("data-status=\"/.nogoo9/status\""),
        "{}",
        page.text()
    );
    let mut written = stage.begin("POST", "dev", "/x", "hello").await;
    stage.held(1).await;
    let (_app, pod) = stage.starting("app", "dev").await;
    stage.held(1).await;
    stage.cluster.set_ready(&pod, true).await;
    let answer = written.answer().await.text();
    assert!(
        answer.starts_with("app\nPOST /x\n") && answer.ends_with("\nhello"),
        "{answer}"
    );
    stage.held(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_never_comes_has_an_end() {
    let stage = Stage::with(&["--hold-timeout", "1", "--hold-max-per-workspace", "1"]).await;
    stage.control.tells("dev", 200, &told("starting"));
    let answer = stage.get("dev", "/").await;
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("5"))
    );
    assert_eq!(body(&answer)["code"], "starting");
    // What cannot start by itself is said at once.
    for status in ["stopping", "deleting", "stopped"] {
        stage.control.tells("dev", 200, &told(status));
        assert_eq!(body(&stage.get("dev", "/").await)["code"], status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_arrives_as_somebody_elses_is_not_there() {
    let stage = Stage::with(&PATIENT).await;
    stage.control.tells("dev", 200, &told("starting"));
    let mut held = stage.begin("GET", "dev", "/", "").await;
    stage.held(1).await;
    let app = Upstream::start("app").await;
    stage
        .cluster
        .run(&Spec::new("app", "dev", 1, app.address).of("bob"))
        .await;
    assert_eq!(held.answer().await.status, 404);
    assert_eq!(app.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_just_stopped_says_so() {
    let stage = Stage::with(&PATIENT).await;
    let _app = stage.serving("app", "dev", 1).await;
    stage.control.tells("dev", 200, &told("stopping"));
    stage.cluster.terminate("app").await;
    stage.routed("dev", None).await;
    assert_eq!(body(&stage.get("dev", "/").await)["code"], "stopping");
    // It had a place meanwhile.
    assert_eq!(stage.metric("holds_total{end=\"Told\"}").await, 1);
    let own = [("Sec-Fetch-Site", "same-origin")];
    let status = alice(&stage, "GET", "dev", "/.nogoo9/status", &own).await;
    assert_eq!(body(&status)["status"], "stopping");
    stage.control.tells("dev", 200, &told("stopped"));
    stage.cluster.finish("app").await;
    crate::eventually("the last word", || async {
        body(&stage.get("dev", "/").await)["code"] == "stopped"
    })
    .await;
    // One that was to run on is held for its next pod.
    stage.control.tells("dev", 200, &told("starting"));
    let asked = stage.control.questions().len();
    let mut held = stage.begin("GET", "dev", "/", "").await;
    stage.held(1).await;
    // The next one waits beside it, and control is not asked once more.
    let mut beside = stage.begin("GET", "dev", "/", "").await;
    stage.held(2).await;
    assert_eq!(stage.control.questions().len(), asked + 1);
    let again = Upstream::start("again").await;
    stage
        .cluster
        .run(&Spec::new("again", "dev", 2, again.address))
        .await;
    assert!(held.answer().await.text().starts_with("again\n"));
    assert!(beside.answer().await.text().starts_with("again\n"));
}

/// Control has just said that it starts; the table still knows the pod that went.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_starts_again_after_a_stop_says_so() {
    let stage = Stage::with(&PATIENT).await;
    let _app = stage.serving("app", "dev", 1).await;
    stage.control.tells("dev", 200, &told("starting"));
    stage.cluster.terminate("app").await;
    stage.cluster.finish("app").await;
    stage.routed("dev", None).await;
    let page = alice(&stage, "GET", "dev", "/", &NAVIGATE).await.text();
    assert!(
        page.contains("<p id=\"s\">It is starting.</p>") && page.contains("data-status"),
        "{page}"
    );
    // Where nobody says anything, it is told as the table has it.
    stage.control.kill();
    let page = alice(&stage, "GET", "dev", "/", &NAVIGATE).await.text();
    assert!(page.contains("It is going away or coming back."), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_are_told_as_programs_are() {
    let stage = Stage::with(&PATIENT).await;
    stage.control.tells("dev", 200, &told("stopped"));
    let (host, cookie) = stage.alice("dev");
    let mut socket = Connection::open(stage.address).await;
    let mut headers = vec![
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    headers.push(("Cookie", &cookie));
    socket
        .send(request("GET", &host, "/socket", &headers))
        .await;
    let refused = socket.answer().await;
    assert_eq!(
        (refused.status, &body(&refused)["code"]),
        (503, &json!("stopped"))
    );
    stage.control.tells("dev", 200, &told("starting"));
    let mut socket = Connection::open(stage.address).await;
    socket
        .send(request("GET", &host, "/socket", &headers))
        .await;
    stage.held(1).await;
    let _app = stage.serving("app", "dev", 1).await;
    assert_eq!(socket.head().await.status, 101);
}
