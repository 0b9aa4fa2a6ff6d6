//! Pods that let a dial hang: their queue of connections is full, so the system drops what else asks for
//! one, as a node does that is lost.

use crate::address::Reserved;
use crate::cluster::Spec;
use crate::proxy::Stage;
use crate::sockets::{self, text};
use crate::upstream::Upstream;
use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

/// A listener whose queue has room for one connection, and that one.
struct Full {
    listener: TcpListener,
    _first: TcpStream,
}

impl Full {
    async fn at(address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.bind(&address.into()).unwrap();
        // Linux takes one more than it is told.
        socket.listen(0).unwrap();
        let listener = TcpListener::from_std(socket.into()).unwrap();
        let first = TcpStream::connect(listener.local_addr().unwrap()).await;
        let full = Self {
            listener,
            _first: first.unwrap(),
        };
        crate::eventually("a full queue", || async { full.waiting() == 1 }).await;
        full
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Connections in its queue.
    fn waiting(&self) -> usize {
        const LISTENS: &str = "0A";
        let (ours, queue) = (hex(self.address()), 4);
        let mut listening = lines().into_iter();
        let line = listening.find(|line| line[1] == ours && line[3] == LISTENS);
        let (_, read) = line.as_ref().unwrap()[queue].split_once(':').unwrap();
        usize::from_str_radix(read, 16).unwrap()
    }

    /// Whether somebody dials it who has not heard from it.
    fn is_dialled(&self) -> bool {
        const DIALS: &str = "02";
        let ours = hex(self.address());
        let mut dialling = lines().into_iter();
        dialling.any(|line| line[2] == ours && line[3] == DIALS)
    }
}

/// What the system says of its TCP sockets, word by word: number, own address, the other's, state, queues.
fn lines() -> Vec<Vec<String>> {
    let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let words = |line: &str| line.split_whitespace().map(ToOwned::to_owned).collect();
    all.lines().skip(1).map(words).collect()
}

/// An address as it is written there.
fn hex(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else {
        panic!("{address}")
    };
    let ip = u32::from_ne_bytes(address.ip().octets());
    format!("{ip:08X}:{:04X}", address.port())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_answers_no_dial_is_given_up() {
    let stage = Stage::with(&["--hold-timeout", "1"]).await;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    // The candidate of an upgrade, beside the old pod; and one that is alone.
    let old = Upstream::start("old").await;
    let old_pod = Spec::new("old", "dev", 1, old.address);
    stage.cluster.run(&old_pod).await;
    let lost = Full::at(any).await;
    let candidate = Spec::new("new", "dev", 2, lost.address());
    let uid = stage.cluster.create(&candidate).await;
    stage.cluster.mark("new", Some("candidate")).await;
    stage.cluster.set_ready(&candidate, true).await;
    stage.routed("dev", Some(&uid)).await;
    let alone = Full::at(any).await;
    let alone_pod = Spec::new("alone", "alone", 1, alone.address());
    stage.run(&alone_pod).await;

    let mut waits = stage.begin("GET", "alone", "/", "").await;
    let mut reads = stage.begin("GET", "dev", "/", "").await;
    let mut writes = stage.begin("POST", "dev", "/", "body").await;
    let mut socket = sockets::begin(&stage, "dev").await;

    // Nothing was sent, so all of them go to the old one, whatever they are.
    assert!(reads.answer().await.text().starts_with("old\nGET"));
    let written = writes.answer().await.text();
    assert!(written.starts_with("old\nPOST") && written.ends_with("\nbody"));
    assert_eq!(socket.head().await.status, 101);
    assert_eq!(text(&mut socket).await, "old");
    let answer = waits.answer().await;
    assert_eq!(answer.status, 503);
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    assert!(answer.text().contains("no running pod that answers"));
    assert_eq!((lost.waiting(), alone.waiting()), (1, 1));
}

/// How a dial ended.
enum End {
    /// It came through, and this came on it.
    Connected(Vec<u8>),
    /// It took too long.
    GivenUp,
}

impl End {
    async fn of(stream: &mut TcpStream) -> Self {
        let mut came = Vec::new();
        let _ = stream.read_buf(&mut came).await;
        Self::Connected(came)
    }
}

/// Her pod is dialled, and hangs; meanwhile another pod has its address; then the dial comes through. How
/// it ends, once she has her answer of the pod that she has then.
async fn dialled_while_it_goes(stage: &Stage, id: &str, websocket: bool) -> End {
    let reserved = Reserved::alone();
    let pod = Full::at(reserved.address).await;
    let name = |what: &str| format!("{id}-{what}");
    let (hers, his) = (name("hers"), name("his"));
    let spec = Spec::new(&hers, &hers, 1, pod.address()).alone();
    stage.run(&spec).await;
    let mut asks = if websocket {
        sockets::begin(stage, &hers).await
    } else {
        stage.begin("GET", &hers, "/", "").await
    };
    crate::eventually("the dial", || async { pod.is_dialled() }).await;
    let theirs = Spec::new(&his, &his, 1, pod.address()).of("bob").alone();
    stage.cluster.run(&theirs).await;
    stage.routed(&hers, None).await;

    // There is room in the queue.
    let (_first, _) = pod.listener.accept().await.unwrap();
    let dialled = async {
        let (mut stream, _) = pod.listener.accept().await.unwrap();
        End::of(&mut stream).await
    };
    let end = tokio::select! {
        end = dialled => end,
        () = stage.held(1) => {
            // What came through before that is in the queue.
            let at_once = tokio::time::timeout(Duration::ZERO, pod.listener.accept());
            match at_once.await {
                Ok(stream) => End::of(&mut stream.unwrap().0).await,
                Err(_) => End::GivenUp,
            }
        }
    };
    let again = Upstream::start("again").await;
    let elsewhere = name("again");
    let spec = Spec::new(&elsewhere, &hers, 2, again.address);
    stage.cluster.run(&spec).await;
    if websocket {
        assert_eq!(asks.head().await.status, 101);
        assert_eq!(text(&mut asks).await, "again");
    } else {
        assert!(asks.answer().await.text().starts_with("again\nGET"));
    }
    end
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_address_is_anothers_after_the_dial_is_sent_nothing() {
    let stage = Stage::start().await;
    for websocket in [false, true] {
        let mut rounds = 0..10;
        loop {
            // A machine that is busy may be late with the table: then the dial has ended by itself.
            let round = rounds.next().expect("a dial that came through");
            let id = format!("w{}{round}", u8::from(websocket));
            if let End::Connected(came) = dialled_while_it_goes(&stage, &id, websocket).await {
                assert_eq!(String::from_utf8_lossy(&came), "", "WebSocket: {websocket}");
                break;
            }
        }
    }
}
