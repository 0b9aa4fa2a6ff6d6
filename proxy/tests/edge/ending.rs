//! Pods that close connections, and pods that are gone while something is open on them.

use crate::client::Connection;
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::Stage;
use crate::upstream::Upstream;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A pod in raw bytes: answers by the first segment of the path.
struct Raw {
    address: SocketAddr,
    seen: Arc<Seen>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    open: AtomicUsize,
    requests: AtomicUsize,
    /// Requests that met a connection which had served one before.
    met_the_end: AtomicUsize,
}

impl Raw {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Seen>::default();
        let shared = seen.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let seen = shared.clone();
                tokio::spawn(async move {
                    seen.open.fetch_add(1, Ordering::SeqCst);
                    serve(stream, &seen).await;
                    seen.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One request a connection; with the first byte of the next one it is closed.
async fn serve(mut stream: TcpStream, seen: &Seen) {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        if bytes.len() == end + 4 + length {
            break;
        }
    }
    seen.requests.fetch_add(1, Ordering::SeqCst);
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let path = head.split(' ').nth(1).unwrap();
    // Pingora passes a body of a known length on once a packet is full of it.
    let sized = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n{}",
        "hi".repeat(4000)
    );
    let begun: &[u8] = match path {
        "/silent" => b"",
        "/chunked" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        "/sized" => sized.as_bytes(),
        "/until-closed" => b"HTTP/1.1 200 OK\r\n\r\nhi",
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    };
    stream.write_all(begun).await.unwrap();
    if stream.read(&mut [0; 1]).await.unwrap_or(0) > 0 {
        seen.met_the_end.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_never_meets_a_connection_that_is_being_closed() {
    const TASKS: usize = 8;
    const EACH: usize = 125;
    let stage = Arc::new(Stage::start().await);
    let raw = Raw::start().await;
    stage.run(&Spec::new("raw", "dev", 1, raw.address)).await;
    let posts = (0..TASKS).map(|_| {
        let stage = stage.clone();
        tokio::spawn(async move {
            // Leaves a connection behind that the next one would take.
            assert_eq!(stage.get("dev", "/").await.status, 200);
            let mut failed = 0;
            for _ in 0..EACH {
                let answer = stage.begin("POST", "dev", "/", "body").await.answer().await;
                failed += usize::from(answer.status != 200 || answer.body != b"ok");
            }
            failed
        })
    });
    let mut failed = 0;
    for post in posts.collect::<Vec<_>>() {
        failed += post.await.unwrap();
    }
    assert_eq!(failed, 0, "of {} POSTs", TASKS * EACH);
    // Reads may meet one and are repeated; each request came once, whatever became of its connection.
    assert!(raw.requests() >= TASKS * EACH + TASKS);
    assert!(raw.seen.met_the_end.load(Ordering::SeqCst) <= TASKS);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_meet_one_and_are_repeated_out_of_a_budget() {
    let stage = Stage::start().await;
    let raw = Raw::start().await;
    stage.run(&Spec::new("raw", "dev", 1, raw.address)).await;
    for _ in 0..20 {
        assert_eq!(stage.get("dev", "/").await.status, 200);
    }
    let met = raw.seen.met_the_end.load(Ordering::SeqCst);
    assert!(met > 0, "the pool was used");
    assert_eq!(
        stage.metric("retries_total").await,
        i64::try_from(met).unwrap()
    );
    assert_eq!(stage.metric("retries_refused_total").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_on_a_pod_that_is_gone_ends_as_its_protocol_says() {
    let stage = Stage::with(&["--hold-timeout", "300"]).await;
    let raw = Raw::start().await;
    stage.run(&Spec::new("raw", "dev", 1, raw.address)).await;
    let mut read = stage.begin("GET", "dev", "/silent", "").await;
    let mut written = stage.begin("POST", "dev", "/silent", "body").await;
    let mut begun = Vec::new();
    for path in ["/chunked", "/sized", "/until-closed"] {
        let mut connection = stage.begin("GET", "dev", path, "").await;
        assert_eq!(connection.head().await.status, 200);
        begun.push((path, connection));
    }
    assert_eq!(stage.get("dev", "/").await.status, 200);
    eventually("all requests", || async { raw.requests() == 6 }).await;

    // Its object goes at once, as where a node is given up; its processes go on and say nothing.
    stage.cluster.finish("raw").await;
    stage.routed("dev", None).await;
    let new = Upstream::start("new").await;
    new.release();
    let pod = Spec::new("new", "dev", 2, new.address);
    stage.run(&pod).await;
    let answer = read.answer().await;
    assert!(answer.text().starts_with("new\nGET /silent"), "{answer:?}");
    let answer = written.answer().await;
    assert_eq!(answer.status, 502, "nobody knows what became of it");
    for (path, mut connection) in begun {
        let rest = connection.rest().await;
        let rest = String::from_utf8_lossy(&rest).into_owned();
        assert!(rest.contains("hi"), "{path}: {rest:?}");
        let whole = rest.contains("0\r\n\r\n") || rest.len() >= 9000;
        assert!(!whole, "{path} looks complete: {rest:?}");
    }
    eventually("no connection to the old pod", || async {
        raw.seen.open.load(Ordering::SeqCst) == 0
    })
    .await;
    assert_eq!(new.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_in_its_body_gives_its_place_back() {
    let stage = Stage::with(&["--hold-timeout", "300"]).await;
    let (nothing, _pod) = stage.starting("app", "dev").await;
    let mut stays = stage.begin("POST", "dev", "/", "body").await;
    let mut leaves: Vec<Connection> = Vec::new();
    for _ in 0..3 {
        let mut connection = stage.begin("POST", "dev", "/", "the whole body").await;
        connection.send("and what breaks the protocol").await;
        leaves.push(connection);
    }
    stage.held(4).await;
    leaves[0].stream.set_zero_linger().unwrap();
    drop(leaves);
    stage.held(1).await;
    let pod = Spec::new("app", "dev", 1, nothing.address);
    stage.cluster.set_ready(&pod, true).await;
    assert!(stays.answer().await.text().ends_with("\nbody"));
    assert_eq!(nothing.requests(), 1);
    let ends = stage.metrics().await;
    assert!(
        ends.contains("nogoo9_proxy_holds_total{end=\"ClientGone\"} 3"),
        "{ends}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_workspace_leaves_places_to_the_others() {
    let flags = ["--hold-timeout", "300", "--hold-max", "4"];
    let stage = Stage::with(&flags).await;
    let nothing = Upstream::start("nothing").await;
    for id in ["one", "two", "three"] {
        stage
            .cluster
            .create(&Spec::new(id, id, 1, nothing.address))
            .await;
        stage.routed(id, None).await;
    }
    let mut held = Vec::new();
    for count in 1..=2 {
        held.push(stage.begin("GET", "one", "/", "").await);
        stage.held(count).await;
    }
    let refused = stage.get("one", "/").await;
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("5"))
    );
    for (id, count) in [("two", 3), ("three", 4)] {
        held.push(stage.begin("GET", id, "/", "").await);
        stage.held(count).await;
    }
    assert_eq!(stage.get("three", "/").await.status, 503);
    assert!(stage.metric("held_bytes").await > 0);
    drop(held);
    stage.held(0).await;
    assert_eq!(stage.metric("held_bytes").await, 0);
}
