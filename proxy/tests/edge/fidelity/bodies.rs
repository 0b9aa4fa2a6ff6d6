//! Bodies flow: piece by piece, no faster than they are taken, and never as a whole where they are none.

use crate::PATIENCE;
use crate::client::Connection;
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::Stage;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What one upload sends to a pod that takes nothing: more than all buffers on the way hold.
const TOO_MUCH: usize = 256 << 20;
/// More than the buffers of three sockets and the proxy between them.
const BUFFERS: usize = 64 << 20;
const PIECE: &[u8] = &[7; 64 << 10];

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

/// A pod that does what the test says.
struct Pod {
    stage: Stage,
    listener: TcpListener,
    host: String,
    /// The lines that let a request in.
    first: String,
}

/// The pod's end of a connection, and what has come over it.
struct Line {
    stream: TcpStream,
    got: Vec<u8>,
}

impl Pod {
    async fn new(flags: &[&str]) -> Self {
        let stage = Stage::with(flags).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        stage.run(&Spec::new("app", "dev", 1, address)).await;
        let (host, cookie) = stage.alice("dev");
        let first = format!("Host: {host}\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n");
        Self {
            stage,
            listener,
            host,
            first,
        }
    }

    /// Sends the head of a request.
    async fn begin(&self, method: &str, lines: &str) -> Connection {
        let mut client = Connection::open(self.stage.address).await;
        let head = format!("{method} /x HTTP/1.1\r\n{}{lines}\r\n", self.first);
        client.send(head).await;
        client
    }

    /// The next connection, once the head of its request is there.
    async fn accept(&self) -> Line {
        let accepted = tokio::time::timeout(PATIENCE, self.listener.accept()).await;
        let (stream, _) = accepted.expect("no connection came").unwrap();
        let mut line = Line {
            stream,
            got: Vec::new(),
        };
        line.until(|got| got.windows(4).any(|w| w == b"\r\n\r\n"))
            .await;
        line
    }

    async fn http2(&self) -> SendRequest<Body> {
        let stream = TcpStream::connect(self.stage.address).await.unwrap();
        let io = TokioIo::new(stream);
        let made = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await;
        let (client, connection) = made.unwrap();
        tokio::spawn(connection);
        client
    }

    fn request(&self, body: Body) -> http::Request<Body> {
        let cookie = self.first.split("Cookie: ").nth(1).unwrap();
        http::Request::post(format!("http://{}/x", self.host))
            .header("cookie", cookie.split("\r\n").next().unwrap())
            .header("sec-fetch-site", "same-origin")
            .body(body)
            .unwrap()
    }
}

impl Line {
    /// Reads until that holds of all that has come.
    async fn until(&mut self, holds: impl Fn(&[u8]) -> bool) {
        while !holds(&self.got) {
            let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.got)).await;
            let read = read.expect("nothing came").unwrap_or(0);
            assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&self.got));
        }
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads until the connection ends.
    async fn ended(&mut self) {
        loop {
            let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.got)).await;
            if read.expect("it did not end").unwrap_or(0) == 0 {
                return;
            }
            self.got.clear();
        }
    }
}

