//! Signals become two cancellation tokens: first "finish what you do", then "stop now".

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The two steps of stopping. Clones share their tokens.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Cancelled by the first SIGTERM or SIGINT: take no new work, finish the rest.
    pub graceful: CancellationToken,
    /// Cancelled by the second: drop what is left.
    pub force: CancellationToken,
}

impl Shutdown {
    /// Both steps, tied to no signal: for tests and for parts that run inside another.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts to listen for SIGTERM and SIGINT. Call it inside a tokio runtime, before
    /// anything else is started: a signal that comes earlier ends the process.
    ///
    /// # Errors
    /// The signal handlers cannot be registered.
    pub fn listen() -> std::io::Result<Self> {
        let this = Self::new();
        let term = signal(SignalKind::terminate())?;
        let int = signal(SignalKind::interrupt())?;
        tokio::spawn(follow(this.clone(), term, int));
        Ok(this)
    }
}

async fn follow(shutdown: Shutdown, mut term: Signal, mut int: Signal) {
    for token in [&shutdown.graceful, &shutdown.force] {
        let name = tokio::select! {
            _ = term.recv() => "SIGTERM",
            _ = int.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "signal received");
        token.cancel();
    }
}
