//! Requests that one reader takes for this and another for that, down to the bytes that the pod gets.
//!
//! Behind each of them, on the same connection, comes a last request of the caller's own. So where a
//! request is served, it also shows that the edge takes its end to be where it was meant; and where it
//! is refused, that nothing behind it counts any more.

use super::attacks::{ATTACKS, Fate};
use super::recorder::{Recorder, Script};
use crate::PATIENCE;
use crate::client::Connection;
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::Stage;
use Fate::{Alone, Answered, Broken, Refused, Served};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

struct Scene {
    stage: Stage,
    pod: Recorder,
    host: String,
    /// The lines that let a request in.
    first: String,
}

impl Scene {
    async fn new() -> Self {
        let stage = Stage::start().await;
        let pod = Recorder::listen().await;
        let spec = Spec::new("app", "dev", 1, pod.address);
        stage.run(&spec).await;
        let (host, cookie) = stage.alice("dev");
        let first = format!("Host: {host}\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n");
        Self {
            stage,
            pod,
            host,
            first,
        }
    }

    /// What the pod gets of a request.
    fn arrived(&self, line: &str, lines: &str, body: &str) -> String {
        let Self { host, .. } = self;
        let chunked =
            body.ends_with("0\r\n\r\n") && !lines.to_ascii_lowercase().contains("chunked");
        // A length that is taken away leaves a body all the same.
        let coding = if chunked {
            "Transfer-Encoding: chunked\r\n"
        } else {
            ""
        };
        format!(
            "{line}\r\nHost: {host}\r\nSec-Fetch-Site: same-origin\r\n{lines}X-Forwarded-Host: {host}\r\n\
             X-Forwarded-Proto: http\r\nX-Forwarded-Port: 9009\r\nX-Forwarded-For: 127.0.0.1\r\n\
             Forwarded: for=127.0.0.1;host=\"{host}\";proto=http\r\nX-User-Sub: alice\r\n\
             X-User-Roles: user\r\n{coding}\r\n{body}"
        )
    }

    /// Sends bytes, and takes all that comes until the connection ends.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut connection = Connection::open(self.stage.address).await;
        // It may be over before everything is sent.
        let _ = connection.stream.write_all(bytes).await;
        let mut got = Vec::new();
        let read = connection.stream.read_to_end(&mut got);
        let read = tokio::time::timeout(PATIENCE, read).await;
        let _ = read.expect("the connection did not end");
        String::from_utf8_lossy(&got).into_owned()
    }
}

/// The statuses of answers in a row.
fn statuses(got: &str) -> Vec<u16> {
    let starts = got.split("HTTP/1.1 ").skip(1);
    starts.map(|rest| rest[..3].parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_reaches_the_pod_that_the_edge_did_not_mean() {
    let scene = Scene::new().await;
    let last = format!(
        "GET /last HTTP/1.1\r\n{}Connection: close\r\n\r\n",
        scene.first
    );
    let last_arrived = scene.arrived("GET /last HTTP/1.1", "", "");
    let mut wrong = Vec::new();
    let attacks = ATTACKS.concat();
    for (attack, fate) in &attacks {
        let text = attack
            .replace("{in}", &scene.first)
            .replace("{host}", &scene.host);
        let mut bytes = super::cases::latin(&text);
        bytes.extend_from_slice(last.as_bytes());
        let got = scene.send(&bytes).await;
        let told = statuses(&got);
        let requests = scene.pod.requests();
        let requests: Vec<String> = requests
            .iter()
            .map(|one| String::from_utf8_lossy(one).into_owned())
            .collect();
        // What is not finished ends with its connection.
        if matches!(fate, Broken) && requests.is_empty() {
            let what = format!("a part of {attack:?}");
            eventually(&what, || async { scene.pod.has_fragments() }).await;
        }
        let fragments = scene.pod.fragments();
        let smuggled = |part: &[u8]| String::from_utf8_lossy(part).contains("smuggled");
        let ok = match fate {
            Refused(status) => told == [*status] && requests.is_empty() && fragments.is_empty(),
            Answered(status) => {
                told == [*status, 200] && requests == [last_arrived.clone()] && fragments.is_empty()
            }
            Broken => {
                let unfinished = fragments.iter().all(|part| !part.ends_with(b"0\r\n\r\n"));
                told == [400]
                    && requests.is_empty()
                    && unfinished
                    && !fragments.iter().any(|part| smuggled(part))
            }
            Alone(line, lines, body) => {
                told == [200]
                    && requests == [scene.arrived(line, lines, body)]
                    && fragments.is_empty()
            }
            Served(line, lines, body) => {
                let first = scene.arrived(line, lines, body);
                // Nobody's request in between is answered, and not served.
                let stray = attack.contains("GET /smuggled HTTP/1.1\r\nHost");
                let wanted = if stray {
                    vec![200, 401, 200]
                } else {
                    vec![200, 200]
                };
                told == wanted && requests == [first, last_arrived.clone()] && fragments.is_empty()
            }
        };
        if !ok {
            let fragments: Vec<_> = fragments
                .iter()
                .map(|one| String::from_utf8_lossy(one).into_owned())
                .collect();
            wrong.push(format!(
                "{attack:?} should be {fate:?}: told {told:?}\n  pod got {requests:?}\n  and parts {fragments:?}"
            ));
        }
    }
    println!("{} requests that may be read in two ways", attacks.len());
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let log = scene.stage.log();
    assert!(!log.contains("panicked"), "the proxy panicked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_switches_nothing_that_was_not_asked_for() {
    let scene = Scene::new().await;
    let switched =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nsmuggled";
    let script = Script {
        answer: switched.as_bytes().to_vec(),
        ..Script::default()
    };
    scene.pod.answers("1", script);
    for lines in ["", "Connection: Upgrade\r\nUpgrade: x\r\n"] {
        let first = format!("GET /x HTTP/1.1\r\n{}X-Case: 1\r\n{lines}\r\n", scene.first);
        let got = scene.send(first.as_bytes()).await;
        assert_eq!(statuses(&got), [502], "{got}");
        assert!(!got.contains("smuggled"), "{got}");
    }
    // What a pod sends behind an answer is no part of the next one's, whoever asks.
    let behind = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled";
    scene.pod.answers(
        "2",
        Script {
            answer: behind.as_bytes().to_vec(),
            ..Script::default()
        },
    );
    for _ in 0..20 {
        let first = format!(
            "GET /x HTTP/1.1\r\n{}X-Case: 2\r\nConnection: close\r\n\r\n",
            scene.first
        );
        let got = scene.send(first.as_bytes()).await;
        assert_eq!(statuses(&got), [200], "{got}");
        let next = format!(
            "GET /y HTTP/1.1\r\n{}Connection: close\r\n\r\n",
            scene.first
        );
        let got = scene.send(next.as_bytes()).await;
        assert!(
            got.ends_with("\r\n\r\nok") && !got.contains("smuggled"),
            "{got}"
        );
    }
}
