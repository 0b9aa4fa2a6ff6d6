//! Whether a client has gone whose request is not read yet.
//!
//! While a request is held, its body stays where it is: in the system's buffers. Pingora, which learns of
//! a connection's end by reading up to it, does not get there. The system knows all the same (EPOLLRDHUP,
//! EPOLLHUP), whatever lies unread; but a connection can be registered only once with the runtime that
//! serves it, and is already. So it is registered with another one, which does nothing else.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::LazyLock;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Runtime;

static WATCHER: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("nogoo9-gone")
        .enable_io()
        .build()
        .inspect_err(|error| tracing::warn!(%error, "clients that leave cannot be watched"))
        .ok()
});

/// A connection that somebody else closes, and not while it is watched.
#[derive(Debug)]
struct Borrowed(RawFd);

impl AsRawFd for Borrowed {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

/// Returns once the other side of `connection` has ended it, or its own half of it. Never, where that
/// cannot be watched. Whoever calls keeps the connection open until this is dropped.
pub async fn gone(connection: RawFd) {
    if let Some(watched) = watch(connection) {
        while let Ok(mut ready) = watched.readable().await {
            if ready.ready().is_read_closed() {
                return;
            }
            // It has sent something: what comes next is another event.
            ready.clear_ready();
        }
    }
    std::future::pending::<()>().await;
}

#[expect(
    deprecated,
    reason = "its successor is unsafe: it asks for a connection that stays open, which `gone` does of its caller"
)]
fn watch(connection: RawFd) -> Option<AsyncFd<Borrowed>> {
    let _entered = WATCHER.as_ref()?.enter();
    AsyncFd::with_interest(Borrowed(connection), Interest::READABLE)
        .inspect_err(|error| tracing::debug!(%error, "a client cannot be watched"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Shutdown;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{TcpListener, TcpStream};

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, served) = tokio::join!(client, listener.accept());
        (client.unwrap(), served.unwrap().0)
    }

    #[tokio::test]
    async fn the_end_is_seen_behind_what_is_unread() {
        for reset in [false, true] {
            let (mut client, served) = pair().await;
            client.write_all(b"unread").await.unwrap();
            served.readable().await.unwrap();
            let gone = gone(served.as_raw_fd());
            let mut gone = std::pin::pin!(gone);
            let still = tokio::time::timeout(Duration::from_millis(20), &mut gone).await;
            assert!(still.is_err(), "what is sent is no end");
            if reset {
                client.set_zero_linger().unwrap();
                drop(client);
            } else {
                let client = client.into_std().unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            }
            gone.await;
        }
    }

    #[tokio::test]
    async fn one_that_has_gone_before_is_seen_too_and_watching_ends_with_it() {
        let (mut client, served) = pair().await;
        client.write_all(b"unread").await.unwrap();
        drop(client);
        gone(served.as_raw_fd()).await;
        // Registered anew, so it was taken out.
        gone(served.as_raw_fd()).await;
        let mut read = [0; 6];
        served.readable().await.unwrap();
        assert_eq!(served.try_read(&mut read).unwrap(), 6);
    }
}
