//! Connections to pods: how long one is kept that nobody uses, and what is sent again when one breaks.

use crate::cluster::Spec;
use crate::proxy::Stage;
use crate::raw::{RawPod, head, rest};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

const NOTHING: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Routes to a pod of that name, which is its workspace's as well.
async fn routed(stage: &Stage, name: &str, pod: &RawPod) {
    stage.run(&Spec::new(name, name, 1, pod.address)).await;
}

/// Applications close theirs after a while as well: the edge is to be first.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_nobody_uses_is_closed_by_the_edge() {
    let stage = Stage::start().await;
    let (ends, mut ended) = mpsc::unbounded_channel();
    let pod = RawPod::start(move |mut stream| {
        let ends = ends.clone();
        async move {
            // As many as come.
            for asked in 0.. {
                if head(&mut stream).await.is_empty() {
                    let _ = ends.send(asked);
                    return;
                }
                let _ = stream.write_all(NOTHING).await;
            }
        }
    })
    .await;
    routed(&stage, "dev", &pod).await;
    for _ in 0..2 {
        assert_eq!(stage.get("dev", "/").await.status, 200);
    }
    assert_eq!(pod.connections(), 1, "it is kept for the next one");
    let end = tokio::time::timeout(crate::PATIENCE, ended.recv()).await;
    assert_eq!(end.expect("an end"), Some(2));
    assert_eq!(stage.get("dev", "/").await.status, 200);
    assert_eq!(pod.connections(), 2);
}

/// What can be sent again is what is kept of a body: its first 64 KiB.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_sent_again_as_a_whole_or_not_at_all() {
    const KEPT: usize = 64 * 1024;
    let stage = Stage::start().await;
    for (name, length, status, times) in [("small", KEPT, 200, 2), ("large", KEPT + 1, 502, 1)] {
        let came = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let all = came.clone();
        // Breaks off once it has read the first one.
        let pod = RawPod::start(move |mut stream| {
            let all = all.clone();
            async move {
                head(&mut stream).await;
                let mut body = vec![0; length];
                stream.read_exact(&mut body).await.unwrap();
                let first = {
                    let mut all = all.lock().unwrap();
                    all.push(body);
                    all.len() == 1
                };
                if !first {
                    stream.write_all(NOTHING).await.unwrap();
                    rest(&mut stream).await;
                }
            }
        })
        .await;
        routed(&stage, name, &pod).await;
        let body: String = ('a'..='z').cycle().take(length).collect();
        let mut asks = stage.begin("GET", name, "/", &body).await;
        assert_eq!(asks.answer().await.status, status, "{name}");
        let came = came.lock().unwrap();
        assert_eq!((pod.connections(), came.len()), (times, times), "{name}");
        assert!(came.iter().all(|came| came == body.as_bytes()), "{name}");
    }
}
