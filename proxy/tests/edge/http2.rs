//! HTTP/2 clients in front of HTTP/1 pods.

use crate::client::{Connection, own, request};
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;

const UPLOADS: usize = 10;

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

async fn client(stage: &Stage) -> SendRequest<Body> {
    let stream = tokio::net::TcpStream::connect(stage.address).await.unwrap();
    let made = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (client, connection) = made.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_are_joined_and_uploads_end_once() {
    let stage = Stage::with(&["--h2c"]).await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    // HTTP/1 goes on beside it.
    assert_eq!(stage.get("dev", "/").await.status, 200);
    let (host, cookie) = stage.alice("dev");
    let mut client = client(&stage).await;
    let before = app.connections();
    for n in 0..UPLOADS {
        // A streamed body ends in an empty DATA frame.
        let frames = [Ok(Frame::data(Bytes::from(format!("upload {n}"))))];
        let body = StreamBody::new(futures::stream::iter(frames)).boxed();
        // Not a POST: those have connections of their own.
        let request = Request::get(format!("http://{host}/upload"))
            .header("cookie", "a=1")
            .header("cookie", &cookie)
            .header("cookie", "b=2")
            .header("sec-fetch-site", "same-origin")
            .body(body)
            .unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(
            text.starts_with("app\nGET /upload\n") && text.ends_with(&format!("\n\nupload {n}")),
            "{text}"
        );
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("cookie: "))
                .collect::<Vec<_>>(),
            ["cookie: a=1; b=2"]
        );
        assert!(text.contains(&format!("\nhost: {host}\n")), "{text}");
        // Its connection is back in the pool.
        eventually("the end of the request", || async {
            stage.metric("open_requests").await == 0
        })
        .await;
    }
    // An upload that ends twice spoils its connection, so that each would need a new one.
    let connections = app.connections() - before;
    assert!(connections < UPLOADS / 2, "{connections} connections");
}

/// What says in HTTP/1.1 where a body ends has no place in HTTP/2.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_speaks_http2_gets_uploads_of_http1() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    let annotations = [("workspace-protocol", "h2c")];
    let pod = Spec::new("app", "dev", 1, app.address).with(&annotations);
    stage.run(&pod).await;
    let (host, cookie) = stage.alice("dev");
    let own = own(&cookie);
    for (length, body) in [
        (("Transfer-Encoding", "chunked"), "5\r\nhello\r\n0\r\n\r\n"),
        (("Content-Length", "5"), "hello"),
    ] {
        let headers = [own[0], own[1], length];
        let mut connection = Connection::open(stage.address).await;
        connection
            .send(request("POST", &host, "/upload", &headers) + body)
            .await;
        let answer = connection.answer().await;
        let text = answer.text();
        assert_eq!(answer.status, 200, "{length:?}: {text}");
        assert!(text.ends_with("\n\nhello"), "{length:?}: {text}");
        assert!(!text.contains("transfer-encoding"), "{text}");
    }
}

/// What is refused for its head is told so as over HTTP/1.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_heads_say_why_and_are_not_stored() {
    let stage = Stage::with(&["--h2c"]).await;
    let mut client = client(&stage).await;
    let long = "a".repeat(17_000);
    let target = format!("/{long}");
    for (method, target, headers) in [
        ("GET", target.as_str(), 0),
        ("HEAD", target.as_str(), 0),
        ("GET", "/", 2),
    ] {
        let lines: Vec<_> = (0..headers).map(|_| ("x", long.as_str())).collect();
        let mut first = Connection::open(stage.address).await;
        first.send(request(method, CONSOLE, target, &lines)).await;
        let first = first.head().await;
        let mut second = Request::builder()
            .method(method)
            .uri(format!("http://{CONSOLE}{target}"));
        for (name, value) in lines {
            second = second.header(name, value);
        }
        let empty = StreamBody::new(futures::stream::empty()).boxed();
        let second = client.send_request(second.body(empty).unwrap()).await;
        let (second, body) = second.unwrap().into_parts();
        let header = |name: &str| {
            second
                .headers
                .get(name)
                .map(|value| value.to_str().unwrap())
        };
        assert_eq!(second.status, first.status);
        for name in ["cache-control", "content-type", "content-length"] {
            assert_eq!(header(name), first.header(name), "{name}");
        }
        let length = body.collect().await.unwrap().to_bytes().len().to_string();
        let told = (method != "HEAD").then_some(length.as_str());
        assert_eq!(
            told.unwrap_or(first.header("content-length").unwrap()),
            first.header("content-length").unwrap()
        );
    }
}

/// As over HTTP/1 (RFC 9110, section 15.5.6).
#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_is_refused_is_told_what_is_allowed() {
    let stage = Stage::with(&["--h2c"]).await;
    let stream = tokio::net::TcpStream::connect(stage.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let tunnel = Request::connect("x:1").body(()).unwrap();
    let (answer, _) = client.send_request(tunnel, false).unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    let allow = answer.headers().get("allow").expect("what is allowed");
    assert!(allow.to_str().unwrap().contains("GET"), "{allow:?}");
}
