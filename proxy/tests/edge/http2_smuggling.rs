//! What a client may try to slip past the edge over HTTP/2, towards a pod that speaks HTTP/1.1: that
//! pod keeps every byte, and gets what the edge meant and nothing else.

mod cases;

use crate::cluster::Spec;
use crate::eventually;
use crate::frames::*;
use crate::proxy::{CONSOLE, Stage};
use crate::recorder::{Recorded, Recorder};
use cases::Expected::{Cut, Malformed, Nothing, Passed};
use cases::{Base, Part, cases};

/// Whether what came to the pod is the request that was meant, and no more.
fn is_meant(came: &[Recorded], line: &str, body: &[u8], host: &str) -> bool {
    let [request] = came else { return false };
    let framing = (
        request.all("content-length").len(),
        request.all("transfer-encoding"),
    );
    request.line == line
        && request.body == body
        && request.all("host") == [host]
        && request.all("x-user-sub") == ["alice"]
        && request.all("x-user-roles").len() == 1
        && request.all("x-user_sub").is_empty()
        && request.all("x-forwarded-user").is_empty()
        && request
            .all("forwarded")
            .iter()
            .all(|value| !value.contains("root"))
        && [
            "connection",
            "upgrade",
            "te",
            "trailer",
            "http2-settings",
            "keep-alive",
        ]
        .iter()
        .all(|name| request.all(name).iter().all(|value| *value == "keep-alive"))
        && matches!(
            (framing.0, framing.1.as_slice()),
            (0 | 1, []) | (0, ["chunked"])
        )
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_comes_to_a_pod_that_the_edge_did_not_mean() {
    let stage = Stage::with(&["--h2c"]).await;
    let pod = Recorder::start().await;
    stage.run(&Spec::new("dev", "dev", 1, pod.address)).await;
    let host = format!("dev.{CONSOLE}");
    let base = Base {
        cookie: stage.cookie_on("alice", &host),
        host: host.clone(),
    };
    let mut wrong = Vec::new();
    let cases = cases(&base);
    println!("{} cases", cases.len());
    for case in cases {
        let mut client = Http2::open(stage.address).await;
        let fields: Vec<(&[u8], &[u8])> = case
            .fields
            .iter()
            .map(|(name, value)| (name.as_slice(), value.as_slice()))
            .collect();
        let last = if case.body.is_empty() { END_STREAM } else { 0 };
        let stream = client.request(&fields, last).await;
        let parts = case.body.len();
        for (n, part) in case.body.into_iter().enumerate() {
            let last = if n + 1 == parts { END_STREAM } else { 0 };
            let bytes = match part {
                Part::Data(data) => frame(DATA, last, stream, data),
                Part::Trailers(trailers) => {
                    frame(HEADERS, last | END_HEADERS, stream, &block(&trailers))
                }
            };
            client.send(&bytes).await;
        }
        let fate = client.fate(stream).await;
        drop(client);
        // What was left on a connection to the pod would be in front of this.
        let after = stage.get("dev", "/after").await.status;
        let mut came = pod.take();
        if let Cut(_) = case.expected {
            // It is known once its connection has ended.
            eventually("the end of what was cut", || {
                came.extend(pod.take());
                let known = came.iter().any(|request| request.is_part);
                async move { known }
            })
            .await;
        }
        let last = came
            .iter()
            .position(|request| request.line == "GET /after HTTP/1.1");
        let last = last.map(|at| came.remove(at).line);
        let protocol = |fate: &Fate| {
            matches!(
                fate,
                Fate::Reset(PROTOCOL_ERROR) | Fate::Gone(PROTOCOL_ERROR)
            )
        };
        let good = after == 200
            && last.is_some()
            && match &case.expected {
                Nothing(status) => came.is_empty() && fate == Fate::Answered(*status),
                Malformed => came.is_empty() && protocol(&fate),
                Cut(line) => {
                    protocol(&fate)
                        && came.len() == 1
                        && came.iter().all(|cut| cut.is_part && cut.line == *line)
                }
                Passed(line, body) => {
                    fate == Fate::Answered(200) && is_meant(&came, line, body, &host)
                }
            };
        if !good {
            wrong.push(format!(
                "{}: {:?}\n  expected {:?}\n  got {fate:?}, after {after} {last:?}\n  at the pod: {came:?}",
                case.name,
                fields
                    .iter()
                    .filter(|(name, _)| *name != b"cookie" && *name != b"sec-fetch-site")
                    .map(|(name, value)| format!("{}={}", name.escape_ascii(), value.escape_ascii()))
                    .collect::<Vec<_>>(),
                case.expected,
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
