//! The HTTP load against a server that misbehaves on demand. The server speaks HTTP by
//! hand, so that each fault happens at exactly the byte where it should.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, too, fail by panicking"
)]

#[path = "http/server.rs"]
mod server;

use std::time::Duration;

use http::{Method, StatusCode};
use nogoo9_load::{Answer, FailureKind, HttpLoad, HttpReport, LoadError, Phases};
use server::Server;
use tokio_util::sync::CancellationToken;

const LONG: Duration = Duration::from_secs(60);

fn load(server: &Server, path: &str) -> HttpLoad {
    HttpLoad::new(&server.url(path)).unwrap().connections(4)
}

async fn run(load: HttpLoad) -> HttpReport {
    let (phases, cancel) = (Phases::new("all"), CancellationToken::new());
    let run = load.run(&phases, &cancel);
    tokio::time::timeout(LONG, run)
        .await
        .expect("the run ends by itself")
        .unwrap()
}

fn kinds(report: &HttpReport) -> Vec<(FailureKind, u64)> {
    report
        .failures_by_kind
        .iter()
        .map(|(kind, count)| (*kind, *count))
        .collect()
}

#[tokio::test]
async fn every_request_is_counted_once_and_connections_are_reused() {
    let server = Server::start().await;
    let report = run(load(&server, "/ok?x=1").stop_after(500)).await;
    assert_eq!(
        (report.requests, report.failures, report.latency.count),
        (500, 0, 500)
    );
    assert_eq!((report.connections_opened, report.stale_retries), (4, 0));
    assert_eq!(server.requests(), 500);
    assert_eq!(report.body_bytes, 500 * server::BODY.len() as u64);
    assert_eq!(report.phases.len(), 1);
    assert!(report.latency.max_us >= report.latency.p50_us && report.latency.p50_us > 0);
}

#[tokio::test]
async fn open_loop_keeps_its_rate() {
    let server = Server::start().await;
    let report = run(load(&server, "/ok").rate(2000.0).unwrap().stop_after(400)).await;
    assert_eq!((report.requests, report.failures), (400, 0));
    // The last of 400 is due 199.5 ms after the start, however fast the answers come.
    let took = report.ended_us - report.started_us;
    assert!(took >= 199_500, "{took} µs");
}

/// One connection, 20 requests due within 20 ms, one answer that takes 200 ms: a closed
/// loop would see one slow request, users see nearly all of them wait.
#[tokio::test]
async fn waiting_behind_a_slow_answer_counts_as_latency() {
    let server = Server::start().await;
    let load = load(&server, "/slow-first?ms=200")
        .connections(1)
        .rate(1000.0)
        .unwrap()
        .stop_after(20);
    let report = run(load).await;
    assert_eq!((report.requests, report.failures), (20, 0));
    assert!(report.latency.p50_us >= 150_000, "{:?}", report.latency);
    assert!(
        report.latency.min_us >= 150_000,
        "even the last one waited: {:?}",
        report.latency
    );
    assert!(report.max_lag_us >= 150_000);
}

/// Two loads of one run: the one that has to wait takes nothing from the other, and both are in
/// one report.
#[tokio::test]
async fn loads_of_one_run_keep_their_own_pace() {
    let (stuck, quick) = (Server::start().await, Server::start().await);
    let waits = load(&stuck, "/stuck-body")
        .connections(1)
        .rate(1000.0)
        .unwrap();
    let flows = load(&quick, "/ok").rate(500.0).unwrap().stop_after(100);
    let run = HttpLoad::start_all([waits, flows], &Phases::new("all")).unwrap();
    run.wait_for_requests(100, LONG).await.unwrap();
    stuck.wait_open(1).await;
    let report = run.snapshot();
    assert_eq!((report.requests, report.failures), (100, 0));
    assert_eq!(quick.requests(), 100);
    assert!(stuck.requests() <= 1, "its one connection is taken");
    assert_eq!(report.slices.iter().map(|s| s.requests).sum::<u64>(), 100);
}

