//! Connections to pods, by pod: none outlives its pod for long.
//!
//! When a pod's object is gone, its connections have usually ended with its processes. Where they have
//! not (a node that is gone without a word, a forced deletion, an application that will not stop), what
//! is in flight on them would wait for a TCP time-out, and what is idle could be met by whoever gets the
//! pod's address. So they are shut down after a moment in which last bytes may still arrive.
//!
//! Pingora owns the connections and closes them; known here are their numbers alone. (A duplicate of
//! each would keep it open beyond its close.) A number is looked at before it is shut down, and left
//! alone where it is another connection's by now. Left is the moment between the look and the call:
//! should Pingora close the connection in it, and another one get its number, that one is cut in its
//! place, as by a network that fails. No byte goes astray, and it takes a connection that has outlived
//! its pod by [`GRACE`] and ends by itself within these microseconds.

use nix::errno::Errno;
use nix::sys::socket::{Shutdown, SockaddrStorage, getpeername, getsockname, shutdown};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a pod's connections may go on after it is gone: longer than a connect takes, so that none
/// is made afterwards.
const GRACE: Duration = Duration::from_secs(5);
/// How long it is known afterwards that they were shut down.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// So many of one pod are kept before those are looked for that have ended.
const LOOK_FROM: usize = 32;

/// The connections. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Lines(Arc<Mutex<HashMap<Arc<str>, Pod>>>);

#[derive(Debug, Default)]
struct Pod {
    open: Vec<Connection>,
    /// At how many those are looked for that have ended.
    look_at: usize,
    shut_down: bool,
}

/// One connection: its number may be another's once it is closed, its two addresses are nobody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Connection {
    number: RawFd,
    own: SocketAddr,
    pod: SocketAddr,
}

impl Connection {
    fn of(number: RawFd) -> Option<Self> {
        Some(Self {
            number,
            own: inet(getsockname(number))?,
            pod: inet(getpeername(number))?,
        })
    }

    /// Whether the number is still this connection's.
    fn is_open(&self) -> bool {
        Self::of(self.number) == Some(*self)
    }
}

fn inet(address: Result<SockaddrStorage, Errno>) -> Option<SocketAddr> {
    let address = address.ok()?;
    let v4 = address.as_sockaddr_in().map(|v4| {
        let ip = IpAddr::V4(v4.ip());
        SocketAddr::new(ip, v4.port())
    });
    v4.or_else(|| {
        let v6 = address.as_sockaddr_in6()?;
        Some(SocketAddr::new(IpAddr::V6(v6.ip()), v6.port()))
    })
}

/// Shuts a connection down, if its number is still that of one to `pod`.
pub fn shut_down(number: RawFd, pod: SocketAddr) -> bool {
    let now = getpeername(number);
    inet(now) == Some(pod) && shutdown(number, Shutdown::Both).is_ok()
}

impl Lines {
    /// Notes a new connection to a pod. Costs two system calls, for each connection and not for each
    /// request.
    pub fn opened(&self, pod: &Arc<str>, number: RawFd) {
        let Some(connection) = Connection::of(number) else {
            return;
        };
        let mut pods = self.lock();
        let pod = pods.entry(pod.clone()).or_default();
        if pod.open.len() >= pod.look_at.max(LOOK_FROM) {
            pod.open.retain(Connection::is_open);
            pod.look_at = pod.open.len() * 2;
        }
        pod.open.push(connection);
    }

    /// Whether a pod's connections were shut down: what ends then ends before its time.
    #[must_use]
    pub fn were_shut_down(&self, pod: &str) -> bool {
        self.lock().get(pod).is_some_and(|pod| pod.shut_down)
    }

    /// Shuts a pod's connections down once it has been gone for a moment; in a task of its own.
    pub fn end_soon(&self, pod: &str) {
        let (this, pod): (_, Arc<str>) = (self.clone(), Arc::from(pod));
        tokio::spawn(async move {
            tokio::time::sleep(GRACE).await;
            let ended = this.shut_down(&pod);
            if ended > 0 {
                tracing::info!(
                    pod = &*pod,
                    connections = ended,
                    "connections outlived their pod; they were shut down"
                );
            }
            tokio::time::sleep(KNOWN_FOR).await;
            this.lock().remove(&pod);
        });
    }

    fn shut_down(&self, pod: &Arc<str>) -> usize {
        let open = {
            let mut pods = self.lock();
            let pod = pods.entry(pod.clone()).or_default();
            // Known first: whoever reads the end of a connection finds that it was ours.
            pod.shut_down = true;
            std::mem::take(&mut pod.open)
        };
        // All others' go on meanwhile.
        let ends = |connection: &&Connection| {
            connection.is_open() && shutdown(connection.number, Shutdown::Both).is_ok()
        };
        open.iter().filter(ends).count()
    }

    /// Connections known, ended ones among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().values().map(|pod| pod.open.len()).sum()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Pod>> {
        // Whoever panicked left whole entries behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;

    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (ours, listener.accept().unwrap().0)
    }

    #[test]
    fn a_pods_connections_are_shut_down_and_no_others() {
        let (a, b): (Arc<str>, Arc<str>) = (Arc::from("a"), Arc::from("b"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let lines = Lines::default();
        let (mut first, mut of_first) = pair(&listener);
        let (mut other, mut of_other) = pair(&listener);
        lines.opened(&a, first.as_raw_fd());
        lines.opened(&b, other.as_raw_fd());
        assert!(!lines.were_shut_down("a"));
        assert_eq!(lines.shut_down(&a), 1);
        assert!(lines.were_shut_down("a") && !lines.were_shut_down("b"));
        let mut heard = [0; 1];
        assert_eq!(of_first.read(&mut heard).unwrap(), 0);
        assert_eq!(first.read(&mut heard).unwrap(), 0);
        of_other.write_all(b"x").unwrap();
        assert_eq!(other.read(&mut heard).unwrap(), 1);
    }

    #[test]
    fn a_number_that_is_anothers_by_now_is_left_alone() {
        let pod: Arc<str> = Arc::from("a");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let lines = Lines::default();
        let (ended, _) = pair(&listener);
        let stale = Connection::of(ended.as_raw_fd()).unwrap();
        drop(ended);
        let (mut other, mut of_other) = pair(&listener);
        // As if the system had given out the number again.
        lines.opened(&pod, other.as_raw_fd());
        lines.lock().get_mut(&pod).unwrap().open[0] = Connection {
            number: other.as_raw_fd(),
            ..stale
        };
        assert_eq!(lines.shut_down(&pod), 0);
        of_other.write_all(b"x").unwrap();
        assert_eq!(other.read(&mut [0; 1]).unwrap(), 1);
    }

    #[test]
    fn what_has_ended_is_forgotten() {
        let pod: Arc<str> = Arc::from("a");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let lines = Lines::default();
        let (kept, _of_kept) = pair(&listener);
        lines.opened(&pod, kept.as_raw_fd());
        for _ in 0..10 * LOOK_FROM {
            let (ended, _) = pair(&listener);
            lines.opened(&pod, ended.as_raw_fd());
        }
        assert!(lines.len() <= LOOK_FROM + 1, "{}", lines.len());
        assert_eq!(lines.shut_down(&pod), 1);
    }
}
