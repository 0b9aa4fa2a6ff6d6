//! Whether a connection has broken that nobody looks at. (`hold::gone` is stricter: to it, who has ended
//! one half has left.)
//!
//! While a pod takes no more of an upload, or of a socket, its client is not read from: its end would be
//! found behind what it has sent, and a reset by the next read alone. The system knows, also of one that
//! is gone without a word (it asks, see `listener`), and is asked now and then. Whoever has ended one half
//! of its connection alone is there, and may be answered.

use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, getpeername};
use std::os::fd::RawFd;
use std::time::Duration;

/// How often it is looked at: a system call for each upload and socket.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Returns once the connection has broken. Whoever calls keeps it open until then.
pub async fn broken(connection: RawFd) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if getpeername::<SockaddrStorage>(connection) == Err(Errno::ENOTCONN) {
            return;
        }
    }
}

/// What is `done` with a connection; `None`: nothing, it broke, and that was not noticed.
pub(super) async fn unless_broken<T>(
    connection: RawFd,
    done: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = done => Some(done),
        () = broken(connection) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::os::fd::AsRawFd as _;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn who_is_gone_is_noticed_and_who_is_silent_or_has_said_all_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, served) = tokio::join!(client, listener.accept());
        let (mut client, served) = (client.unwrap(), served.unwrap().0);
        let number = served.as_raw_fd();
        client.write_all(b"unread").await.unwrap();
        let going = unless_broken(number, pending::<()>());
        assert!(timeout(10 * LOOK_EVERY, going).await.is_err());
        client.shutdown().await.unwrap();
        let going = unless_broken(number, pending::<()>());
        assert!(timeout(10 * LOOK_EVERY, going).await.is_err());
        assert_eq!(unless_broken(number, async { "done" }).await, Some("done"));
        client.set_zero_linger().unwrap();
        drop(client);
        assert_eq!(unless_broken(number, pending::<()>()).await, None);
    }
}
