//! Informational answers (1xx): which of a pod's come to whom. docs/edge.md tells the same; what reaches
//! nobody here is what Pingora's HTTP/2 sessions drop, so a version that does not shows.

use crate::client::{Connection, own, request};
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::raw::{self, RawPod};
use http::{Request, Response};
use hyper::body::Bytes;
use std::future::poll_fn;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

/// A pod that speaks HTTP/1.1: hints, a sign of life, and an answer.
async fn serve(mut stream: TcpStream) {
    while !raw::head(&mut stream).await.is_empty() {
        let said = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n\
                    HTTP/1.1 102 Processing\r\n\r\n\
                    HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        stream.write_all(said.as_bytes()).await.unwrap();
    }
}

/// The same in HTTP/2.
async fn serve_http2(stream: TcpStream) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let head = |status: u16| Response::builder().status(status);
        let hints = head(103).header("link", "</a.css>; rel=preload");
        respond.send_informational(hints.body(()).unwrap()).unwrap();
        respond
            .send_informational(head(102).body(()).unwrap())
            .unwrap();
        let mut body = respond
            .send_response(head(200).body(()).unwrap(), false)
            .unwrap();
        body.send_data(Bytes::from_static(b"ok"), true).unwrap();
    }
}

/// What a client was answered with.
#[derive(Debug, PartialEq, Eq)]
struct Got {
    before: Vec<u16>,
    status: u16,
    /// Whether the hints stand in the answer itself.
    hinted: bool,
    body: String,
}

/// A client that speaks HTTP/2 and looks at informational answers, as most do not.
struct Client {
    requests: h2::client::SendRequest<Bytes>,
    _connection: AbortOnDropHandle<()>,
}

impl Client {
    async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        let connection = tokio::spawn(async move {
            let _ = connection.await;
        });
        Self {
            requests,
            _connection: AbortOnDropHandle::new(connection),
        }
    }

    /// Sends the head of a request.
    async fn begin(
        self,
        request: http::request::Builder,
        end: bool,
    ) -> (h2::client::ResponseFuture, h2::SendStream<Bytes>, Self) {
        let mut ready = self.requests.ready().await.unwrap();
        let request = request.body(()).unwrap();
        let (answer, body) = ready.send_request(request, end).unwrap();
        let rest = Self {
            requests: ready,
            ..self
        };
        (answer, body, rest)
    }
}

/// All of an answer.
async fn whole(mut answer: h2::client::ResponseFuture) -> Got {
    let mut before = Vec::new();
    while let Some(head) = poll_fn(|cx| answer.poll_informational(cx)).await {
        before.push(head.unwrap().status().as_u16());
    }
    let answer = answer.await.unwrap();
    let (head, mut body) = answer.into_parts();
    let mut text = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        text.extend_from_slice(&data);
    }
    Got {
        before,
        status: head.status.as_u16(),
        hinted: head.headers.contains_key("link"),
        body: String::from_utf8(text).unwrap(),
    }
}

/// A request of alice's for `dev`.
fn of_alice(stage: &Stage, method: &str) -> http::request::Builder {
    let host = format!("dev.{CONSOLE}");
    Request::builder()
        .method(method)
        .uri(format!("http://{host}/"))
        .header("cookie", stage.cookie_on("alice", &host))
        .header("sec-fetch-site", "same-origin")
}

#[tokio::test(flavor = "multi_thread")]
async fn they_pass_from_http1_to_http1_alone() {
    let pods = [
        (RawPod::start(serve).await, &[][..]),
        (
            RawPod::start(serve_http2).await,
            &[("workspace-protocol", "h2c")][..],
        ),
    ];
    for (number, (pod, annotations)) in pods.iter().enumerate() {
        let stage = Stage::with(&["--h2c"]).await;
        let spec = Spec::new("app", "dev", 1, pod.address).with(annotations);
        stage.run(&spec).await;

        let (host, cookie) = stage.alice("dev");
        let headers = own(&cookie);
        let mut client = Connection::open(stage.address).await;
        client.send(request("GET", &host, "/", &headers)).await;
        for status in [103, 102].into_iter().filter(|_| number == 0) {
            let before = client.head().await;
            assert_eq!(before.status, status);
            let hints = (status == 103).then_some("</a.css>; rel=preload");
            assert_eq!(before.header("link"), hints);
        }
        let answer = client.answer().await;
        assert_eq!(
            (answer.status, answer.text(), answer.header("link")),
            (200, "ok".to_owned(), None)
        );

        let client = Client::open(stage.address).await;
        let (answer, _body, _client) = client.begin(of_alice(&stage, "GET"), true).await;
        let wanted = Got {
            before: Vec::new(),
            status: 200,
            hinted: false,
            body: "ok".to_owned(),
        };
        assert_eq!(whole(answer).await, wanted, "{annotations:?}");
    }
    // This client sees them where they come.
    let client = Client::open(pods[1].0.address).await;
    let request = Request::get("http://pod/");
    let (answer, _body, _client) = client.begin(request, true).await;
    assert_eq!(whole(answer).await.before, [103, 102]);
}

/// A client over HTTP/2 that asks whether to go on is not told to, and is served once it does.
#[tokio::test(flavor = "multi_thread")]
async fn over_http2_nobody_is_told_to_go_on() {
    let stage = Stage::with(&["--h2c"]).await;
    let (told, mut is_told) = tokio::sync::mpsc::unbounded_channel();
    let pod = RawPod::start(move |mut stream| {
        let told = told.clone();
        async move {
            let head = String::from_utf8(raw::head(&mut stream).await).unwrap();
            assert!(head.to_lowercase().contains("\r\nexpect: 100-continue\r\n"));
            let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
            stream.write_all(go_on).await.unwrap();
            told.send(()).unwrap();
            let mut body = [0; 4];
            stream.read_exact(&mut body).await.unwrap();
            let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            stream.write_all(&body).await.unwrap();
        }
    })
    .await;
    let spec = Spec::new("app", "dev", 1, pod.address);
    stage.run(&spec).await;
    let request = of_alice(&stage, "POST")
        .header("expect", "100-continue")
        .header("content-length", "4");
    let client = Client::open(stage.address).await;
    let (answer, mut body, _client) = client.begin(request, false).await;
    is_told.recv().await.unwrap();
    body.send_data(Bytes::from_static(b"body"), true).unwrap();
    let wanted = Got {
        before: Vec::new(),
        status: 200,
        hinted: false,
        body: "body".to_owned(),
    };
    assert_eq!(whole(answer).await, wanted);
}
