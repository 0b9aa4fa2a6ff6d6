//! Heads of answers that do not end.
//!
//! Pingora takes a head of up to 1 MiB, and reads it from its beginning each time that a part of it comes:
//! a pod that drips a large one would have each byte cost as much as a million do. What comes is Pingora's to
//! read, and nobody is asked before a head is whole. But its request is polled for each part, in our task: so
//! whoever still waits after a few of these is looked at, and a connection that has brought more than any head
//! may have ([`MOST`]) is shut down. What is left is that a part costs no more than [`MOST`] bytes do.

use crate::lines;
use pingora::protocols::l4::ext::get_tcp_info;
use std::cell::Cell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::pin::pin;

/// Bytes that come while a head is awaited, from the first look on. More than any head that is passed on
/// has, as it is written.
const MOST: u64 = 64 * 1024;
/// Polls before the first look: most heads come with the first one.
const FEW: u32 = 4;

tokio::task_local! {
    static AWAITED: Awaited;
}

/// What one request awaits of its pod.
#[derive(Debug, Default)]
struct Awaited {
    head: Cell<Option<Head>>,
    was_cut: Cell<bool>,
}

/// A head that is awaited.
#[derive(Debug, Clone, Copy)]
struct Head {
    connection: RawFd,
    pod: SocketAddr,
    polls: u32,
    /// Bytes that the connection may have brought in all, once that was looked at.
    most: Option<u64>,
    /// Whether there were more already at the last look. Some may have come behind a head that is not read
    /// yet, so another poll may still find its end.
    is_over: bool,
}

/// Serves a request, and looks after the heads that it awaits.
pub async fn watched<F: Future>(request: F) -> F::Output {
    let looked_after = async {
        let mut request = pin!(request);
        poll_fn(|cx| {
            let polled = request.as_mut().poll(cx);
            if polled.is_pending() {
                AWAITED.with(Awaited::look);
            }
            polled
        })
        .await
    };
    AWAITED.scope(Awaited::default(), looked_after).await
}

/// Notes that a head is awaited over a connection to a pod, in HTTP/1.
pub fn awaits(connection: RawFd, pod: SocketAddr) {
    let head = Head {
        connection,
        pod,
        polls: 0,
        most: None,
        is_over: false,
    };
    let _ = AWAITED.try_with(|awaited| awaited.head.set(Some(head)));
}

/// Notes that a head has come; `and_another`: one that announces the one that counts.
pub fn came(and_another: bool) {
    let _ = AWAITED.try_with(|awaited| {
        let before = awaited.head.take().filter(|_| and_another);
        if let Some(Head {
            connection, pod, ..
        }) = before
        {
            awaits(connection, pod);
        }
    });
}

/// Whether the connection broke since its head did not end. Awaits none any more.
#[must_use]
pub fn was_cut() -> bool {
    let taken = AWAITED.try_with(|awaited| {
        awaited.head.take();
        awaited.was_cut.take()
    });
    taken.unwrap_or(false)
}

impl Awaited {
    fn look(&self) {
        let Some(mut head) = self.head.get() else {
            return;
        };
        head.polls = head.polls.saturating_add(1);
        let goes_on = head.polls <= FEW || head.may_go_on();
        self.head.set(goes_on.then_some(head));
        if !goes_on && lines::shut_down(head.connection, head.pod) {
            tracing::warn!(pod = %head.pod, "the head of a pod's answer did not end");
            self.was_cut.set(true);
        }
    }
}

impl Head {
    fn may_go_on(&mut self) -> bool {
        let Ok(info) = get_tcp_info(self.connection) else {
            return true;
        };
        let received = info.tcpi_bytes_received;
        let most = *self.most.get_or_insert(received.saturating_add(MOST));
        let was_over = std::mem::replace(&mut self.is_over, received > most);
        !(was_over && self.is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    /// A connection, and its pod's end.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, pods) = tokio::join!(TcpStream::connect(address), listener.accept());
        (ours.unwrap(), pods.unwrap().0)
    }

    /// Reads parts of a head that does not end, and how many bytes it read; `each` is called after each.
    async fn read(mut ours: TcpStream, mut pods: TcpStream, each: fn()) -> usize {
        awaits(ours.as_raw_fd(), ours.peer_addr().unwrap());
        let drips = async {
            let part = [b'x'; 1024];
            while pods.write_all(&part).await.is_ok() {
                // One part at a time, as a network brings them.
                tokio::task::yield_now().await;
            }
        };
        let reads = async {
            let (mut bytes, mut all) = ([0; 512], 0);
            while let Ok(read @ 1..) = ours.read(&mut bytes).await {
                all += read;
                each();
                if all > 1 << 20 {
                    break;
                }
                // It is polled once for each.
                tokio::task::yield_now().await;
            }
            all
        };
        tokio::select! {
            all = reads => all,
            () = drips => 0,
        }
    }

    #[tokio::test]
    async fn a_head_ends_or_its_connection_does() {
        let (ours, pods) = pair().await;
        let (all, cut) = watched(async { (read(ours, pods, || {}).await, was_cut()) }).await;
        assert!(cut && all < 1 << 20, "{all}");
        // Each of these is short.
        let (ours, pods) = pair().await;
        let (all, cut) =
            watched(async { (read(ours, pods, || came(true)).await, was_cut()) }).await;
        assert!(!cut && all > 1 << 20, "{all}");
        // What comes behind one is of any length.
        let (ours, pods) = pair().await;
        let (all, cut) =
            watched(async { (read(ours, pods, || came(false)).await, was_cut()) }).await;
        assert!(!cut && all > 1 << 20, "{all}");
    }

    #[tokio::test]
    async fn another_ones_connection_is_left_alone() {
        let (ours, mut pods) = pair().await;
        let awaited = Awaited::default();
        awaited.head.set(Some(Head {
            connection: ours.as_raw_fd(),
            pod: SocketAddr::from(([127, 0, 0, 1], 1)),
            polls: FEW,
            most: Some(0),
            is_over: true,
        }));
        pods.write_all(b"x").await.unwrap();
        ours.readable().await.unwrap();
        awaited.look();
        assert!(awaited.head.get().is_none() && !awaited.was_cut.get());
        pods.write_all(b"more").await.unwrap();
        assert_eq!(ours.peek(&mut [0; 1]).await.unwrap(), 1);
    }
}
