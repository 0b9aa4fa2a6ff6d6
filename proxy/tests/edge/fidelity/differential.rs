//! The same requests to the same pod, with and without the edge: every difference is one that the docs
//! explain, and every one that they explain is seen.

use super::answer::{Answer, answer, ask};
use super::cases::{self, Body, Case, latin};
use super::difference::{of_answers, of_requests};
use super::message::{Message, Start};
use super::recorder::Recorder;
use crate::PATIENCE;
use crate::client::Connection;
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::collections::{BTreeMap, BTreeSet};
use tokio::io::AsyncReadExt as _;

/// Where users read of it.
const DOCS: &str = include_str!("../../../../docs/edge.md");

/// What the edge changes: name as in the docs, and the differences that it explains. `>` is on the way
/// to the pod, `<` on the way back, `2` where the client speaks HTTP/2.
const CHANGES: &[(&str, &[&str])] = &[
    (
        "Session",
        &[
            "> cookie gone",
            "> cookie differs",
            "< set-cookie gone",
            "< set-cookie differs",
        ],
    ),
    (
        "Identity",
        &[
            "> x-user-sub new",
            "> x-user-roles new",
            "> x-user-sub differs",
        ],
    ),
    (
        "Origin of the request",
        &[
            "> x-forwarded-for new",
            "> x-forwarded-host new",
            "> x-forwarded-proto new",
            "> x-forwarded-port new",
            "> forwarded new",
            "> x-forwarded-for differs",
            "> x-forwarded-host differs",
            "> x-forwarded-proto differs",
            "> x-forwarded-port differs",
            "> forwarded differs",
        ],
    ),
    (
        "Claims",
        &[
            "> x-real-ip gone",
            "> remote-user gone",
            "> x-forwarded-prefix gone",
        ],
    ),
    (
        "One hop",
        &[
            "> connection gone",
            "> keep-alive gone",
            "> proxy-connection gone",
            "> proxy-authorization gone",
            "> proxy-authenticate gone",
            "> te gone",
            "> trailer gone",
            "> upgrade gone",
            "> http2-settings gone",
            "> x-named gone",
            "< connection new",
            "< connection differs",
            "< keep-alive gone",
            "< proxy-connection gone",
            "< trailer gone",
            "< upgrade gone",
            "< x-named gone",
        ],
    ),
    ("Target", &["> target"]),
    ("Version", &["> version", "< version"]),
    ("White space", &["> white space", "< white space"]),
    ("Lines of one name", &["> grouped", "< grouped"]),
    ("Date", &["< date new", "< date differs"]),
    ("Reason", &["< reason"]),
    ("Chunks", &["< chunks"]),
    (
        "End of an answer",
        &[
            "< transfer-encoding new",
            "< until the end",
            "< transfer-encoding gone",
        ],
    ),
    ("Trailers", &["> trailers", "< trailers"]),
    ("Informational answers", &["< informational, HTTP/1.0"]),
    (
        "HTTP/2",
        &[
            "2> letters",
            "2> content-length new",
            "2< connection gone",
            "2< informational",
            "2< letters",
        ],
    ),
];

fn request(bytes: &[u8]) -> Message {
    let read = Message::read(bytes, Start::Request).expect("a request by the letter");
    read.expect("a whole request").0
}

/// The pod, reached with and without the edge.
struct Both {
    stage: Stage,
    pod: Recorder,
    first: String,
}

async fn both(flags: &[&str]) -> Both {
    let stage = Stage::with(flags).await;
    let pod = Recorder::listen().await;
    let spec = Spec::new("app", "dev", 1, pod.address);
    stage.run(&spec).await;
    let host = format!("dev.{CONSOLE}");
    let first = format!(
        "Host: {host}\r\nCookie: {}\r\nSec-Fetch-Site: same-origin\r\n",
        stage.cookie_on("alice", &host)
    );
    Both { stage, pod, first }
}

