//! A recreate: the old pod ends before the new one may start, and nobody is told so.

use crate::client::{Connection, navigates, request};
use crate::cluster::Spec;
use crate::proxy::Stage;
use crate::sockets;
use crate::upstream::Upstream;

/// An ordinary hold is short, so that a request which outlives one is held for longer.
const FLAGS: [&str; 4] = ["--hold-timeout", "1", "--recreate-hold-timeout", "300"];

/// Waits for as long as an ordinary hold lasts.
async fn an_ordinary_hold(stage: &Stage, id: &str) {
    let (nothing, _pod) = stage.starting(id, id).await;
    let answer = stage.get(id, "/").await;
    assert_eq!((answer.status, nothing.requests()), (503, 0));
}

/// The old pod ends and the new one comes up, as the planner does it; the new one's uid. `between`:
/// what happens while there is neither.
async fn replace(
    stage: &Stage,
    old: &Upstream,
    new: &Upstream,
    between: impl Future<Output = ()>,
) -> String {
    let successor = Spec::new("new", "dev", 2, new.address).successor();
    let uid = stage.cluster.create(&successor).await;
    stage.cluster.terminate("old").await;
    old.kill();
    stage.cluster.finish("old").await;
    between.await;
    stage.cluster.release("new").await;
    stage.cluster.set_ready(&successor, true).await;
    uid
}

async fn word(stage: &Stage) -> String {
    let status = stage.get("dev", "/.nogoo9/status").await;
    let document: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
    document["status"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrives_in_between_is_held_and_answered_by_the_new_pod() {
    let stage = Stage::with(&FLAGS).await;
    let (old, _) = stage.serving("old", "dev", 1).await;
    // A connection to the old pod waits in the pool.
    assert_eq!(stage.get("dev", "/").await.status, 200);
    stage.cluster.quiesce("old").await;
    stage.routed("dev", None).await;
    let mut read = stage.begin("GET", "dev", "/x", "").await;
    let mut written = stage.begin("POST", "dev", "/x", "hello").await;
    let mut socket = sockets::begin(&stage, "dev").await;
    stage.held(3).await;
    assert_eq!(word(&stage).await, "switching");

    let new = Upstream::start("new").await;
    let uid = replace(&stage, &old, &new, an_ordinary_hold(&stage, "between")).await;
    assert_eq!(old.requests(), 1, "the old pod got nothing more");
    assert!(read.answer().await.text().starts_with("new\nGET /x\n"));
    let answer = written.answer().await.text();
    assert!(
        answer.starts_with("new\nPOST /x\n") && answer.ends_with("\nhello"),
        "{answer}"
    );
    assert_eq!(socket.head().await.status, 101);
    assert_eq!(sockets::text(&mut socket).await, "new");
    stage.routed("dev", Some(&uid)).await;
    stage.held(0).await;
    assert_eq!(
        stage
            .metric("requests_total{by=\"Proxy\",class=\"ServerError\"}")
            .await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_flight_goes_on_and_is_told_apart() {
    let stage = Stage::with(&FLAGS).await;
    let (old, uid) = stage.serving("old", "dev", 1).await;
    let mut slow = stage.begin("GET", "dev", "/slow", "").await;
    let mut socket = sockets::open(&stage, "dev", "old").await;
    crate::eventually("the request", || async { old.requests() == 1 }).await;
    stage.cluster.quiesce("old").await;
    stage.routed("dev", None).await;
    let facts = stage.admin("/sessions?workspace=dev").await;
    assert_eq!(facts.get("active"), None);
    assert_eq!(
        (&facts["sessions"][&uid], &facts["requests"][&uid]),
        (&2.into(), &1.into())
    );

    let mut held = stage.begin("GET", "dev", "/x", "").await;
    stage.held(1).await;
    socket.send(sockets::frame(1, b"still")).await;
    assert_eq!(sockets::text(&mut socket).await, "still");
    old.release();
    assert_eq!(slow.answer().await.text(), "old\n");
    crate::eventually("nothing to wait for", || async {
        let facts = stage.admin("/sessions?workspace=dev").await;
        facts["requests"].get(&uid).is_none() && facts["sessions"][&uid] == 1
    })
    .await;

    let new = Upstream::start("new").await;
    replace(&stage, &old, &new, an_ordinary_hold(&stage, "between")).await;
    assert_eq!(socket.rest().await, sockets::close(1012));
    assert!(held.answer().await.text().starts_with("new\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_between_two_events_is_no_request_to_wait_for() {
    let stage = Stage::start().await;
    let (app, uid) = stage.serving("app", "dev", 1).await;
    let mut stream = stage.begin("GET", "dev", "/events", "").await;
    assert_eq!(stream.head().await.status, 200);
    assert_eq!(stream.chunk().await, b"data: one\n\n");
    crate::eventually("an idle stream", || async {
        let facts = stage.admin("/sessions?workspace=dev").await;
        facts["requests"].get(&uid).is_none() && facts["sessions"][&uid] == 1
    })
    .await;
    app.release();
    assert_eq!(stream.chunk().await, b"data: two\n\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_died_before_it_was_dialled_is_waited_past() {
    let stage = Stage::with(&["--hold-timeout", "300"]).await;
    let (old, _) = stage.serving("old", "dev", 1).await;
    old.kill();
    // The old pod is still the one to go to when these look for it.
    let mut read = stage.begin("GET", "dev", "/x", "").await;
    let mut written = stage.begin("POST", "dev", "/x", "hello").await;
    crate::eventually("dialling", || async {
        stage.metric("retries_total").await >= 2
    })
    .await;
    stage.cluster.quiesce("old").await;
    stage.routed("dev", None).await;
    stage.held(2).await;
    let new = Upstream::start("new").await;
    replace(&stage, &old, &new, std::future::ready(())).await;
    assert!(read.answer().await.text().starts_with("new\nGET /x\n"));
    assert!(written.answer().await.text().starts_with("new\nPOST /x\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_loses_its_pod_has_as_much_time_as_one_that_arrives() {
    let stage = Stage::with(&FLAGS).await;
    let (old, _) = stage.serving("old", "dev", 1).await;
    let mut read = stage.begin("GET", "dev", "/slow", "").await;
    crate::eventually("the request", || async { old.requests() == 1 }).await;
    // It has been in flight for longer than anything is held.
    an_ordinary_hold(&stage, "meanwhile").await;
    stage.cluster.quiesce("old").await;
    stage.routed("dev", None).await;
    let new = Upstream::start("new").await;
    new.release();
    old.kill();
    stage.held(1).await;
    replace(&stage, &old, &new, an_ordinary_hold(&stage, "between")).await;
    let answer = read.answer().await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "new\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_gets_a_page_that_follows() {
    let stage = Stage::with(&FLAGS).await;
    let (old, _) = stage.serving("old", "dev", 1).await;
    let (host, cookie) = stage.alice("dev");
    let headers = navigates(&cookie);
    let mut in_flight = Connection::open(stage.address).await;
    in_flight
        .send(request("GET", &host, "/slow", &headers))
        .await;
    crate::eventually("the request", || async { old.requests() == 1 }).await;
    stage.cluster.quiesce("old").await;
    stage.routed("dev", None).await;
    let arrived = stage.ask("GET", &host, "/", &headers).await;
    // One that loses its pod is told the same.
    old.kill();
    for page in [arrived, in_flight.answer().await] {
        assert_eq!((page.status, page.header("retry-after")), (503, Some("2")));
        assert!(
            page.text().contains("moving to its new version")
                && page.text().contains("data-status=\"/.nogoo9/status\""),
            "{}",
            page.text()
        );
    }
}
