//! What is open and is its caller's no more: their session's key is withdrawn, they lose a role, the
//! workspace is closed to them.

use crate::client::{Connection, own, request};
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::{CONSOLE, Stage};
use crate::sockets::{close, frame, opening, text};
use crate::upstream::Upstream;

const HOST: &str = "dev.localhost:9009";

/// A stage with bob's workspace `dev`.
async fn stage(visibility: &str) -> (Stage, Upstream) {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    let annotations = [("visibility", visibility)];
    let pod = Spec::new("app", "dev", 1, app.address).of("bob");
    stage.run(&pod.with(&annotations)).await;
    (stage, app)
}

/// A socket that has heard the application's name.
async fn socket(stage: &Stage, credential: &str) -> Connection {
    let mut socket = Connection::open(stage.address).await;
    let handshake = opening("own=1", HOST).replace("Cookie: own=1", credential);
    socket.send(handshake).await;
    assert_eq!(socket.head().await.status, 101, "{credential}");
    assert_eq!(text(&mut socket).await, "app");
    socket
}

/// A stream of events that has brought the first one.
async fn stream(stage: &Stage, cookie: &str) -> Connection {
    let headers = [("Cookie", cookie), ("Sec-Fetch-Site", "same-origin")];
    let mut stream = Connection::open(stage.address).await;
    stream.send(request("GET", HOST, "/events", &headers)).await;
    assert_eq!(stream.head().await.status, 200);
    assert_eq!(stream.chunk().await, b"data: one\n\n");
    stream
}

async fn ends(mut socket: Connection) {
    let heard = socket.rest().await;
    assert!(heard.ends_with(&close(1008)), "{heard:?}");
}

async fn goes_on(mut socket: Connection) {
    socket.send(frame(1, b"still here")).await;
    assert_eq!(text(&mut socket).await, "still here");
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_and_streams_end_with_the_key_of_their_session() {
    let (stage, _app) = stage("authenticated").await;
    let token = stage.token_fresh_for("s1", "user", HOST, 800);
    let cookie = format!("nogoo9={token}");
    let by_session = socket(&stage, &format!("Cookie: {cookie}")).await;
    // One of an earlier version, which control knows nothing of.
    let by_old = socket(&stage, &format!("Cookie: {}", stage.cookie_on("bob", HOST))).await;
    let bearer = format!("Authorization: Bearer {}", stage.bearer("alice"));
    let by_bearer = socket(&stage, &bearer).await;
    let mut events = stream(&stage, &cookie).await;
    stage.withdraw_session_key();
    ends(by_session).await;
    ends(by_old).await;
    assert_eq!(events.rest().await, b"");
    let own = own(&cookie);
    assert_eq!(stage.ask("GET", HOST, "/", &own).await.status, 401);
    goes_on(by_bearer).await;
    assert!(stage.control.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_loses_a_role_loses_what_it_opened() {
    let (stage, app) = stage("role:ops").await;
    // As long as control says the same, nothing happens.
    stage.control.says(HOST, stage.goes_on("s1", "ops", HOST));
    let cookie = |sid: &str| {
        let due = stage.token_fresh_for(sid, "ops", HOST, 200);
        format!("nogoo9={due}")
    };
    let still_in = socket(&stage, &format!("Cookie: {}", cookie("s1"))).await;
    eventually("the question", || async {
        stage.control.asked().len() == 1
    })
    .await;

    stage.control.says(HOST, stage.goes_on("s2", "user", HOST));
    stage.control.says_slowly();
    let cookie = cookie("s2");
    let out = socket(&stage, &format!("Cookie: {cookie}")).await;
    let mut events = stream(&stage, &cookie).await;
    let own = own(&cookie);
    let mut slow = Connection::open(stage.address).await;
    let before = app.requests();
    slow.send(request("GET", HOST, "/slow", &own)).await;
    eventually("the request to be there", || async {
        app.requests() > before
    })
    .await;
    stage.control.release();
    ends(out).await;
    assert_eq!(events.rest().await, b"");
    app.release();
    assert_eq!(slow.answer().await.status, 404);
    goes_on(still_in).await;
    // The session itself goes on.
    let other = format!("none.{CONSOLE}");
    let elsewhere = stage.cookie_on("alice", &other);
    let own = [
        ("Cookie", elsewhere.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    assert_eq!(stage.ask("GET", &other, "/", &own).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_becomes_private_is_closed_to_all_but_its_owner() {
    let (stage, _app) = stage("authenticated").await;
    let fresh = stage.token_fresh_for("s1", "user", HOST, 800);
    let cookie = format!("nogoo9={fresh}");
    let by_session = socket(&stage, &format!("Cookie: {cookie}")).await;
    let bearer = |user| format!("Authorization: Bearer {}", stage.bearer(user));
    let by_bearer = socket(&stage, &bearer("admin")).await;
    let owners = socket(&stage, &bearer("bob")).await;
    let mut events = stream(&stage, &cookie).await;
    stage.cluster.annotate("app", "visibility", "private").await;
    ends(by_session).await;
    ends(by_bearer).await;
    assert_eq!(events.rest().await, b"");
    goes_on(owners).await;
}

/// It may pause for as long as it likes, but not for longer than its sender may be there.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_pauses_ends_with_what_its_request_was_let_in_by() {
    let (stage, app) = stage("authenticated").await;
    let mut uploads = Vec::new();
    for (nth, user) in ["admin", "bob"].into_iter().enumerate() {
        let bearer = format!("Bearer {}", stage.bearer(user));
        let headers = [("Authorization", bearer.as_str()), ("Content-Length", "10")];
        let mut upload = Connection::open(stage.address).await;
        upload
            .send(request("POST", HOST, "/", &headers) + "half ")
            .await;
        eventually("the request to be there", || async {
            app.requests() == nth + 1
        })
        .await;
        uploads.push(upload);
    }
    let [mut others, mut owners] = <[Connection; 2]>::try_from(uploads).ok().unwrap();
    stage.cluster.annotate("app", "visibility", "private").await;
    assert_eq!(others.rest().await, b"");
    owners.send("more.").await;
    let answer = owners.answer().await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().ends_with("\n\nhalf more."));
}
