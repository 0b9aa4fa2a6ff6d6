//! Open WebSockets: none is lost at its beginning, each end is told to both sides and leaves nothing
//! behind, and whoever does not read stops whoever sends.

mod handshake;
mod stopping;

use crate::client::Connection;
use crate::cluster::Spec;
use crate::eventually;
use crate::memory::resident;
use crate::proxy::{CONSOLE, Stage};
use crate::raw::{RawPod, SWITCHING, head, rest};
use crate::sockets::{close, frame, open, opening};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A stage with one raw pod in the workspace `dev`, and what opens a socket there.
async fn stage_with(flags: &[&str], pod: &RawPod) -> (Stage, String) {
    let stage = Stage::with(flags).await;
    stage.run(&Spec::new("app", "dev", 1, pod.address)).await;
    let (host, cookie) = stage.alice("dev");
    let opening = opening(&cookie, &host);
    (stage, opening)
}

/// Nothing is open any more, and all that ended did so for this reason.
async fn all_ended(stage: &Stage, reason: &str, count: usize) {
    eventually("no open sockets", || async {
        stage.metric("open_sockets").await == 0
    })
    .await;
    let line = format!("nogoo9_proxy_sockets_ended_total{{reason=\"{reason}\"}} {count}\n");
    eventually("the count of ends", || async {
        stage.metrics().await.contains(&line)
    })
    .await;
}

/// A client of the relay's other side: its bytes after the 101.
async fn opened(stage: &Stage, opening: &str) -> Connection {
    let mut socket = Connection::open(stage.address).await;
    socket.send(opening).await;
    assert_eq!(socket.head().await.status, 101);
    socket
}

/// Accepts any handshake at once, then gives the connection to `then`.
async fn accepted(mut stream: TcpStream) -> TcpStream {
    head(&mut stream).await;
    stream.write_all(SWITCHING.as_bytes()).await.unwrap();
    stream
}

/// A pod that never answers a handshake; it says when one has come.
async fn silent() -> (RawPod, tokio::sync::mpsc::UnboundedReceiver<()>) {
    let (heard, hears) = tokio::sync::mpsc::unbounded_channel();
    let pod = RawPod::start(move |mut stream| {
        let heard = heard.clone();
        async move {
            head(&mut stream).await;
            let _ = heard.send(());
            rest(&mut stream).await;
        }
    })
    .await;
    (pod, hears)
}

