//! Accepts TLS connections for `axum::serve`, many handshakes at once.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::pki::{Pki, PkiError};

/// For one handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at once; what comes beyond waits in the kernel's backlog.
const HANDSHAKES: usize = 64;
/// After an accept that failed, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections whose handshake is done. A slow client holds up nobody: each handshake has a
/// task of its own.
pub(super) struct TlsListener {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    addr: SocketAddr,
}

impl TlsListener {
    /// Accepts from now on, until `stop` is cancelled. Inside a tokio runtime only.
    pub(super) fn new(
        listener: TcpListener,
        addr: SocketAddr,
        pki: &Pki,
        stop: CancellationToken,
    ) -> Result<Self, PkiError> {
        let acceptor = TlsAcceptor::from(Arc::new(pki.server_config()?));
        let (done, ready) = mpsc::channel(HANDSHAKES);
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled_owned() => {}
                () = done.closed() => {}
                () = accept(&listener, &acceptor, &done) => {}
            }
        });
        Ok(Self { ready, addr })
    }
}

async fn accept(
    listener: &TcpListener,
    acceptor: &TlsAcceptor,
    done: &mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let slots = Arc::new(Semaphore::new(HANDSHAKES));
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (acceptor, done) = (acceptor.clone(), done.clone());
        tokio::spawn(async move {
            let _slot = slot;
            match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                // Nobody takes it any more: the provider is stopping.
                Ok(Ok(stream)) => drop(done.send((stream, peer)).await),
                Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => tracing::debug!("TLS handshake took too long"),
            }
        });
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // Stopped: the server's own shutdown ends the wait.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.addr)
    }
}
