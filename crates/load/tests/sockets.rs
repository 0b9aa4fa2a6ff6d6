//! Echo and shell clients against servers that drop, repeat, swap and cut.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, too, fail by panicking"
)]

#[path = "sockets/server.rs"]
mod server;

use std::time::Duration;

use nogoo9_load::{
    Close, ClosedBy, EchoClient, OpenSocket, Phases, ShellClient, SocketError, SocketOptions,
    SocketTotals,
};
use server::{Fault, Server};

const LONG: Duration = Duration::from_secs(60);
/// How long a line that never comes is waited for: every other one is back long before.
const LOST_AFTER: Duration = Duration::from_secs(3);

fn options(server: &Server) -> SocketOptions {
    SocketOptions::new(&server.url())
        .unwrap()
        .pod_header("x-pod")
        .rate(500.0)
        .unwrap()
}

async fn echo(server: &Server) -> OpenSocket {
    EchoClient::open(options(server), &Phases::new("all"))
        .await
        .unwrap()
}

#[tokio::test]
async fn everything_typed_comes_back_in_order() {
    let server = Server::echo(Fault::None).await;
    let socket = echo(&server).await;
    assert_eq!(socket.pod().as_deref(), Some("pod-a"));
    socket.wait_echoed(100, LONG).await.unwrap();
    assert!(socket.is_open());
    let report = socket.finish().await;
    assert!(
        report.sent >= 100 && report.echoed == report.sent,
        "{report:?}"
    );
    assert!(report.intact() && report.kept(), "{report:?}");
    assert_eq!(
        report.close,
        Some(Close {
            by: ClosedBy::Client,
            code: 1000,
            reason: "done".into()
        })
    );
    assert_eq!(
        (report.error.as_deref(), report.round_trip.count),
        (None, report.sent)
    );
    assert!(report.closed_us.unwrap() > report.opened_us && report.longest_gap_us > 0);
    server.wait_ended(1).await;
    assert_eq!(server.closes(), [Some((1000, "done".to_owned()))]);

    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(
        serde_json::from_str::<nogoo9_load::EchoReport>(&json).unwrap(),
        report
    );
}

#[tokio::test]
async fn a_dropped_line_is_lost() {
    let server = Server::echo(Fault::Drop(7)).await;
    let options = options(&server).timeouts(LONG, LOST_AFTER, LONG);
    let socket = EchoClient::open(options, &Phases::new("all"))
        .await
        .unwrap();
    socket.wait_echoed(20, LONG).await.unwrap();
    let report = socket.finish().await;
    assert_eq!(
        (
            report.lost,
            report.reordered,
            report.duplicated,
            report.foreign
        ),
        (1, 0, 0, 0)
    );
    assert!(
        report.ending().contains("did not come back"),
        "{}",
        report.ending()
    );
    assert!(!report.intact() && !report.kept());
}

