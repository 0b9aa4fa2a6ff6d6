//! An address that goes from a pod of one owner to a pod of another, again and again, under load: no
//! byte of the one's callers reaches the other.

use crate::address::{Listening, Reserved};
use crate::client::{own, request};
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::sockets::{frame, opening};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Owners with their workspaces.
const OWNERS: [(&str, &str); 2] = [("alice", "hers"), ("bob", "his")];

/// The number takes minutes; by default a part of it is done.
fn rounds() -> usize {
    match std::env::var("NOGOO9_TEST_EDGE").as_deref() {
        Ok("all") => 1000,
        _ => 40,
    }
}

/// What callers of an owner say of themselves in every request.
fn mark(owner: &str) -> String {
    format!("said-by-{owner}")
}

fn count(bytes: &[u8], mark: &str) -> usize {
    let found = bytes.windows(mark.len());
    found.filter(|window| *window == mark.as_bytes()).count()
}

/// A pod: says whose it is, and keeps every byte that it reads.
struct Pod {
    bytes: Arc<Mutex<Vec<u8>>>,
    listening: Listening,
    serving: tokio::task::JoinHandle<()>,
}

impl Pod {
    async fn start(owner: &'static str, at: &Reserved) -> Self {
        let listener = TcpListener::bind(at.address).await.unwrap();
        let listening = Listening::of(&listener);
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let kept = bytes.clone();
        let serving = tokio::spawn(async move {
            // All connections break with this task.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(answer(stream, owner, kept.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            bytes,
            listening,
            serving,
        }
    }

    /// Ends it as a process does; with every byte that it read.
    async fn kill(self) -> Vec<u8> {
        self.listening.end();
        self.serving.abort();
        let _ = self.serving.await;
        std::mem::take(&mut *self.bytes.lock().unwrap())
    }
}

async fn answer(
    mut stream: TcpStream,
    owner: &'static str,
    kept: Arc<Mutex<Vec<u8>>>,
) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let head = loop {
            if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break buffer.drain(..at + 4).collect::<Vec<u8>>();
            }
            read(&mut stream, &mut buffer, &kept).await?;
        };
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        if head.contains("upgrade: websocket") {
            let switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
            stream.write_all(switched.as_bytes()).await?;
            loop {
                let name = [&[0x81, owner.len() as u8], owner.as_bytes()].concat();
                stream.write_all(&name).await?;
                buffer.clear();
                read(&mut stream, &mut buffer, &kept).await?;
            }
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |text| text.parse().unwrap());
        while buffer.len() < length {
            read(&mut stream, &mut buffer, &kept).await?;
        }
        buffer.drain(..length);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{owner}",
            owner.len()
        );
        stream.write_all(answer.as_bytes()).await?;
    }
}

async fn read(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    kept: &Mutex<Vec<u8>>,
) -> std::io::Result<()> {
    let before = buffer.len();
    if stream.read_buf(buffer).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    kept.lock().unwrap().extend_from_slice(&buffer[before..]);
    Ok(())
}

/// What callers have seen.
#[derive(Default)]
struct Seen {
    answers: AtomicUsize,
    sockets: AtomicUsize,
    crossed: AtomicUsize,
}

