//! Binding sockets, with errors that name the flag.

use std::{io, net::SocketAddr};

use tokio::net::TcpListener;

/// A socket that could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("--{flag} {addr}: {}", reason(.source))]
pub struct ListenError {
    /// The flag that gave the address, without dashes.
    pub flag: &'static str,
    /// The address.
    pub addr: SocketAddr,
    /// What the operating system said.
    pub source: io::Error,
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the port is in use; stop the program that holds it, or choose another port".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; use one of its own, 127.0.0.1 or 0.0.0.0".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "not allowed; ports under 1024 need a privilege, choose a higher one".to_owned()
        }
        _ => format!("cannot listen there: {error}"),
    }
}

/// Binds `addr`; port 0 lets the system choose (read it back with `local_addr`).
///
/// # Errors
/// [`ListenError`], naming `flag`.
pub async fn bind(flag: &'static str, addr: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(addr)
        .await
        .map_err(|source| ListenError { flag, addr, source })
}
