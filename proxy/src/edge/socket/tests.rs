use super::*;
use crate::accept::LOOK_EVERY;
use crate::metrics::{EndLabels, Metrics};
use crate::sessions::{Kind, Sessions};
use crate::testing::pod;
use http::StatusCode;
use pingora::protocols::l4::stream::Stream as Tcp;
use std::future::pending;
use tokio::net::TcpListener;
use tokio::time::timeout;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap());
    let (far, near) = tokio::join!(far, listener.accept());
    (far.unwrap(), near.unwrap().0)
}

#[tokio::test(start_paused = true)]
async fn a_socket_ends_whose_client_is_gone_and_whose_pod_reads_nothing() {
    let backend = Arc::new(pod("pod"));
    let (mut client, served) = pair().await;
    let (pod, _reads_nothing) = pair().await;
    let metrics = Metrics::new(&mut Default::default()).sockets;
    let (workspace, sessions) = (Arc::from("dev"), Sessions::new());
    let socket = Socket {
        pod,
        head: Box::new(ResponseHeader::build(StatusCode::SWITCHING_PROTOCOLS, None).unwrap()),
        early: Bytes::new(),
        entered: sessions.enter(&workspace, &backend.uid, Kind::Socket),
        busy: None,
        expiry: Box::pin(pending()),
        over: Box::pin(pending()),
        revoked: Box::pin(pending()),
        idle: None,
        story: Story {
            workspace,
            port: None,
            backend,
            path: "/".into(),
            started: Instant::now(),
            metrics: metrics.clone(),
        },
    };
    let mut running = tokio::spawn(run(Box::new(Tcp::from(served)), socket));
    // A message without an end, until nothing moves: the end of the client stands behind it.
    let head = [&[0x82, 0xff][..], &[0x7f; 8], &[0; 4]].concat();
    client.write_all(&head).await.unwrap();
    let send = async |client: &mut TcpStream| client.write_all(&[0; 65_536]).await.unwrap();
    while timeout(Duration::from_secs(1), send(&mut client))
        .await
        .is_ok()
    {}
    // While it is there, it may take its time.
    assert!(timeout(10 * LOOK_EVERY, &mut running).await.is_err());
    client.set_zero_linger().unwrap();
    drop(client);
    timeout(2 * LOOK_EVERY, running).await.unwrap().unwrap();
    let reason = SocketEnd::Client;
    assert_eq!(metrics.ended.get_or_create(&EndLabels { reason }).get(), 1);
    assert_eq!(sessions.count(Kind::Socket), 0);
}
