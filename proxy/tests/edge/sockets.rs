//! WebSockets: byte for byte, through switches, and ended with a reason.

use crate::client::{Connection, request};
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;

const HANDSHAKE: [(&str, &str); 5] = [
    ("Connection", "keep-alive, Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-Fetch-Site", "same-origin"),
];

/// Close frame of a server with a code and no reason.
pub(crate) fn close(code: u16) -> Vec<u8> {
    let [high, low] = code.to_be_bytes();
    vec![0x88, 2, high, low]
}

/// A client's frame; the mask is zero, so that the payload reads as it is.
pub(crate) fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | opcode];
    match payload.len() {
        n @ 0..=125 => out.push(0x80 | n as u8),
        n => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(n as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
    out
}

pub(crate) fn opening(cookie: &str, host: &str) -> String {
    let mut headers = HANDSHAKE.to_vec();
    headers.push(("Cookie", cookie));
    request("GET", host, "/socket", &headers)
}

/// Sends the opening of a socket of alice on `workspace`, and leaves the answer to be read.
pub(crate) async fn begin(stage: &Stage, workspace: &str) -> Connection {
    let (host, cookie) = stage.alice(workspace);
    let mut socket = Connection::open(stage.address).await;
    socket.send(opening(&cookie, &host)).await;
    socket
}

/// An open socket of alice on `workspace`, that has heard the application's name.
pub(crate) async fn open(stage: &Stage, workspace: &str, name: &str) -> Connection {
    let mut socket = begin(stage, workspace).await;
    let head = socket.head().await;
    assert_eq!(head.status, 101, "{head:?}");
    assert_eq!(
        head.header("sec-websocket-accept"),
        Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    );
    assert_eq!(text(&mut socket).await, name);
    socket
}

/// The next text message, a short one.
pub(crate) async fn text(socket: &mut Connection) -> String {
    let head = socket.exactly(2).await;
    assert_eq!(head[0], 0x81);
    String::from_utf8(socket.exactly(usize::from(head[1])).await).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_stay_on_their_pod_until_it_goes() {
    let stage = Stage::start().await;
    let (old, new) = (Upstream::start("old").await, Upstream::start("new").await);
    let uid = stage.run(&Spec::new("old", "dev", 1, old.address)).await;
    let mut socket = open(&stage, "dev", "old").await;
    let new_uid = stage.run(&Spec::new("new", "dev", 2, new.address)).await;
    // The open one goes on, byte for byte; a new one goes to the new pod.
    let payload: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let sent = frame(2, &payload);
    let (mut reading, mut writing) = socket.stream.split();
    let expected = payload.len() + 10;
    let mut got = vec![0; expected];
    let (wrote, read) = tokio::join!(
        tokio::io::AsyncWriteExt::write_all(&mut writing, &sent),
        tokio::io::AsyncReadExt::read_exact(&mut reading, &mut got)
    );
    wrote.unwrap();
    read.unwrap();
    assert!(got[10..] == payload);
    let facts = stage.admin("/sessions?workspace=dev").await;
    assert_eq!(facts["active"], new_uid.as_str());
    assert_eq!(facts["sessions"][&uid], 1);
    let _second = open(&stage, "dev", "new").await;

    // Terminating alone ends nothing; being gone does, with 1012.
    stage.cluster.terminate("old").await;
    socket.send(frame(1, b"still")).await;
    assert_eq!(text(&mut socket).await, "still");
    stage.cluster.finish("old").await;
    assert_eq!(socket.rest().await, close(1012));
    crate::eventually("the session to end", || async {
        stage.admin("/sessions?workspace=dev").await["sessions"]
            .get(&uid)
            .is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_pod_is_a_1012() {
    let stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let mut socket = open(&stage, "dev", "app").await;
    app.kill();
    assert_eq!(socket.rest().await, close(1012));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_applications_own_close_comes_through() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let mut socket = open(&stage, "dev", "app").await;
    socket.send(frame(1, b"close")).await;
    let mut expected = vec![0x88, 7, 0x0f, 0xa1];
    expected.extend_from_slice(b"asked");
    assert_eq!(socket.exactly(9).await, expected);
    socket.send(frame(8, &[0x0f, 0xa1])).await;
    assert_eq!(socket.rest().await, b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_is_held_like_a_request() {
    let stage = Stage::start().await;
    let (_app, pod) = stage.starting("app", "dev").await;
    let mut socket = begin(&stage, "dev").await;
    stage.cluster.set_ready(&pod, true).await;
    assert_eq!(socket.head().await.status, 101);
    assert_eq!(text(&mut socket).await, "app");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_token_is_a_1008() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    let cookie = stage.short_cookie("alice", &host, 8);
    let mut socket = Connection::open(stage.address).await;
    socket.send(opening(&cookie, &host)).await;
    assert_eq!(socket.head().await.status, 101);
    assert_eq!(text(&mut socket).await, "app");
    assert_eq!(socket.rest().await, close(1008));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_strangers() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    // Without a cookie, and with one of another host.
    for cookie in [
        "a=b".to_owned(),
        stage.cookie_on("alice", &format!("other.{CONSOLE}")),
    ] {
        let mut socket = Connection::open(stage.address).await;
        socket.send(opening(&cookie, &host)).await;
        assert_eq!(socket.answer().await.status, 401);
    }
    // From a page of a sibling workspace.
    let cookie = stage.cookie_on("alice", &host);
    let sibling =
        opening(&cookie, &host).replace("Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: same-site");
    let mut socket = Connection::open(stage.address).await;
    socket.send(sibling).await;
    assert_eq!(socket.answer().await.status, 401);
    // The application says no: its answer comes through.
    let refused = opening(&cookie, &host).replace("/socket", "/answer?status=403&x-why=because");
    let mut socket = Connection::open(stage.address).await;
    socket.send(refused).await;
    let answer = socket.answer().await;
    assert_eq!(
        (
            answer.status,
            answer.header("x-why"),
            answer.text().as_str()
        ),
        (403, Some("because"), "answer")
    );
    // Frames before the 101 are refused, not lost.
    let mut socket = Connection::open(stage.address).await;
    socket
        .send([opening(&cookie, &host).into_bytes(), frame(1, b"early")].concat())
        .await;
    assert_eq!(socket.answer().await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_closes_sockets_and_finishes_requests() {
    let mut stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let mut socket = open(&stage, "dev", "app").await;
    let mut slow = stage.begin("GET", "dev", "/slow", "").await;
    crate::eventually("the slow request", || async { app.requests() == 1 }).await;
    stage.signal("TERM");
    assert_eq!(socket.rest().await, close(1001));
    drop(socket);
    app.release();
    let answer = slow.answer().await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "app\n"));
    drop(slow);
    let status = tokio::time::timeout(crate::PATIENCE, stage.child.wait())
        .await
        .expect("it did not stop")
        .unwrap();
    assert!(status.success(), "{status}");
}
