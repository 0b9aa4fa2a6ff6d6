//! Pods down to the bytes: a listener whose every connection is given to a function.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// What a pod answers to the sample key of RFC 6455, section 1.3.
pub(crate) const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Such a pod. It ends with this value.
pub(crate) struct RawPod {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl RawPod {
    pub(crate) async fn start<F, Fut>(handle: F) -> Self
    where
        F: Fn(TcpStream) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::<AtomicUsize>::default();
        let counted = connections.clone();
        let task = tokio::spawn(async move {
            let mut handling = tokio::task::JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        counted.fetch_add(1, Ordering::SeqCst);
                        handling.spawn(handle(accepted.unwrap().0));
                    }
                    Some(_) = handling.join_next() => {}
                }
            }
        });
        Self {
            address,
            connections,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Connections that were made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads a head up to its empty line, and not a byte further; what came of it, if it ended before.
pub(crate) async fn head(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = Vec::new();
    let mut byte = [0; 1];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.is_ok_and(|n| n > 0) {
        head.push(byte[0]);
    }
    head
}

/// Everything until the connection ends, one way or the other.
pub(crate) async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    rest
}
