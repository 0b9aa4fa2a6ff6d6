//! How much goes on in one workspace at once, and towards control, so that none of them takes what all
//! share.
//!
//! Two counts of a workspace, each with a bound: requests with their answers, streams among them; and
//! WebSockets, which last for days and would keep requests out. A place is one atomic step, and is given
//! back by its guard, whatever becomes of the task that holds it.
//!
//! Towards control anybody may go, without a credential: so what goes on there is counted by client too,
//! and one address alone keeps nobody else from signing in. Connections do not bound that, of which one
//! of HTTP/2 has a hundred streams, each with a connection of its own to control.

use crate::accept::count::{Admitted, Connections, Full};
use crate::sessions::Kind;
use crate::table::Workspace;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much may go on in one workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most requests (`--max-requests-per-workspace`).
    pub requests: usize,
    /// Most WebSockets (`--max-sockets-per-workspace`).
    pub sockets: usize,
    /// Most requests towards control (`--max-control-requests`); `None`: any number.
    pub control: Option<NonZeroUsize>,
    /// Most of them of one client (`--max-control-requests-per-client`); `None`: any number.
    pub control_each: Option<NonZeroUsize>,
}

/// What goes on towards control. Clones share the counts.
#[derive(Debug, Clone)]
pub struct TowardsControl(Connections);

impl TowardsControl {
    /// Nothing yet, and no more than `bounds` say.
    #[must_use]
    pub fn new(bounds: &Bounds) -> Self {
        // They are counted as connections are.
        Self(Connections::new(bounds.control, bounds.control_each))
    }

    /// A place for a request of that client; `None`: one who stands for many.
    ///
    /// # Errors
    /// All places are taken, or all that one client may have.
    pub fn take(&self, client: Option<IpAddr>) -> Result<Admitted, Full> {
        let mut place = self.0.admit()?;
        if let Some(client) = client {
            place.is_of(client)?;
        }
        Ok(place)
    }
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
