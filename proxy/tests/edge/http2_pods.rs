//! Pods that speak HTTP/2, whose connections many requests share: what one client or application leaves
//! lying stops nobody else.

use crate::client::Connection;
use crate::cluster::Spec;
use crate::frames::{ACK, END_HEADERS, END_STREAM, Fate, HEADERS, Http2, SETTINGS, frame};
use crate::proxy::Stage;
use crate::raw::RawPod;
use crate::{PATIENCE, eventually};
use bytes::Bytes;
use http::Response;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// What a connection to a pod carries at once.
const STREAMS: usize = 100;
/// Window of a server that says nothing of it (RFC 9113, section 6.9.2).
const WINDOW: usize = 65_535;

/// What such a pod has seen.
#[derive(Default)]
struct Seen {
    /// Bytes that it got rid of.
    poured: AtomicU64,
    /// Once an upload has all of its connection's window.
    full: Notify,
}

/// A pod: `/pour` and `/drip`, which comes in small frames, have no end, of `/never` it gives no byte back, all else it reads and answers.
async fn pod(stage: &Stage) -> (RawPod, Arc<Seen>) {
    let seen = Arc::<Seen>::default();
    let kept = seen.clone();
    let pod = RawPod::start(move |stream| serve(stream, kept.clone())).await;
    let spec = Spec::new("app", "dev", 1, pod.address).with(&[("workspace-protocol", "h2c")]);
    stage.run(&spec).await;
    (pod, seen)
}

async fn serve(stream: TcpStream, seen: Arc<Seen>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let mut answers = JoinSet::new();
    while let Some(Ok((request, respond))) = connection.accept().await {
        answers.spawn(answer(request, respond, seen.clone()));
    }
}

async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    seen: Arc<Seen>,
) -> Option<()> {
    let (head, mut body) = request.into_parts();
    let mut came = 0;
    while let Some(data) = body.data().await {
        came += data.ok()?.len();
        if head.uri.path() != "/never" {
            let unread = body.flow_control().used_capacity();
            body.flow_control().release_capacity(unread).ok()?;
        } else if came >= WINDOW {
            seen.full.notify_one();
        }
    }
    let mut to = respond.send_response(Response::new(()), false).ok()?;
    let piece = match head.uri.path() {
        "/pour" => 16 * 1024,
        "/drip" => 32,
        _ => 0,
    };
    if piece == 0 {
        return to.send_data(came.to_string().into(), true).ok();
    }
    loop {
        to.reserve_capacity(piece);
        let room = poll_fn(|cx| to.poll_capacity(cx)).await?.ok()?;
        let room = room.min(piece);
        to.send_data(vec![b'x'; room].into(), false).ok()?;
        seen.poured.fetch_add(room as u64, Ordering::SeqCst);
    }
}

/// A request of alice's browser, over a connection of its own.
async fn asks(stage: &Stage, method: &str, path: &str, length: usize) -> Connection {
    let body = "x".repeat(length);
    stage.begin(method, "dev", path, &body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_takes_stop_no_other() {
    // The client is not asked whether it is there: it would not say.
    let stage = Stage::with(&["--h2c", "--h2-ping=0"]).await;
    let (pod, seen) = pod(&stage).await;
    let (host, cookie) = stage.alice("dev");
    // What those had that left is given back: else there would be nothing for the next ones.
    for path in ["/pour", "/pour", "/drip"] {
        let fields: [(&[u8], &[u8]); 6] = [
            (b":method", b"GET"),
            (b":scheme", b"http"),
            (b":path", path.as_bytes()),
            (b":authority", host.as_bytes()),
            (b"cookie", cookie.as_bytes()),
            (b"sec-fetch-site", b"same-origin"),
        ];
        let stream = TcpStream::connect(stage.address).await.unwrap();
        let mut client = Http2::over(stream, &[(4, 0)]).await;
        for _ in 1..STREAMS {
            let asked = client.request(&fields, END_STREAM).await;
            assert_eq!(client.fate(asked).await, Fate::Answered(200));
        }
        let mut last = 0;
        eventually("that nothing moves", || {
            let now = seen.poured.load(Ordering::SeqCst);
            let still = now == std::mem::replace(&mut last, now);
            async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                still
            }
        })
        .await;
        let other = asks(&stage, "GET", "/", 0).await.answer().await;
        assert_eq!((other.status, other.text()), (200, "0".to_owned()));
        assert_eq!(pod.connections(), 1, "{path}");
        drop(client);
        eventually("the end of all requests", || async {
            stage.metric("open_requests").await == 0
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_nobody_reads_stops_no_other() {
    let stage = Stage::start().await;
    let (pod, seen) = pod(&stage).await;
    let _stuck = asks(&stage, "POST", "/never", 2 * WINDOW).await;
    let full = tokio::time::timeout(PATIENCE, seen.full.notified()).await;
    full.expect("it never came");
    for _ in 0..3 {
        let other = asks(&stage, "POST", "/", 20_000).await.answer().await;
        assert_eq!((other.status, other.text()), (200, "20000".to_owned()));
        let reads = asks(&stage, "GET", "/", 0).await.answer().await;
        assert_eq!((reads.status, reads.text()), (200, "0".to_owned()));
        // Its connection is back in the pool.
        eventually("the end of the others", || async {
            stage.metric("open_requests").await == 1
        })
        .await;
    }
    // One that is read leaves its connection to the next one.
    assert_eq!(pod.connections(), 3);
}

/// HTTP/1.0 knows no chunks, and pods that speak HTTP/2 need tell no length.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_http1_0_ends_with_its_connection() {
    let stage = Stage::start().await;
    let (_pod, _) = pod(&stage).await;
    let (host, cookie) = stage.alice("dev");
    let mut connection = Connection::open(stage.address).await;
    let asked = format!(
        "GET / HTTP/1.0\r\nHost: {host}\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\nConnection: keep-alive\r\n\r\n"
    );
    connection.send(asked).await;
    let head = connection.head().await;
    let said = ["transfer-encoding", "connection"].map(|name| head.header(name));
    assert_eq!((head.status, said), (200, [None, Some("close")]));
    assert_eq!(connection.rest().await, b"0");
}

/// A node that is gone without a word is noticed, though its pod's answers may be silent for as long as they
/// like.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_answers_no_ping_is_given_up() {
    if !crate::is_full_size() {
        return;
    }
    let stage = Stage::start().await;
    let pod = RawPod::start(|mut stream| async move {
        stream.read_exact(&mut [0; 24]).await.unwrap();
        let settings = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat();
        stream.write_all(&settings).await.unwrap();
        let mut head = [0; 9];
        while stream.read_exact(&mut head).await.is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            stream.read_exact(&mut vec![0; length]).await.unwrap();
            if head[3] == HEADERS {
                // An answer that has begun is not asked for again.
                let begun = frame(HEADERS, END_HEADERS, 1, &[0x88]);
                stream.write_all(&begun).await.unwrap();
            }
        }
    })
    .await;
    let spec = Spec::new("app", "dev", 1, pod.address).with(&[("workspace-protocol", "h2c")]);
    stage.run(&spec).await;
    let mut silent = asks(&stage, "GET", "/", 0).await;
    assert_eq!(silent.head().await.status, 200);
    // Cut off: the last chunk does not come.
    assert_eq!(silent.rest().await, b"");
}