impl Both {
    /// The request that the pod got for what was just sent; the answer is there already.
    fn one(&self, name: &str) -> Message {
        let mut requests = self.pod.requests();
        assert_eq!(requests.len(), 1, "{name}: {requests:?}");
        assert!(self.pod.fragments().is_empty(), "{name}");
        request(&requests.remove(0))
    }
}

/// Collects differences, with the case that showed each first.
#[derive(Default)]
struct Seen(BTreeMap<String, String>);

impl Seen {
    fn add(&mut self, case: &Case, found: BTreeSet<String>) {
        for one in found {
            self.0.entry(one).or_insert_with(|| case.name.clone());
        }
    }

    /// Holds what was seen against the list.
    fn check(&self, is_mine: impl Fn(&str) -> bool) {
        let listed: BTreeSet<&str> = CHANGES
            .iter()
            .flat_map(|(_, changes)| changes.iter().copied())
            .filter(|change| is_mine(change))
            .collect();
        let known = |one: &str| listed.contains(one);
        let unknown: Vec<_> = self.0.iter().filter(|(one, _)| !known(one)).collect();
        let never: Vec<_> = listed
            .iter()
            .filter(|one| !self.0.contains_key(**one))
            .collect();
        assert!(
            unknown.is_empty() && never.is_empty(),
            "the edge changes more than is known: {unknown:#?}\nor does not any more: {never:#?}"
        );
    }
}