#[tokio::test]
async fn faults_are_told_apart() {
    let server = Server::start().await;
    let cases = [
        ("/status?code=503", FailureKind::Status, "status 503"),
        ("/reset-head", FailureKind::ResetBeforeHead, ""),
        ("/half-head", FailureKind::ResetBeforeHead, ""),
        (
            "/reset-body",
            FailureKind::ResetInBody,
            "in the body of a 200 OK",
        ),
        (
            "/short-body",
            FailureKind::ResetInBody,
            "in the body of a 200 OK",
        ),
        (
            "/slow-first?ms=5000",
            FailureKind::Timeout,
            "no head of an answer",
        ),
        (
            "/stuck-body",
            FailureKind::Timeout,
            "body of a 200 OK incomplete",
        ),
        ("/garbage", FailureKind::Protocol, ""),
        ("/ok", FailureKind::Content, "no pod named"),
    ];
    for (path, kind, detail) in cases {
        let mut load = load(&server, path).connections(1).stop_after(1);
        if kind == FailureKind::Timeout {
            // What never comes is given up in any case; what does come must be here by then.
            load = load.timeouts(LONG, Duration::from_secs(2));
        }
        if kind == FailureKind::Content {
            load = load.check(|_| Err("no pod named".to_owned()));
        }
        let report = run(load).await;
        assert_eq!(kinds(&report), [(kind, 1)], "{path}: {:?}", report.samples);
        assert_eq!(
            (report.requests, report.failures, report.stale_retries),
            (1, 1, 0),
            "{path}"
        );
        assert_eq!(
            report.latency.count, 0,
            "failures have no place in the histogram"
        );
        let sample = &report.samples[0];
        assert_eq!(
            (sample.kind, sample.sequence, sample.reused),
            (kind, 1, false),
            "{path}"
        );
        assert!(
            sample.detail.contains(detail) && !sample.detail.is_empty(),
            "{path}: {}",
            sample.detail
        );
    }
}

#[tokio::test]
async fn nobody_listening_is_a_connect_error() {
    // Bound, so that nobody else gets the port, and never listening.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let url = url::Url::parse(&format!("http://demo.localhost:{port}/")).unwrap();
    let report = run(HttpLoad::new(&url)
        .unwrap()
        .connections(2)
        .failure_samples(3)
        .stop_after(5))
    .await;
    assert_eq!(kinds(&report), [(FailureKind::Connect, 5)]);
    assert_eq!(
        (
            report.samples.len(),
            report.samples_omitted,
            report.connections_opened
        ),
        (3, 2, 0)
    );
    assert!(
        report.samples[0]
            .detail
            .contains(&format!("demo.localhost:{port}"))
    );
}

/// The server answers and then closes without saying so, as servers do with idle
/// connections. A client that notices before it sends just opens another; one that is
/// late retries. Either way nothing fails and each request reaches the server once.
#[tokio::test]
async fn closing_idle_connections_costs_no_request() {
    let server = Server::start().await;
    let load = load(&server, "/then-close")
        .connections(1)
        .rate(50.0)
        .unwrap()
        .stale_window(LONG)
        .stop_after(6);
    let report = run(load).await;
    assert_eq!((report.requests, report.failures), (6, 0));
    assert_eq!(
        (
            report.connections_opened,
            server.connections(),
            server.requests()
        ),
        (6, 6, 6)
    );
}

/// The server takes the second request of each connection and closes without an answer:
/// to a client that is a keep-alive race, retried once if idempotent. However slow the machine, it
/// is no more than that here.
#[tokio::test]
async fn a_stale_connection_is_retried_once_and_counted() {
    let server = Server::start().await;
    let report = run(load(&server, "/close-on-second")
        .connections(1)
        .stale_window(LONG)
        .stop_after(4))
    .await;
    assert_eq!((report.requests, report.failures), (4, 0));
    // 1 fresh; 2 stale, retried fresh; 3 stale, …
    assert_eq!(
        (
            report.stale_retries,
            report.stale_unsent,
            report.connections_opened
        ),
        (3, 0, 4)
    );
    assert_eq!(server.requests(), 7, "each retry reached the server again");

    let server = Server::start().await;
    let post = load(&server, "/close-on-second")
        .connections(1)
        .request(Method::POST, "x".into());
    let report = run(post.stop_after(4)).await;
    assert_eq!(
        kinds(&report),
        [(FailureKind::ResetBeforeHead, 2)],
        "a POST is never sent twice"
    );
    assert_eq!((report.stale_retries, server.requests()), (0, 4));
    assert!(report.samples.iter().all(|sample| sample.reused));
}

