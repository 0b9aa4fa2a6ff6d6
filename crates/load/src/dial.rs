//! Where to connect to, and a TCP stream that counts what it reads.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::{fmt, io};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use url::{Host, Url};

use crate::LoadError;

/// Host and port of a plain-text URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    host: Host<String>,
    port: u16,
    /// As the `Host` header has it.
    authority: String,
}

impl Endpoint {
    /// Takes it out of an `http` or `ws` URL.
    pub(crate) fn of(url: &Url) -> Result<Self, LoadError> {
        let error = || LoadError::Target {
            scheme: url.scheme().to_owned(),
        };
        if !matches!(url.scheme(), "http" | "ws") {
            return Err(error());
        }
        let host = url.host().ok_or_else(error)?.to_owned();
        let port = url.port_or_known_default().ok_or_else(error)?;
        let authority = url
            .port()
            .map_or_else(|| host.to_string(), |port| format!("{host}:{port}"));
        Ok(Self {
            host,
            port,
            authority,
        })
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Names under `localhost` are loopback without asking a resolver (RFC 6761, section
    /// 6.3): not every system's resolver knows `anything.localhost`.
    fn loopback(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Ipv4(ip) => Some(IpAddr::V4(*ip)),
            Host::Ipv6(ip) => Some(IpAddr::V6(*ip)),
            Host::Domain(name) => {
                let name = name.trim_end_matches('.');
                (name == "localhost" || name.ends_with(".localhost"))
                    .then_some(IpAddr::V4(Ipv4Addr::LOCALHOST))
            }
        }
    }

    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        let stream = match (self.loopback(), &self.host) {
            (Some(ip), _) => TcpStream::connect(SocketAddr::new(ip, self.port)).await?,
            (None, host) => TcpStream::connect((host.to_string(), self.port)).await?,
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Counts the bytes that were read, so that "not one byte of an answer came" is a fact.
#[derive(Debug)]
pub(crate) struct Counted {
    stream: TcpStream,
    read: Arc<AtomicU64>,
}

impl Counted {
    pub(crate) fn new(stream: TcpStream) -> (Self, Arc<AtomicU64>) {
        let read = Arc::new(AtomicU64::new(0));
        (
            Self {
                stream,
                read: Arc::clone(&read),
            },
            read,
        )
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let got = buf.filled().len().saturating_sub(before);
        self.read.fetch_add(got as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_hosts_are_loopback() {
        let endpoint = |url: &str| Endpoint::of(&Url::parse(url).unwrap());
        let demo = endpoint("http://demo.localhost:9009/x").unwrap();
        assert_eq!(demo.loopback(), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert_eq!(demo.authority(), "demo.localhost:9009");
        assert_eq!(
            endpoint("ws://127.0.0.1/").unwrap().to_string(),
            "127.0.0.1:80"
        );
        assert_eq!(endpoint("http://[::1]:5/").unwrap().authority(), "[::1]:5");
        assert_eq!(endpoint("http://notlocalhost/").unwrap().loopback(), None);
        assert!(
            matches!(endpoint("https://a/"), Err(LoadError::Target { scheme }) if scheme == "https")
        );
        assert!(endpoint("unix:/x").is_err());
    }
}
