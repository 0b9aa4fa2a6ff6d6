use super::super::meter::{Meter, PREFACE, kind};
use super::*;
use crate::testing::{Stuck, http2_limits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::test(start_paused = true)]
async fn a_client_is_asked_only_in_silence_and_whatever_it_says_is_an_answer() {
    const EVERY: Duration = Duration::from_secs(30);
    let (served, mut client) = tokio::io::duplex(64 * 1024);
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let begin = [PREFACE, &settings].concat();
    client.write_all(&begin).await.unwrap();
    let mut connection = h2::server::handshake(served).await.unwrap();
    let pings = connection.ping_pong();
    tokio::spawn(async move {
        let _: Option<Result<(http::Request<h2::RecvStream>, _), _>> = connection.accept().await;
    });
    // It answers no PING.
    let asked = Arc::<AtomicUsize>::default();
    let count = asked.clone();
    tokio::spawn(async move {
        let (mut meter, mut bytes) = (Meter::of_server(), [0; 1024]);
        while let Ok(came @ 1..) = client.read(&mut bytes).await {
            meter.feed(&bytes[..came], |frame| {
                count.fetch_add(usize::from(frame.kind == kind::PING), Ordering::SeqCst);
            });
        }
    });
    let active = Arc::<Active>::default();
    let request = active.begin();
    let heard = Heard::now();
    let alive = tokio::spawn(alive(pings, active.clone(), heard.clone(), EVERY));
    for _ in 0..20 {
        sleep(EVERY / 2).await;
        heard.note();
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    // Each time it is asked, it says something else.
    for _ in 0..20 {
        sleep(EVERY + PONG / 2).await;
        heard.note();
        assert_eq!(asked.load(Ordering::SeqCst), 1, "once at a time");
    }
    assert!(!alive.is_finished());
    // Without a request it may say nothing, and with one it may not.
    drop(request);
    sleep(100 * EVERY).await;
    assert!(!alive.is_finished());
    let _request = active.begin();
    sleep(2 * EVERY + 2 * PONG).await;
    assert!(alive.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_look_at_its_client_ends_some_time_after_it() {
    const LONG: Duration = Duration::from_secs(180);
    let limits = http2_limits(LONG);
    let (app, mut says) = Stuck::new();
    let (served, client) = tokio::io::duplex(64 * 1024);
    let (_leave, leaving) = tokio::sync::watch::channel(false);
    let serving = async move {
        let metrics = Http2Metrics::default();
        serve(&Arc::new(app), Box::new(served), leaving, &limits, &metrics).await;
    };
    let serving = tokio::spawn(serving);
    let (mut requests, connection) = h2::client::handshake(client).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::get("http://localhost/").body(()).unwrap();
    let _answer = requests.send_request(request, true).unwrap();
    assert_eq!(says.recv().await, Some("begun"));
    // While it is there, it may take its time.
    assert!(timeout(10 * LONG, says.recv()).await.is_err());
    connection.abort();
    serving.await.unwrap();
    assert!(says.try_recv().is_err(), "it may be about to end");
    assert_eq!(timeout(LONG, says.recv()).await, Ok(Some("ended")));
}
