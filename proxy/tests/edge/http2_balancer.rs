//! HTTP/2 from a balancer, whose connections many clients share: what one of them does ends it for nobody
//! else, and what one workspace leaves lying stops no other.

use crate::eventually;
use crate::frames::*;
use crate::proxy::Stage;

const TRUSTED: &str = "--trusted-proxies=127.0.0.0/8";
/// Bytes of one upload that are kept, unless it is said otherwise.
const WINDOW: usize = 256 * 1024;
/// Largest frame that is taken.
const FRAME: usize = 16 * 1024;

/// A request of alice's browser inside that workspace; the number of its stream.
async fn asks(stage: &Stage, client: &mut Http2, method: &str, id: &str, path: &str) -> u32 {
    let (host, cookie) = stage.alice(id);
    let fields: [(&[u8], &[u8]); 6] = [
        (b":method", method.as_bytes()),
        (b":scheme", b"http"),
        (b":path", path.as_bytes()),
        (b":authority", host.as_bytes()),
        (b"cookie", cookie.as_bytes()),
        (b"sec-fetch-site", b"same-origin"),
    ];
    let flags = if method == "GET" { END_STREAM } else { 0 };
    client.request(&fields, flags).await
}

/// Waits until all that was sent has been seen; whether the connection goes on.
async fn goes_on(client: &mut Http2) -> bool {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let word = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let word = word.to_be_bytes();
    client.send(&frame(PING, 0, 0, &word)).await;
    loop {
        match client.read().await {
            Some(frame) if frame.kind == PING && frame.payload == word => return true,
            Some(_) => {}
            None => return false,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_nobody_reads_stop_no_other() {
    let stage = Stage::with(&["--h2c", TRUSTED, "--hold-timeout=300"]).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    // Its pod is there, and not ready: what waits for it is not read.
    let (_app, _) = stage.starting("never", "never").await;
    let mut client = Http2::open(stage.address).await;
    let piece = vec![b'x'; FRAME];
    for _ in 0..20 {
        let upload = asks(&stage, &mut client, "POST", "never", "/").await;
        for _ in 0..WINDOW / FRAME {
            client.send(&frame(DATA, 0, upload, &piece)).await;
        }
    }
    let other = asks(&stage, &mut client, "POST", "dev", "/").await;
    client.send(&frame(DATA, END_STREAM, other, &piece)).await;
    assert_eq!(client.fate(other).await, Fate::Answered(200));
    // All of them, and it, would have been within the window.
    let mut granted = client.seen.iter();
    let granted = granted.find(|frame| frame.kind == WINDOW_UPDATE && frame.stream == 0);
    let granted = u32::from_be_bytes(*granted.unwrap().payload.first_chunk().unwrap());
    assert_eq!(granted as usize + 65_535, 100 * WINDOW);
    let held = stage.metric("held_requests").await;
    assert_eq!(held, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_its_clients_call_off_does_not_end_it() {
    let stage = Stage::with(&["--h2c", TRUSTED, "--h2-max-resets=10"]).await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let mut client = Http2::open(stage.address).await;
    // At once, before they were looked at, and one by one.
    for at_once in [50, 1, 1, 1, 1, 1] {
        let mut both = Vec::new();
        for _ in 0..at_once {
            let stream = client.stream();
            let (host, cookie) = stage.alice("dev");
            let head = block(&[
                (b":method", b"GET"),
                (b":scheme", b"http"),
                (b":path", b"/slow"),
                (b":authority", host.as_bytes()),
                (b"cookie", cookie.as_bytes()),
                (b"sec-fetch-site", b"same-origin"),
            ]);
            both.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &head));
            both.extend(frame(RESET, 0, stream, &[0, 0, 0, 8]));
        }
        client.send(&both).await;
        assert!(goes_on(&mut client).await, "{at_once} at once");
    }
    for n in 0..50 {
        let before = app.requests();
        let stream = asks(&stage, &mut client, "GET", "dev", "/slow").await;
        eventually("the request", || async { app.requests() > before }).await;
        client.send(&frame(RESET, 0, stream, &[0, 0, 0, 8])).await;
        assert!(goes_on(&mut client).await, "{n} called off");
    }
    // What is wrong with one stream alone, and requests that are none.
    for n in 0..50 {
        let stream = asks(&stage, &mut client, "GET", "dev", "/slow").await;
        let most = i32::MAX.to_be_bytes();
        client.send(&frame(WINDOW_UPDATE, 0, stream, &most)).await;
        let fate = client.fate(stream).await;
        assert!(matches!(fate, Fate::Reset(_)), "{n}: {fate:?}");
    }
    for n in 0..50 {
        let stream = client
            .request(
                &[
                    (b":method", b"GET"),
                    (b":scheme", b"http"),
                    (b":path", b"/"),
                    (b":authority", b"a"),
                    (b"host", b"b"),
                ],
                END_STREAM,
            )
            .await;
        let fate = client.fate(stream).await;
        assert!(
            !matches!(fate, Fate::Gone(_) | Fate::Broken),
            "{n}: {fate:?}"
        );
    }
    let asked = asks(&stage, &mut client, "GET", "dev", "/").await;
    assert_eq!(client.fate(asked).await, Fate::Answered(200));
    eventually("the end of all requests", || async {
        stage.metric("open_requests").await == 0
    })
    .await;
}
