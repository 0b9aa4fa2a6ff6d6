use super::*;
use crate::sessions::{Kind, Sessions};
use std::sync::Arc;
use tokio::io::{DuplexStream, duplex};

struct Pair {
    client: DuplexStream,
    pod: DuplexStream,
    sessions: Sessions,
    relaying: tokio::task::JoinHandle<Outcome>,
}

fn start(early: &'static [u8], pipe: usize) -> Pair {
    let (client, our_client) = duplex(pipe);
    let (pod, our_pod) = duplex(pipe);
    let sessions = Sessions::new();
    let entered = sessions.enter(&Arc::from("dev"), &Arc::from("pod"), Kind::Socket);
    let relaying = tokio::spawn(async move {
        relay(our_client, our_pod, Bytes::from_static(early), &entered).await
    });
    Pair {
        client,
        pod,
        sessions,
        relaying,
    }
}

async fn rest(stream: &mut DuplexStream) -> Vec<u8> {
    let mut out = Vec::new();
    stream.read_to_end(&mut out).await.unwrap();
    out
}

/// A server's text frame.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x81, 126];
    out.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    out.extend_from_slice(payload);
    out
}

#[tokio::test]
async fn both_ways_byte_for_byte() {
    let Pair {
        mut client,
        mut pod,
        relaying,
        ..
    } = start(b"\x81\x02hi", 16);
    let down = frame(&vec![7; 50_000]);
    let up: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    let (down_copy, up_copy) = (down.clone(), up.clone());
    let pod_task = tokio::spawn(async move {
        let mut got = vec![0; up_copy.len()];
        let (mut read, mut write) = tokio::io::split(&mut pod);
        let both = tokio::join!(read.read_exact(&mut got), write.write_all(&down_copy));
        both.0.unwrap();
        both.1.unwrap();
        write.write_all(&close(1000)).await.unwrap();
        assert!(got == up_copy);
    });
    let mut got = vec![0; 4 + down.len()];
    {
        let (mut read, mut write) = tokio::io::split(&mut client);
        let both = tokio::join!(read.read_exact(&mut got), write.write_all(&up));
        both.0.unwrap();
        both.1.unwrap();
    }
    assert_eq!(&got[..4], b"\x81\x02hi");
    assert!(got[4..] == down);
    pod_task.await.unwrap();
    // The pod closed by itself: its Close comes through, and none of ours.
    assert_eq!(rest(&mut client).await, close(1000));
    drop(client);
    assert_eq!(relaying.await.unwrap(), Outcome::ByPod);
}

#[tokio::test]
async fn a_pod_that_vanishes_is_a_1012() {
    let Pair {
        mut client,
        mut pod,
        relaying,
        ..
    } = start(b"", 1024);
    pod.write_all(&frame(b"half")).await.unwrap();
    drop(pod);
    let mut expected = frame(b"half");
    expected.extend_from_slice(&close(1012));
    assert_eq!(rest(&mut client).await, expected);
    drop(client);
    assert_eq!(relaying.await.unwrap(), Outcome::ByPod);
}

#[tokio::test]
async fn nothing_is_put_into_a_broken_frame() {
    let Pair {
        mut client,
        mut pod,
        ..
    } = start(b"", 1024);
    let whole = frame(b"never finished");
    pod.write_all(&whole[..8]).await.unwrap();
    drop(pod);
    assert_eq!(rest(&mut client).await, &whole[..8]);
}

#[tokio::test]
async fn ending_waits_for_the_frame_and_drops_the_next() {
    let Pair {
        mut client,
        mut pod,
        sessions,
        relaying,
    } = start(b"", 1024);
    let first = frame(b"a frame in two parts");
    pod.write_all(&first[..10]).await.unwrap();
    let mut got = vec![0; 10];
    client.read_exact(&mut got).await.unwrap();
    assert_eq!(sessions.end_all(End::Restart), 1);
    let mut more = first[10..].to_vec();
    more.extend_from_slice(&frame(b"one more"));
    pod.write_all(&more).await.unwrap();
    got.extend(rest(&mut client).await);
    let mut expected = first;
    expected.extend_from_slice(&close(1012));
    assert_eq!(got, expected);
    drop(client);
    assert_eq!(relaying.await.unwrap(), Outcome::ByUs(End::Restart));
}

#[tokio::test]
async fn a_client_that_stops_reading_stops_the_pod() {
    let Pair {
        client, mut pod, ..
    } = start(b"", 64);
    let flood = async {
        let mut sent = 0;
        while pod.write_all(&[0; 64]).await.is_ok() {
            sent += 64;
        }
        sent
    };
    // With nobody reading, the pod can send only what the buffers between hold.
    assert!(
        tokio::time::timeout(std::time::Duration::from_millis(300), flood)
            .await
            .is_err()
    );
    drop(client);
}
