//! Sessions that stay with the pod on which they have something open, where a template asks for it.

mod elsewhere;

use crate::client::{Answer, Connection, own};
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
    stage.run(&pod).await;
    old
}

/// Its successor takes over.
async fn new(stage: &Stage) -> Upstream {
    let new = Upstream::start("new").await;
    let pod = Spec::new("new", "dev", 2, new.address).with(&AFFINITY);
    stage.run(&pod).await;
    new
}

/// Who answers alice's browser.
async fn who(stage: &Stage) -> String {
    let answer = stage.get("dev", "/").await.text();
    answer.lines().next().unwrap().to_owned()
}

/// Waits until alice's browser is answered by that one.
async fn goes_to(stage: &Stage, name: &str) {
    eventually(&format!("requests that go to {name}"), || async {
        who(stage).await == name
    })
    .await;
}

/// Who answers another session of alice's.
async fn who_else(stage: &Stage) -> String {
    let host = format!("dev.{CONSOLE}");
    let cookie = stage.short_cookie("alice", &host, 600);
    let headers = own(&cookie);
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
    goes_to(&stage, "new").await;
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
    goes_to(&stage, "new").await;
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
async fn while_it_is_not_ready_it_is_not_followed() {
    let stage = Stage::start().await;
    let old = old(&stage, true).await;
    let mut socket = sockets::open(&stage, "dev", "old").await;
    let _new = new(&stage).await;
    assert_eq!(who(&stage).await, "old");
    let pod = Spec::new("old", "dev", 1, old.address).with(&AFFINITY);
    stage.cluster.set_ready(&pod, false).await;
    goes_to(&stage, "new").await;
    // What they belong with is still there.
    stage.cluster.set_ready(&pod, true).await;
    goes_to(&stage, "old").await;
    socket.send(sockets::frame(1, b"drop")).await;
    socket.rest().await;
    goes_to(&stage, "new").await;
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
    let _slow = stage.begin("GET", "dev", "/slow", "").await;
    eventually("the request", || async { old.requests() == 1 }).await;
    let _new = new(&stage).await;
    assert_eq!(who(&stage).await, "new");
}

const DEV: &str = "dev.localhost:9009";
const WEB: &str = "web--dev.localhost:9009";

/// What alice's browser gets at an address.
async fn at(stage: &Stage, host: &str, path: &str) -> Answer {
    let cookie = stage.cookie_on("alice", host);
    let headers = own(&cookie);
    stage.ask("GET", host, path, &headers).await
}

/// Who answers there.
async fn who_at(stage: &Stage, host: &str, path: &str) -> String {
    let answer = at(stage, host, path).await.text();
    answer.lines().next().unwrap().to_owned()
}

/// An open socket of alice's browser at an address.
async fn open_at(stage: &Stage, host: &str, path: &str, name: &str) -> Connection {
    let cookie = stage.cookie_on("alice", host);
    let mut socket = Connection::open(stage.address).await;
    let opening = sockets::opening(&cookie, host).replacen("/socket", path, 1);
    socket.send(opening).await;
    assert_eq!(socket.head().await.status, 101, "{host}{path}");
    assert_eq!(sockets::text(&mut socket).await, name);
    socket
}

/// A pod of `dev` with extra ports by name and path, which takes over.
async fn run(
    stage: &Stage,
    name: &str,
    generation: u32,
    app: &Upstream,
    ports: &[(&str, &str, &Upstream)],
) {
    let mut settings = vec![("affinity".to_owned(), "session".to_owned())];
    for (port, path, served) in ports {
        let number = served.address.port().to_string();
        settings.push((format!("api.{port}.port"), number));
        settings.push((format!("api.{port}.path"), (*path).to_owned()));
    }
    let settings: Vec<(&str, &str)> = settings
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let pod = Spec::new(name, "dev", generation, app.address).with(&settings);
    stage.run(&pod).await;
}

/// A session follows its pod on all of the workspace's ports, on whichever it has something open.
#[tokio::test(flavor = "multi_thread")]
async fn extra_ports_and_the_workspace_follow_together() {
    for (host, path, name) in [
        (DEV, "/socket", "old"),
        (DEV, "/w/socket", "old web"),
        (WEB, "/socket", "old web"),
    ] {
        let stage = Stage::start().await;
        let (old, web) = (
            Upstream::start("old").await,
            Upstream::start("old web").await,
        );
        run(&stage, "old", 1, &old, &[("web", "/w", &web)]).await;
        let mut socket = open_at(&stage, host, path, name).await;
        let (new, web) = (
            Upstream::start("new").await,
            Upstream::start("new web").await,
        );
        run(&stage, "new", 2, &new, &[("web", "/w", &web)]).await;
        let places = [(DEV, "/", ""), (DEV, "/w/x", " web"), (WEB, "/x", " web")];
        for (to, path, port) in places {
            let found = who_at(&stage, to, path).await;
            assert_eq!(found, format!("old{port}"), "{to}{path}, held on {host}");
        }
        assert_eq!(who_else(&stage).await, "new");
        socket.send(sockets::frame(1, b"drop")).await;
        socket.rest().await;
        for (to, path, port) in places {
            eventually("requests that go to the new pod", || async {
                who_at(&stage, to, path).await == format!("new{port}")
            })
            .await;
        }
    }
}

/// Which ports there are, and where, is the new version's word; who serves one is the old pod, if it has
/// a port of that name.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_follows_has_the_new_versions_ports() {
    let stage = Stage::start().await;
    let (old, old_web) = (
        Upstream::start("old").await,
        Upstream::start("old web").await,
    );
    let gone = Upstream::start("gone").await;
    let ports = [("web", "/w", &old_web), ("gone", "/gone", &gone)];
    run(&stage, "old", 1, &old, &ports).await;
    let mut socket = open_at(&stage, WEB, "/socket", "old web").await;
    let mut on_gone = open_at(&stage, DEV, "/gone/socket", "gone").await;
    let (new, new_web) = (
        Upstream::start("new").await,
        Upstream::start("new web").await,
    );
    let more = Upstream::start("more").await;
    let ports = [("web", "/v2/w", &new_web), ("more", "/more", &more)];
    run(&stage, "new", 2, &new, &ports).await;
    for (host, path, wanted) in [
        (DEV, "/", "old"),
        (WEB, "/x", "old web"),
        (DEV, "/v2/w/x", "old web"),
        // The path of an extra port no more: the main port's.
        (DEV, "/w/x", "old"),
        (DEV, "/gone/x", "old"),
        // The old pod has no such port.
        (DEV, "/more/x", "more"),
        ("more--dev.localhost:9009", "/x", "more"),
    ] {
        assert_eq!(who_at(&stage, host, path).await, wanted, "{host}{path}");
    }
    let host = "gone--dev.localhost:9009";
    assert_eq!(at(&stage, host, "/x").await.status, 404);
    assert_eq!(gone.requests(), 0, "nothing new comes to it");
    for socket in [&mut socket, &mut on_gone] {
        socket.send(sockets::frame(1, b"still")).await;
        assert_eq!(sockets::text(socket).await, "still");
    }
    // Having gone elsewhere for one port, it still follows on the others.
    assert_eq!(who_at(&stage, DEV, "/").await, "old");
}