impl Seen {
    fn heard(&self, from: &[u8], owner: &str) {
        if from != owner.as_bytes() {
            self.crossed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Requests on connections that are kept, with and without a body, for ever.
async fn ask(edge: SocketAddr, owner: &'static str, host: String, cookie: String, seen: Arc<Seen>) {
    let body = mark(owner).repeat(20);
    let length = body.len().to_string();
    let path = format!("/{}", mark(owner));
    let plain = own(&cookie);
    let with_body = [plain[0], plain[1], ("Content-Length", length.as_str())];
    loop {
        let Ok(stream) = TcpStream::connect(edge).await else {
            continue;
        };
        let mut stream = BufReader::new(stream);
        for turn in 0.. {
            let text = match turn % 2 {
                0 => request("GET", &host, &path, &plain),
                _ => request("POST", &host, &path, &with_body) + &body,
            };
            let Ok((status, body)) = exchange(&mut stream, &text).await else {
                break;
            };
            if status == 200 {
                seen.heard(&body, owner);
                seen.answers.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

async fn exchange(
    stream: &mut BufReader<TcpStream>,
    request: &str,
) -> std::io::Result<(u16, Vec<u8>)> {
    stream.write_all(request.as_bytes()).await?;
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(rest) = line.strip_prefix("http/1.1 ") {
            status = rest[..3].parse().unwrap();
        }
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((status, body))
}

/// WebSockets that say something each time they hear something, for ever.
async fn talk(
    edge: SocketAddr,
    owner: &'static str,
    host: String,
    cookie: String,
    seen: Arc<Seen>,
) {
    loop {
        let _ = socket(edge, owner, &host, &cookie, &seen).await;
    }
}

async fn socket(
    edge: SocketAddr,
    owner: &'static str,
    host: &str,
    cookie: &str,
    seen: &Seen,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(edge).await?);
    stream.write_all(opening(cookie, host).as_bytes()).await?;
    let mut first = String::new();
    stream.read_line(&mut first).await?;
    if !first.starts_with("HTTP/1.1 101") {
        return Ok(());
    }
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await?;
    }
    seen.sockets.fetch_add(1, Ordering::SeqCst);
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).await?;
        let mut payload = vec![0; usize::from(head[1])];
        stream.read_exact(&mut payload).await?;
        if head[0] != 0x81 {
            return Ok(());
        }
        seen.heard(&payload, owner);
        stream.write_all(&frame(1, mark(owner).as_bytes())).await?;
        tokio::task::yield_now().await;
    }
}

/// How soon the address is used again.
#[derive(PartialEq, Eq)]
enum Order {
    /// After the proxy has heard that the pod ends: its kubelet stops it after that, and its address is
    /// free only then.
    Heard,
    /// At the instant at which the API server has said so to whoever deleted it.
    AtOnce,
}

/// Hands one address to and fro; returns in how many rounds something crossed, and how many answers
/// came from the other's pod.
async fn hand_over(stage: &Stage, rounds: usize, order: &Order, of: &str) -> (usize, usize) {
    let reserved = Reserved::alone();
    let address = reserved.address;
    let seen = [Arc::<Seen>::default(), Arc::<Seen>::default()];
    let mut callers = JoinSet::new();
    let workspace = |turn: usize| format!("{}{of}", OWNERS[turn % 2].1);
    for (turn, (owner, _)) in OWNERS.into_iter().enumerate() {
        let host = format!("{}.{CONSOLE}", workspace(turn));
        let cookie = stage.cookie_on(owner, &host);
        for _ in 0..2 {
            let (host, cookie, seen) = (host.clone(), cookie.clone(), seen[turn].clone());
            callers.spawn(ask(stage.address, owner, host, cookie, seen));
        }
        callers.spawn(talk(stage.address, owner, host, cookie, seen[turn].clone()));
    }
    let (mut crossed, mut served) = (0, 0);
    let mut last: Option<(String, Pod)> = None;
    for round in 0..rounds {
        let (owner, _) = OWNERS[round % 2];
        let (other, _) = OWNERS[(round + 1) % 2];
        let bytes = match last.take() {
            Some((name, pod)) => {
                stage.cluster.terminate(&name).await;
                if *order == Order::Heard {
                    stage.routed(&workspace(round + 1), None).await;
                }
                let bytes = pod.kill().await;
                Some((name, bytes))
            }
            None => None,
        };
        let pod = Pod::start(owner, &reserved).await;
        let name = format!("{}-{round}", workspace(round));
        let (on, spec) = (
            workspace(round),
            Spec::new(&name, "", 1, address).of(owner).alone(),
        );
        let uid = stage
            .cluster
            .run(&Spec {
                workspace: &on,
                ..spec
            })
            .await;
        if let Some((old, bytes)) = bytes {
            stage.cluster.finish(&old).await;
            served += usize::from(count(&bytes, &mark(other)) > 0);
            crossed += usize::from(count(&bytes, &mark(owner)) > 0);
        }
        stage.routed(&on, Some(&uid)).await;
        // It has served its own before it goes.
        let answered = seen[round % 2].answers.load(Ordering::SeqCst);
        crate::eventually("answers of the new pod", || async {
            seen[round % 2].answers.load(Ordering::SeqCst) > answered
        })
        .await;
        last = Some((name, pod));
    }
    callers.shutdown().await;
    assert_eq!(served, rounds - 1, "pods that their own callers reached");
    let sum = |what: fn(&Seen) -> &AtomicUsize| -> usize {
        seen.iter()
            .map(|seen| what(seen).load(Ordering::SeqCst))
            .sum()
    };
    println!(
        "{rounds} rounds: {} answers, {} sockets, {} rounds in which something crossed",
        sum(|seen| &seen.answers),
        sum(|seen| &seen.sockets),
        crossed
    );
    assert!(sum(|seen| &seen.sockets) > 0);
    (crossed, sum(|seen| &seen.crossed))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_byte_crosses_when_an_address_is_used_again() {
    let stage = Stage::start().await;
    let crossed = hand_over(&stage, rounds(), &Order::Heard, "").await;
    assert_eq!(crossed, (0, 0));
    if rounds() >= 1000 {
        // What no proxy can rule out that learns of pods by watching them: the time in which an event
        // is on its way. Reported, not asserted; see docs/edge.md.
        let (crossed, _) = hand_over(&stage, 200, &Order::AtOnce, "-now").await;
        println!("at once: something crossed in {crossed} of 200 rounds");
    }
}

/// Her pod does not say that it is gone, and his has its address: as a node does that tells of its pods
/// in no order.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_two_pods_claim_is_nobodys() {
    let stage = Stage::start().await;
    let reserved = Reserved::alone();
    let address = reserved.address;
    let pod = Pod::start("alice", &reserved).await;
    let spec = Spec::new("a", "hers", 1, address).alone();
    stage.run(&spec).await;
    assert_eq!(stage.get("hers", "/said-by-alice").await.text(), "alice");
    pod.kill().await;
    // His pod listens at the port that hers names, and names another.
    let pod = Pod::start("bob", &reserved).await;
    let his_port = SocketAddr::new(address.ip(), address.port() ^ 1);
    let his = stage
        .cluster
        .run(&Spec::new("b", "his", 1, his_port).of("bob").alone())
        .await;
    stage.routed("hers", None).await;
    stage.routed("his", None).await;
    let _held = stage.begin("GET", "hers", "/said-by-alice", "").await;
    stage.held(1).await;
    crate::eventually("both are contested", || async {
        stage.metric("contested_pods").await == 2
    })
    .await;
    stage.cluster.terminate("a").await;
    stage.cluster.finish("a").await;
    stage.routed("his", Some(&his)).await;
    assert_eq!(stage.metric("contested_pods").await, 0);
    stage.held(1).await;
    assert_eq!(pod.kill().await, b"", "nobody has asked for it");
}
