//! Requests for WebSockets that are none, answers that are none, and what comes too early.

use crate::client::{Answer, Connection};
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::Stage;
use crate::raw::{RawPod, SWITCHING, head, rest};
use crate::sockets::{frame, opening};
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// What a pod has got: heads, and what came behind them.
type Seen = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A pod that answers by the path: `/socket` with a 101 and a first frame, and so on.
async fn answer(mut stream: TcpStream, seen: Seen) {
    let asked = head(&mut stream).await;
    let asked = String::from_utf8(asked).unwrap();
    let path = asked.split(' ').nth(1).unwrap_or_default().to_owned();
    let upgraded = asked.to_ascii_lowercase().contains("\r\nupgrade:");
    let at = {
        let mut seen = seen.lock().unwrap();
        seen.push((asked, Vec::new()));
        seen.len() - 1
    };
    let large = "x".repeat(300_000);
    let said = match path.as_str() {
        "/socket" if upgraded => SWITCHING.to_owned(),
        "/wrong-accept" => SWITCHING.replace("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "nonsense"),
        "/no-accept" => SWITCHING.replace("Sec-WebSocket-Accept", "X-Other"),
        "/other-protocol" => SWITCHING.replace("Upgrade: websocket", "Upgrade: x"),
        "/unasked" => SWITCHING.to_owned(),
        "/extended" => SWITCHING.replace(
            "\r\n\r\n",
            "\r\nSec-WebSocket-Protocol: superchat\r\nsec-websocket-extensions: permessage-deflate;server_no_context_takeover\r\n\r\n",
        ),
        "/401" => "HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic\r\nContent-Length: 3\r\n\r\nwho".to_owned(),
        "/302" => "HTTP/1.1 302 Found\r\nLocation: /elsewhere?a=%2F\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "/large" => format!("HTTP/1.1 404 No\r\nContent-Length: {}\r\n\r\n{large}", large.len()),
        "/chunks" => format!("HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n{:x}\r\n{large}\r\n0\r\n\r\n", large.len()),
        "/until-end" => format!("HTTP/1.1 500 Oh\r\n\r\n{large}"),
        "/426" => "HTTP/1.1 426 Newer\r\nUpgrade: x/2\r\nConnection: Upgrade, X-Hop\r\nX-Hop: a\r\nContent-Length: 3\r\n\r\nold".to_owned(),
        "/hints" => format!("{}{SWITCHING}", "HTTP/1.1 103 Early\r\n\r\n".repeat(101)),
        "/early-hints" => format!("HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n{SWITCHING}"),
        "/two-lengths" => "HTTP/1.1 403 No\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd".to_owned(),
        "/short" => "HTTP/1.1 403 No\r\nContent-Length: 300\r\n\r\nabc".to_owned(),
        _ => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nplain".to_owned(),
    };
    let mut said = said.into_bytes();
    if path == "/socket" && upgraded {
        said.extend_from_slice(b"\x81\x02hi");
    }
    let _ = stream.write_all(&said).await;
    if path == "/until-end" || path == "/short" {
        let _ = stream.shutdown().await;
    }
    let came = rest(&mut stream).await;
    seen.lock().unwrap()[at].1 = came;
}

struct Scene {
    stage: Stage,
    pod: RawPod,
    seen: Seen,
    host: String,
    cookie: String,
}

impl Scene {
    async fn start() -> Self {
        let stage = Stage::start().await;
        let seen = Seen::default();
        let recorded = seen.clone();
        let pod = RawPod::start(move |stream| answer(stream, recorded.clone())).await;
        stage.run(&Spec::new("app", "dev", 1, pod.address)).await;
        let (host, cookie) = stage.alice("dev");
        Self {
            stage,
            pod,
            seen,
            host,
            cookie,
        }
    }

    /// A proper request for a WebSocket.
    fn opening(&self, path: &str) -> String {
        opening(&self.cookie, &self.host).replace("/socket", path)
    }

    async fn send(&self, bytes: impl AsRef<[u8]>) -> Connection {
        let mut connection = Connection::open(self.stage.address).await;
        connection.send(bytes).await;
        connection
    }

    fn seen(&self) -> Vec<(String, Vec<u8>)> {
        self.seen.lock().unwrap().clone()
    }
}

const VERSION: &str = "Sec-WebSocket-Version: 13\r\n";
const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_for_a_websocket_goes_on_without_its_upgrade() {
    let scene = Scene::start().await;
    let proper = scene.opening("/socket");
    let with = |from: &str, to: &str| {
        assert!(proper.contains(from), "{from}");
        proper.replace(from, to)
    };
    let upgrade = "Upgrade: websocket\r\n";
    for (what, request) in [
        ("another protocol", with(upgrade, "Upgrade: x\r\n")),
        ("one of two", with(upgrade, "Upgrade: websocket, x\r\n")),
        (
            "another before",
            with(upgrade, "Upgrade: h2c, websocket\r\n"),
        ),
        (
            "twice",
            with(upgrade, "Upgrade: websocket\r\nUpgrade: websocket\r\n"),
        ),
        (
            "no connection option",
            with("keep-alive, Upgrade", "keep-alive"),
        ),
        ("HTTP/1.0", with("HTTP/1.1", "HTTP/1.0")),
        ("HEAD", with("GET ", "HEAD ")),
        (
            "POST",
            with("GET ", "POST ").replace(
                "Upgrade: websocket",
                "Content-Length: 0\r\nUpgrade: websocket",
            ),
        ),
    ] {
        let before = scene.seen().len();
        let mut connection = scene.send(request).await;
        let status = connection.head().await.status;
        assert_eq!(status, 200, "{what}");
        drop(connection);
        let seen = scene.seen();
        assert_eq!(seen.len(), before + 1, "{what}");
        let asked = seen[before].0.to_ascii_lowercase();
        assert!(!asked.contains("\r\nupgrade:"), "{what}: {asked}");
        let option = asked.lines().find(|line| line.starts_with("connection:"));
        assert!(
            !option.is_some_and(|line| line.contains("upgrade")),
            "{what}: {asked}"
        );
    }
    assert_eq!(scene.stage.metric("sockets_opened_total").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_a_bad_request_for_a_websocket_reaches_no_pod() {
    let scene = Scene::start().await;
    let proper = scene.opening("/socket");
    for (what, request, status) in [
        ("no key", proper.replace(KEY, ""), 400),
        ("two keys", proper.replace(KEY, &KEY.repeat(2)), 400),
        ("no version", proper.replace(VERSION, ""), 426),
        (
            "two versions",
            proper.replace(VERSION, &VERSION.repeat(2)),
            426,
        ),
        ("another version", proper.replace(": 13", ": 8"), 426),
        ("a list of versions", proper.replace(": 13", ": 13, 8"), 426),
        (
            "a body",
            proper.replace(KEY, &format!("{KEY}Content-Length: 5\r\n")) + "hello",
            400,
        ),
        (
            "a body to come",
            proper.replace(KEY, &format!("{KEY}Content-Length: 5\r\n")),
            400,
        ),
        (
            "chunks",
            proper.replace(KEY, &format!("{KEY}Transfer-Encoding: chunked\r\n")) + "0\r\n\r\n",
            400,
        ),
    ] {
        let mut connection = scene.send(request).await;
        let answer = connection.answer().await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        if status == 426 {
            // RFC 6455, section 4.4, and RFC 9110, section 15.5.22.
            assert_eq!(answer.header("sec-websocket-version"), Some("13"), "{what}");
            assert_eq!(answer.header("upgrade"), Some("websocket"), "{what}");
            assert_eq!(of_one_hop(&answer), ["keep-alive", "Upgrade"], "{what}");
        }
    }
    assert_eq!(scene.pod.connections(), 0);
    let metrics = scene.stage.metrics().await;
    for line in [
        "sockets_refused_total{reason=\"Key\"} 2",
        "sockets_refused_total{reason=\"Version\"} 4",
        "sockets_refused_total{reason=\"Body\"} 3",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_speaks_http2_alone_has_no_websockets() {
    let stage = Stage::start().await;
    let pod = async || RawPod::start(|stream| answer(stream, Seen::default())).await;
    let (app, web) = (pod().await, pod().await);
    let port = web.address.port().to_string();
    let settings = [
        ("workspace-protocol", "h2c"),
        ("api.web.port", port.as_str()),
        ("api.web.path", "/web"),
    ];
    let spec = Spec::new("app", "dev", 1, app.address).with(&settings);
    stage.run(&spec).await;
    let (host, cookie) = stage.alice("dev");
    let request = opening(&cookie, &host);
    let mut connection = Connection::open(stage.address).await;
    connection.send(&request).await;
    let told = connection.answer().await;
    assert_eq!(told.status, 501, "{}", told.text());
    assert!(told.text().contains("\"code\":\"not_supported\""));
    assert_eq!(app.connections(), 0);
    let metrics = stage.metrics().await;
    assert!(metrics.contains("sockets_refused_total{reason=\"Protocol\"} 1\n"));
    // Its extra ports speak HTTP/1.1.
    let mut connection = Connection::open(stage.address).await;
    connection
        .send(request.replace("/socket", "/web/socket"))
        .await;
    assert_eq!(connection.head().await.status, 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_before_the_101_is_refused_and_reaches_no_pod() {
    let scene = Scene::start().await;
    let proper = scene.opening("/socket");
    for early in [
        frame(1, b"early"),
        vec![0x81],
        b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
    ] {
        let together = [proper.as_bytes(), &early].concat();
        let mut connection = scene.send(together).await;
        assert_eq!(connection.answer().await.status, 400);
    }
    // The handshake did, and not a byte behind it.
    eventually("the pod to have heard the end of all", || async {
        scene.stage.metric("open_sockets").await == 0
    })
    .await;
    for (asked, rest) in scene.seen() {
        assert!(asked.starts_with("GET /socket HTTP/1.1\r\n"), "{asked}");
        assert_eq!(rest, b"", "{asked}");
    }
    let metrics = scene.stage.metrics().await;
    let line = "sockets_refused_total{reason=\"Early\"} 3";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_make_no_sense_are_a_502() {
    let scene = Scene::start().await;
    for path in ["/no-accept", "/other-protocol", "/two-lengths", "/hints"] {
        let mut connection = scene.send(scene.opening(path)).await;
        assert_eq!(connection.answer().await.status, 502, "{path}");
    }
    // A 101 that nobody asked for.
    let plain = scene
        .opening("/unasked")
        .replace("Upgrade: websocket\r\n", "");
    let mut connection = scene.send(plain).await;
    assert_eq!(connection.answer().await.status, 502);
    // Whether the accept is right is the client's to judge: it passes as it is.
    let mut connection = scene.send(scene.opening("/wrong-accept")).await;
    let answer = connection.head().await;
    assert_eq!(
        (answer.status, answer.header("sec-websocket-accept")),
        (101, Some("nonsense"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_comes_as_it_is_at_any_length() {
    let scene = Scene::start().await;
    let large = "x".repeat(300_000);
    for (path, status, body, header) in [
        (
            "/401",
            401,
            "who".to_owned(),
            Some(("www-authenticate", "Basic")),
        ),
        (
            "/302",
            302,
            String::new(),
            Some(("location", "/elsewhere?a=%2F")),
        ),
        ("/large", 404, large.clone(), None),
        ("/chunks", 403, format!("abc{large}"), None),
        ("/until-end", 500, large.clone(), None),
    ] {
        let mut connection = scene.send(scene.opening(path)).await;
        let answer = connection.answer().await;
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.text() == body, "{path}: {} bytes", answer.body.len());
        if let Some((name, value)) = header {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
    }
    // One that breaks off is not made whole.
    let mut connection = scene.send(scene.opening("/short")).await;
    let answer = connection.head().await;
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (403, Some("300"))
    );
    assert_eq!(connection.rest().await, b"abc");
    // They are the pod's in the log, too.
    eventually("the refusals in the log", || async {
        let log = scene.stage.log();
        let by_pod = |line: &&str| {
            line.contains("by=Pod")
                && line.contains("workspace=\"dev\"")
                && line.contains("pod=\"app\"")
        };
        log.lines().filter(by_pod).count() == 6
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_what_it_asks_for_and_not_what_is_for_one_hop() {
    let scene = Scene::start().await;
    let opening = scene.opening("/426");
    let ordinary = opening.replace("Upgrade: websocket\r\n", "");
    for (request, goes_on) in [(opening, "close"), (ordinary, "keep-alive")] {
        let mut connection = scene.send(request).await;
        let answer = connection.answer().await;
        assert_eq!((answer.status, answer.text().as_str()), (426, "old"));
        assert_eq!(answer.header("upgrade"), Some("x/2"));
        assert_eq!(answer.header("x-hop"), None);
        assert_eq!(of_one_hop(&answer), [goes_on, "Upgrade"]);
    }
}

/// What `Connection` names.
fn of_one_hop(answer: &Answer) -> Vec<&str> {
    let named = answer.header("connection").unwrap_or_default();
    named.split(',').map(str::trim).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_will_close_afterwards_has_its_socket() {
    let scene = Scene::start().await;
    let opening = scene.opening("/socket");
    let closing = opening.replace("keep-alive, Upgrade", "close, Upgrade");
    assert_ne!(opening, closing);
    let mut socket = scene.send(closing).await;
    assert_eq!(socket.head().await.status, 101);
    assert_eq!(socket.exactly(4).await, b"\x81\x02hi");
}

#[tokio::test(flavor = "multi_thread")]
async fn subprotocols_and_extensions_pass_untouched() {
    let scene = Scene::start().await;
    let offer = "Sec-WebSocket-Protocol: chat, superchat\r\nSec-WebSocket-Extensions: permessage-deflate; client_max_window_bits, x-other\r\n";
    let asked = scene
        .opening("/extended")
        .replace(KEY, &format!("{KEY}{offer}"));
    let mut socket = scene.send(asked).await;
    let answer = socket.head().await;
    assert_eq!(answer.status, 101);
    assert_eq!(answer.header("sec-websocket-protocol"), Some("superchat"));
    assert_eq!(
        answer.header("sec-websocket-extensions"),
        Some("permessage-deflate;server_no_context_takeover")
    );
    // A frame with a reserved bit, which only the extension gives a meaning.
    let compressed = [0xc1, 0x83, 1, 2, 3, 4, 9, 9, 9];
    socket.send(compressed).await;
    socket.stream.shutdown().await.unwrap();
    assert_eq!(socket.rest().await, b"");
    let (asked, came) = scene.seen().remove(0);
    for line in offer.lines() {
        assert!(asked.contains(line), "{line} in {asked}");
    }
    eventually("the pod to have heard all", || async {
        !scene.seen()[0].1.is_empty()
    })
    .await;
    assert_eq!(scene.seen()[0].1, compressed, "{came:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn informational_answers_come_before_the_101() {
    let scene = Scene::start().await;
    let mut socket = scene.send(scene.opening("/early-hints")).await;
    assert_eq!(socket.head().await.status, 101);
    let mut socket = scene.send(scene.opening("/socket")).await;
    assert_eq!(socket.head().await.status, 101);
    assert_eq!(socket.exactly(4).await, b"\x81\x02hi");
}
