//! The listening socket.

use crate::buffers::UNSENT;
use nogoo9_runtime::listen::ListenError;
use socket2::{SockFilter, SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connections that the system takes before we do; it has a bound of its own, `somaxconn`.
const BACKLOG: u32 = 65_535;
/// Silence after which a client is asked whether it is still there, how often, and how many times. One
/// that is gone while something is on its way to it is given up by the system's retransmissions
/// (`tcp_retries2`, some 15 minutes). TCP_USER_TIMEOUT would be faster, but it also ends the connections
/// of clients that are there and do not read.
const ASK_AFTER: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_secs(10);
const ASK_TIMES: u32 = 6;

/// An address that is ours.
#[derive(Debug)]
pub struct Bound {
    socket: Socket,
    /// Which one.
    pub address: SocketAddr,
}

#[derive(Debug)]
enum Socket {
    Listening(TcpListener),
    /// From the first moment of listening on a share of the clients is ours, who would be served by
    /// others meanwhile.
    Shared(TcpSocket),
}

/// Binds `addr`, for this process alone or for others as well. If it is for this one alone, who comes
/// is let in from now on, and waits until somebody accepts.
///
/// # Errors
/// [`ListenError`], naming `--listen`.
pub fn bind(addr: SocketAddr, reuse_port: bool) -> Result<Bound, ListenError> {
    bound(addr, reuse_port).map_err(|source| failed(addr, source))
}

impl Bound {
    /// Listens: from now on clients may come.
    ///
    /// # Errors
    /// [`ListenError`], naming `--listen`.
    pub fn listen(self) -> Result<TcpListener, ListenError> {
        match self.socket {
            Socket::Listening(listener) => Ok(listener),
            Socket::Shared(socket) => socket
                .listen(BACKLOG)
                .map_err(|source| failed(self.address, source)),
        }
    }
}

fn failed(addr: SocketAddr, source: io::Error) -> ListenError {
    ListenError {
        flag: "listen",
        addr,
        source,
    }
}

fn bound(addr: SocketAddr, reuse_port: bool) -> io::Result<Bound> {
    let socket = if addr.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_reuseaddr(true)?;
    let options = SockRef::from(&socket);
    if reuse_port {
        options.set_reuse_port(true)?;
    }
    // Accepted sockets inherit these.
    options.set_tcp_nodelay(true)?;
    options.set_tcp_notsent_lowat(UNSENT)?;
    options.set_keepalive(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(ASK_AFTER)
        .with_interval(ASK_EVERY)
        .with_retries(ASK_TIMES);
    options.set_tcp_keepalive(&keepalive)?;
    socket.bind(addr)?;
    let address = socket.local_addr()?;
    let socket = match reuse_port {
        true => Socket::Shared(socket),
        false => Socket::Listening(socket.listen(BACKLOG)?),
    };
    Ok(Bound { socket, address })
}

/// Whether it is one connection that failed, which broke before it was taken, and not all of them.
pub(super) fn is_of_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// How long the handshakes that have begun may take to end: less than the second after which clients try
/// again that are turned away.
pub(super) const HANDSHAKE: Duration = Duration::from_millis(900);
/// Drops the first packet of each handshake, and nothing else: loads the byte of TCP's flags (RFC 9293,
/// section 3.1), and asks for SYN without ACK.
const NO_SYN: [SockFilter; 5] = [
    SockFilter::new(0x30, 0, 0, 13),
    SockFilter::new(0x54, 0, 0, 0x12),
    SockFilter::new(0x15, 0, 1, 0x02),
    SockFilter::new(0x06, 0, 0, 0),
    SockFilter::new(0x06, 0, 0, u32::MAX),
];

/// Whether others may listen at the address too, and nobody new is let in here from now on. The system
/// resets the handshakes that are under way at a listener that closes: none shall be then. Clients whose
/// first packet is dropped send it again after a second, when it comes to another listener.
pub(super) fn turn_away(listener: &TcpListener) -> bool {
    let options = SockRef::from(listener);
    if !options.reuse_port().unwrap_or(false) {
        return false;
    }
    options
        .attach_filter(&NO_SYN)
        .inspect_err(|error| tracing::warn!(%error, "clients may be reset while this proxy closes"))
        .is_ok()
}

/// Takes what the system has let in already, and closes the socket: what is left in its queue then is
/// reset, also if others listen on the same address.
pub(super) fn drain(listener: TcpListener, mut take: impl FnMut(TcpStream, SocketAddr)) {
    let Ok(listener) = listener.into_std() else {
        return;
    };
    let mut came = Vec::new();
    while let Ok(connection) = listener.accept() {
        came.push(connection);
    }
    drop(listener);
    for (tcp, peer) in came {
        let tcp = tcp
            .set_nonblocking(true)
            .and_then(|()| TcpStream::from_std(tcp));
        if let Ok(tcp) = tcp {
            take(tcp, peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    fn local() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    #[tokio::test]
    async fn what_is_set_on_the_listener_is_set_on_its_connections() {
        let listener = bind(local(), false).unwrap().listen().unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (served, _) = listener.accept().await.unwrap();
        let options = SockRef::from(&served);
        assert!(options.tcp_nodelay().unwrap() && options.keepalive().unwrap());
        assert_eq!(options.tcp_keepalive_time().unwrap(), ASK_AFTER);
        assert_eq!(options.tcp_keepalive_interval().unwrap(), ASK_EVERY);
        assert_eq!(options.tcp_keepalive_retries().unwrap(), ASK_TIMES);
        assert_eq!(options.tcp_notsent_lowat().unwrap(), UNSENT);
        // Who reads nothing is there all the same.
        assert_eq!(options.tcp_user_timeout().unwrap(), None);
    }

    #[tokio::test]
    async fn an_address_is_shared_only_if_both_say_so() {
        let first = bind(local(), true).unwrap();
        let address = first.address;
        let first = first.listen().unwrap();
        // It has no client before it listens: all of them are the first one's.
        let second = bind(address, true).unwrap();
        assert_eq!(second.address, address);
        for _ in 0..50 {
            let (client, served) = tokio::join!(TcpStream::connect(address), first.accept());
            client.unwrap();
            served.unwrap();
        }
        second.listen().unwrap();
        assert!(bind(address, false).is_err());
        let alone = bind(local(), false).unwrap();
        let error = bind(alone.address, true).unwrap_err();
        assert!(error.to_string().contains("--listen"), "{error}");
    }

    #[tokio::test]
    async fn who_is_alone_lets_clients_in_before_they_are_served() {
        let alone = bind(local(), false).unwrap();
        TcpStream::connect(alone.address).await.unwrap();
        alone.listen().unwrap().accept().await.unwrap();
    }

    #[tokio::test]
    async fn who_comes_while_one_of_two_closes_is_the_others() {
        let first = bind(local(), true).unwrap();
        let address = first.address;
        let first = first.listen().unwrap();
        let early = TcpStream::connect(address).await.unwrap();
        assert!(turn_away(&first));
        let second = bind(address, true).unwrap().listen().unwrap();
        // Half of them begin where nobody lets them in.
        let late = (0..50).map(|_| tokio::spawn(TcpStream::connect(address)));
        let late: Vec<_> = late.collect();
        let mut others = 0;
        let lasted = tokio::time::timeout(HANDSHAKE, async {
            loop {
                second.accept().await.unwrap();
                others += 1;
            }
        });
        assert!(lasted.await.is_err());
        let mut served = Vec::new();
        drain(first, |tcp, peer| served.push((tcp, peer)));
        let peers: Vec<_> = served.iter().map(|(_, peer)| *peer).collect();
        assert_eq!(peers, [early.local_addr().unwrap()]);
        assert!((1..50).contains(&others), "{others} of 50");
        while others < 50 {
            second.accept().await.unwrap();
            others += 1;
        }
        for client in late {
            client.await.unwrap().unwrap();
        }
        assert!(!turn_away(&bind(local(), false).unwrap().listen().unwrap()));
    }

    #[tokio::test]
    async fn who_was_let_in_already_is_served() {
        let listener = bind(local(), false).unwrap().listen().unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients = Vec::new();
        for _ in 0..50 {
            clients.push(TcpStream::connect(address).await.unwrap());
        }
        let mut served = Vec::new();
        drain(listener, |tcp, _| served.push(tcp));
        assert_eq!(served.len(), clients.len());
        for (client, served) in clients.iter_mut().zip(&mut served) {
            served.write_all(b"served").await.unwrap();
            let mut heard = [0; 6];
            client.read_exact(&mut heard).await.unwrap();
            assert_eq!(&heard, b"served");
        }
        assert!(TcpStream::connect(address).await.is_err());
    }
}
