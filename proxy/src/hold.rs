//! Waiting with a request until its workspace has a pod, within bounds.

use crate::table::{Held, Route, Workspace};
use pingora::protocols::http::ServerSession;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How much may be held.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Longest wait of one request.
    pub timeout: Duration,
    /// Most requests of one workspace.
    pub per_workspace: usize,
    /// Most requests in all.
    pub total: usize,
}

/// Counts what is held. Clones share the count.
#[derive(Debug, Clone)]
pub struct Holds {
    /// The bounds.
    pub bounds: Bounds,
    total: Arc<AtomicUsize>,
}

/// A held request's place.
#[derive(Debug)]
pub struct Place {
    total: Arc<AtomicUsize>,
    _held: Held,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.total.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The route is another.
    Changed,
    /// The time is up.
    TimedOut,
    /// The client has gone: nobody waits for an answer.
    ClientGone,
}

impl Holds {
    /// Nothing held.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            total: Arc::new(AtomicUsize::new(0)),
        }
    }

    /// A place for one more request, if the bounds allow.
    #[must_use]
    pub fn take(&self, workspace: &Arc<Workspace>) -> Option<Place> {
        let held = Held::take(workspace, self.bounds.per_workspace)?;
        let before = self.total.fetch_add(1, Ordering::Relaxed);
        let place = Place {
            total: self.total.clone(),
            _held: held,
        };
        (before < self.bounds.total).then_some(place)
    }

    /// Requests held at this moment.
    #[must_use]
    pub fn count(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }
}

/// Waits until the workspace's route is another than `seen`, until `deadline`, or until the client
/// goes. A client that still has a body to send cannot be watched; then only the deadline counts.
pub async fn wait(
    client: &mut ServerSession,
    workspace: &Workspace,
    seen: &Arc<Route>,
    deadline: Instant,
) -> Woken {
    let watchable = client.is_http2() || client.is_body_empty();
    let changed = workspace.changed_from(seen);
    if !watchable {
        return match tokio::time::timeout_at(deadline, changed).await {
            Ok(()) => Woken::Changed,
            Err(_) => Woken::TimedOut,
        };
    }
    tokio::select! {
        () = changed => Woken::Changed,
        () = tokio::time::sleep_until(deadline) => Woken::TimedOut,
        // No data can come; only the end of the connection, or bytes that break the protocol.
        _ = client.read_body_or_idle(true) => Woken::ClientGone,
    }
}
