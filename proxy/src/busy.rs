//! How much goes on in one workspace at once, so that none of them takes what all share.
//!
//! Two counts, each with a bound: requests with their answers, streams among them; and WebSockets,
//! which last for days and would keep requests out. A place is one atomic step, and is given back by
//! its guard, whatever becomes of the task that holds it.

use crate::sessions::Kind;
use crate::table::Workspace;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much may go on in one workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most requests (`--max-requests-per-workspace`).
    pub requests: usize,
    /// Most WebSockets (`--max-sockets-per-workspace`).
    pub sockets: usize,
}

/// What goes on in one workspace.
#[derive(Debug, Default)]
pub(crate) struct Going {
    requests: AtomicUsize,
    sockets: AtomicUsize,
}

impl Going {
    fn of(&self, kind: Kind) -> &AtomicUsize {
        match kind {
            Kind::Request => &self.requests,
            Kind::Socket => &self.sockets,
        }
    }
}

/// The place of one request or socket.
#[derive(Debug)]
pub struct Busy {
    workspace: Arc<Workspace>,
    kind: Kind,
    /// How many there were, with this one.
    going: usize,
}

impl Busy {
    /// A place in that workspace; `None`: all are taken.
    #[must_use]
    pub fn take(workspace: &Arc<Workspace>, kind: Kind, bounds: &Bounds) -> Option<Self> {
        let most = match kind {
            Kind::Request => bounds.requests,
            Kind::Socket => bounds.sockets,
        };
        let before = workspace.going.of(kind).fetch_add(1, Ordering::Relaxed);
        let place = Self {
            workspace: workspace.clone(),
            kind,
            going: before + 1,
        };
        (before < most).then_some(place)
    }

    /// How many of its kind went on in its workspace when it was taken, with it.
    #[must_use]
    pub fn going(&self) -> usize {
        self.going
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let going = self.workspace.going.of(self.kind);
        going.fetch_sub(1, Ordering::Relaxed);
    }
}
