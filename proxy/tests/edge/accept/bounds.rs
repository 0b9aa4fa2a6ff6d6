//! How many connections there may be, how slow and how large what comes over them.

use super::{ends, from, labelled, refused};
use crate::client::{Connection, request};
use crate::eventually;
use crate::memory::resident;
use crate::proxy::{CONSOLE, Stage};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_one_client_are_bounded() {
    let stage = Stage::with(&[
        "--max-connections-per-client=3",
        "--max-connections=5",
        "--trusted-proxies=127.0.0.9",
    ])
    .await;
    let served = async |connection: &mut Connection| {
        let head = request("GET", CONSOLE, "/", &[]);
        connection.send(head).await;
        connection.answer().await.status == 200
    };
    let mut first = Vec::new();
    for _ in 0..3 {
        let mut one = from([127, 0, 0, 2], stage.address).await;
        assert!(served(&mut one).await);
        first.push(one);
    }
    let mut fourth = from([127, 0, 0, 2], stage.address).await;
    assert!(ends(&mut fourth).await);
    assert_eq!(refused(&stage, "Client").await, 1);
    // Others are served, until there are too many in all.
    let mut other = from([127, 0, 0, 3], stage.address).await;
    assert!(served(&mut other).await);
    let mut many = from([127, 0, 0, 9], stage.address).await;
    assert!(served(&mut many).await);
    assert_eq!(stage.metric("open_connections").await, 5);
    // Who stands for many is not counted as one.
    assert_eq!(stage.metric("clients").await, 2);
    let mut sixth = from([127, 0, 0, 4], stage.address).await;
    assert!(ends(&mut sixth).await);
    assert_eq!(refused(&stage, "Total").await, 1);
    // All that was served goes on, and who goes makes room.
    for one in &mut first {
        assert!(served(one).await);
    }
    drop((first, many));
    eventually("room", || async {
        stage.metric("open_connections").await == 1
    })
    .await;
    let mut again = from([127, 0, 0, 2], stage.address).await;
    assert!(served(&mut again).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_have_bounds_and_deadlines() {
    let stage = Stage::with(&[
        "--first-byte-timeout=1",
        "--header-timeout=1",
        "--keepalive-timeout=1",
        "--max-target-bytes=1000",
        "--max-header-bytes=2000",
        "--max-headers=20",
    ])
    .await;
    let get = request("GET", CONSOLE, "/", &[]);
    // At the bounds.
    let target = format!("/{}", "a".repeat(999));
    let large = "a".repeat(1900);
    for (target, value) in [(target.as_str(), "1"), ("/", large.as_str())] {
        let mut connection = Connection::open(stage.address).await;
        let head = request("GET", CONSOLE, target, &[("X", value)]);
        connection.send(head).await;
        assert_eq!(connection.answer().await.status, 200);
    }
    // Beyond them: told so, although the client goes on sending.
    let longer = format!("{target}a");
    let larger = "a".repeat(100_000);
    let many = [("X", "1"); 20];
    for (head, status, reason) in [
        (request("GET", CONSOLE, &longer, &[]), 414, "Target"),
        (
            request("GET", CONSOLE, "/", &[("X", &larger)]),
            431,
            "Headers",
        ),
        (request("GET", CONSOLE, "/", &many), 431, "Headers"),
        ("\x16\x03\x01\x02\0\x01\0".to_owned(), 400, "Malformed"),
    ] {
        let before = refused(&stage, reason).await;
        let mut connection = Connection::open(stage.address).await;
        // The proxy may have closed meanwhile.
        let _ = connection.stream.write_all(head.as_bytes()).await;
        let answer = connection.answer().await;
        assert_eq!(answer.status, status, "{}", answer.text());
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(ends(&mut connection).await);
        assert_eq!(refused(&stage, reason).await, before + 1);
    }
    // A part of a head, on a new connection and on one that was used.
    for used in [false, true] {
        let mut connection = Connection::open(stage.address).await;
        if used {
            connection.send(&get).await;
            assert_eq!(connection.answer().await.status, 200);
        }
        connection.send("GET / HTTP/1.1\r\nHo").await;
        assert_eq!(connection.answer().await.status, 408);
        assert!(ends(&mut connection).await);
    }
    assert_eq!(refused(&stage, "Slow").await, 2);
    // Nothing at all, likewise.
    let before = refused(&stage, "Silent").await;
    let mut silent = Connection::open(stage.address).await;
    assert!(ends(&mut silent).await);
    let mut used = Connection::open(stage.address).await;
    used.send(&get).await;
    assert_eq!(used.answer().await.status, 200);
    assert!(ends(&mut used).await);
    assert_eq!(refused(&stage, "Silent").await, before + 2);
    // Each of these left its line.
    for status in [400, 408, 414, 431] {
        let line = format!("access: not a request client=Some(127.0.0.1) status={status} by=Proxy");
        eventually("its line", || async { stage.log().contains(&line) }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlines_of_heads_cut_nothing_that_has_begun() {
    let stage = Stage::with(&[
        "--first-byte-timeout=1",
        "--header-timeout=1",
        "--keepalive-timeout=1",
    ])
    .await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    // An upload that takes longer than a head may, an answer that does, and a stream.
    let mut upload = stage.begin("POST", "dev", "/", "").await;
    let mut slow = stage.begin("GET", "dev", "/slow", "").await;
    let mut events = stage.begin("GET", "dev", "/events", "").await;
    drop(upload);
    let (host, cookie) = stage.alice("dev");
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Content-Length", "10"),
    ];
    upload = Connection::open(stage.address).await;
    upload
        .send(format!("{}01234", request("POST", &host, "/", &headers)))
        .await;
    assert_eq!(events.head().await.status, 200);
    assert_eq!(events.chunk().await, b"data: one\n\n");
    // Once these are closed, the others have outlived all deadlines.
    let mut silent = Connection::open(stage.address).await;
    let mut partial = Connection::open(stage.address).await;
    partial.send("GET").await;
    assert!(ends(&mut silent).await);
    assert_eq!(partial.answer().await.status, 408);
    upload.send("56789").await;
    assert!(upload.answer().await.text().ends_with("\n0123456789"));
    app.release();
    assert_eq!(slow.answer().await.text(), "app\n");
    assert_eq!(events.chunk().await, b"data: two\n\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_workspace_takes_no_more_than_its_places() {
    let stage = Stage::with(&[
        "--max-requests-per-workspace=2",
        "--max-sockets-per-workspace=1",
    ])
    .await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let (_other, _) = stage.serving("other", "ops", 1).await;
    let mut slow = Vec::new();
    for nth in 1..=2 {
        slow.push(stage.begin("GET", "dev", "/slow", "").await);
        eventually("the request", || async { app.requests() == nth }).await;
    }
    let refused = stage.get("dev", "/").await;
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("5"))
    );
    assert_eq!(
        labelled(&stage, "workspace_full_total{kind=\"request\"}").await,
        1
    );
    // Others have theirs, and sockets have their own.
    assert_eq!(stage.get("ops", "/").await.status, 200);
    let (host, cookie) = stage.alice("dev");
    let open = async || {
        let headers = [
            ("Cookie", cookie.as_str()),
            ("Sec-Fetch-Site", "same-origin"),
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let mut socket = Connection::open(stage.address).await;
        socket
            .send(request("GET", &host, "/socket", &headers))
            .await;
        let answer = socket.head().await;
        (answer.status, socket)
    };
    let (status, socket) = open().await;
    assert_eq!(status, 101);
    assert_eq!(open().await.0, 503);
    assert_eq!(
        labelled(&stage, "workspace_full_total{kind=\"socket\"}").await,
        1
    );
    // Places come back: with the answer, and with a client that goes.
    drop(socket);
    eventually("a socket's place", || async { open().await.0 == 101 }).await;
    app.release();
    for mut one in slow {
        assert_eq!(one.answer().await.text(), "app\n");
    }
    eventually("a request's place", || async {
        stage.get("dev", "/").await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_have_a_bound_where_one_is_set() {
    let stage = Stage::with(&["--max-body-bytes=10"]).await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let (host, cookie) = stage.alice("dev");
    for (framing, body, status) in [
        (("Content-Length", "10"), "0123456789", 200),
        (
            ("Transfer-Encoding", "chunked"),
            "a\r\n0123456789\r\n0\r\n\r\n",
            200,
        ),
        // Before it is sent, and before the pod hears of it.
        (("Content-Length", "11"), "", 413),
        (
            ("Transfer-Encoding", "chunked"),
            "a\r\n0123456789\r\n1\r\n0\r\n",
            413,
        ),
    ] {
        let headers = [
            ("Cookie", cookie.as_str()),
            ("Sec-Fetch-Site", "same-origin"),
            framing,
        ];
        let mut connection = Connection::open(stage.address).await;
        connection
            .send(request("POST", &host, "/", &headers) + body)
            .await;
        let answer = connection.answer().await;
        assert_eq!(answer.status, status, "{framing:?} {}", answer.text());
        if status == 413 {
            assert_eq!(answer.header("connection"), Some("close"));
        }
    }
    assert!(app.requests() <= 3);
    assert_eq!(stage.get("dev", "/").await.status, 200);
}

/// Connections that send their heads byte by byte.
const SLOW: usize = 5000;
/// Of so many clients.
const CLIENTS: usize = 25;
/// What one such connection may cost, in KiB: its task and its buffers, and what the allocator keeps
/// around them. In the bounds of the flags' defaults it would be 64, once all its head had come.
const COST: u64 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_slow_clients_keep_nobody_out() {
    rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let each = SLOW / CLIENTS;
    let stage = Stage::with(&[
        "--first-byte-timeout=300",
        "--header-timeout=5",
        &format!("--max-connections-per-client={each}"),
    ])
    .await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    assert_eq!(stage.get("dev", "/").await.status, 200);
    let before = resident(&stage) / 1024;
    let mut slow = Vec::with_capacity(SLOW);
    for nth in 0..SLOW {
        let client = u8::try_from(nth % CLIENTS).unwrap();
        slow.push(from([127, 0, 1, client], stage.address).await);
    }
    let open = i64::try_from(SLOW).unwrap();
    eventually("all connections", || async {
        stage.metric("open_connections").await >= open
    })
    .await;
    // No client gets more than its share.
    let mut more = from([127, 0, 1, 0], stage.address).await;
    assert!(ends(&mut more).await);
    assert_eq!(refused(&stage, "Client").await, 1);
    let slow: Vec<_> = slow
        .into_iter()
        .map(|mut slow| {
            tokio::spawn(async move {
                slow.send("GET / HTTP/1.1\r\nHost: x\r\nX: ").await;
                let mut sent = 0;
                loop {
                    let answered = async {
                        slow.stream.readable().await.unwrap();
                    };
                    match tokio::time::timeout(Duration::from_millis(500), answered).await {
                        Ok(()) => break,
                        Err(_) => {
                            let _ = slow.stream.try_write(b"x");
                            sent += 1;
                        }
                    }
                }
                let status = slow.answer().await.status;
                (status, sent, ends(&mut slow).await)
            })
        })
        .collect();
    // Meanwhile others are served, on new connections.
    let (mut served, mut most) = (0, 0);
    while refused(&stage, "Slow").await < open {
        for _ in 0..10 {
            assert_eq!(stage.get("dev", "/").await.status, 200);
            served += 1;
        }
        most = most.max(resident(&stage) / 1024);
    }
    let mut drops = 0;
    for slow in slow {
        let slow = tokio::time::timeout(crate::PATIENCE, slow).await;
        let (status, sent, ended) = slow.expect("it may take for ever").unwrap();
        assert_eq!((status, ended), (408, true));
        drops += sent;
    }
    let grown = most.saturating_sub(before);
    println!(
        "{SLOW} slow connections, {drops} drops: {served} requests of others; the proxy grew from {before} by {grown} KiB at most"
    );
    assert!(served >= 10);
    // They went on sending: it was not silence that ended them.
    assert!(drops >= SLOW, "{drops} drops");
    assert!(grown <= COST * SLOW as u64, "{grown} KiB more");
    eventually("the end of all", || async {
        stage.metric("open_connections").await == 0
    })
    .await;
    assert_eq!(stage.metric("clients").await, 0);
}
