use super::*;
use crate::http2::Http2Metrics;
use crate::testing::{BOUNDS, Stuck, http2_limits};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(15);

/// An acceptor whose requests go to `app`. It goes on for as long as what comes with it is held.
fn acceptor(app: Stuck) -> (Acceptor<Stuck>, tokio::sync::watch::Sender<bool>) {
    let limits = Limits {
        proxy_protocol: false,
        reuse_port: false,
        connections: None,
        connections_each: None,
        deadlines: Deadlines {
            first: LONG,
            head: LONG,
            idle: LONG,
        },
        bounds: BOUNDS,
        busy: busy::Bounds {
            requests: 1,
            sockets: 1,
            control: None,
            control_each: None,
        },
        max_body: None,
    };
    let of_one = http2_limits(LONG);
    let http2 = Http2 {
        clear: false,
        shared: of_one.shared(),
        limits: of_one,
        metrics: Http2Metrics::default(),
    };
    let (leave, leaving) = tokio::sync::watch::channel(false);
    let parts = Parts {
        app: Arc::new(app),
        limits,
        trusted: TrustedProxies::default(),
        http2,
        tls: None,
        connections: Connections::new(None, None),
        metrics: Metrics::default(),
        stops: Stops {
            leaving,
            closing: CancellationToken::new(),
        },
    };
    (Acceptor::new(parts), leave)
}

#[tokio::test(start_paused = true)]
async fn an_upload_ends_whose_client_is_gone_and_nobody_looks_at() {
    let (app, mut says) = Stuck::new();
    let (acceptor, _leave) = acceptor(app);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = tokio::spawn(acceptor.run(listener));
    let mut client = TcpStream::connect(address).await.unwrap();
    let begin = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nunread";
    client.write_all(begin).await.unwrap();
    assert_eq!(says.recv().await, Some("begun"));
    // While it is there, it may take its time.
    assert!(timeout(10 * broken::LOOK_EVERY, says.recv()).await.is_err());
    client.set_zero_linger().unwrap();
    drop(client);
    let ended = timeout(2 * broken::LOOK_EVERY, says.recv()).await;
    assert_eq!(ended, Ok(Some("ended")));
    accepting.abort();
}
