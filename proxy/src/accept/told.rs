//! Reads the header of the PROXY protocol off a socket, and not a byte more: what follows may be TLS.

use super::proxy_protocol::{MOST, Malformed, Parsed, parse};
use std::io;
use std::net::SocketAddr;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// Why nobody said whose a connection is.
#[derive(Debug, thiserror::Error)]
pub(super) enum Untold {
    /// What came is no header.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The connection has ended; balancers do that to see whether somebody listens.
    #[error("the connection has ended")]
    Gone,
}

impl From<io::Error> for Untold {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Whose the connection is; `None`: the proxy's own.
///
/// # Errors
/// It does not begin with a header, or ends.
pub(super) async fn read(tcp: &mut TcpStream) -> Result<Option<SocketAddr>, Untold> {
    let mut header = Vec::new();
    loop {
        let before = header.len();
        // A header is no longer, so there is always room until it is whole or malformed.
        header.resize(MOST, 0);
        let came = tcp
            .peek(header.get_mut(before..).unwrap_or_default())
            .await?;
        if came == 0 {
            return Err(Untold::Gone);
        }
        header.truncate(before + came);
        let (whole, client) = match parse(&header)? {
            Parsed::More => (header.len(), None),
            Parsed::Whole { length, client } => (length, Some(client)),
        };
        let part = header.get_mut(before..whole).unwrap_or_default();
        tcp.read_exact(part).await?;
        if let Some(client) = client {
            return Ok(client);
        }
    }
}
