//! Addresses on loopback: such as are free until they are taken, and such as one server after another
//! listens at.
//!
//! A process that is started has a copy of everything that is open here, until it runs its own program.
//! All tests start processes, beside one another, so a listener may outlive its last handle by as long
//! as that takes: its address is then still in use. Hence nothing here listens only to see whether an
//! address is free, and what shall end says so to the socket, of which there is but one.

use socket2::{Domain, SockRef, Socket, Type};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

/// An address that stays free until somebody is told to take it: below the range of ports that Linux
/// gives to whoever wants any, and to outgoing connections.
pub(crate) fn free() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        // Processes begin at different places, so that they seldom meet.
        let begin = std::process::id() % 120;
        let nth = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + (begin * 100 + nth) % 12_000;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(port).unwrap()));
        if bound(address).is_ok() {
            return address;
        }
    }
}

/// An address that servers of one test have in turn, while nobody listens there too. A socket that does
/// not listen is bound to it: so Linux gives its port to nobody who wants any, nor to an outgoing
/// connection, and still lets those listen there who name it (with `SO_REUSEADDR`, as all do here).
pub(crate) struct Reserved {
    pub(crate) address: SocketAddr,
    _socket: Socket,
}

impl Reserved {
    pub(crate) fn any() -> Self {
        Self::at((Ipv4Addr::LOCALHOST, 0).into())
    }

    /// On a host that no other one of this process is on.
    pub(crate) fn alone() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let host = [127, 64, 0, NEXT.fetch_add(1, Ordering::Relaxed)];
        Self::at((host, 0).into())
    }

    pub(crate) fn at(address: SocketAddr) -> Self {
        let socket = bound(address).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        Self {
            address,
            _socket: socket,
        }
    }
}

fn bound(address: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A listener, to end it as its process's end would: whoever has a copy of it, it listens no more.
pub(crate) struct Listening(OwnedFd);

impl Listening {
    pub(crate) fn of(listener: &impl AsFd) -> Self {
        Self(listener.as_fd().try_clone_to_owned().unwrap())
    }

    pub(crate) fn end(&self) {
        SockRef::from(&self.0).shutdown(Shutdown::Both).unwrap();
    }
}

/// The copy is that of a process which has not yet come to its own program.
#[test]
fn an_address_is_free_at_once_whoever_has_a_copy_of_its_listener() {
    let reserved = Reserved::any();
    let first = TcpListener::bind(reserved.address).unwrap();
    let copy = first.try_clone().unwrap();
    let waiting = TcpStream::connect(reserved.address).unwrap();
    let open = (
        TcpStream::connect(reserved.address).unwrap(),
        first.accept().unwrap(),
    );
    let listening = Listening::of(&first);
    assert!(TcpListener::bind(reserved.address).is_err());
    listening.end();
    drop(first);
    assert!(TcpStream::connect(reserved.address).is_err());
    let second = TcpListener::bind(reserved.address).unwrap();
    let _connected = TcpStream::connect(reserved.address).unwrap();
    second.accept().unwrap();
    drop((copy, waiting, open));
}
