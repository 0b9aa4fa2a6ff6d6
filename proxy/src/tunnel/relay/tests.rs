use super::*;
use crate::sessions::{Kind, Sessions};
use direction::{LARGE, SMALL};
use std::sync::Arc;
use tokio::io::{DuplexStream, duplex};

struct Pair {
    client: DuplexStream,
    pod: DuplexStream,
    sessions: Sessions,
    relaying: tokio::task::JoinHandle<Ended>,
    counted: [Counter; 2],
}

const MASK: [u8; 4] = [1, 2, 3, 4];

fn start(early: &'static [u8], pipe: usize) -> Pair {
    start_with(early, pipe, None)
}

fn start_with(early: &'static [u8], pipe: usize, idle: Option<Duration>) -> Pair {
    let (client, our_client) = duplex(pipe);
    let (pod, our_pod) = duplex(pipe);
    let sessions = Sessions::new();
    let entered = sessions.enter(&Arc::from("dev"), &Arc::from("pod"), Kind::Socket);
    let counted = [Counter::default(), Counter::default()];
    let [up, down] = counted.clone();
    let relaying = tokio::spawn(async move {
        let terms = Terms {
            session: &entered,
            idle,
            up: &up,
            down: &down,
            mask: || MASK,
        };
        relay(our_client, our_pod, Bytes::from_static(early), &terms).await
    });
    Pair {
        client,
        pod,
        sessions,
        relaying,
        counted,
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
        counted,
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
    let ended = relaying.await.unwrap();
    assert_eq!(
        ended,
        Ended {
            outcome: Outcome::ByPod,
            code: Some(1000),
            up: 100_000,
            down: 50_012,
        }
    );
    assert_eq!(counted.map(|counter| counter.get()), [100_000, 50_012]);
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
    let ended = relaying.await.unwrap();
    assert_eq!((ended.outcome, ended.code), (Outcome::ByPod, None));
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
        ..
    } = start(b"", 1024);
    let first = frame(b"a frame in two parts");
    pod.write_all(&first[..10]).await.unwrap();
    client.write_all(&first[..12]).await.unwrap();
    let mut got = vec![0; 10];
    client.read_exact(&mut got).await.unwrap();
    let mut up = vec![0; 12];
    pod.read_exact(&mut up).await.unwrap();
    assert_eq!(sessions.end_pod("dev", "pod", End::Restart), 1);
    pod.write_all(&[&first[10..], &frame(b"one more")].concat())
        .await
        .unwrap();
    client
        .write_all(&[&first[12..], &frame(b"one more")].concat())
        .await
        .unwrap();
    got.extend(rest(&mut client).await);
    assert_eq!(got, [first.as_slice(), &close(1012)].concat());
    // The pod is told likewise, as a client does.
    up.extend(rest(&mut pod).await);
    assert_eq!(up, [first.as_slice(), &masked_close(1012, MASK)].concat());
    drop((client, pod));
    let ended = relaying.await.unwrap();
    assert_eq!(ended.outcome, Outcome::ByUs(End::Restart));
    assert_eq!(ended.code, Some(1012));
}

#[tokio::test]
async fn each_reason_has_its_code_between_the_fragments_of_a_message() {
    for (why, code) in [
        (End::Restart, 1012),
        (End::Expired, 1008),
        (End::Shutdown, 1001),
        (End::Idle, 1001),
    ] {
        let Pair {
            mut client,
            mut pod,
            sessions,
            relaying,
            ..
        } = start(b"\x01\x02he", 1024);
        let mut got = vec![0; 4];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(sessions.end_pod("dev", "pod", why), 1);
        assert_eq!(rest(&mut client).await, close(code), "{why:?}");
        assert_eq!(rest(&mut pod).await, masked_close(code, MASK), "{why:?}");
        drop((client, pod));
        let ended = relaying.await.unwrap();
        assert_eq!(ended.outcome, Outcome::ByUs(why));
        assert_eq!(ended.code, Some(code));
    }
}

/// A frame that is still under way when the time is up is broken off: no Close can stand in it.
#[tokio::test(start_paused = true)]
async fn a_frame_without_an_end_is_waited_for_within_bounds() {
    let gigabyte = [0x82, 127, 0, 0, 0, 0, 0x40, 0, 0, 0, 7, 7];
    let Pair {
        mut client,
        mut pod,
        sessions,
        relaying,
        ..
    } = start(b"", 1024);
    pod.write_all(&gigabyte).await.unwrap();
    let mut got = vec![0; gigabyte.len()];
    client.read_exact(&mut got).await.unwrap();
    assert_eq!(sessions.end_pod("dev", "pod", End::Restart), 1);
    assert_eq!(rest(&mut client).await, b"");
    assert_eq!(rest(&mut pod).await, masked_close(1012, MASK));
    drop((client, pod));
    assert_eq!(relaying.await.unwrap().outcome, Outcome::ByUs(End::Restart));
}