/// A pod that says 101, and its first frame, to whoever connects. 100,000 with `NOGOO9_TEST_EDGE=all`.
#[tokio::test(flavor = "multi_thread")]
async fn no_upgrade_is_lost_to_a_pod_that_answers_before_it_is_asked() {
    const AT_ONCE: usize = 32;
    let count = if crate::is_full_size() {
        100_000
    } else {
        2_000
    };
    let first = [SWITCHING.as_bytes(), b"\x81\x05first"].concat();
    let before = Arc::<AtomicUsize>::default();
    let counted = before.clone();
    let pod = RawPod::start(move |mut stream| {
        let (first, counted) = (first.clone(), counted.clone());
        async move {
            let _ = stream.write_all(&first).await;
            let asked = stream.try_read(&mut [0; 1]);
            if asked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            rest(&mut stream).await;
        }
    })
    .await;
    let (stage, opening) = stage_with(&[], &pod).await;
    let (next, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || async {
        while next.fetch_add(1, Ordering::Relaxed) < count {
            let mut socket = Connection::open(stage.address).await;
            socket.send(&opening).await;
            let answer = socket.head().await;
            let frame = socket.exactly(7).await;
            if answer.status != 101 || frame != b"\x81\x05first" {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    futures::future::join_all((0..AT_ONCE).map(|_| worker())).await;
    let before = before.load(Ordering::Relaxed);
    println!("{count} upgrades, {before} of them answered before the request had come");
    assert_eq!(lost.load(Ordering::Relaxed), 0);
    assert!(before > 0, "no answer came before its request");
    assert_eq!(pod.connections(), count);
    all_ended(&stage, "Client", count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_is_told_too() {
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let pod = RawPod::start(move |stream| {
        let heard = heard.clone();
        async move {
            let mut stream = accepted(stream).await;
            heard.send(rest(&mut stream).await).unwrap();
        }
    })
    .await;
    let (mut stage, opening) = stage_with(&["--close-window", "0"], &pod).await;
    let unmasked = |frame: &[u8]| {
        let [0x88, 0x82, a, b, _, _, high, low] = *frame else {
            panic!("no masked Close: {frame:?}");
        };
        u16::from_be_bytes([high ^ a, low ^ b])
    };
    // The end of the session.
    let host = format!("dev.{CONSOLE}");
    let cookie = stage.short_cookie("alice", &host, 8);
    let mut short = opened(&stage, &super::sockets::opening(&cookie, &host)).await;
    assert_eq!(short.rest().await, close(1008));
    assert_eq!(unmasked(&hears.recv().await.unwrap()), 1008);
    // The end of the pod, seen by the cluster alone.
    let mut socket = opened(&stage, &opening).await;
    stage.cluster.terminate("app").await;
    stage.cluster.finish("app").await;
    assert_eq!(socket.rest().await, close(1012));
    assert_eq!(unmasked(&hears.recv().await.unwrap()), 1012);
    // The end of the proxy, in the middle of a message.
    stage.run(&Spec::new("again", "dev", 2, pod.address)).await;
    let mut socket = opened(&stage, &opening).await;
    let fragment = [0x01, 0x83, 0, 0, 0, 0, b'h', b'a', b'l'];
    socket.send(fragment).await;
    eventually("the fragment to have passed", || async {
        stage
            .metrics()
            .await
            .contains("socket_bytes_total{direction=\"Up\"} 9\n")
    })
    .await;
    stage.signal("TERM");
    assert_eq!(socket.rest().await, close(1001));
    let heard = hears.recv().await.unwrap();
    assert_eq!(heard[..9], fragment);
    assert_eq!(unmasked(&heard[9..]), 1001);
    drop(socket);
    let ended = tokio::time::timeout(crate::PATIENCE, stage.child.wait()).await;
    assert!(ended.unwrap().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_a_socket_where_that_is_configured_and_pings_keep_it() {
    let pod = RawPod::start(|stream| async {
        let mut stream = accepted(stream).await;
        rest(&mut stream).await;
    })
    .await;
    let (stage, opening) = stage_with(&["--socket-idle-timeout", "2"], &pod).await;
    let mut silent = opened(&stage, &opening).await;
    let mut pinging = opened(&stage, &opening).await;
    let ping = frame(9, b"");
    let silence = tokio::spawn(async move { silent.rest().await });
    let mut beat = tokio::time::interval(Duration::from_millis(100));
    while !silence.is_finished() {
        beat.tick().await;
        pinging.send(&ping).await;
    }
    assert_eq!(silence.await.unwrap(), close(1001));
    assert!(pinging.is_silent(), "it is open still");
    drop(pinging);
    eventually("the silent one in the log", || async {
        stage.log().contains("reason=Idle")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_of_sockets_that_break_off() {
    // By its first byte a pod is told what to do.
    let pod = RawPod::start(|stream| async {
        let mut stream = accepted(stream).await;
        match stream.read_u8().await {
            Ok(b'f') => stream.shutdown().await.unwrap(),
            Ok(b'r') => {
                stream.set_zero_linger().unwrap();
                return;
            }
            Ok(b'd') => {
                for byte in [0x82, 4, 1, 2, 3, 4, 0x88, 2, 0x03, 0xe8] {
                    stream.write_all(&[byte]).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
            _ => {}
        }
        rest(&mut stream).await;
    })
    .await;
    let (stage, opening) = stage_with(&[], &pod).await;
    for _ in 0..20 {
        // The client's end, and its reset; and one that says half of a frame.
        let mut socket = opened(&stage, &opening).await;
        socket.stream.shutdown().await.unwrap();
        assert_eq!(socket.rest().await, b"");
        let socket = opened(&stage, &opening).await;
        socket.stream.set_zero_linger().unwrap();
        drop(socket);
        let mut socket = opened(&stage, &opening).await;
        socket.send(&frame(1, b"half of it")[..5]).await;
        drop(socket);
    }
    all_ended(&stage, "Client", 60).await;
    for how in [b"f", b"r"] {
        for _ in 0..20 {
            let mut socket = opened(&stage, &opening).await;
            socket.send(how).await;
            assert_eq!(socket.rest().await, close(1012));
        }
    }
    for _ in 0..20 {
        let mut socket = opened(&stage, &opening).await;
        socket.send(b"d").await;
        assert_eq!(
            socket.exactly(10).await,
            [0x82, 4, 1, 2, 3, 4, 0x88, 2, 0x03, 0xe8]
        );
        socket.stream.shutdown().await.unwrap();
        assert_eq!(socket.rest().await, b"");
    }
    all_ended(&stage, "Pod", 60).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_leaves_a_line_in_the_log_and_its_bytes_in_the_counts() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let mut socket = open(&stage, "dev", "app").await;
    socket.send(frame(1, b"hello")).await;
    assert_eq!(super::sockets::text(&mut socket).await, "hello");
    socket.send(frame(1, b"close")).await;
    assert_eq!(socket.exactly(9).await[..4], [0x88, 7, 0x0f, 0xa1]);
    socket.send(frame(8, &[0x0f, 0xa1])).await;
    assert_eq!(socket.rest().await, b"");
    drop(socket);
    all_ended(&stage, "Pod", 1).await;
    // Three frames up, three down: the name, the echo, the Close.
    let (up, down) = (11 + 11 + 8, 5 + 7 + 9);
    let metrics = stage.metrics().await;
    for line in [
        "nogoo9_proxy_sockets_opened_total 1\n".to_owned(),
        format!("nogoo9_proxy_socket_bytes_total{{direction=\"Up\"}} {up}\n"),
        format!("nogoo9_proxy_socket_bytes_total{{direction=\"Down\"}} {down}\n"),
    ] {
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let log = stage.log();
    let line = log
        .lines()
        .find(|line| line.contains("access") && line.contains("socket") && line.contains("by="))
        .unwrap_or_else(|| panic!("no line in {log}"));
    for part in [
        "method=\"GET\"".to_owned(),
        "path=\"/socket\"".to_owned(),
        "workspace=\"dev\"".to_owned(),
        "pod=\"app\"".to_owned(),
        format!("up={up}"),
        format!("down={down}"),
        "code=4001".to_owned(),
        "by=\"pod\"".to_owned(),
    ] {
        assert!(line.contains(&part), "{part} in {line}");
    }
}

/// One side sends and the other does not read: the sender is stopped, the proxy keeps little, and in
/// the end all of it arrives.
#[tokio::test(flavor = "multi_thread")]
async fn back_pressure_both_ways() {
    const TOTAL: usize = 64 << 20;
    let piece: Arc<[u8]> = (0..1 << 16).map(|n: u32| (n % 251) as u8).collect();
    let sent = Arc::<AtomicUsize>::default();
    let (flood, flooded) = (piece.clone(), sent.clone());
    let (read, reads) = tokio::sync::watch::channel(false);
    let (arrived, mut arrives) = tokio::sync::mpsc::unbounded_channel();
    let pod = RawPod::start(move |stream| {
        let (flood, flooded, mut reads) = (flood.clone(), flooded.clone(), reads.clone());
        let arrived = arrived.clone();
        async move {
            let mut stream = accepted(stream).await;
            if stream.read_u8().await.unwrap() == b'd' {
                send(&mut stream, &flood, TOTAL, &flooded).await;
            } else {
                reads.wait_for(|reads| *reads).await.unwrap();
                arrived.send(rest(&mut stream).await.len()).unwrap();
            }
        }
    })
    .await;
    let (stage, opening) = stage_with(&[], &pod).await;
    let before = resident(&stage);
    let mut down = opened(&stage, &opening).await;
    down.send(b"d").await;
    stalled(&sent, TOTAL).await;
    let used = resident(&stage).saturating_sub(before);
    assert!(used < 8 << 20, "{used} bytes more");
    let mut got = 0;
    let mut buffer = vec![0; 1 << 16];
    while got < TOTAL {
        let n = down.stream.read(&mut buffer).await.unwrap();
        assert!(n > 0, "it ended after {got}");
        let expected = (0..n).map(|at| (((got + at) % (1 << 16)) % 251) as u8);
        assert!(buffer[..n].iter().copied().eq(expected), "after {got}");
        got += n;
    }
    drop(down);

    sent.store(0, Ordering::Relaxed);
    let mut up = opened(&stage, &opening).await;
    up.send(b"u").await;
    let sending = tokio::spawn({
        let (piece, sent) = (piece.clone(), sent.clone());
        async move {
            send(&mut up.stream, &piece, TOTAL, &sent).await;
            up.stream.shutdown().await.unwrap();
            up
        }
    });
    stalled(&sent, TOTAL).await;
    let used = resident(&stage).saturating_sub(before);
    assert!(used < 8 << 20, "{used} bytes more");
    read.send_replace(true);
    assert_eq!(arrives.recv().await.unwrap(), TOTAL);
    sending.await.unwrap();
}

async fn send(stream: &mut TcpStream, piece: &[u8], total: usize, sent: &AtomicUsize) {
    while sent.load(Ordering::Relaxed) < total {
        stream.write_all(piece).await.unwrap();
        sent.fetch_add(piece.len(), Ordering::Relaxed);
    }
}

/// Waits until nothing more is sent; it must not be all of it.
async fn stalled(sent: &AtomicUsize, total: usize) {
    let (mut last, mut same) = (0, 0);
    eventually("the sender to be stopped", || {
        let now = sent.load(Ordering::Relaxed);
        same = if now == last && now > 0 { same + 1 } else { 0 };
        last = now;
        let stopped = same > 50;
        async move { stopped }
    })
    .await;
    assert!(last < total, "all {last} bytes went somewhere");
}

/// The memory of idle sockets, as a figure: `NOGOO9_TEST_EDGE=all`.
#[tokio::test(flavor = "multi_thread")]
async fn idle_sockets_cost_little() {
    const COUNT: usize = 2_000;
    if !crate::is_full_size() {
        return;
    }
    let pod = RawPod::start(|stream| async {
        let mut stream = accepted(stream).await;
        rest(&mut stream).await;
    })
    .await;
    let (stage, opening) = stage_with(&["--max-connections-per-client", "0"], &pod).await;
    // What the first ones cost is the runtime's.
    let mut sockets = Vec::new();
    for _ in 0..200 {
        sockets.push(opened(&stage, &opening).await);
    }
    let before = resident(&stage);
    for _ in 0..COUNT {
        sockets.push(opened(&stage, &opening).await);
    }
    let each = resident(&stage).saturating_sub(before) / COUNT as u64;
    println!("an idle socket costs {each} bytes of resident memory");
    assert!(each < 48 << 10, "{each} bytes each");
    drop(sockets);
    all_ended(&stage, "Client", COUNT + 200).await;
}
