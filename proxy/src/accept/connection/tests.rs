//! Requests as they come on a connection: one by one, whole, and no further.

mod answers;
mod deadlines;
mod leaving;

use super::*;
use crate::accept::count::Connections;
use pingora::protocols::UniqueID as _;
use std::future::pending;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

const BOUNDS: Bounds = Bounds {
    target: 100,
    section: 1000,
    fields: 10,
};
const LONG: Duration = Duration::from_secs(60);
const PATIENT: Deadlines = Deadlines {
    first: LONG,
    head: LONG,
    idle: LONG,
};

async fn pair() -> (TcpStream, Connection) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = TcpStream::connect(address).await.unwrap();
    let (served, peer) = listener.accept().await.unwrap();
    let admitted = Connections::new(None, None).admit().unwrap();
    let lingering = Lingering::new(TaskTracker::new());
    let metrics = Metrics::default();
    let wire = Wire::Clear(served);
    let connection = Connection::new(wire, peer, None, admitted, lingering, metrics);
    (client, connection)
}

/// Waits, and not for ever.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.expect("it never is")
}

async fn next(connection: &mut Connection, speaks: Speaks) -> Result<Came, Lost> {
    connection
        .next(speaks, LONG, &PATIENT, &BOUNDS, pending())
        .await
}

/// All that may be read before the next request is awaited.
async fn handed_on(connection: &mut Connection) -> Vec<u8> {
    let mut read = Vec::new();
    while !connection.due.is_over() {
        let mut part = [0; 7];
        let n = connection.read(&mut part).await.unwrap();
        read.extend_from_slice(&part[..n]);
    }
    read
}

#[tokio::test]
async fn requests_that_came_together_are_handed_on_one_by_one() {
    let (mut client, mut connection) = pair().await;
    let (get, post, chunks) = (
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nthe body.",
        "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nthe body.\r\n0\r\n\r\n",
    );
    let requests = [get, post, chunks, get, chunks, chunks, post];
    client
        .write_all(requests.concat().as_bytes())
        .await
        .unwrap();
    for request in requests {
        assert_eq!(
            next(&mut connection, Speaks::Http1).await,
            Ok(Came::Request)
        );
        assert_eq!(handed_on(&mut connection).await, request.as_bytes());
        let mut probe = [0; 1];
        let looks = poll_fn(|cx| {
            let mut probe = ReadBuf::new(&mut probe);
            Poll::Ready(Pin::new(&mut connection).poll_read(cx, &mut probe))
        });
        assert!(looks.await.is_pending());
    }
    drop(client);
    assert_eq!(
        next(&mut connection, Speaks::Http1).await,
        Ok(Came::Nothing)
    );
}

#[tokio::test]
async fn a_body_arrives_as_it_was_sent_and_no_further() {
    let (mut client, mut connection) = pair().await;
    let body: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let head = format!("PUT / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
    let whole = [head.as_bytes(), &body].concat();
    arrives(&mut client, &mut connection, whole).await;
    let head = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n30D40\r\n";
    let whole = [head.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    arrives(&mut client, &mut connection, whole).await;
}

/// Sends a request, and another one after it.
async fn arrives(client: &mut TcpStream, connection: &mut Connection, whole: Vec<u8>) {
    let follower = b"GET / HTTP/1.1\r\n\r\n";
    let sending = async {
        client.write_all(&whole).await.unwrap();
        client.write_all(follower).await.unwrap();
    };
    let receiving = async {
        for wanted in [&whole[..], follower] {
            assert_eq!(next(connection, Speaks::Http1).await, Ok(Came::Request));
            assert!(handed_on(connection).await == wanted);
        }
    };
    tokio::join!(sending, receiving);
}

/// A client, and its connection, on which a request without a body has been handed on.
async fn asked() -> (TcpStream, Connection) {
    let (mut client, mut connection) = pair().await;
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(
        next(&mut connection, Speaks::Http1).await,
        Ok(Came::Request)
    );
    handed_on(&mut connection).await;
    (client, connection)
}

#[tokio::test]
async fn an_empty_line_between_two_requests_begins_none() {
    let (mut client, mut connection) = asked().await;
    let head = "GET / HTTP/1.1\r\n\r\n";
    // Behind the body, as some old clients do; and once more.
    client.write_all(b"\r\n").await.unwrap();
    for _ in 0..2 {
        let short = Duration::from_millis(20);
        let came = connection.next(Speaks::Http1, short, &PATIENT, &BOUNDS, pending());
        assert_eq!(soon(came).await, Err(Lost::Silent));
    }
    client.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(
        next(&mut connection, Speaks::Http1).await,
        Ok(Came::Request)
    );
    assert_eq!(
        handed_on(&mut connection).await,
        format!("\r\n{head}").as_bytes()
    );
}

#[tokio::test]
async fn another_protocol_gets_all_that_comes() {
    let (mut client, mut connection) = pair().await;
    let head = "GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(b"too early").await.unwrap();
    assert_eq!(
        next(&mut connection, Speaks::Http1).await,
        Ok(Came::Request)
    );
    let mut read = vec![0; head.len()];
    connection.read_exact(&mut read).await.unwrap();
    assert_eq!(read, head.as_bytes());
    let mut rest = [0; 9];
    connection.read_exact(&mut rest).await.unwrap();
    assert_eq!(&rest, b"too early");
}

#[tokio::test]
async fn http2_is_known_by_what_it_begins_with() {
    for (speaks, sent, wanted) in [
        (Speaks::Either, &PREFACE[..], Ok(Came::Http2)),
        (Speaks::Http2, &PREFACE[..], Ok(Came::Http2)),
        (Speaks::Either, b"GET / HTTP/1.0\r\n\r\n", Ok(Came::Request)),
        (Speaks::Either, b"PRI / HTTP/1.1\r\n\r\n", Ok(Came::Request)),
        (Speaks::Http1, &PREFACE[..], Ok(Came::Request)),
        (
            Speaks::Http2,
            b"GET / HTTP/1.1\r\n\r\n",
            Err(Lost::NotHttp2),
        ),
    ] {
        let (mut client, mut connection) = pair().await;
        for byte in sent {
            client.write_all(&[*byte]).await.unwrap();
        }
        assert_eq!(next(&mut connection, speaks).await, wanted, "{speaks:?}");
        if wanted == Ok(Came::Http2) {
            // It is for HTTP/2 to read.
            let mut preface = [0; PREFACE.len()];
            connection.read_exact(&mut preface).await.unwrap();
            assert_eq!(&preface, PREFACE);
        }
    }
}

#[tokio::test]
async fn a_body_comes_in_pieces_that_are_small_while_they_are_to_be() {
    let (mut client, mut connection) = pair().await;
    let post = "POST / HTTP/1.1\r\nContent-Length: 9000\r\n\r\n";
    let body = [b'x'; 9000];
    for (piece, wanted) in [(Some(1000), 1000), (None, 9000)] {
        client.write_all(post.as_bytes()).await.unwrap();
        let came = soon(next(&mut connection, Speaks::Http1)).await;
        assert_eq!(came, Ok(Came::Request));
        let mut head = vec![0; post.len()];
        connection.read_exact(&mut head).await.unwrap();
        client.write_all(&body).await.unwrap();
        let mut stream: pingora::protocols::Stream = Box::new(connection);
        if let Some(piece) = piece {
            read_at_once(&stream, piece);
        }
        let mut read = vec![0; 65_536];
        assert_eq!(soon(stream.read(&mut read)).await.unwrap(), wanted);
        connection = *take(stream).unwrap();
        handed_on(&mut connection).await;
    }
}