#[tokio::test]
async fn no_close_follows_a_close() {
    let Pair {
        mut client,
        mut pod,
        sessions,
        relaying,
        ..
    } = start(b"", 1024);
    client.write_all(&masked_close(1000, [5; 4])).await.unwrap();
    let mut up = vec![0; 8];
    pod.read_exact(&mut up).await.unwrap();
    assert_eq!(sessions.end_pod("dev", "pod", End::Restart), 1);
    // The client's own is answered; the pod, which has it, gets no second one.
    assert_eq!(rest(&mut client).await, close(1012));
    assert_eq!(rest(&mut pod).await, b"");
    drop((client, pod));
    relaying.await.unwrap();
}

#[tokio::test]
async fn who_closes_first_has_ended_it() {
    let Pair {
        mut client,
        mut pod,
        relaying,
        ..
    } = start(b"", 1024);
    client.write_all(&masked_close(4001, [5; 4])).await.unwrap();
    let mut up = vec![0; 8];
    pod.read_exact(&mut up).await.unwrap();
    pod.write_all(&close(4001)).await.unwrap();
    // The server ends the connection first (RFC 6455, section 7.1.1).
    drop(pod);
    assert_eq!(rest(&mut client).await, close(4001));
    drop(client);
    let ended = relaying.await.unwrap();
    assert_eq!((ended.outcome, ended.code), (Outcome::ByClient, Some(4001)));
    assert_eq!((ended.up, ended.down), (8, 4));
}

#[tokio::test]
async fn a_client_that_is_gone_is_an_end_for_the_pod() {
    let Pair {
        client,
        mut pod,
        relaying,
        ..
    } = start(b"", 1024);
    drop(client);
    assert_eq!(rest(&mut pod).await, b"");
    drop(pod);
    let ended = relaying.await.unwrap();
    assert_eq!((ended.outcome, ended.code), (Outcome::ByClient, None));
}

/// A client that has shut down its side still gets what the pod sends, and the pod that never ends
/// does not keep the socket for ever.
#[tokio::test(start_paused = true)]
async fn half_closed() {
    let Pair {
        mut client,
        mut pod,
        relaying,
        ..
    } = start(b"", 1024);
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut pod).await, b"");
    pod.write_all(&frame(b"late")).await.unwrap();
    assert_eq!(rest(&mut client).await, frame(b"late"));
    let ended = relaying.await.unwrap();
    assert_eq!((ended.outcome, ended.code), (Outcome::ByClient, None));
    assert!(pod.write_all(&frame(b"too late")).await.is_err());
}

#[tokio::test]
async fn silence_ends_it_where_that_is_asked_for() {
    let Pair {
        mut client,
        mut pod,
        relaying,
        ..
    } = start_with(b"", 1024, Some(Duration::from_millis(20)));
    assert_eq!(rest(&mut client).await, close(1001));
    assert_eq!(rest(&mut pod).await, masked_close(1001, MASK));
    drop((client, pod));
    assert_eq!(relaying.await.unwrap().outcome, Outcome::ByUs(End::Idle));
}

/// How many bytes a side takes whose other side reads nothing.
async fn taken(stream: &mut DuplexStream) -> usize {
    let mut taken = 0;
    let mut refused = 0;
    // All tasks are on this thread: after some turns of the others without any progress there is
    // none to come.
    while refused < 100 {
        let mut writing = pin!(stream.write(&[0; 1000]));
        let wrote = std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::future::Future::poll(writing.as_mut(), context))
        })
        .await;
        match wrote {
            std::task::Poll::Ready(wrote) => {
                taken += wrote.unwrap();
                refused = 0;
            }
            std::task::Poll::Pending => refused += 1,
        }
        tokio::task::yield_now().await;
    }
    taken
}

#[tokio::test]
async fn whoever_does_not_read_stops_whoever_sends() {
    // What the pipes hold, and the largest buffer.
    let most = 2 * 1000 + LARGE;
    let Pair {
        client, mut pod, ..
    } = start(b"", 1000);
    let took = taken(&mut pod).await;
    assert!((SMALL..=most).contains(&took), "the pod sent {took}");
    drop((client, pod));
    let Pair {
        mut client, pod, ..
    } = start(b"", 1000);
    let took = taken(&mut client).await;
    assert!((SMALL..=most).contains(&took), "the client sent {took}");
    drop((client, pod));
}
