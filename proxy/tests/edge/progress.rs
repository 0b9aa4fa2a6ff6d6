//! The waiting page's stream of events.

use crate::client::{Connection, navigates, own};
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;
use serde_json::{Value, json};

const EVENTS: &str = "/.nogoo9/events";

/// The stream of one who may open the workspace, after its head.
async fn follow(stage: &Stage) -> Connection {
    let mut stream = stage.begin("GET", "dev", EVENTS, "").await;
    let head = stream.head().await;
    assert_eq!(
        (
            head.status,
            head.header("content-type"),
            head.header("cache-control")
        ),
        (200, Some("text/event-stream"), Some("no-store"))
    );
    stream
}

/// The next event, heartbeats aside; `None` once the stream has ended in order.
async fn event(stream: &mut Connection) -> Option<Value> {
    loop {
        let chunk = stream.chunk().await;
        if chunk.is_empty() {
            return None;
        }
        let text = String::from_utf8(chunk).unwrap();
        if let Some(data) = text.lines().find_map(|line| line.strip_prefix("data: ")) {
            return Some(serde_json::from_str(data).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_tells_what_is_waited_for_until_the_pod_is_there() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    let error = [("last-upgrade-error", "ImagePullBackOff: no such image")];
    let pod = Spec::new("app", "dev", 1, app.address).with(&error);
    stage.cluster.create(&pod).await;
    stage.routed("dev", None).await;
    let mut stream = follow(&stage).await;
    let first = event(&mut stream).await.unwrap();
    assert_eq!(
        (&first["status"], &first["waitsFor"], &first["lastError"]),
        (
            &json!("starting"),
            &json!("containers"),
            &json!("ImagePullBackOff: no such image")
        )
    );
    stage.cluster.set_ready(&pod, false).await;
    assert_eq!(event(&mut stream).await.unwrap()["waitsFor"], "readiness");
    stage.cluster.set_ready(&pod, true).await;
    let last = event(&mut stream).await.unwrap();
    assert_eq!(
        last,
        json!({"status": "serving", "message": "It is ready."})
    );
    assert_eq!(event(&mut stream).await, None);
    // The connection goes on with the page itself.
    let (host, cookie) = stage.alice("dev");
    let headers = own(&cookie);
    stream
        .send(crate::client::request("GET", &host, "/", &headers))
        .await;
    assert!(stream.answer().await.text().starts_with("app\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_tells_what_control_says_of_what_has_no_pod() {
    let stage = Stage::start().await;
    let starting =
        json!({"version": 1, "status": "starting", "message": "Soon.", "canStart": false});
    stage.control.tells("dev", 200, &starting);
    let mut stream = follow(&stage).await;
    let first = event(&mut stream).await;
    assert_eq!(
        first,
        Some(json!({"status": "starting", "message": "Soon."}))
    );
    let stopped =
        json!({"version": 1, "status": "stopped", "message": "Asleep.", "canStart": true});
    stage.control.tells("dev", 200, &stopped);
    assert_eq!(event(&mut stream).await.unwrap()["status"], "stopped");
    assert_eq!(event(&mut stream).await, None);
    // Nobody else's, and nothing that is not there.
    let nobodys = stage.get("nobodys", EVENTS).await;
    let status = stage.get("nobodys", "/.nogoo9/status").await;
    assert_eq!((nobodys.status, &nobodys.body), (404, &status.body));
    // Both leave a record.
    eventually("two records", || async {
        let log = stage.log();
        let record = "object=\"nobodys\" result=\"refused\" reason=\"not_theirs\"";
        log.matches(record).count() == 2
    })
    .await;
}

/// A workspace that comes to the table as another's, while control tells of one of this id.
#[tokio::test(flavor = "multi_thread")]
async fn control_is_not_asked_without_a_pause() {
    let stage = Stage::start().await;
    let starting =
        json!({"version": 1, "status": "starting", "message": "Soon.", "canStart": false});
    stage.control.tells("dev", 200, &starting);
    let mut stream = follow(&stage).await;
    assert!(event(&mut stream).await.is_some());
    let app = Upstream::start("app").await;
    let bobs = Spec::new("app", "dev", 1, app.address).of("bob");
    stage.run(&bobs).await;
    let before = stage.control.questions().len();
    // Heartbeats are ten seconds apart, looks two.
    assert_eq!(stream.chunk().await, b":\n\n");
    let asked = stage.control.questions().len() - before;
    assert!((1..=7).contains(&asked), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_has_two_of_a_workspace_and_gives_them_back() {
    let stage = Stage::start().await;
    let (_app, _pod) = stage.starting("app", "dev").await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = follow(&stage).await;
        assert!(event(&mut stream).await.is_some());
        streams.push(stream);
    }
    assert_eq!(stage.get("dev", EVENTS).await.status, 503);
    // Nor by another session, or with a token.
    let bearer = format!("Bearer {}", stage.bearer("alice"));
    let host = format!("dev.{CONSOLE}");
    let headers = [("Authorization", bearer.as_str())];
    let status = stage.ask("GET", &host, EVENTS, &headers).await.status;
    assert_eq!(status, 503);
    assert_eq!(stage.get("dev", "/.nogoo9/status").await.status, 200);
    drop(streams);
    eventually("a place for another", || async {
        let mut stream = stage.begin("GET", "dev", EVENTS, "").await;
        stream.head().await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_error_is_for_the_owner_and_admins() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    let annotations = [
        ("last-upgrade-error", "X: secret"),
        ("visibility", "authenticated"),
    ];
    let pod = Spec::new("app", "dev", 1, app.address).with(&annotations);
    stage.cluster.create(&pod).await;
    stage.routed("dev", None).await;
    let host = format!("dev.{CONSOLE}");
    for (user, told) in [("alice", true), ("bob", false)] {
        let cookie = stage.cookie_on(user, &host);
        let mut headers = vec![
            ("Cookie", cookie.as_str()),
            ("Sec-Fetch-Site", "same-origin"),
        ];
        let status = stage.ask("GET", &host, "/.nogoo9/status", &headers).await;
        assert_eq!(status.status, 200);
        assert_eq!(status.text().contains("secret"), told, "{user}");
        headers[1].1 = "none";
        headers.extend([
            ("Sec-Fetch-Mode", "navigate"),
            ("Sec-Fetch-Dest", "document"),
        ]);
        let page = stage.ask("GET", &host, "/a?b", &headers).await;
        assert_eq!(
            (page.status, page.header("cache-control")),
            (503, Some("no-store"))
        );
        let text = page.text();
        assert_eq!(text.contains("secret"), told, "{user}");
        assert!(text.contains("<noscript><meta http-equiv=\"refresh\" content=\"3;url=/a?b\">"));
        assert!(text.contains("Its image is being pulled"), "{text}");
    }
}

/// Its pod is ready, and nothing listens there: were it told that it serves, the page would load itself again
/// and again.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_ready_and_takes_no_connections_is_not_there_yet() {
    let stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    app.kill();
    let message = "Nothing answers on its port yet. This page opens by itself.";
    let (host, cookie) = stage.alice("dev");
    let navigate = navigates(&cookie);
    let page = stage.ask("GET", &host, "/", &navigate).await;
    assert_eq!(page.status, 503);
    assert!(page.text().contains(message), "{}", page.text());
    let status = stage.get("dev", "/.nogoo9/status").await;
    let mut stream = follow(&stage).await;
    let first = event(&mut stream).await.unwrap();
    assert_eq!(
        first,
        serde_json::from_slice::<Value>(&status.body).unwrap()
    );
    assert_eq!(
        (&first["status"], &first["waitsFor"], &first["message"]),
        (&json!("starting"), &json!("port"), &json!(message))
    );
    let _app = Upstream::start_at("late", app.address).await;
    let last = event(&mut stream).await.unwrap();
    assert_eq!(
        last,
        json!({"status": "serving", "message": "It is ready."})
    );
    assert_eq!(event(&mut stream).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contested_address_is_told() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    for id in ["dev", "two"] {
        let pod = Spec::new(id, id, 1, app.address).alone();
        stage.cluster.run(&pod).await;
    }
    eventually("two pods of one address", || async {
        stage.metric("contested_pods").await == 2
    })
    .await;
    let status = stage.get("dev", "/.nogoo9/status").await;
    let told: Value = serde_json::from_slice(&status.body).unwrap();
    assert_eq!(told["waitsFor"], "address", "{told}");
    let mut stream = follow(&stage).await;
    assert_eq!(event(&mut stream).await, Some(told));
    stage.cluster.finish("two").await;
    assert_eq!(event(&mut stream).await.unwrap()["status"], "serving");
}

/// Nothing of it is changed: other methods have nothing here.
#[tokio::test(flavor = "multi_thread")]
async fn how_things_stand_is_only_read() {
    let stage = Stage::start().await;
    let (_app, _) = stage.starting("app", "dev").await;
    let (host, cookie) = stage.alice("dev");
    let headers = own(&cookie);
    for path in ["/.nogoo9/status", EVENTS] {
        let mut connection = Connection::open(stage.address).await;
        let head = crate::client::request("HEAD", &host, path, &headers);
        connection.send(head).await;
        let head = connection.head().await;
        assert_eq!(head.status, 200, "{path}");
        let kind = if path == EVENTS {
            "text/event-stream"
        } else {
            "application/json"
        };
        assert_eq!(head.header("content-type"), Some(kind));
        // It has no body: the next answer follows.
        for method in ["POST", "DELETE", "OPTIONS"] {
            let request = crate::client::request(method, &host, path, &headers);
            connection.send(request).await;
            assert_eq!(connection.answer().await.status, 404, "{method} {path}");
        }
    }
}
