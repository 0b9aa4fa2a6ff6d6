//! A proxy that stops, and one that comes in its place: nobody is refused meanwhile.

use super::ends;
use crate::client::{Connection, own, request};
use crate::eventually;
use crate::proxy::{CONSOLE, Stage, signal};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_says_so_and_loses_nothing() {
    let mut stage = Stage::with(&["--drain=2", "--stop-timeout=60", "--h2c"]).await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let mut idle = Connection::open(stage.address).await;
    idle.send(request("GET", CONSOLE, "/", &[])).await;
    assert_eq!(idle.answer().await.header("connection"), Some("keep-alive"));
    let mut used = Connection::open(stage.address).await;
    used.send(request("GET", CONSOLE, "/", &[])).await;
    used.answer().await;
    let mut slow = stage.begin("GET", "dev", "/slow", "").await;
    eventually("the request", || async { app.requests() == 1 }).await;
    stage.signal("TERM");
    eventually("readiness off", || async { !stage.is_ready().await }).await;
    // Until the listener closes, everybody is served, and told to go elsewhere.
    for connection in [&mut used, &mut Connection::open(stage.address).await] {
        connection.send(request("GET", CONSOLE, "/", &[])).await;
        let answer = connection.answer().await;
        assert_eq!(
            (answer.status, answer.header("connection")),
            (200, Some("close"))
        );
        assert!(ends(connection).await);
    }
    // Then nobody comes in, and who asks for nothing is let go.
    eventually("a closed listener", || async {
        TcpStream::connect(stage.address).await.is_err()
    })
    .await;
    assert!(ends(&mut idle).await);
    // What had begun ends in its own time, and the process with it.
    assert!(stage.child.try_wait().unwrap().is_none());
    app.release();
    let answer = slow.answer().await;
    assert_eq!(
        (answer.text().as_str(), answer.header("connection")),
        ("app\n", Some("close"))
    );
    let ended = tokio::time::timeout(crate::PATIENCE, stage.child.wait());
    assert!(ended.await.expect("it did not end").unwrap().success());
    let mut rest = [0; 1];
    assert_eq!(slow.stream.read(&mut rest).await.unwrap_or(0), 0);
}

/// Asks for a page on a connection that is kept for as long as the proxy keeps it, or on one of its own.
async fn visit(address: SocketAddr, kept: &mut Option<Connection>) -> Result<(), String> {
    if let Some(connection) = kept.take()
        && let Some(connection) = ask(connection).await?
    {
        *kept = connection;
        return Ok(());
    }
    let stream = TcpStream::connect(address).await;
    let connection = Connection {
        stream: stream.map_err(|error| format!("not let in: {error}"))?,
        buffer: Vec::new(),
    };
    let answered = ask(connection).await?;
    *kept = answered.ok_or("no answer: the connection was closed")?;
    Ok(())
}

/// The connection, if it is kept; `None`: it was closed without an answer. Between two requests that may
/// be, and clients ask again on another one (RFC 9110, section 9.2.2).
async fn ask(mut connection: Connection) -> Result<Option<Option<Connection>>, String> {
    let get = request("GET", CONSOLE, "/", &[]);
    if connection.stream.write_all(get.as_bytes()).await.is_err() {
        return Ok(None);
    }
    let Some(answer) = connection.try_answer().await else {
        return Ok(None);
    };
    if answer.status != 200 {
        return Err(format!("{}: {}", answer.status, answer.text()));
    }
    let is_kept = answer.header("connection") != Some("close");
    Ok(Some(is_kept.then_some(connection)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_gives_way_to_the_next_and_nobody_is_refused() {
    let rounds = if crate::is_full_size() { 20 } else { 3 };
    let flags = ["--reuse-port", "--drain=1", "--stop-timeout=60"];
    let mut stage = Stage::with(&flags).await;
    let address = stage.address;
    let (over, is_over) = tokio::sync::watch::channel(false);
    let visitors: Vec<_> = (0..8)
        .map(|nth| {
            let is_over = is_over.clone();
            tokio::spawn(async move {
                let (mut visits, mut kept) = (0u64, None);
                while !*is_over.borrow() {
                    visit(address, &mut kept).await?;
                    visits += 1;
                    if nth % 2 == 0 {
                        kept = None;
                    }
                }
                Ok::<_, String>(visits)
            })
        })
        .collect();
    for _ in 0..rounds {
        let mut before = stage.succeed().await;
        signal(&before, "TERM");
        let ended = tokio::time::timeout(crate::PATIENCE, before.wait()).await;
        assert!(ended.expect("it did not end").unwrap().success());
    }
    over.send(true).unwrap();
    let mut visits = Vec::new();
    for visitor in visitors {
        visits.push(visitor.await.unwrap());
    }
    let failed: Vec<_> = visits.iter().filter(|visits| visits.is_err()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let visits: u64 = visits.into_iter().flatten().sum();
    println!("visits: {visits} over {rounds} restarts");
    assert!(visits > 100 * rounds, "only {visits} visits");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_serve_yet_takes_no_client_from_who_can() {
    let stage = Stage::with(&["--reuse-port"]).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let (mut second, _silent) = stage.waiting().await;
    // The system chooses who gets a connection when it is made.
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(Connection::open(stage.address).await);
    }
    let (host, cookie) = stage.alice("dev");
    let headers = own(&cookie);
    for client in &mut clients {
        client.send(request("GET", &host, "/", &headers)).await;
        assert_eq!(client.answer().await.status, 200);
    }
    signal(&second, "TERM");
    let ended = tokio::time::timeout(crate::PATIENCE, second.wait()).await;
    assert!(ended.expect("it did not end").unwrap().success());
    assert_eq!(stage.get("dev", "/").await.status, 200);
}
