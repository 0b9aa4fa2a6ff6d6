//! What is sent once more to a pod that speaks HTTP/2, which says itself what it has not looked at.

use crate::client::{Answer, Connection, request};
use crate::cluster::Spec;
use crate::proxy::Stage;
use crate::raw::RawPod;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What a pod does with a request that it does not answer.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// RST_STREAM with this code; the connection goes on.
    Reset(u8),
    /// GOAWAY without a complaint, with so many requests looked at; then the connection ends.
    Goes { seen: u8 },
}

const REFUSED_STREAM: u8 = 7;
const INTERNAL_ERROR: u8 = 2;

/// Frames (RFC 9113, section 4.1) that are short.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, payload.len() as u8, kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// One connection of a pod that treats its first `fails` requests, on whatever connection, that way, and
/// answers the others with 200 and the request's body.
async fn serve(mut stream: TcpStream, way: Way, fails: usize, asked: Arc<AtomicUsize>) {
    let _ = stream.read_exact(&mut [0; 24]).await;
    let _ = stream.write_all(&frame(4, 0, 0, &[])).await;
    let mut failed = false;
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await.unwrap();
        let (kind, flags) = (head[3], head[4]);
        let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let ends = flags & 1 == 1;
        let mut said = Vec::new();
        match kind {
            // SETTINGS, and its acknowledgement.
            4 if !ends => said = frame(4, 1, 0, &[]),
            // HEADERS
            1 => {
                failed = asked.fetch_add(1, Ordering::SeqCst) < fails;
                said = match way {
                    _ if !failed => frame(1, if ends { 5 } else { 4 }, number, &[0x88]),
                    Way::Reset(code) => frame(3, 0, number, &[0, 0, 0, code]),
                    Way::Goes { seen } => {
                        let last = if seen == 0 { 0 } else { number as u8 };
                        frame(7, 0, 0, &[0, 0, 0, last, 0, 0, 0, 0])
                    }
                };
            }
            // DATA
            0 if !failed => said = frame(0, flags & 1, number, &payload),
            _ => {}
        }
        let _ = stream.write_all(&said).await;
        if failed && kind == 1 && matches!(way, Way::Goes { .. }) {
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
            return;
        }
    }
}

/// The answer to a request whose pod fails it so often; and how often it was asked.
async fn ask(stage: &Stage, method: &str, way: Way, fails: usize) -> (Answer, usize) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let asked = Arc::<AtomicUsize>::default();
    let counted = asked.clone();
    let pod = RawPod::start(move |stream| serve(stream, way, fails, counted.clone())).await;
    let name = format!("w{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let protocol = [("workspace-protocol", "h2c")];
    let spec = Spec::new(&name, &name, 1, pod.address).with(&protocol);
    stage.run(&spec).await;
    let (host, cookie) = stage.alice(&name);
    let mut headers = vec![
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    let mut body = "";
    if method == "POST" {
        headers.push(("Content-Length", "4"));
        body = "body";
    }
    let mut connection = Connection::open(stage.address).await;
    let sent = format!("{}{body}", request(method, &host, "/", &headers));
    connection.send(sent).await;
    let answer = connection.answer().await;
    (answer, asked.load(Ordering::SeqCst))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_did_not_look_at_is_asked_again_whatever_it_is() {
    let stage = Stage::start().await;
    for way in [Way::Reset(REFUSED_STREAM), Way::Goes { seen: 0 }] {
        for (method, body) in [("POST", "body"), ("GET", "")] {
            let (answer, asked) = ask(&stage, method, way, 1).await;
            let came = (answer.status, answer.text(), asked);
            assert_eq!(came, (200, body.to_owned(), 2), "{method} {way:?}");
        }
        let (answer, asked) = ask(&stage, "POST", way, usize::MAX).await;
        assert_eq!((answer.status, asked), (502, 4), "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_may_have_looked_at_is_asked_again_where_it_only_reads() {
    let stage = Stage::start().await;
    for way in [Way::Reset(INTERNAL_ERROR), Way::Goes { seen: 1 }] {
        let (answer, asked) = ask(&stage, "POST", way, 1).await;
        assert_eq!((answer.status, asked), (502, 1), "{way:?}");
        let (answer, asked) = ask(&stage, "GET", way, 1).await;
        assert_eq!((answer.status, asked), (200, 2), "{way:?}");
        let (answer, asked) = ask(&stage, "GET", way, usize::MAX).await;
        assert_eq!((answer.status, asked), (502, 4), "{way:?}");
    }
}

/// What was read of a body counts once, however often it is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_sent_again_is_no_larger_for_it() {
    let stage = Stage::with(&["--max-body-bytes", "6"]).await;
    let way = Way::Reset(REFUSED_STREAM);
    let (answer, asked) = ask(&stage, "POST", way, 2).await;
    let came = (answer.status, answer.text(), asked);
    assert_eq!(came, (200, "body".to_owned(), 3));
}
