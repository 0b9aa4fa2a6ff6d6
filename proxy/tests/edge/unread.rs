//! A workspace with all the requests that it may have, whose answers nobody reads or whose pod reads no
//! upload: what that takes of memory, the system's included, is bounded, and others are served.

use crate::client::{Connection, request};
use crate::cluster::Spec;
use crate::frames::{END_STREAM, Http2, WINDOW_UPDATE, frame};
use crate::memory::{resident, waiting};
use crate::proxy::{CONSOLE, Stage};
use crate::raw::{RawPod, head};
use crate::upstream::Upstream;
use crate::{PATIENCE, eventually};
use socket2::SockRef;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

const KIB: u64 = 1024;
/// What clients and pods have of buffers themselves: little, so that what is not read waits in the proxy's.
const LITTLE: usize = 32 * 1024;
const STREAMS: usize = 100;

/// How many requests, and what each may cost, in KiB: of the proxy's own memory, and of bodies that wait in
/// the system's buffers, which takes twice that of memory at the most. The more there are the less is each
/// one's.
fn size() -> (usize, u64, u64) {
    if crate::is_full_size() {
        (2000, 512, 224)
    } else {
        (STREAMS, 1536, 640)
    }
}

/// A pod that sends without an end, whatever it is asked, and reads nothing behind the head.
async fn pod() -> RawPod {
    RawPod::start(|mut stream| async move {
        has_little(&stream);
        let asked = head(&mut stream).await;
        if !asked.starts_with(b"GET") {
            return std::future::pending().await;
        }
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
        let _ = stream.write_all(answer).await;
        while stream.write_all(&[b'x'; 65_536]).await.is_ok() {}
    })
    .await
}

fn has_little(stream: &TcpStream) {
    let options = SockRef::from(stream);
    options.set_recv_buffer_size(LITTLE).unwrap();
    options.set_send_buffer_size(LITTLE).unwrap();
}

/// The hostile workspace `evil`, and its neighbour `calm`.
struct Neighbours {
    stage: Stage,
    pod: RawPod,
    calm: Upstream,
    host: String,
    cookie: String,
    /// What the proxy takes before anybody asks for anything, in bytes.
    before: u64,
}

impl Neighbours {
    async fn start() -> Self {
        rlimit::increase_nofile_limit(u64::MAX).unwrap();
        let stage = Stage::with(&["--h2c", "--max-connections-per-client=0"]).await;
        let (calm, _) = stage.serving("calm", "calm", 1).await;
        let pod = pod().await;
        let evil = Spec::new("evil", "evil", 1, pod.address);
        stage.run(&evil).await;
        assert_eq!(stage.get("calm", "/").await.status, 200);
        let host = format!("evil.{CONSOLE}");
        Self {
            cookie: stage.cookie_on("alice", &host),
            before: resident(&stage),
            stage,
            pod,
            calm,
            host,
        }
    }

    async fn connection(&self) -> Connection {
        let connection = Connection::open(self.stage.address).await;
        has_little(&connection.stream);
        connection
    }

    fn request(&self, method: &str, length: &str) -> String {
        let headers = [
            ("Cookie", self.cookie.as_str()),
            ("Sec-Fetch-Site", "same-origin"),
            ("Content-Length", length),
        ];
        request(method, &self.host, "/", &headers)
    }

    /// Waits until so many requests are open and hardly anything moves any more, and looks at what they cost.
    async fn cost(&self, what: &str, (count, own, system): (usize, u64, u64)) {
        let Self { stage, pod, .. } = self;
        let count = count as u64;
        eventually("all requests", || async {
            stage.metric("open_requests").await == i64::try_from(count).unwrap()
        })
        .await;
        let last = settled(stage, pod).await;
        let grown = resident(stage).saturating_sub(self.before);
        println!(
            "{what}: {count} requests; of each {} KiB resident, and {} KiB wait in the system's buffers",
            grown / count / KIB,
            last / count / KIB
        );
        assert!(grown < count * own * KIB, "{what}: {grown} bytes more");
        assert!(last < count * system * KIB, "{what}: {last} bytes wait");
        for n in 1..=20 {
            assert_eq!(stage.get("calm", "/").await.status, 200);
            assert_eq!(self.calm.requests(), n + 1);
        }
    }
}

/// What waits in the system's buffers once hardly anything moves any more: some trickle on for a while, by
/// the probes of closed windows.
async fn settled(stage: &Stage, pod: &RawPod) -> u64 {
    let settling = async {
        let (mut last, mut same) = (0, 0);
        while same < 20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = waiting(stage, pod.address);
            let still = now > 0 && now.abs_diff(last) <= now / 200;
            same = if still { same + 1 } else { 0 };
            last = now;
        }
        last
    };
    let settled = tokio::time::timeout(5 * PATIENCE, settling).await;
    settled.expect("it goes on moving")
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_take_a_bounded_amount() {
    let size = size();
    let evil = Neighbours::start().await;
    let mut clients = Vec::new();
    for _ in 0..size.0 {
        let mut client = evil.connection().await;
        client.send(evil.request("GET", "0")).await;
        clients.push(client);
    }
    evil.cost("HTTP/1", size).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_over_http2_take_a_bounded_amount() {
    let size = size();
    // Without a window, and with all the window there can be and nobody who reads.
    for window in [0, i32::MAX as u32] {
        let evil = Neighbours::start().await;
        let fields: [(&[u8], &[u8]); 6] = [
            (b":method", b"GET"),
            (b":scheme", b"http"),
            (b":path", b"/"),
            (b":authority", evil.host.as_bytes()),
            (b"cookie", evil.cookie.as_bytes()),
            (b"sec-fetch-site", b"same-origin"),
        ];
        let mut clients = Vec::new();
        for _ in 0..size.0 / STREAMS {
            let stream = evil.connection().await.stream;
            let mut client = Http2::over(stream, &[(4, window)]).await;
            let most = (i32::MAX as u32 - 65_535).to_be_bytes();
            client.send(&frame(WINDOW_UPDATE, 0, 0, &most)).await;
            for _ in 0..STREAMS {
                client.request(&fields, END_STREAM).await;
            }
            clients.push(client);
        }
        evil.cost(&format!("HTTP/2, window {window}"), size).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_no_pod_reads_take_a_bounded_amount() {
    let (count, own, _) = size();
    // Few get as much of the system's buffers as somebody far away needs.
    let system = if crate::is_full_size() { 224 } else { 2048 };
    let evil = Neighbours::start().await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..count {
        let mut client = evil.connection().await;
        client.send(evil.request("POST", "99999999999")).await;
        clients
            .spawn(async move { while client.stream.write_all(&[b'x'; 65_536]).await.is_ok() {} });
    }
    evil.cost("uploads", (count, own, system)).await;
}
