//! Sockets that are not open yet: their client leaves, their pod goes, or breaks off.

use super::{silent, stage_with};
use crate::client::Connection;
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::Stage;
use crate::raw::{RawPod, head, rest};
use crate::sockets;
use crate::upstream::Upstream;

#[tokio::test(flavor = "multi_thread")]
async fn a_held_socket_whose_client_leaves_is_let_go() {
    let stage = Stage::start().await;
    let (app, pod) = stage.starting("app", "dev").await;
    let leaves = sockets::begin(&stage, "dev").await;
    let mut stays = sockets::begin(&stage, "dev").await;
    stage.held(2).await;
    drop(leaves);
    stage.held(1).await;
    stage.cluster.set_ready(&pod, true).await;
    assert_eq!(stays.head().await.status, 101);
    assert_eq!(app.connections(), 1, "only who stayed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_during_the_handshake_is_noticed() {
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let pod = RawPod::start(move |mut stream| {
        let heard = heard.clone();
        async move {
            head(&mut stream).await;
            // It thinks for as long as somebody waits.
            heard.send(0).unwrap();
            heard.send(rest(&mut stream).await.len()).unwrap();
        }
    })
    .await;
    let (stage, opening) = stage_with(&[], &pod).await;
    let mut leaves = Connection::open(stage.address).await;
    leaves.send(&opening).await;
    assert_eq!(hears.recv().await, Some(0));
    assert_eq!(stage.metric("open_sockets").await, 1);
    drop(leaves);
    assert_eq!(hears.recv().await, Some(0), "the pod is let go");
    eventually("nothing open", || async {
        stage.metric("open_sockets").await == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_ends_with_its_pod_and_is_the_next_ones() {
    let (old, mut hears) = silent().await;
    let (stage, opening) = stage_with(&[], &old).await;
    let mut socket = Connection::open(stage.address).await;
    socket.send(&opening).await;
    hears.recv().await.unwrap();
    let new = Upstream::start("new").await;
    let spec = Spec::new("new", "dev", 2, new.address);
    stage.run(&spec).await;
    stage.cluster.terminate("app").await;
    stage.cluster.finish("app").await;
    assert_eq!(socket.head().await.status, 101);
    assert_eq!(crate::sockets::text(&mut socket).await, "new");
    // It waited for as long as its pod was there, not for as long as an answer may take.
    assert!(!stage.log().contains("a WebSocket handshake failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_breaks_off_is_sent_three_times_more() {
    let pod = RawPod::start(|mut stream| async move {
        head(&mut stream).await;
    })
    .await;
    let (stage, opening) = stage_with(&[], &pod).await;
    let mut socket = Connection::open(stage.address).await;
    socket.send(&opening).await;
    assert_eq!(socket.answer().await.status, 502);
    assert_eq!(pod.connections(), 4);
}
