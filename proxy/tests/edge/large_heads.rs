//! Heads of answers: what one client of HTTP/2 would end its whole connection for is answered 502 in every
//! protocol.

use crate::cluster::Spec;
use crate::proxy::Stage;
use crate::raw::{self, RawPod};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc};

/// Bytes of a line's value.
const LINE: usize = 1000;

/// How many lines a path asks for.
fn lines(path: &str) -> usize {
    path.trim_start_matches('/').parse().unwrap()
}

/// A pod whose answers have as many lines as their path says.
async fn serve(mut stream: TcpStream) {
    loop {
        let head = raw::head(&mut stream).await;
        let head = String::from_utf8(head).unwrap();
        let Some(path) = head.split(' ').nth(1) else {
            return;
        };
        let many = format!("X-Line: {}\r\n", "x".repeat(LINE)).repeat(lines(path));
        let answer =
            format!("HTTP/1.1 200 OK\r\n{many}X-Spaced:  a b \t\r\nContent-Length: 2\r\n\r\nok");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The same in HTTP/2, and as many lines again behind the answer of a `POST`.
async fn serve_http2(stream: TcpStream) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let many = lines(request.uri().path());
        let mut answer = Response::builder().header("x-spaced", " a b \t");
        let line = || std::iter::repeat_n("x".repeat(LINE), many);
        let mut trailers = HeaderMap::new();
        for value in line() {
            if request.method() == "POST" {
                trailers.append("x-line", value.parse().unwrap());
            } else {
                answer = answer.header("x-line", value);
            }
        }
        let mut body = respond
            .send_response(answer.body(()).unwrap(), false)
            .unwrap();
        body.send_data(Bytes::from_static(b"ok"), false).unwrap();
        let _ = body.send_trailers(trailers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_too_large_costs_nobody_else() {
    let stage = Stage::with(&["--h2c"]).await;
    let pods = [
        (RawPod::start(serve).await, "one", &[][..]),
        (
            RawPod::start(serve_http2).await,
            "two",
            &[("workspace-protocol", "h2c")][..],
        ),
    ];
    let stream = TcpStream::connect(stage.address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    for (pod, workspace, annotations) in &pods {
        let spec = Spec::new(workspace, workspace, 1, pod.address).with(annotations);
        stage.run(&spec).await;
        let (host, cookie) = stage.alice(workspace);
        let asks = |method: &str, lines: usize| {
            Request::builder()
                .method(method)
                .uri(format!("http://{host}/{lines}"))
                .header("cookie", &cookie)
                .header("sec-fetch-site", "same-origin")
                .body(())
                .unwrap()
        };
        for (lines, status) in [(70, 502), (200, 502), (50, 200)] {
            let answer = stage.get(workspace, &format!("/{lines}")).await;
            assert_eq!(answer.status, status, "{workspace}: {lines} over HTTP/1");
            client = client.ready().await.unwrap();
            let (answer, _) = client.send_request(asks("GET", lines), true).unwrap();
            let head = answer.await.unwrap().into_parts().0;
            assert_eq!(head.status, status, "{workspace}: {lines} over HTTP/2");
            if status == 200 {
                assert_eq!(head.headers["x-spaced"], "a b", "{workspace}");
                assert_eq!(head.headers.get_all("x-line").iter().count(), lines);
            }
        }
        if annotations.is_empty() {
            continue;
        }
        for (lines, passes) in [(70, false), (50, true)] {
            client = client.ready().await.unwrap();
            let (answer, _) = client.send_request(asks("POST", lines), true).unwrap();
            let (head, mut body) = answer.await.unwrap().into_parts();
            if head.status == 502 {
                // They came before anything was passed on.
                assert!(!passes);
                continue;
            }
            let mut broke = None;
            while let Some(data) = body.data().await {
                broke = data.err();
            }
            let came = match broke {
                Some(error) => Err(error),
                None => body.trailers().await,
            };
            match came {
                Ok(came) => {
                    let came = came.map(|came| came.len());
                    assert_eq!((came, passes), (Some(lines), true));
                }
                Err(error) => assert!(!passes && error.is_reset(), "{error}"),
            }
        }
    }
}

/// Bytes of a head that drips, a part.
const PART: usize = 2048;

#[tokio::test(flavor = "multi_thread")]
async fn one_that_drips_without_an_end_is_cut() {
    let stage = Stage::start().await;
    let other = RawPod::start(serve).await;
    let (parts, drips) = mpsc::channel::<()>(1);
    let drips = Arc::new(Mutex::new(drips));
    let hostile = RawPod::start(move |mut stream| {
        let drips = drips.clone();
        async move {
            raw::head(&mut stream).await;
            let begin = "HTTP/1.1 200 OK\r\nX-Line: ";
            stream.write_all(begin.as_bytes()).await.unwrap();
            while drips.lock().await.recv().await.is_some() {
                if stream.write_all(&[b'x'; PART]).await.is_err() {
                    break;
                }
            }
        }
    })
    .await;
    for (pod, workspace) in [(&other, "other"), (&hostile, "dev")] {
        let spec = Spec::new(workspace, workspace, 1, pod.address);
        stage.run(&spec).await;
    }
    let mut answer = std::pin::pin!(stage.get("dev", "/"));
    let mut sent = 0;
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut answer => break answer,
            // Another request has its answer before the next part comes, so each of them is read by itself.
            () = async {
                assert_eq!(stage.get("other", "/1").await.status, 200);
                let _ = parts.send(()).await;
            } => sent += PART,
        }
        assert!(sent < 512 * 1024, "it goes on");
    };
    assert_eq!(answer.status, 502);
    assert!(sent > 64 * 1024, "{sent} bytes are a head like others");
    assert_eq!(hostile.connections(), 1, "it is not asked again");
}
