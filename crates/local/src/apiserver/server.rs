//! Accepts TLS connections and serves HTTP/1.1 on them.

use std::convert::Infallible;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::socket::{Shutdown, shutdown};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::http::{Api, handle};

/// Connections at once; a watch holds one.
const CONNECTIONS: usize = 1024;
/// For the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// For the head of a request.
const HEAD: Duration = Duration::from_secs(30);
/// For requests in flight when the server stops.
const DRAIN: Duration = Duration::from_secs(3);
/// After an accept that failed, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until told to stop, then lets requests in flight finish.
pub(crate) async fn run(listener: TcpListener, tls: TlsAcceptor, api: Arc<Api>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = api.shutdown.cancelled() => break,
        };
        let Ok(slot) = slot else { break };
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, tls.clone(), Arc::clone(&api), slot));
                }
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            () = api.shutdown.cancelled() => break,
        }
        // Reaps what has ended.
        while connections.try_join_next().is_some() {}
    }
    close(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        connections.shutdown().await;
    }
}

/// Frees the address at once. A process that this one starts has a copy of the listener until it runs
/// its own program, so that closing it here alone may leave it listening.
fn close(listener: TcpListener) {
    if let Err(error) = shutdown(listener.as_raw_fd(), Shutdown::Both) {
        tracing::debug!(%error, "the listener is only closed");
    }
    drop(listener);
}

async fn connection(
    stream: TcpStream,
    tls: TlsAcceptor,
    api: Arc<Api>,
    _slot: OwnedSemaphorePermit,
) {
    // Events are small and must not wait for more of them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let stream = match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            return;
        }
        Err(_) => return,
    };
    let shutdown = api.shutdown.clone();
    let service = service_fn(move |request| {
        let api = Arc::clone(&api);
        async move { Ok::<_, Infallible>(handle(api, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(served);
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
        () = shutdown.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.as_mut().await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::{TcpListener, close};

    #[tokio::test]
    async fn the_address_is_free_whoever_has_a_copy_of_the_listener() {
        let first = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, _copy) = (first.local_addr().unwrap(), first.try_clone().unwrap());
        first.set_nonblocking(true).unwrap();
        close(TcpListener::from_std(first).unwrap());
        TcpListener::bind(address).await.unwrap();
    }
}