/// The same, but the server sits on the request first. That is no race: it had the
/// request and dropped it, as a proxy does that loses its upstream. Never hidden.
#[tokio::test]
async fn a_request_dropped_late_on_a_reused_connection_is_a_failure() {
    let server = Server::start().await;
    let load = load(&server, "/close-on-second?ms=150").connections(1);
    let report = run(load.stale_window(Duration::from_millis(20)).stop_after(2)).await;
    assert_eq!(kinds(&report), [(FailureKind::ResetBeforeHead, 1)]);
    assert_eq!(report.stale_retries, 0);
}

#[tokio::test]
async fn phases_and_labels_show_where_requests_went() {
    let server = Server::start().await;
    let phases = Phases::new("before");
    let load = load(&server, "/pod")
        .header("Authorization", "Bearer x")
        .unwrap()
        .label(|answer: &Answer| Some(answer.headers.get("x-pod")?.to_str().ok()?.to_owned()));
    let run = load.start(&phases).unwrap();
    run.wait_for_requests(50, LONG).await.unwrap();
    phases.enter("during");
    // Only requests sent after this line are certain to meet the new pod.
    server.set_pod("pod-b");
    let switched = u64::try_from(phases.mark("switched").as_micros()).unwrap();
    run.wait_until("an answer of pod-b", LONG, |run| {
        run.snapshot().label("pod-b").is_some()
    })
    .await
    .unwrap();
    phases.enter("after");
    let so_far = run.requests();
    run.wait_for_requests(so_far + 50, LONG).await.unwrap();
    let report = run.finish().await;

    assert_eq!(report.failures, 0);
    assert_eq!(
        report.requests,
        server.requests(),
        "what was under way is finished and counted"
    );
    let (a, b) = (
        report.label("pod-a").unwrap(),
        report.label("pod-b").unwrap(),
    );
    assert!(
        a.last_sent_us <= switched,
        "no request sent after the switch went to the old pod"
    );
    assert_eq!(report.marked_us("switched"), Some(switched));
    assert!(b.first_sequence > 50 && b.last_sequence >= a.last_sequence);
    assert_eq!(a.answers + b.answers, report.requests);
    assert_eq!(
        report
            .phases
            .iter()
            .map(|p| p.phase.as_str())
            .collect::<Vec<_>>(),
        ["before", "during", "after"]
    );
    assert_eq!(
        report.phases.iter().map(|p| p.requests).sum::<u64>(),
        report.requests
    );
    assert!(
        report.phase("before").unwrap().requests >= 46,
        "at most four were in flight"
    );
    let table = report.table().to_string();
    assert_eq!(table.lines().count(), 2 + 3 + 1, "{table}");
}

#[tokio::test]
async fn dropping_a_run_ends_its_connections() {
    let server = Server::start().await;
    let run = load(&server, "/ok").start(&Phases::new("all")).unwrap();
    run.wait_for_requests(10, LONG).await.unwrap();
    server.wait_open(4).await;
    drop(run);
    server.wait_open(0).await;
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_before_anything_is_sent() {
    let server = Server::start().await;
    let phases = Phases::new("all");
    let none = load(&server, "/")
        .connections(0)
        .start(&phases)
        .unwrap_err();
    assert!(matches!(
        none,
        LoadError::Connections { connections: 0, .. }
    ));
    let secret = load(&server, "/")
        .header("Authorization", "Bearer s3cret\n")
        .unwrap_err();
    assert!(matches!(&secret, LoadError::Header { name } if name == "Authorization"));
    assert!(!secret.to_string().contains("s3cret"));
    let debug = format!(
        "{:?}",
        load(&server, "/")
            .header("Authorization", "Bearer s3cret")
            .unwrap()
    );
    assert!(!debug.contains("s3cret"), "{debug}");
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn another_status_may_be_the_expected_one() {
    let server = Server::start().await;
    let load = load(&server, "/status?code=404").expect_status(StatusCode::NOT_FOUND);
    let report = run(load.stop_after(8)).await;
    assert_eq!((report.requests, report.failures), (8, 0));
}
