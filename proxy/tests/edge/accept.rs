//! Connections before there is a request: whose they are, and in which order they are answered.

mod bounds;
mod control;
mod stopping;

use crate::client::{Connection, own, request};
use crate::eventually;
use crate::proxy::{CONSOLE, Stage};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpSocket;

/// A connection from another address of this machine.
async fn from(source: [u8; 4], to: SocketAddr) -> Connection {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(SocketAddr::from((Ipv4Addr::from(source), 0)))
        .unwrap();
    Connection {
        stream: socket.connect(to).await.unwrap(),
        buffer: Vec::new(),
    }
}

/// Whether it ends, without a word.
async fn ends(connection: &mut Connection) -> bool {
    connection.rest().await.is_empty()
}

async fn refused(stage: &Stage, reason: &str) -> i64 {
    labelled(
        stage,
        &format!("connections_refused_total{{reason=\"{reason}\"}}"),
    )
    .await
}

async fn labelled(stage: &Stage, name: &str) -> i64 {
    let text = stage.metrics().await;
    let prefix = format!("nogoo9_proxy_{name} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    line.map_or(0, |count| count.parse().unwrap())
}

/// What the pod of `dev` heard of where a request came from.
fn heard(answer: &str) -> Option<&str> {
    answer
        .lines()
        .find_map(|line| line.strip_prefix("x-forwarded-for: "))
}

fn v2(source: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f".to_vec();
    header.extend(source);
    // Destination, ports, and a TLV.
    header.extend([127, 0, 0, 1, 0x10, 0x20, 1, 187, 4, 0, 0]);
    header
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_proxy_says_whose_its_connections_are() {
    let stage = Stage::with(&["--proxy-protocol", "--trusted-proxies=127.0.0.2"]).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let (host, cookie) = stage.alice("dev");
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        // The client's own word, which does not count now.
        ("X-Forwarded-For", "203.0.113.9"),
    ];
    let get = request("GET", &host, "/", &headers);
    let v1 = "PROXY TCP4 198.51.100.7 127.0.0.1 4128 443\r\n";
    for (header, said) in [
        (v1.as_bytes().to_vec(), "198.51.100.7"),
        (v2([198, 51, 100, 8]), "198.51.100.8"),
        // It speaks for itself, and its word about others counts as ever.
        (b"PROXY UNKNOWN\r\n".to_vec(), "203.0.113.9"),
    ] {
        let mut connection = from([127, 0, 0, 2], stage.address).await;
        // In pieces, and together with the first request.
        for byte in &header {
            connection.send([*byte]).await;
        }
        for _ in 0..2 {
            connection.send(&get).await;
            let answer = connection.answer().await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(heard(&answer.text()), Some(said));
        }
    }
    // It must say so: what comes without is nobody's, and is not heard.
    let mut connection = from([127, 0, 0, 2], stage.address).await;
    connection.send(&get).await;
    assert!(ends(&mut connection).await);
    assert_eq!(refused(&stage, "ProxyHeader").await, 1);
    // It looks whether somebody listens: that is no mistake.
    drop(from([127, 0, 0, 2], stage.address).await);
    // Others are who they are, and cannot say otherwise.
    let mut other = from([127, 0, 0, 3], stage.address).await;
    other.send(&get).await;
    assert_eq!(heard(&other.answer().await.text()), Some("127.0.0.3"));
    for header in [v1.as_bytes().to_vec(), v2([198, 51, 100, 8])] {
        let mut other = from([127, 0, 0, 3], stage.address).await;
        other
            .send([header, get.clone().into_bytes()].concat())
            .await;
        assert_eq!(other.answer().await.status, 400);
        assert!(ends(&mut other).await);
    }
    assert_eq!(refused(&stage, "ProxyHeader").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_sent_together_are_answered_in_order() {
    let stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let (host, cookie) = stage.alice("dev");
    let headers = own(&cookie);
    let with_body = [headers[0], headers[1], ("Content-Length", "4")];
    let in_chunks = [headers[0], headers[1], ("Transfer-Encoding", "chunked")];
    let mut connection = Connection::open(stage.address).await;
    let all = [
        request("GET", &host, "/1", &headers),
        request("POST", &host, "/2", &with_body) + "body",
        request("POST", &host, "/2", &in_chunks) + "4\r\nbody\r\n0\r\n\r\n",
        request("GET", &host, "/slow", &headers),
        request("GET", &host, "/3", &headers),
    ];
    connection.send(all.concat()).await;
    let first = connection.answer().await.text();
    assert!(first.starts_with("app\nGET /1\n"), "{first}");
    for _ in 0..2 {
        let second = connection.answer().await.text();
        assert!(
            second.starts_with("app\nPOST /2\n") && second.ends_with("\nbody"),
            "{second}"
        );
    }
    // The third waits, and the fourth with it: one more comes meanwhile.
    eventually("the third", || async { app.requests() == 4 }).await;
    connection.send(request("GET", &host, "/4", &headers)).await;
    app.release();
    assert_eq!(connection.answer().await.text(), "app\n");
    for nth in [3, 4] {
        let answer = connection.answer().await.text();
        assert!(
            answer.starts_with(&format!("app\nGET /{nth}\n")),
            "{answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pingora_answers_alone_is_counted() {
    let stage = Stage::start().await;
    let get = request("GET", CONSOLE, "/", &[]);
    for (head, status) in [
        ("CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n".to_owned(), 405),
        (get.replace("Host:", "Ho st:"), 400),
    ] {
        let name = format!("answered_below_total{{status=\"{status}\"}}");
        let mut connection = Connection::open(stage.address).await;
        // Not the first one on its connection.
        connection.send(&get).await;
        assert_eq!(connection.answer().await.status, 200);
        assert_eq!(labelled(&stage, &name).await, 0);
        connection.send(head).await;
        let answer = connection.answer().await;
        assert_eq!(answer.status, status);
        assert_eq!(labelled(&stage, &name).await, 1);
        // RFC 9110, section 15.5.6.
        let allow = answer.header("allow");
        assert_eq!(allow.is_some_and(|all| all.contains("GET")), status == 405);
        assert_eq!(answer.header("server"), None);
        assert_eq!(answer.header("content-length"), Some("0"));
    }
}
