//! How much waits of bodies on their way: in the system's buffers of a connection, and in ours.
//!
//! By itself the system keeps some MiB each way of any connection that was fast once, for as long as nobody
//! reads, and Pingora ten times what one read of a pod brings. The requests that one workspace may have would
//! fill the memory of the edge with that. So:
//!
//! | | bound |
//! |---|---|
//! | towards a client | [`UNSENT`] that was not sent yet. What it has not confirmed has no bound of ours: a client that is far away is as fast as ever |
//! | from a client that uploads over HTTP/1, or has a WebSocket | its share of what [`CLIENTS`] have |
//! | to a pod, and from it | its share of what [`PODS`] have: they are near |
//!
//! A share is smaller the more goes on in the same workspace. While that is little, it is more than a body can
//! use. Where it is much, it is the workspace's own requests that wait more often.

use pingora::protocols::l4::ext::{set_recv_buf, set_snd_buf};
use std::os::fd::RawFd;

/// Bytes that wait to be sent to a client: as many as are written at once, twice, so that there are always
/// some.
pub const UNSENT: u32 = 128 * 1024;
/// Of a connection to a pod, each way. Within a cluster, where an answer takes a millisecond, the largest is
/// 250 MB/s, and the smallest 16 MB/s.
const PODS: Share = Share {
    all: 8 << 20,
    most: 256 << 10,
    least: 16 << 10,
};
/// Of what a client sends. It may be far away, so the largest is as much as the system gives.
const CLIENTS: Share = Share {
    all: 32 << 20,
    most: 1 << 20,
    least: 16 << 10,
};

/// What is shared by all that goes on in a workspace, in bytes. The system doubles what it is told, for what
/// it needs itself.
#[derive(Debug)]
struct Share {
    all: usize,
    most: usize,
    least: usize,
}

impl Share {
    fn of(&self, going: usize) -> usize {
        (self.all / going.max(1)).clamp(self.least, self.most)
    }
}

/// Bounds what waits in a connection to a pod, in whose workspace so much goes on.
pub fn towards_pod(connection: RawFd, going: usize) {
    let bytes = PODS.of(going);
    let set = set_recv_buf(connection, bytes).and_then(|()| set_snd_buf(connection, bytes));
    if let Err(error) = set {
        tracing::debug!(%error, "a pod's connection has the system's buffers");
    }
}

/// Bounds what waits in a client's connection, in whose workspace so much goes on. It stays so for as long as
/// the connection does.
pub fn from_client(connection: RawFd, going: usize) {
    let bytes = CLIENTS.of(going);
    if bytes < CLIENTS.most
        && let Err(error) = set_recv_buf(connection, bytes)
    {
        tracing::debug!(%error, "a client's connection has the system's buffers");
    }
}

/// How much of a body is read at once from a client, in whose workspace so much goes on.
#[must_use]
pub fn piece(going: usize) -> usize {
    PODS.of(going)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::SockRef;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;

    #[test]
    fn what_waits_in_a_connection_is_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (options, number) = (SockRef::from(&connection), connection.as_raw_fd());
        let both = || {
            let came = options.recv_buffer_size().unwrap();
            (came, options.send_buffer_size().unwrap())
        };
        let system = both();
        from_client(number, 1);
        assert_eq!(both(), system);
        from_client(number, 2000);
        assert_eq!(both(), (2 * 16_777, system.1));
        towards_pod(number, 200);
        assert_eq!(both(), (2 * 41_943, 2 * 41_943));
    }

    /// What all may have together, opened one after the other.
    fn together(share: &Share, count: usize) -> usize {
        (1..=count).map(|going| share.of(going)).sum()
    }

    #[test]
    fn few_have_all_they_can_use_and_many_share() {
        for share in [&PODS, &CLIENTS] {
            assert_eq!(share.of(0), share.most);
            assert_eq!(share.of(share.all / share.most), share.most);
            assert_eq!(share.of(100_000), share.least);
        }
        // As many as there may be at first: twice as much in memory.
        assert!(together(&PODS, 2000) < 64 << 20);
        assert!(together(&CLIENTS, 2000) < 200 << 20);
    }
}
