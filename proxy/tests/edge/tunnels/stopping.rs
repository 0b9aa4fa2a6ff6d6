//! Sockets of a proxy that stops: each is told, and finds the next one.

use super::{silent, stage_with};
use crate::client::{Connection, request};
use crate::eventually;
use crate::proxy::Stage;
use crate::sockets::{close, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_ends_with_its_proxy() {
    let (pod, mut hears) = silent().await;
    let (stage, opening) = stage_with(&["--close-window", "0"], &pod).await;
    let mut socket = Connection::open(stage.address).await;
    socket.send(&opening).await;
    hears.recv().await.unwrap();
    stage.signal("TERM");
    let answer = socket.answer().await;
    assert_eq!(answer.status, 503);
    assert!(answer.header("retry-after").is_some());
}

/// A proxy stops while a second one is up: requests in flight are answered, none is refused, and every
/// socket gets its 1001.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_a_thousand_sockets() {
    const SOCKETS: usize = 1_000;
    const SLOW: usize = 20;
    let flags = [
        "--reuse-port",
        "--drain",
        "1",
        "--close-window",
        "2",
        "--stop-timeout",
        "60",
    ];
    let mut stage = Stage::with(&flags).await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        sockets.push(open(&stage, "dev", "app").await);
    }
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        slow.push(stage.begin("GET", "dev", "/slow", "").await);
    }
    eventually("the slow requests", || async { app.requests() == SLOW }).await;
    let second = stage.second().await;
    stage.signal("TERM");
    // Requests all along, each over a connection of its own, until the first proxy is gone.
    let (host, cookie) = stage.alice("dev");
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Connection", "close"),
    ];
    let ask = request("GET", &host, "/plain", &headers);
    let address = stage.address;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let asking = tokio::spawn(async move {
        let mut asked = 0;
        while !*stopped.borrow() {
            let mut connection = Connection::open(address).await;
            connection.send(&ask).await;
            assert_eq!(connection.answer().await.status, 200, "after {asked}");
            asked += 1;
        }
        asked
    });
    let ends = sockets
        .into_iter()
        .map(|mut socket| async move { socket.rest().await });
    let ends = futures::future::join_all(ends).await;
    let told = ends.iter().filter(|end| **end == close(1001)).count();
    assert_eq!(told, SOCKETS);
    app.release();
    for mut one in slow {
        assert_eq!(one.answer().await.text(), "app\n");
    }
    let ended = tokio::time::timeout(crate::PATIENCE, stage.child.wait()).await;
    assert!(ended.unwrap().unwrap().success());
    // All of them find the other one.
    for _ in 0..10 {
        drop(open(&stage, "dev", "app").await);
    }
    stop.send_replace(true);
    let asked = asking.await.unwrap();
    println!("{told} sockets closed with 1001; {asked} requests meanwhile, all answered");
    assert!(asked > 0);
    drop(second);
}