#[tokio::test]
async fn repeated_swapped_and_foreign_lines_are_told_apart() {
    let cases = [
        (Fault::Repeat(7), (0, 0, 1, 0)),
        (Fault::SwapWithNext(7), (0, 1, 0, 0)),
        (Fault::Replace(7, "someone else's line"), (1, 0, 0, 1)),
    ];
    for (fault, counts) in cases {
        let server = Server::echo(fault).await;
        let options = options(&server).timeouts(LONG, LOST_AFTER, LONG);
        let socket = EchoClient::open(options, &Phases::new("all"))
            .await
            .unwrap();
        socket.wait_echoed(20, LONG).await.unwrap();
        let report = socket.finish().await;
        assert_eq!(
            (
                report.lost,
                report.reordered,
                report.duplicated,
                report.foreign
            ),
            counts,
            "{fault:?}"
        );
        assert!(!report.intact(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_close_by_the_server_keeps_its_code_and_reason() {
    let server = Server::echo(Fault::CloseAfter(10, 1012, "moving")).await;
    let socket = echo(&server).await;
    socket.wait_closed(LONG).await.unwrap();
    assert!(!socket.is_open());
    let report = socket.finish().await;
    assert_eq!(
        report.close,
        Some(Close {
            by: ClosedBy::Server,
            code: 1012,
            reason: "moving".into()
        })
    );
    assert_eq!(report.echoed, 10);
    assert!(!report.kept());
    assert_eq!(
        report.ending(),
        r#"closed by the server with 1012 "moving""#
    );
}

#[tokio::test]
async fn a_cut_is_an_error_and_no_close() {
    let server = Server::echo(Fault::CutAfter(10)).await;
    let socket = echo(&server).await;
    let error = socket.wait_echoed(11, LONG).await.unwrap_err();
    assert!(error.to_string().contains("10 of"), "{error}");
    let report = socket.finish().await;
    assert_eq!((report.close, report.echoed), (None, 10));
    assert!(report.error.is_some());
}

#[tokio::test]
async fn a_refused_handshake_shows_its_status() {
    let server =
        Server::refusing("HTTP/1.1 403 Forbidden\r\ncontent-length: 8\r\n\r\nnot here").await;
    let error = EchoClient::open(options(&server), &Phases::new("all"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, SocketError::Refused { status: 403, .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("status 403"), "{error}");

    let server = Server::refusing("").await;
    let error = EchoClient::open(options(&server), &Phases::new("all"))
        .await
        .unwrap_err();
    assert!(matches!(&error, SocketError::Handshake { .. }), "{error:?}");
}

#[tokio::test]
async fn a_handshake_that_never_ends_has_a_deadline() {
    let server = Server::silent().await;
    let options = options(&server).timeouts(Duration::from_millis(100), LONG, LONG);
    let error = EchoClient::open(options, &Phases::new("all"))
        .await
        .unwrap_err();
    assert!(matches!(&error, SocketError::Timeout { .. }), "{error:?}");
}

#[tokio::test]
async fn dropping_a_socket_cuts_it() {
    let server = Server::echo(Fault::None).await;
    let socket = echo(&server).await;
    socket.wait_echoed(1, LONG).await.unwrap();
    drop(socket);
    server.wait_ended(1).await;
    assert_eq!(server.closes(), [None]);
}

/// A real shell in a real terminal.
#[tokio::test]
async fn a_shell_answers_what_is_typed() {
    for program in ["/bin/bash", "/bin/sh"] {
        let server = Server::shell(program, "ws-alice-demo-up-x7k2p").await;
        let options = SocketOptions::new(&server.url())
            .unwrap()
            .rate(100.0)
            .unwrap();
        let socket = ShellClient::open(options, 60, 20, &Phases::new("all"))
            .await
            .unwrap();
        assert_eq!(
            socket.wait_pod(LONG).await.unwrap(),
            "ws-alice-demo-up-x7k2p",
            "{program}"
        );
        socket.wait_echoed(50, LONG).await.unwrap();
        let report = socket.finish().await;
        assert!(report.kept(), "{program}: {report:?}");
        assert_eq!(
            (report.kind.as_str(), report.echoed),
            ("shell", report.sent)
        );
        assert_eq!(server.controls(), [r#"{"resize":{"cols":60,"rows":20}}"#]);
    }
}

#[tokio::test]
async fn totals_over_many() {
    let server = Server::echo(Fault::CloseAfter(5, 1001, "")).await;
    let (cut, kept) = (echo(&server).await, Server::echo(Fault::None).await);
    let kept = echo(&kept).await;
    cut.wait_closed(LONG).await.unwrap();
    kept.wait_echoed(5, LONG).await.unwrap();
    let reports = [cut.finish().await, kept.finish().await];
    let totals: SocketTotals = reports.iter().collect();
    assert_eq!((totals.opened, totals.kept), (2, 1));
    assert_eq!(totals.sent, reports[0].sent + reports[1].sent);
    assert_eq!(totals.lost, reports[0].lost);
}
