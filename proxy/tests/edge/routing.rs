//! Where requests go, and that a switch loses none.

use crate::client::{Connection, navigates, own, request};
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_to_the_newest_ready_pod() {
    let stage = Stage::start().await;
    let (old, new) = (Upstream::start("old").await, Upstream::start("new").await);
    let old_pod = Spec::new("old", "dev", 1, old.address);
    let uid = stage.run(&old_pod).await;
    assert!(
        stage
            .get("dev", "/a?b=c")
            .await
            .text()
            .starts_with("old\nGET /a?b=c\n")
    );

    // A newer pod that is not ready gets nothing; the moment that it is, it gets everything.
    let new_pod = Spec::new("new", "dev", 2, new.address).with(&[]);
    let new_uid = stage.cluster.create(&new_pod).await;
    stage.cluster.set_ready(&new_pod, false).await;
    assert!(stage.get("dev", "/").await.text().starts_with("old\n"));
    stage.cluster.set_ready(&new_pod, true).await;
    stage.routed("dev", Some(&new_uid)).await;
    assert!(stage.get("dev", "/").await.text().starts_with("new\n"));

    // It fails: back to the old one.
    stage.cluster.set_ready(&new_pod, false).await;
    stage.routed("dev", Some(&uid)).await;
    assert!(stage.get("dev", "/").await.text().starts_with("old\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_under_load_loses_no_request() {
    let stage = Arc::new(Stage::start().await);
    let (old, new) = (Upstream::start("old").await, Upstream::start("new").await);
    let old_pod = Spec::new("old", "dev", 1, old.address);
    let uid = stage.run(&old_pod).await;
    let (stop, served) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let clients: Vec<_> = (0..8)
        .map(|n| {
            let (stage, stop, served) = (stage.clone(), stop.clone(), served.clone());
            tokio::spawn(async move {
                let (host, cookie) = stage.alice("dev");
                let mut connection = Connection::open(stage.address).await;
                while !stop.load(Ordering::SeqCst) {
                    // Requests that may not be repeated are the hard ones.
                    let headers = [
                        ("Cookie", cookie.as_str()),
                        ("Sec-Fetch-Site", "same-origin"),
                        ("Content-Length", "5"),
                    ];
                    let (head, body) = if n % 2 == 0 {
                        (request("GET", &host, "/x", &headers[..2]), "")
                    } else {
                        (request("POST", &host, "/x", &headers), "hello")
                    };
                    connection.send(format!("{head}{body}")).await;
                    let answer = connection.answer().await;
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    served.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let reached = |count: usize| {
        let served = served.clone();
        async move {
            crate::eventually("requests", || async {
                served.load(Ordering::SeqCst) >= count
            })
            .await;
        }
    };
    reached(200).await;
    let new_pod = Spec::new("new", "dev", 2, new.address);
    let new_uid = stage.run(&new_pod).await;
    // What control waits for before it deletes the old pod.
    crate::eventually("nothing open on the old pod", || async {
        let facts = stage.admin("/sessions?workspace=dev").await;
        facts["active"] == new_uid.as_str() && facts["sessions"].get(&uid).is_none()
    })
    .await;
    let on_old = old.requests();
    stage.cluster.terminate("old").await;
    old.kill();
    stage.cluster.finish("old").await;
    let so_far = served.load(Ordering::SeqCst);
    reached(so_far + 200).await;
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(
        old.requests(),
        on_old,
        "nothing went to the old pod after it had drained"
    );
    assert!(new.requests() >= 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_held_until_its_pod_is_ready() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    let pod = Spec::new("app", "dev", 1, app.address);
    let uid = stage.cluster.create(&pod).await;
    stage.routed("dev", None).await;
    let (host, cookie) = stage.alice("dev");
    let mut connection = Connection::open(stage.address).await;
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Content-Length", "4"),
    ];
    connection
        .send(format!("{}held", request("POST", &host, "/x", &headers)))
        .await;
    // Another workspace is not in its way.
    let (_other, _other_uid) = stage.serving("other", "two", 1).await;
    assert_eq!(stage.get("two", "/").await.status, 200);
    assert_eq!(app.requests(), 0);
    stage.cluster.set_ready(&pod, true).await;
    let answer = connection.answer().await;
    assert_eq!(answer.status, 200);
    assert!(
        answer.text().starts_with("app\nPOST /x\n") && answer.text().ends_with("\nheld"),
        "{}",
        answer.text()
    );
    stage.routed("dev", Some(&uid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_has_an_end_and_a_browser_gets_a_page() {
    let stage = Stage::with(&["--hold-timeout", "3"]).await;
    let (_app, pod) = stage.starting("app", "dev").await;
    let (host, cookie) = stage.alice("dev");
    let page = navigates(&cookie);
    let (script, browser) = tokio::join!(
        stage.get("dev", "/api"),
        stage.ask("GET", &host, "/", &page)
    );
    assert_eq!(
        (script.status, script.header("retry-after")),
        (503, Some("5"))
    );
    assert_eq!(browser.status, 503);
    assert!(
        browser.text().contains("data-status=\"/.nogoo9/status\""),
        "{}",
        browser.text()
    );
    let status = stage.get("dev", "/.nogoo9/status").await;
    assert_eq!(status.status, 200);
    let document: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
    assert_eq!(document["status"], "starting");
    stage.cluster.set_ready(&pod, true).await;
    crate::eventually("serving", || async {
        stage
            .get("dev", "/.nogoo9/status")
            .await
            .text()
            .contains("serving")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_are_bounded_in_number() {
    let stage = Stage::with(&["--hold-max-per-workspace", "1", "--hold-timeout", "600"]).await;
    let (_app, _pod) = stage.starting("app", "dev").await;
    let (host, cookie) = stage.alice("dev");
    let headers = own(&cookie);
    let mut first = Connection::open(stage.address).await;
    first.send(request("GET", &host, "/", &headers)).await;
    crate::eventually("the hold", || async {
        stage.metric("held_requests").await == 1
    })
    .await;
    // The one place is taken: the next is refused at once.
    let refused = stage.get("dev", "/").await;
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("5"))
    );
    // A client that goes gives its place back.
    drop(first);
    crate::eventually("a free place", || async {
        stage.metric("held_requests").await == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn path_mode_maps_there_and_back() {
    let stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let cookie = stage.cookie_on("alice", CONSOLE);
    let ask = async |path: &str| stage.ask("GET", CONSOLE, path, &own(&cookie)).await;
    let slash = ask("/route/dev?a=b").await;
    assert_eq!(
        (slash.status, slash.header("location")),
        (308, Some("/route/dev/?a=b"))
    );
    let seen = ask("/route/dev/a/../b%2fc?x=/route/dev").await.text();
    assert!(
        seen.starts_with("app\nGET /a/../b%2fc?x=/route/dev\n"),
        "{seen}"
    );
    assert!(
        seen.contains("\nx-forwarded-prefix: /route/dev\n"),
        "{seen}"
    );
    let answer = ask(
        "/route/dev/answer?status=302&location=/login&set-cookie=a=1;%20Path=/;%20Domain=localhost&set-cookie=b=2&service-worker-allowed=/&alt-svc=x&clear-site-data=*",
    )
    .await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (302, Some("/route/dev/login"))
    );
    assert_eq!(
        answer.all("set-cookie"),
        ["a=1; Path=/route/dev/", "b=2; Path=/route/dev/"]
    );
    for gone in ["service-worker-allowed", "alt-svc", "clear-site-data"] {
        assert_eq!(answer.header(gone), None, "{gone}");
    }
    let absolute = ask(&format!(
        "/route/dev/answer?status=302&location=http://{}/x",
        app.address
    ))
    .await;
    assert_eq!(absolute.header("location"), Some("/route/dev/x"));
    let elsewhere = ask("/route/dev/answer?status=302&location=https://example.org/x").await;
    assert_eq!(elsewhere.header("location"), Some("https://example.org/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_else_is_control_or_nobody() {
    let stage = Stage::start().await;
    let seen = stage
        .ask(
            "GET",
            CONSOLE,
            "/api/v1/workspaces",
            &[
                ("Cookie", "nogoo9=x"),
                ("X-User-Sub", "root"),
                ("X-Forwarded-Host", "evil"),
            ],
        )
        .await
        .text();
    assert!(
        seen.starts_with("control\nGET /api/v1/workspaces\n"),
        "{seen}"
    );
    assert!(
        seen.contains("\ncookie: nogoo9=x\n")
            && seen.contains(&format!("\nx-forwarded-host: {CONSOLE}\n")),
        "{seen}"
    );
    assert!(
        !seen.contains("x-user-sub") && !seen.contains("evil"),
        "{seen}"
    );
    let handover = stage
        .ask(
            "GET",
            &format!("dev.{CONSOLE}"),
            "/.nogoo9/login?code=x",
            &[],
        )
        .await
        .text();
    assert!(
        handover.starts_with("control\nGET /.nogoo9/login?code=x\n"),
        "{handover}"
    );
    assert!(
        handover.contains(&format!("\nx-forwarded-host: dev.{CONSOLE}\n")),
        "{handover}"
    );
    assert_eq!(stage.ask("GET", "example.org", "/", &[]).await.status, 421);
    stage.control.kill();
    let down = stage.ask("GET", CONSOLE, "/", &[]).await;
    assert_eq!((down.status, down.header("retry-after")), (503, Some("5")));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_one_by_one_and_count_as_open() {
    let stage = Stage::start().await;
    let (app, uid) = stage.serving("app", "dev", 1).await;
    let (host, cookie) = stage.alice("dev");
    let mut connection = Connection::open(stage.address).await;
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Connection", "close"),
    ];
    connection
        .send(request("GET", &host, "/events", &headers))
        .await;
    let head = connection.head().await;
    assert_eq!(
        (head.status, head.header("content-type")),
        (200, Some("text/event-stream"))
    );
    assert_eq!(connection.chunk().await, b"data: one\n\n");
    assert_eq!(
        stage.admin("/sessions?workspace=dev").await["sessions"][&uid],
        1
    );
    app.release();
    assert_eq!(connection.chunk().await, b"data: two\n\n");
    assert_eq!(connection.rest().await, b"0\r\n\r\n");
    crate::eventually("the session to end", || async {
        stage.admin("/sessions?workspace=dev").await["sessions"]
            .get(&uid)
            .is_none()
    })
    .await;
}

/// A host with a colon and nothing behind it names no port (RFC 3986, section 3.2.3); and where none is
/// named, the public one is meant.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_a_port_means_the_public_one() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let (host, cookie) = stage.alice("dev");
    let headers = own(&cookie);
    for asked in [
        host.as_str(),
        "dev.localhost",
        "dev.localhost:",
        CONSOLE,
        "localhost",
        "localhost:",
    ] {
        let answer = stage.ask("GET", asked, "/x", &headers).await;
        assert_eq!(answer.status, 200, "{asked}");
        let text = answer.text();
        let public = if asked.starts_with("dev") {
            &host
        } else {
            CONSOLE
        };
        assert!(
            text.contains(&format!("\nx-forwarded-host: {public}\n"))
                && text.contains("\nx-forwarded-port: 9009\n"),
            "{asked}: {text}"
        );
    }
    for asked in ["localhost:x", "dev.localhost:80", "dev.localhost:+9009"] {
        assert!(
            stage.ask("GET", asked, "/", &headers).await.status >= 400,
            "{asked}"
        );
    }
}

/// Ports that go without saying: a pod need not name them when it names itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_on_port_80_is_known_by_its_address_alone() {
    let address: std::net::SocketAddr = "127.64.80.80:80".parse().unwrap();
    if let Err(error) = std::net::TcpListener::bind(address) {
        println!("not tried, since ports below 1024 are not for everybody here: {error}");
        return;
    }
    let stage = Stage::start().await;
    let app = Upstream::start_at("app", address).await;
    let pod = Spec::new("app", "dev", 1, app.address).alone();
    stage.run(&pod).await;
    let cookie = stage.cookie_on("alice", CONSOLE);
    let own = own(&cookie);
    for own_address in ["http://127.64.80.80/x", "http://127.64.80.80:80/x"] {
        let path = format!(
            "/route/dev/answer?status=302&location={own_address}&content-location={own_address}\
             &refresh=0;url%3D{own_address}&link=%3C{own_address}%3E"
        );
        let answer = stage.ask("GET", CONSOLE, &path, &own).await;
        assert_eq!(answer.header("location"), Some("/route/dev/x"));
        assert_eq!(answer.header("content-location"), Some("/route/dev/x"));
        assert_eq!(answer.header("refresh"), Some("0;url=/route/dev/x"));
        assert_eq!(answer.header("link"), Some("</route/dev/x>"));
    }
}