#[test]
fn the_docs_explain_what_the_edge_changes() {
    for (name, _) in CHANGES {
        let row = format!("\n| {name} |");
        assert!(DOCS.contains(&row), "no row on {name} in docs/edge.md");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_and_without_the_edge() {
    let both = both(&[]).await;
    let cases = cases::all();
    assert!(cases.len() >= 300, "{}", cases.len());
    let mut seen = Seen::default();
    for (number, case) in cases.iter().enumerate() {
        both.pod.answers(&number.to_string(), case.script.clone());
        let wire = case.wire(number, &both.first);
        let head = case.method == "HEAD";
        let without = ask(both.pod.address, &wire, head).await;
        let sent = both.one(&case.name);
        let with = ask(both.stage.address, &wire, head).await;
        let got = both.one(&case.name);
        let mut found = of_requests(&sent, &got);
        found.extend(of_answers(&without, &with, case));
        seen.add(case, found);
    }
    println!("{} requests, {} differences", cases.len(), seen.0.len());
    seen.check(|change| !change.starts_with('2'));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_a_row_on_one_connection() {
    let both = both(&[]).await;
    let cases: Vec<Case> = cases::all()
        .into_iter()
        .filter(|case| !case.script.close && case.version == "HTTP/1.1" && case.body != Body::None)
        .filter(|case| case.script.at_head.is_empty())
        .collect();
    // One after the other, then all at once.
    for at_once in [false, true] {
        let mut connection = Connection::open(both.stage.address).await;
        let wires: Vec<Vec<u8>> = cases
            .iter()
            .enumerate()
            .map(|(number, case)| case.wire(number, &both.first))
            .collect();
        let (mut reader, mut writer);
        if at_once {
            let all = wires.concat();
            let (read, write) = connection.stream.into_split();
            (reader, writer) = (read, write);
            let sending = tokio::spawn(async move {
                tokio::io::AsyncWriteExt::write_all(&mut writer, &all)
                    .await
                    .map(|()| writer)
            });
            let mut got = Vec::new();
            for case in &cases {
                loop {
                    let start = Start::Answer {
                        head: case.method == "HEAD",
                    };
                    if let Some((answer, length)) = Message::read(&got, start).unwrap() {
                        assert!(answer.line.starts_with("HTTP/1.1 200"), "{}", case.name);
                        got.drain(..length);
                        break;
                    }
                    let read = tokio::time::timeout(PATIENCE, reader.read_buf(&mut got)).await;
                    let read = read.expect("no answer came").unwrap();
                    assert!(read > 0, "the connection ended at {}", case.name);
                }
            }
            sending.await.unwrap().unwrap();
        } else {
            for (wire, case) in wires.iter().zip(&cases) {
                connection.send(wire).await;
                let answer = answer(&mut connection, case.method == "HEAD").await;
                assert!(
                    answer.whole && answer.last.line.starts_with("HTTP/1.1 200"),
                    "{}",
                    case.name
                );
            }
        }
        let requests = both.pod.requests();
        assert_eq!(requests.len(), cases.len(), "{at_once}");
        for (got, case) in requests.iter().zip(&cases) {
            let got = request(got);
            assert!(
                got.line.starts_with(&format!("{} /a ", case.method)),
                "{}",
                got.line
            );
            let body = match &case.body {
                Body::None => Vec::new(),
                Body::Length(body) => body.clone(),
                Body::Chunks(chunks, _) => chunks.concat().into_bytes(),
            };
            assert_eq!(got.body, body, "{}", case.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_and_without_the_edge_over_http2() {
    let both = both(&["--h2c"]).await;
    let stream = tokio::net::TcpStream::connect(both.stage.address)
        .await
        .unwrap();
    let (mut client, connection) = hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(
        TokioExecutor::new(),
        TokioIo::new(stream),
    )
    .await
    .unwrap();
    tokio::spawn(connection);
    let mut seen = Seen::default();
    let mut sent = 0;
    for (number, case) in cases::all().iter().enumerate() {
        let cut = case.script.close && case.name.starts_with("cut");
        if !case.h2 || cut {
            continue;
        }
        both.pod.answers(&number.to_string(), case.script.clone());
        let wire = case.wire(number, &both.first);
        let head = case.method == "HEAD";
        let without = ask(both.pod.address, &wire, head).await;
        let plain = both.one(&case.name);
        let Some(request) = http2(&plain, case) else {
            continue;
        };
        sent += 1;
        let response = tokio::time::timeout(PATIENCE, client.send_request(request)).await;
        let response = response.expect("no answer came");
        let response = response.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap();
        let got = both.one(&case.name);
        let mut found: BTreeSet<String> = of_requests(&plain, &got);
        let mut last = Message {
            line: format!("HTTP/1.1 {}", head.status.as_u16()),
            body: body.to_bytes().to_vec(),
            ..Message::default()
        };
        for (name, value) in &head.headers {
            let value: String = value
                .as_bytes()
                .iter()
                .map(|byte| char::from(*byte))
                .collect();
            last.lines.push(format!("{name}: {value}"));
        }
        // HTTP/2 has no reasons, and frames what it carries itself.
        let mut before = without.last.clone();
        before.line = before.line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        before.line = before.line.replace("HTTP/1.0", "HTTP/1.1");
        before.chunks = None;
        before.until_end = false;
        let answered = Answer {
            before: Vec::new(),
            last,
            whole: true,
        };
        let without = Answer {
            last: before,
            ..without
        };
        found.extend(of_answers(&without, &answered, case));
        seen.add(case, found);
    }
    println!("{sent} requests over HTTP/2, {} differences", seen.0.len());
    assert!(sent >= 200, "{sent}");
    // What HTTP/1 shows too is named there.
    let known: BTreeSet<&str> = CHANGES
        .iter()
        .flat_map(|(_, all)| all.iter().copied())
        .collect();
    let own = seen.0.into_iter();
    let own = own.filter(|(one, _)| !known.contains(one.as_str()));
    Seen(own.map(|(one, case)| (format!("2{one}"), case)).collect())
        .check(|change| change.starts_with('2'));
}

/// The request as HTTP/2 has it; `None`: it cannot say that.
fn http2(plain: &Message, case: &Case) -> Option<http::Request<Full<Bytes>>> {
    let target = std::str::from_utf8(&case.target).ok()?;
    let mut request = http::Request::builder()
        .method(case.method)
        .uri(format!("http://dev.{CONSOLE}{target}"));
    for (name, value) in plain.headers() {
        let framing = ["content-length", "transfer-encoding", "host"];
        if !framing.iter().any(|one| name.eq_ignore_ascii_case(one)) {
            request = request.header(name, latin(value));
        }
    }
    request.body(Full::from(plain.body.clone())).ok()
}
