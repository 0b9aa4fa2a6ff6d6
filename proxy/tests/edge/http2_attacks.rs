//! Clients that use HTTP/2 to make work: their connection ends, others are served, and memory stays in
//! its bound.

use crate::cluster::Spec;
use crate::eventually;
use crate::frames::*;
use crate::memory::resident;
use crate::proxy::{CONSOLE, Stage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Makes a frame for a stream that should not have come.
type WrongFrame<'a> = &'a dyn Fn(u32) -> Vec<u8>;

const MIB: u64 = 1024 * 1024;

/// Connections that ended so.
async fn ended(stage: &Stage, how: &str) -> u64 {
    let prefix = format!("nogoo9_proxy_http2_connections_total{{end=\"{how}\"}} ");
    let metrics = stage.metrics().await;
    let line = metrics.lines().find_map(|line| line.strip_prefix(&prefix));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Fields of a request that alice's browser makes inside her workspace.
struct Browser {
    host: String,
    cookie: String,
}

impl Browser {
    fn of(stage: &Stage) -> Self {
        let (host, cookie) = stage.alice("dev");
        Self { host, cookie }
    }

    fn fields<'a>(&'a self, method: &'a str, path: &'a str) -> Vec<(&'a [u8], &'a [u8])> {
        vec![
            (b":method", method.as_bytes()),
            (b":scheme", b"http"),
            (b":path", path.as_bytes()),
            (b":authority", self.host.as_bytes()),
            (b"cookie", self.cookie.as_bytes()),
            (b"sec-fetch-site", b"same-origin"),
        ]
    }
}

/// Everybody else is served as ever.
async fn others_are_served(stage: &Stage) {
    assert_eq!(stage.get("dev", "/").await.status, 200);
    let browser = Browser::of(stage);
    let mut client = Http2::open(stage.address).await;
    let asked = client
        .request(&browser.fields("GET", "/"), END_STREAM)
        .await;
    assert_eq!(client.fate(asked).await, Fate::Answered(200));
}

/// Sends pieces until the connection is gone, and says with what code.
async fn until_gone(
    client: &mut Http2,
    most: usize,
    mut piece: impl FnMut(usize) -> Vec<u8>,
) -> u32 {
    for n in 0..most {
        if !client.send(&piece(n)).await {
            break;
        }
    }
    client.end().await.expect("no GOAWAY came")
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_end_the_connection_that_they_come_over() {
    let stage = Stage::with(&["--h2c", "--h2-max-resets=100"]).await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let browser = Browser::of(&stage);
    let before = resident(&stage);

    // Frames that carry nothing: more than ten seconds' worth at once.
    let floods: [(&str, Vec<u8>); 5] = [
        ("PING", frame(PING, 0, 0, &[0; 8])),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("PRIORITY", frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 0])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("unknown", frame(0xee, 0, 0, &[0; 16])),
    ];
    for (name, flood) in floods {
        let count = ended(&stage, "Control").await;
        let mut client = Http2::open(stage.address).await;
        let code = until_gone(&mut client, 120, |_| flood.repeat(100)).await;
        assert_eq!(code, ENHANCE_YOUR_CALM, "{name}");
        assert_eq!(ended(&stage, "Control").await, count + 1, "{name}");
        others_are_served(&stage).await;
    }

    // A header block without an end.
    let mut client = Http2::open(stage.address).await;
    let stream = client.stream();
    let code = until_gone(&mut client, 10_000, |n| {
        let kind = if n == 0 { HEADERS } else { CONTINUATION };
        frame(kind, 0, stream, &block(&[(b"x-a", b"b")]))
    });
    assert_eq!(code.await, ENHANCE_YOUR_CALM);
    others_are_served(&stage).await;

    // Data without data.
    let mut client = Http2::open(stage.address).await;
    let stream = client.request(&browser.fields("POST", "/slow"), 0).await;
    let code = until_gone(&mut client, 10_000, |_| frame(DATA, 0, stream, &[])).await;
    assert_eq!(code, ENHANCE_YOUR_CALM);
    others_are_served(&stage).await;

    // A few bytes that stand for very many: one field, repeated by its index.
    let mut client = Http2::open(stage.address).await;
    let stream = client.stream();
    let mut bomb = block(&browser.fields("GET", "/"));
    bomb.extend([0x40, 3]);
    bomb.extend(b"x-a");
    bomb.extend([127, 0xa1, 0x1e]); // 127 + 33 + 30 * 128 = 4000
    bomb.extend([b'b'; 4000]);
    bomb.extend([0xbe; 10_000]); // index 62, of the dynamic table
    client
        .send(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &bomb))
        .await;
    let fate = client.fate(stream).await;
    assert!(
        matches!(fate, Fate::Gone(ENHANCE_YOUR_CALM) | Fate::Answered(431)),
        "{fate:?}"
    );
    others_are_served(&stage).await;

    // Requests that are called off at once.
    let (asked, calm) = (app.requests(), ended(&stage, "Calm").await);
    let mut client = Http2::open(stage.address).await;
    let head = block(&browser.fields("GET", "/slow"));
    let rapid = |client: &mut Http2, count: usize| -> Vec<u8> {
        let both = (0..count).flat_map(|_| {
            let stream = client.stream();
            let begin = frame(HEADERS, END_STREAM | END_HEADERS, stream, &head);
            [begin, frame(RESET, 0, stream, &[0, 0, 0, 8])].concat()
        });
        both.collect()
    };
    let burst = rapid(&mut client, 1000);
    client.send(&burst).await;
    assert_eq!(client.end().await, Some(ENHANCE_YOUR_CALM));
    let at_once = ended(&stage, "Calm").await - calm + ended(&stage, "Resets").await;
    assert_eq!(at_once, 1);
    others_are_served(&stage).await;

    // And so slowly that each comes to the pod.
    let resets = ended(&stage, "Resets").await;
    let mut client = Http2::open(stage.address).await;
    let mut rounds = 0;
    loop {
        let before = app.requests();
        let mut streams = Vec::new();
        for _ in 0..10 {
            streams.push(
                client
                    .request(&browser.fields("GET", "/slow"), END_STREAM)
                    .await,
            );
        }
        eventually("the requests at the pod", || async {
            app.requests() >= before + 10
        })
        .await;
        for stream in streams {
            client.send(&frame(RESET, 0, stream, &[0, 0, 0, 8])).await;
        }
        rounds += 1;
        // Whether it goes on is known once this is answered.
        client.send(&frame(PING, 0, 0, &[rounds; 8])).await;
        let goes_on = loop {
            match client.read().await {
                Some(frame) if frame.kind == PING && frame.payload == [rounds; 8] => break true,
                Some(_) => {}
                None => break false,
            }
        };
        if !goes_on {
            break;
        }
        // A minute leaks as many again.
        assert!(rounds < 25, "{rounds} rounds of 10 resets");
    }
    assert!(rounds >= 11, "only {rounds} rounds of 10 resets");
    assert_eq!(client.end().await, Some(ENHANCE_YOUR_CALM));
    assert_eq!(ended(&stage, "Resets").await, resets + 1);
    others_are_served(&stage).await;

    // Requests that the client has us call off (MadeYouReset): by what is wrong with one stream alone.
    let most = i32::MAX.to_be_bytes();
    let wrong: [(&str, WrongFrame); 5] = [
        ("an update of nothing", &|stream| {
            frame(WINDOW_UPDATE, 0, stream, &[0; 4])
        }),
        ("a window too large", &|stream| {
            frame(WINDOW_UPDATE, 0, stream, &most)
        }),
        ("data after the end", &|stream| {
            frame(DATA, 0, stream, b"more")
        }),
        ("a stream that depends on itself", &|stream| {
            frame(
                PRIORITY,
                0,
                stream,
                &[&stream.to_be_bytes()[..], &[1]].concat(),
            )
        }),
        ("a head after the end", &|stream| {
            frame(HEADERS, END_HEADERS, stream, &block(&[(b"a", b"b")]))
        }),
    ];
    for (name, wrong) in wrong {
        let mut client = Http2::open(stage.address).await;
        let mut made = 0;
        let gone = loop {
            let stream = client
                .request(&browser.fields("GET", "/slow"), END_STREAM)
                .await;
            client.send(&wrong(stream)).await;
            match client.fate(stream).await {
                Fate::Reset(_) => made += 1,
                other => break other,
            }
            assert!(made <= 100, "{made} streams by {name}");
        };
        println!("{name}: {made} streams, then {gone:?}");
        assert!(matches!(gone, Fate::Gone(_)), "{name}: {gone:?}");
        others_are_served(&stage).await;
    }

    // None of it is still under way, at the pod neither.
    eventually("the end of all requests", || async {
        stage.metric("open_requests").await == 0
    })
    .await;
    eventually("the end of all connections", || async {
        stage.metric("http2_connections_open").await == 0
    })
    .await;
    let came = app.requests() - asked;
    assert!(came <= 1500, "{came} requests came to the pod");
    let grown = resident(&stage).saturating_sub(before);
    println!(
        "floods: {came} requests at the pod, {} KiB more",
        grown / 1024
    );
    assert!(grown < 32 * MIB, "{grown} bytes");
}

