//! How much may go on towards control, where anybody may go.

use super::{from, labelled};
use crate::client::{Answer, Connection, request};
use crate::eventually;
use crate::frames::{END_STREAM, Fate, HEADERS, Http2};
use crate::proxy::{CONSOLE, Stage};

const FLAGS: [&str; 4] = [
    "--h2c",
    "--max-control-requests=5",
    "--max-control-requests-per-client=2",
    "--trusted-proxies=127.0.0.9",
];

/// The head of the answer to a request for a stream that goes on until control is told, and its
/// connection.
async fn follows(stage: &Stage, source: [u8; 4], forwarded: &str) -> (Answer, Connection) {
    let mut connection = from(source, stage.address).await;
    let headers = [("X-Forwarded-For", forwarded)];
    connection
        .send(request("GET", CONSOLE, "/events", &headers))
        .await;
    (connection.head().await, connection)
}

/// What somebody gets who signs in, or looks at the console.
async fn visits(stage: &Stage, source: [u8; 4]) -> u16 {
    let mut connection = from(source, stage.address).await;
    connection.send(request("GET", CONSOLE, "/", &[])).await;
    connection.answer().await.status
}

async fn full(stage: &Stage, kind: &str) -> i64 {
    labelled(stage, &format!("control_full_total{{kind=\"{kind}\"}}")).await
}

/// Asks for the same over HTTP/2; once it is answered, or has begun to be.
async fn asks(client: &mut Http2) -> u32 {
    let fields: [(&[u8], &[u8]); 4] = [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":path", b"/events"),
        (b":authority", CONSOLE.as_bytes()),
    ];
    let stream = client.request(&fields, END_STREAM).await;
    let begun = |client: &Http2| {
        let mut seen = client.seen.iter();
        seen.any(|frame| frame.kind == HEADERS && frame.stream == stream)
    };
    while !begun(client) {
        assert!(client.read().await.is_some(), "the connection ended");
    }
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_takes_no_more_than_its_places_towards_control() {
    let stage = Stage::with(&FLAGS).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    // All over one connection, from 127.0.0.1.
    let mut client = Http2::open(stage.address).await;
    let first = asks(&mut client).await;
    let second = asks(&mut client).await;
    let third = asks(&mut client).await;
    assert_eq!(client.fate(third).await, Fate::Answered(503));
    // However it comes.
    let answer = stage.ask("GET", CONSOLE, "/", &[]).await;
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("5"))
    );
    assert_eq!(full(&stage, "client").await, 2);
    assert_eq!(full(&stage, "total").await, 0);
    // Others sign in meanwhile, one after the other, and workspaces go on.
    for _ in 0..5 {
        assert_eq!(visits(&stage, [127, 0, 0, 2]).await, 200);
    }
    assert_eq!(stage.get("dev", "/").await.status, 200);
    // Places come back with the end of an answer.
    stage.control.release();
    for stream in [first, second] {
        assert_eq!(client.fate(stream).await, Fate::Answered(200));
    }
    eventually("a place", || async {
        visits(&stage, [127, 0, 0, 1]).await == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_together_take_no_more_than_the_places_towards_control() {
    let stage = Stage::with(&FLAGS).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let mut open = Vec::new();
    // Whom a trusted proxy names is who counts; another's word does not.
    for (source, forwarded, status) in [
        ([127, 0, 0, 9], "2001:db8:0:1::1", 200),
        ([127, 0, 0, 9], "2001:db8:0:1:ffff::2", 200),
        ([127, 0, 0, 9], "2001:db8:0:1::3", 503),
        ([127, 0, 0, 2], "2001:db8:0:2::1", 200),
        ([127, 0, 0, 2], "2001:db8:0:3::1", 200),
        ([127, 0, 0, 2], "2001:db8:0:4::1", 503),
        ([127, 0, 0, 4], "2001:db8:0:5::1", 200),
    ] {
        let (answer, connection) = follows(&stage, source, forwarded).await;
        assert_eq!(answer.status, status, "{source:?} {forwarded}");
        if status == 200 {
            open.push(connection);
        }
    }
    assert_eq!(full(&stage, "client").await, 2);
    assert_eq!(visits(&stage, [127, 0, 0, 3]).await, 503);
    assert_eq!(full(&stage, "total").await, 1);
    // Workspaces have places of their own.
    assert_eq!(stage.get("dev", "/").await.status, 200);
    // Places come back with a client that goes.
    drop(open.pop());
    eventually("a place", || async {
        visits(&stage, [127, 0, 0, 3]).await == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_names_no_client_stands_for_many() {
    let stage = Stage::with(&FLAGS).await;
    let mut open = Vec::new();
    for status in [200, 200, 200, 200, 200, 503] {
        let (answer, connection) = follows(&stage, [127, 0, 0, 9], "unknown").await;
        assert_eq!(answer.status, status);
        open.push(connection);
    }
    assert_eq!(full(&stage, "client").await, 0);
    assert_eq!(full(&stage, "total").await, 1);
}