fn ends_with(text: &str) -> impl Fn(&[u8]) -> bool {
    let text = text.as_bytes().to_vec();
    move |got| got.ends_with(&text)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_piece_arrives_before_the_next_is_sent() {
    let pod = Pod::new(&["--h2c"]).await;
    // Answers, however they are framed.
    for (head, pieces) in [
        (
            "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked",
            ["8\r\ndata: a\n\r\n", "8\r\ndata: b\n\r\n"],
        ),
        ("Transfer-Encoding: chunked", ["1\r\na\r\n", "1\r\nb\r\n"]),
        ("Content-Length: 3", ["a", "b"]),
        ("Content-Type: text/plain", ["a", "b"]),
    ] {
        let mut client = pod.begin("GET", "").await;
        let mut line = pod.accept().await;
        line.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n"))
            .await;
        assert_eq!(client.head().await.status, 200);
        let chunked = !head.contains("Content-Length");
        for piece in pieces {
            line.send(piece).await;
            let text = piece.trim_end().rsplit("\r\n").next().unwrap();
            if chunked {
                let chunk = client.chunk().await;
                assert_eq!(String::from_utf8(chunk).unwrap().trim_end(), text);
            } else {
                assert_eq!(client.exactly(1).await, text.as_bytes());
            }
        }
    }
    // And over HTTP/2, both ways.
    let mut client = pod.http2().await;
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<&'static str>();
    let frames = futures::stream::unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        Some((Ok(Frame::data(Bytes::from(piece))), receiver))
    });
    let request = pod.request(BodyExt::boxed(StreamBody::new(frames)));
    let asking = tokio::spawn(async move { client.send_request(request).await });
    let mut line = pod.accept().await;
    for piece in ["one", "two"] {
        sender.send(piece).unwrap();
        line.until(ends_with(&format!("3\r\n{piece}\r\n"))).await;
    }
    line.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let mut body = asking.await.unwrap().unwrap().into_body();
    for piece in ["3", "4"] {
        line.send(format!("1\r\n{piece}\r\n")).await;
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap();
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), piece);
    }
    // The answer may end before the request does.
    line.send("0\r\n\r\n").await;
    let end = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap();
    assert!(end.is_none_or(|frame| frame.unwrap().into_data().unwrap().is_empty()));

    // Uploads of HTTP/1.
    let mut client = pod.begin("POST", "Transfer-Encoding: chunked\r\n").await;
    let mut line = pod.accept().await;
    for piece in ["one", "two"] {
        client.send(format!("3\r\n{piece}\r\n")).await;
        line.until(ends_with(&format!("3\r\n{piece}\r\n"))).await;
    }
    client.send("0\r\n\r\n").await;
    line.until(ends_with("\r\n0\r\n\r\n")).await;
    line.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_takes_nothing_holds_its_client_back() {
    let pod = Pod::new(&[]).await;
    let client = pod
        .begin("PUT", &format!("Content-Length: {TOO_MUCH}\r\n"))
        .await;
    let mut line = pod.accept().await;
    let sent = Arc::new(AtomicUsize::new(0));
    let (mut reader, mut writer) = client.stream.into_split();
    let counted = sent.clone();
    let sending = tokio::spawn(async move {
        while counted.load(Ordering::SeqCst) < TOO_MUCH {
            writer.write_all(PIECE).await.unwrap();
            counted.fetch_add(PIECE.len(), Ordering::SeqCst);
        }
        writer
    });
    // As much as the buffers hold, and then no more.
    let mut before = usize::MAX;
    while before != sent.load(Ordering::SeqCst) {
        before = sent.load(Ordering::SeqCst);
        assert!(before < BUFFERS, "{before} bytes are on the way");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    // The rest flows once it takes it.
    let head = line.got.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let mut taken = line.got.len() - head;
    let mut buffer = vec![0; 1 << 20];
    while taken < TOO_MUCH {
        let read = tokio::time::timeout(PATIENCE, line.stream.read(&mut buffer)).await;
        let read = read.expect("nothing came").unwrap();
        assert!(read > 0, "it ended after {taken} bytes");
        assert!(buffer[..read].iter().all(|byte| *byte == PIECE[0]));
        taken += read;
    }
    assert_eq!(taken, TOO_MUCH);
    line.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        .await;
    let _writer = sending.await.unwrap();
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        let read = tokio::time::timeout(PATIENCE, reader.read_buf(&mut got)).await;
        assert!(read.expect("no answer came").unwrap() > 0);
    }
    assert!(
        got.starts_with(b"HTTP/1.1 201 "),
        "{}",
        String::from_utf8_lossy(&got)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whether_to_go_on_is_the_pods_to_say() {
    let pod = Pod::new(&[]).await;
    let expects = "Expect: 100-continue\r\nContent-Length: 3\r\n";
    let mut client = pod.begin("POST", expects).await;
    let mut line = pod.accept().await;
    let head = String::from_utf8(line.got.clone()).unwrap();
    assert!(head.contains("\r\nExpect: 100-continue\r\n"), "{head}");
    assert!(client.is_silent(), "the edge goes on by itself");
    line.send("HTTP/1.1 100 Continue\r\n\r\n").await;
    assert_eq!(client.head().await.status, 100);
    client.send("abc").await;
    line.until(ends_with("\r\n\r\nabc")).await;
    line.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        .await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));

    // It does not want it.
    for status in [
        "413 Content Too Large",
        "417 Expectation Failed",
        "401 Unauthorized",
    ] {
        let mut client = pod.begin("POST", expects).await;
        let mut line = pod.accept().await;
        line.send(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno"))
            .await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.status.to_string().as_str(), answer.text().as_str()),
            (&status[..3], "no")
        );
        // What would come now is no request.
        assert_eq!(answer.header("connection"), Some("close"));
        drop(client);
        line.ended().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_the_middle_of_an_upload_arrives() {
    let pod = Pod::new(&[]).await;
    for (closes, framing) in [
        (true, "Content-Length: 99999999\r\n"),
        (false, "Transfer-Encoding: chunked\r\n"),
    ] {
        let client = pod.begin("POST", framing).await;
        let mut line = pod.accept().await;
        let (mut reader, mut writer) = client.stream.into_split();
        let sending = tokio::spawn(async move {
            let size = format!("{:x}\r\n", PIECE.len());
            let (before, after) = if closes {
                ("", "")
            } else {
                (size.as_str(), "\r\n")
            };
            for _ in 0..1000 {
                let piece = [before.as_bytes(), PIECE, after.as_bytes()].concat();
                // Nobody reads on once it is answered.
                if writer.write_all(&piece).await.is_err() {
                    break;
                }
            }
            writer
        });
        line.until(|got| got.len() > 1 << 20).await;
        line.send(
            "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
        )
        .await;
        let line = (!closes).then_some(line);
        let mut got = Vec::new();
        while !got.ends_with(b"\r\n\r\nno") {
            let read = tokio::time::timeout(PATIENCE, reader.read_buf(&mut got)).await;
            let read = read.expect("no answer came").unwrap_or(0);
            assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&got));
        }
        assert!(
            got.starts_with(b"HTTP/1.1 413 "),
            "{}",
            String::from_utf8_lossy(&got)
        );
        drop(line);
        sending.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_is_gone_for_the_pod() {
    let pod = Pod::new(&["--h2c"]).await;
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
    // While it uploads, waits, or takes an answer.
    for (lines, answered) in [
        ("Content-Length: 9\r\n", false),
        ("Transfer-Encoding: chunked\r\n", false),
        ("", false),
        ("", true),
        ("Content-Length: 9\r\n", true),
    ] {
        let mut client = pod.begin("POST", lines).await;
        let mut line = pod.accept().await;
        if answered {
            line.send(answer).await;
            assert_eq!(client.head().await.status, 200);
        }
        drop(client);
        line.ended().await;
        let got = String::from_utf8_lossy(&line.got).into_owned();
        assert!(
            !got.ends_with("0\r\n\r\n"),
            "an upload that was given up looks whole: {got}"
        );
    }
    let mut client = pod.http2().await;
    for answered in [false, true] {
        let request = pod.request(BodyExt::boxed(Empty::new()));
        let asking = client.send_request(request);
        let asking = tokio::spawn(asking);
        let mut line = pod.accept().await;
        if answered {
            line.send(answer).await;
            drop(asking.await.unwrap().unwrap());
        } else {
            asking.abort();
        }
        line.ended().await;
    }
    eventually("the end of all requests", || async {
        pod.stage.metric("open_requests").await == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_is_none_that_ends() {
    let pod = Pod::new(&["--h2c"]).await;
    for head in ["Content-Length: 9", "Transfer-Encoding: chunked"] {
        let piece = if head.starts_with('C') {
            "abc"
        } else {
            "3\r\nabc\r\n"
        };
        let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{piece}");
        // Over HTTP/1.
        let mut client = pod.begin("GET", "").await;
        let mut line = pod.accept().await;
        line.send(&answer).await;
        assert_eq!(client.head().await.status, 200);
        assert_eq!(client.exactly(piece.len()).await, piece.as_bytes());
        drop(line);
        assert_eq!(
            client.rest().await,
            b"",
            "{head}: no end of a body, only of the connection"
        );
        // Over HTTP/2.
        let mut client = pod.http2().await;
        let request = pod.request(BodyExt::boxed(Empty::new()));
        let asking = tokio::spawn(async move { client.send_request(request).await });
        let mut line = pod.accept().await;
        line.send(&answer).await;
        let body = asking.await.unwrap().unwrap().into_body();
        drop(line);
        let end = tokio::time::timeout(PATIENCE, body.collect())
            .await
            .unwrap();
        end.expect_err("a body that broke off is whole");
    }
}
