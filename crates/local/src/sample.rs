//! `nogoo9-sample`: a workspace to try things with. A page with a real shell, a clock
//! that streams, an upload, files that outlive the pod, and a few endpoints that tests and demonstrations need
//! (slow, streamed, echoed and failing answers). With `DOCS_PORT` it serves a second port, a page of its own.
//!
//! It is an ordinary workspace application: it knows nothing of the edge in front of
//! it, uses relative URLs only, and is told who it is by its environment ([`Config`]).
//! On `SIGTERM` its health check fails, requests in flight may finish, streams end and
//! sockets close with 1012 (service restart); or it is gone at once, as programs are that
//! know nothing of signals ([`Config::abrupt`]).

mod config;
mod files;
mod grpc;
mod hostile;
mod lock;
pub mod noise;
mod page;
mod routes;
mod shell;
mod sockets;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use config::{Config, ConfigError};

/// How long requests in flight may take once the program is asked to end.
const DRAIN: Duration = Duration::from_secs(10);

/// One running sample.
#[derive(Debug)]
struct Sample {
    config: Config,
    ready_at: Instant,
    /// It was asked to end.
    closing: CancellationToken,
    /// It was asked to end badly.
    died: CancellationToken,
    sockets: TaskTracker,
}

/// Why the sample could not run.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// Its address cannot be bound.
    #[error("cannot listen on {address}: {source}; set POD_IP and PORT to a free address")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Its files are not its own.
    #[error("LOCK_DATA=1: {folder}: {source}", folder = folder.display())]
    Folder {
        /// Where files are kept.
        folder: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signal(io::Error),
    /// The server failed.
    #[error("the server failed: {0}")]
    Serve(io::Error),
}

/// Runs until `SIGTERM` or `SIGINT`; the exit code of the process.
///
/// # Errors
/// When it cannot start.
pub async fn run(config: Config) -> Result<ExitCode, SampleError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(SampleError::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(SampleError::Signal)?;
    // Caught, so that shells begin with the default even if this was started with nohup.
    let _hangup = signal(SignalKind::hangup()).map_err(SampleError::Signal)?;
    let _quit = signal(SignalKind::quit()).map_err(SampleError::Signal)?;
    if config.crash {
        tracing::error!("CRASH=1: ending at once");
        return Ok(ExitCode::FAILURE);
    }
    let _only_writer = match &config.data {
        Some(folder) if config.lock => Some(lock(folder, &config.pod)?),
        _ => None,
    };
    tokio::select! {
        () = tokio::time::sleep(config.start_delay) => {}
        _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
    }
    let address = config.address();
    if config.hostile {
        return tokio::select! {
            served = hostile::serve(address) => {
                served.map(|()| ExitCode::SUCCESS).map_err(SampleError::Serve)
            }
            _ = terminate.recv() => Ok(ExitCode::SUCCESS),
        };
    }
    let listener = bind(address).await?;
    let docs = match config.docs_port {
        Some(port) => Some(bind(SocketAddr::new(config.ip, port)).await?),
        None => None,
    };
    let docs_at = docs.as_ref().and_then(|docs| docs.local_addr().ok());
    let sample = Arc::new(Sample {
        ready_at: Instant::now() + config.ready_delay,
        config,
        closing: CancellationToken::new(),
        died: CancellationToken::new(),
        sockets: TaskTracker::new(),
    });
    tracing::info!(
        address = %listener.local_addr().unwrap_or(address),
        version = sample.config.version,
        docs = docs_at.map(tracing::field::display),
        "the sample workspace is up"
    );
    let (signalled, died) = (sample.closing.clone(), sample.died.clone());
    let abrupt = sample.config.abrupt;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to end");
        if abrupt {
            died.cancel();
        } else {
            signalled.cancel();
        }
    });
    serve(listener, docs, sample).await
}

async fn bind(address: SocketAddr) -> Result<TcpListener, SampleError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| SampleError::Listen { address, source })
}

fn lock(folder: &Path, pod: &str) -> Result<File, SampleError> {
    lock::take(folder, pod).map_err(|source| SampleError::Folder {
        folder: folder.to_owned(),
        source,
    })
}

async fn serve(
    listener: TcpListener,
    docs: Option<TcpListener>,
    sample: Arc<Sample>,
) -> Result<ExitCode, SampleError> {
    let listener = listener.tap_io(|stream| {
        // Keystrokes are small and must not wait for each other.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
    });
    let closing = sample.closing.clone();
    let main = axum::serve(listener, routes::router(Arc::clone(&sample)))
        .with_graceful_shutdown(closing.clone().cancelled_owned());
    let beside = async {
        let Some(docs) = docs else { return Ok(()) };
        axum::serve(docs, routes::docs(Arc::clone(&sample)))
            .with_graceful_shutdown(closing.clone().cancelled_owned())
            .await
    };
    let server = async { tokio::try_join!(main.into_future(), beside) };
    let bound = async {
        closing.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        result = server => {
            result.map_err(SampleError::Serve)?;
        }
        () = bound => tracing::warn!("some requests did not finish in time"),
        () = sample.died.cancelled() => {
            tracing::error!("told to die");
            return Ok(ExitCode::FAILURE);
        }
    }
    sample.sockets.close();
    let _ = tokio::time::timeout(Duration::from_secs(2), sample.sockets.wait()).await;
    Ok(ExitCode::SUCCESS)
}
