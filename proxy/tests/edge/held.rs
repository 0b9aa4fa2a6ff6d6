//! What ends a hold beside a pod that comes: a proxy that stops, and what control says meanwhile.

use crate::client::{Answer, navigates};
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::Stage;
use crate::recorder::Recorder;
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
    stage.starting(workspace, workspace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_when_its_proxy_stops_has_its_pod_still() {
    let flags = ["--stop-timeout", "300", "--close-window", "0"];
    let mut stage = Stage::with(&[&PATIENT[..], &flags].concat()).await;
    let (_app, pod) = stage.starting("app", "dev").await;
    stage.control.tells("two", 200, &told("starting"));
    let mut socket = sockets::begin(&stage, "dev").await;
    let mut held = vec![stage.begin("GET", "dev", "/x", "").await];
    held.push(stage.begin("POST", "dev", "/x", "body").await);
    stage.held(3).await;
    // One that has no pod at all.
    let mut without = stage.begin("GET", "two", "/x", "").await;
    stage.held(4).await;
    let mut events = stage.begin("GET", "dev", "/.nogoo9/events", "").await;
    assert_eq!(events.head().await.status, 200);
    stage.signal("TERM");
    // A socket is for the next proxy to open.
    is_sent_on(&socket.answer().await);
    // A page that follows goes on with that, too: its stream ends in order.
    while !events.chunk().await.is_empty() {}
    stage.held(3).await;
    stage.cluster.set_ready(&pod, true).await;
    for connection in &mut held {
        assert!(connection.answer().await.text().starts_with("app\n"));
    }
    let _two = stage.serving("two", "two", 1).await;
    assert!(without.answer().await.text().starts_with("two\n"));
    // Nothing is left to wait for.
    let ended = tokio::time::timeout(crate::PATIENCE, stage.child.wait());
    assert!(ended.await.expect("it did not end").unwrap().success());
}

/// Whether it is told to ask another proxy.
fn is_sent_on(answer: &Answer) {
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("5"))
    );
    assert!(answer.text().contains("This proxy stops"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_until_its_proxy_ends_is_sent_to_the_next() {
    let flags = ["--stop-timeout", "0", "--close-window", "0"];
    let mut stage = Stage::with(&[&PATIENT[..], &flags].concat()).await;
    waiting(&stage, "dev").await;
    stage.control.tells("two", 200, &told("starting"));
    let mut held = vec![stage.begin("GET", "dev", "/x", "").await];
    held.push(stage.begin("POST", "dev", "/x", "body").await);
    held.push(stage.begin("GET", "two", "/x", "").await);
    stage.held(3).await;
    stage.signal("TERM");
    for connection in &mut held {
        is_sent_on(&connection.answer().await);
    }
    let ended = tokio::time::timeout(crate::PATIENCE, stage.child.wait());
    assert!(ended.await.expect("it did not end").unwrap().success());
    let lines = stage.log().matches(" status=503 ").count();
    assert_eq!(lines, held.len());
}

/// Sends a navigation of alice's, and returns its answer.
async fn navigate(stage: &Stage, workspace: &str) -> Answer {
    let (host, cookie) = stage.alice(workspace);
    let headers = navigates(&cookie);
    stage.ask("GET", &host, "/", &headers).await
}

fn follows(page: &Answer) -> bool {
    page.status == 503 && page.text().contains("data-status=\"/.nogoo9/status\"")
}

/// The only pod goes, and is forgotten.
async fn leave(stage: &Stage, name: &str) {
    stage.cluster.terminate(name).await;
    stage.cluster.finish(name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_that_is_silent_holds_up_nothing() {
    let bound = ["--hold-max-per-workspace", "3"];
    let stage = Stage::with(&[&PATIENT[..], &bound].concat()).await;
    let _app = stage.serving("app", "dev", 1).await;
    let address = stage.control.address;
    stage.control.kill();
    // It takes connections, and says nothing.
    let _silent = tokio::net::TcpListener::bind(address).await.unwrap();
    leave(&stage, "app").await;
    stage.routed("dev", None).await;
    let nothing_heard = async || !stage.metrics().await.contains("asked_total{");
    assert!(follows(&navigate(&stage, "dev").await));
    let mut events = stage.begin("GET", "dev", "/.nogoo9/events", "").await;
    assert_eq!(events.head().await.status, 200);
    assert_eq!(stage.get("dev", "/.nogoo9/status").await.status, 200);
    assert!(nothing_heard().await, "a question was waited for");
    // Whoever asks is held, and has a place.
    let mut held = Vec::new();
    for n in 0..3 {
        held.push(stage.begin("GET", "dev", "/", "").await);
        stage.held(n + 1).await;
    }
    let beyond = stage.get("dev", "/").await;
    assert!(beyond.text().contains("Too many requests"), "{beyond:?}");
    let _new = stage.serving("new", "dev", 2).await;
    for connection in &mut held {
        assert!(connection.answer().await.text().starts_with("new\n"));
    }
    stage.held(0).await;
    assert!(nothing_heard().await, "a question was waited for");
}

#[tokio::test(flavor = "multi_thread")]
async fn they_go_in_the_order_in_which_they_came_from_stopped_too() {
    const ALL: i64 = 150;
    for arrives_ready in [true, false] {
        let stage = Stage::with(&PATIENT).await;
        stage.control.tells("dev", 200, &told("starting"));
        let recorder = Recorder::start().await;
        let mut held = Vec::new();
        for n in 0..ALL {
            held.push(stage.begin("GET", "dev", &format!("/{n}"), "").await);
            stage.held(n + 1).await;
        }
        let pod = Spec::new("app", "dev", 1, recorder.address);
        stage.cluster.create(&pod).await;
        if !arrives_ready {
            stage.routed("dev", None).await;
            // They have their places still.
            stage.held(ALL).await;
        }
        stage.cluster.set_ready(&pod, true).await;
        for connection in &mut held {
            assert_eq!(connection.answer().await.status, 200);
        }
        let came = recorder.take();
        let nth = |line: &str| line.split(['/', ' ']).nth(2).unwrap().parse::<usize>();
        let came: Vec<_> = came.iter().map(|one| nth(&one.line).unwrap()).collect();
        // 64 at once; a third group two steps later. A busy machine may start some late, so it is their
        // places on the whole that count: in no order at all both groups would have 75 or so.
        let place = |group: std::ops::Range<usize>| {
            let places = came.iter().enumerate();
            let places = places.filter(|(_, nth)| group.contains(nth));
            let places: Vec<_> = places.map(|(place, _)| place).collect();
            places.iter().sum::<usize>() / places.len()
        };
        let (first, third) = (place(0..64), place(128..150));
        assert!(
            first + 40 < third,
            "{arrives_ready}: {first} {third} {came:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_held_hears_of_a_stop() {
    let stage = Stage::with(&PATIENT).await;
    let _app = stage.serving("app", "dev", 1).await;
    for id in ["dev", "two"] {
        stage.control.tells(id, 200, &told("starting"));
    }
    leave(&stage, "app").await;
    stage.routed("dev", None).await;
    let mut held = Vec::new();
    // One that had pods, and one that is not known at all.
    for id in ["dev", "two"] {
        for _ in 0..3 {
            held.push(stage.begin("GET", id, "/", "").await);
        }
    }
    stage.held(6).await;
    let asked = stage.control.questions().len();
    for id in ["dev", "two"] {
        stage.control.tells(id, 200, &told("stopped"));
    }
    for connection in &mut held {
        let answer = connection.answer().await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, None));
        assert!(answer.text().contains("\"stopped\""), "{answer:?}");
    }
    // One question told all that waited for it.
    assert_eq!(stage.control.questions().len(), asked + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_comes_however_short_a_hold_is() {
    let stage = Stage::with(&["--hold-timeout", "1"]).await;
    waiting(&stage, "dev").await;
    assert!(follows(&navigate(&stage, "dev").await));
    // Programs are told as ever.
    assert_eq!(stage.get("dev", "/").await.header("retry-after"), Some("5"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_loses_it_while_they_wait_leaves_a_record() {
    let stage = Stage::with(&PATIENT).await;
    stage.control.tells("dev", 200, &told("starting"));
    let mut arrives = stage.begin("GET", "dev", "/", "").await;
    waiting(&stage, "two").await;
    let mut becomes = stage.begin("GET", "two", "/", "").await;
    stage.held(2).await;
    let app = Upstream::start("app").await;
    let bobs = Spec::new("app", "dev", 1, app.address).of("bob");
    stage.cluster.run(&bobs).await;
    assert_eq!(arrives.answer().await.status, 404);
    stage.cluster.finish("two").await;
    let other = Upstream::start("other").await;
    let bobs = Spec::new("two", "two", 1, other.address).of("bob");
    stage.cluster.run(&bobs).await;
    assert_eq!(becomes.answer().await.status, 404);
    eventually("two records", || async {
        let log = stage.log();
        ["dev", "two"].iter().all(|id| {
            let record = format!("object=\"{id}\" result=\"refused\" reason=\"not_theirs\"");
            log.matches(&record).count() == 1
        })
    })
    .await;
    let ends = stage.metric("holds_total{end=\"NotTheirs\"}").await;
    assert_eq!(ends, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_held_goes_to_the_port_that_the_new_version_says() {
    let stage = Stage::with(&PATIENT).await;
    let (old, web) = (Upstream::start("old").await, Upstream::start("web").await);
    let number = web.address.port().to_string();
    let settings = [("api.web.port", number.as_str()), ("api.web.path", "/w")];
    let spec = Spec::new("old", "dev", 1, old.address).with(&settings);
    stage.run(&spec).await;
    stage.cluster.quiesce("old").await;
    stage.routed("dev", None).await;
    let mut gone = stage.begin("GET", "dev", "/w/x", "").await;
    let mut come = stage.begin("GET", "dev", "/v/x", "").await;
    stage.held(2).await;
    // The new version has no port `web`, and another one at `/v`.
    let (new, v) = (Upstream::start("new").await, Upstream::start("v").await);
    let number = v.address.port().to_string();
    let settings = [("api.v.port", number.as_str()), ("api.v.path", "/v")];
    let pod = Spec::new("new", "dev", 2, new.address).with(&settings);
    stage.cluster.create(&pod).await;
    leave(&stage, "old").await;
    stage.cluster.set_ready(&pod, true).await;
    let gone = gone.answer().await.text();
    assert!(gone.starts_with("new\nGET /w/x\n"), "{gone}");
    let come = come.answer().await.text();
    assert!(come.starts_with("v\nGET /x\n"), "{come}");
}
