//! Answers without a body, of pods that speak HTTP/2 and send one all the same, which nothing there
//! forbids in a frame: what is next on the client's connection is the next answer.

use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::raw::RawPod;
use bytes::Bytes;
use http::{Request, Response};
use tokio::net::TcpStream;

/// Answers with the status that its path says, and always with the same body. What it tells of a 304 is no
/// length, which would be that of the body that there is not (RFC 9110, section 8.6).
async fn serve(stream: TcpStream) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let status = request.uri().path().trim_start_matches('/');
        let mut answer = Response::builder().status(status);
        if status != "304" {
            answer = answer.header("content-length", "5");
        }
        let answer = answer.body(()).unwrap();
        let mut body = respond.send_response(answer, false).unwrap();
        let _ = body.send_data(Bytes::from_static(b"hello"), true);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_sends_behind_its_head_goes_to_nobody() {
    let stage = Stage::with(&["--h2c"]).await;
    let pod = RawPod::start(serve).await;
    let spec = Spec::new("app", "dev", 1, pod.address).with(&[("workspace-protocol", "h2c")]);
    let uid = stage.cluster.run(&spec).await;
    stage.routed("dev", Some(&uid)).await;
    let host = format!("dev.{CONSOLE}");
    let cookie = stage.cookie_on("alice", &host);
    let cases = [204, 304];

    let mut over_http1 = stage.begin("GET", "dev", "/200", "").await;
    assert_eq!(over_http1.answer().await.text(), "hello");
    for status in cases {
        let headers = [
            ("Cookie", cookie.as_str()),
            ("Sec-Fetch-Site", "same-origin"),
        ];
        let path = format!("/{status}");
        let asked = crate::client::request("GET", &host, &path, &headers);
        over_http1.send(asked).await;
        let head = over_http1.head().await;
        assert_eq!(head.status, status);
        assert_eq!(head.header("content-length"), None, "{head:?}");
        assert_eq!(head.header("transfer-encoding"), None, "{head:?}");
        let next = crate::client::request("GET", &host, "/200", &headers);
        over_http1.send(next).await;
        let next = over_http1.answer().await;
        assert_eq!((next.status, next.text().as_str()), (200, "hello"));
    }

    let stream = TcpStream::connect(stage.address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    for status in cases {
        let whole = &b"hello"[..];
        for (status, length, whole) in [(status, None, &b""[..]), (200, Some("5"), whole)] {
            let request = Request::get(format!("http://{host}/{status}"))
                .header("cookie", &cookie)
                .header("sec-fetch-site", "same-origin");
            client = client.ready().await.unwrap();
            let (answer, _) = client
                .send_request(request.body(()).unwrap(), true)
                .unwrap();
            let (head, mut body) = answer.await.unwrap().into_parts();
            assert_eq!(head.status, status);
            let told = head.headers.get("content-length");
            assert_eq!(told.map(|told| told.to_str().unwrap()), length, "{status}");
            let mut came = Vec::new();
            while let Some(data) = body.data().await {
                came.extend_from_slice(&data.unwrap());
            }
            assert_eq!(came, whole, "{status}");
        }
    }
}