/// A pod whose answers have no end; how many bytes it got rid of.
async fn torrent() -> (std::net::SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sent = Arc::<AtomicU64>::default();
    let all = sent.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let sent = all.clone();
            tokio::spawn(async move {
                let mut head = [0; 8192];
                let _ = stream.read(&mut head).await;
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
                let _ = stream.write_all(answer).await;
                while let Ok(count) = stream.write(&[b'x'; 65_536]).await {
                    sent.fetch_add(count as u64, Ordering::SeqCst);
                }
            });
        }
    });
    (address, sent)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_costs_a_bounded_amount() {
    const STREAMS: u64 = 100;
    let stage = Stage::with(&["--h2c"]).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let (address, sent) = torrent().await;
    stage
        .run(&Spec::new("torrent", "torrent", 1, address))
        .await;
    others_are_served(&stage).await;
    let host = format!("torrent.{CONSOLE}");
    let browser = Browser {
        cookie: stage.cookie_on("alice", &host),
        host,
    };
    // Without a window, and with all the window there can be and nobody who reads.
    for window in [0, i32::MAX as u32] {
        let before = resident(&stage);
        let stream = tokio::net::TcpStream::connect(stage.address).await.unwrap();
        let mut client = Http2::over(stream, &[(4, window)]).await;
        let most = (i32::MAX as u32 - 65_535).to_be_bytes();
        client.send(&frame(WINDOW_UPDATE, 0, 0, &most)).await;
        for _ in 0..STREAMS {
            client
                .request(&browser.fields("GET", "/"), END_STREAM)
                .await;
        }
        eventually("all requests", || async {
            stage.metric("open_requests").await == STREAMS as i64
        })
        .await;
        // Nothing moves any more: neither does the pod get rid of anything.
        let mut last = 0;
        eventually("that nothing moves", || {
            let now = sent.load(Ordering::SeqCst);
            let still = now == last;
            last = now;
            async move {
                tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                still
            }
        })
        .await;
        others_are_served(&stage).await;
        let grown = resident(&stage).saturating_sub(before);
        println!("window {window}: {} KiB a stream", grown / STREAMS / 1024);
        assert!(grown < STREAMS * MIB, "{grown} bytes");
        drop(client);
        eventually("the end of all requests", || async {
            stage.metric("open_requests").await == 0
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_are_cheap_and_end() {
    let all = std::env::var("NOGOO9_TEST_EDGE").is_ok_and(|size| size == "all");
    // Long enough for all of them to be open at once.
    let (count, idle) = if all { (5000_u64, 40) } else { (500, 8) };
    let idle = format!("--h2-idle-timeout={idle}");
    let limit = nix::sys::resource::Resource::RLIMIT_NOFILE;
    let (_, hard) = nix::sys::resource::getrlimit(limit).unwrap();
    nix::sys::resource::setrlimit(limit, hard, hard).unwrap();
    let flags = ["--h2c", idle.as_str(), "--max-connections-per-client=0"];
    let stage = Stage::with(&flags).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let browser = Browser::of(&stage);
    others_are_served(&stage).await;
    let before = resident(&stage);
    let mut idle = Vec::new();
    for n in 0..count {
        let mut client = Http2::open(stage.address).await;
        // Some have been used.
        if n % 10 == 0 {
            let asked = client
                .request(&browser.fields("GET", "/"), END_STREAM)
                .await;
            assert_eq!(client.fate(asked).await, Fate::Answered(200));
        }
        idle.push(client);
    }
    let grown = resident(&stage).saturating_sub(before);
    println!(
        "{count} idle connections: {} KiB each",
        grown / count / 1024
    );
    assert!(grown < count * 64 * 1024, "{grown} bytes");
    others_are_served(&stage).await;
    for mut client in idle {
        assert_eq!(client.end().await, Some(0));
    }
    assert!(ended(&stage, "Idle").await >= count);
    others_are_served(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_are_refused_leave_a_record() {
    let stage = Stage::with(&["--h2c", "--max-target-bytes=1000", "--max-headers=20"]).await;
    let browser = Browser::of(&stage);
    let mut client = Http2::open(stage.address).await;
    let long = format!("/{}", "a".repeat(1000));
    let mut many = browser.fields("GET", "/");
    many.extend([(&b"x-a"[..], &b"b"[..]); 20]);
    for (fields, status) in [
        (browser.fields("GET", "?a"), 400),
        (browser.fields("GET", &long), 414),
        (many, 431),
    ] {
        let asked = client.request(&fields, END_STREAM).await;
        assert_eq!(client.fate(asked).await, Fate::Answered(status));
        let count = format!("nogoo9_proxy_http2_heads_refused_total{{status=\"{status}\"}} 1\n");
        let metrics = stage.metrics().await;
        assert!(metrics.contains(&count), "{metrics}");
        let line = format!("access: not a request client=Some(127.0.0.1) status={status} by=Proxy");
        eventually("its line", || async { stage.log().contains(&line) }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_as_its_connection_is_to_end_is_answered() {
    let stage = Stage::with(&["--h2c", "--h2-idle-timeout=1"]).await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let browser = Browser::of(&stage);
    let mut client = Http2::open(stage.address).await;
    while client.read().await.expect("no GOAWAY came").kind != GOAWAY {}
    let slow = browser.fields("GET", "/slow");
    let asked = client.request(&slow, END_STREAM).await;
    eventually("the request", || async { app.requests() == 1 }).await;
    // Others that are idle later have been ended altogether.
    let mut other = Http2::open(stage.address).await;
    assert_eq!(other.end().await, Some(0));
    app.release();
    assert_eq!(client.fate(asked).await, Fate::Answered(200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_silent_does_not_keep_a_proxy_from_stopping() {
    let mut stage = Stage::with(&["--h2c", "--drain=1", "--stop-timeout=300"]).await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let browser = Browser::of(&stage);
    // Neither says a word to its GOAWAY; one still waits for an answer.
    let _silent = Http2::open(stage.address).await;
    let mut busy = Http2::open(stage.address).await;
    let slow = browser.fields("GET", "/slow");
    let asked = busy.request(&slow, END_STREAM).await;
    eventually("the request", || async { app.requests() == 1 }).await;
    stage.signal("TERM");
    eventually("the end of the silent one", || async {
        stage.metric("http2_connections_open").await == 1
    })
    .await;
    assert!(stage.child.try_wait().unwrap().is_none());
    app.release();
    assert_eq!(busy.fate(asked).await, Fate::Answered(200));
    let ended = tokio::time::timeout(crate::PATIENCE, stage.child.wait());
    assert!(ended.await.expect("it did not end").unwrap().success());
}
