//! What became of everything that clients did.

use super::doors::Life;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Failures that are kept in full.
const SAMPLES: usize = 40;

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Page,
    Browser,
    Upload,
    Download,
    Events,
    Socket,
    Vanish,
}

impl Kind {
    pub(super) const ALL: [(Self, &'static str); 7] = [
        (Self::Page, "requests with a bearer token"),
        (Self::Browser, "pages in a browser's session"),
        (Self::Upload, "uploads"),
        (Self::Download, "downloads"),
        (Self::Events, "event streams"),
        (Self::Socket, "WebSockets"),
        (Self::Vanish, "clients that vanish"),
    ];
}

/// Why something ended that may: the list of docs/edge.md, "Expected closes".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// It was in flight through a proxy that was killed.
    Killed,
    /// It was still open when a proxy that stops had given it its time; or it is a WebSocket, which
    /// is told at once.
    Stopped,
    /// It was open on a pod that was replaced.
    Replaced,
    /// A page was asked for while there was no pod: it got the waiting page, and reloaded.
    Waited,
    /// An idle connection was closed just when it was used again; nothing was lost.
    Stale,
}

impl Why {
    pub(super) const ALL: [(Self, &'static str); 5] = [
        (Self::Killed, "through a killed proxy"),
        (Self::Stopped, "through a stopping proxy"),
        (Self::Replaced, "on a replaced pod"),
        (Self::Waited, "waiting page, then served"),
        (Self::Stale, "idle connection closed, asked again"),
    ];
}

/// Counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub(super) done: BTreeMap<Kind, u64>,
    pub(super) slowest: BTreeMap<Kind, Duration>,
    pub(super) expected: BTreeMap<(Kind, Why), u64>,
    pub(super) failed: BTreeMap<Kind, u64>,
    pub(super) samples: Vec<String>,
}

/// Counts that many share.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Arc<Mutex<Counts>>);

impl Tally {
    fn with(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// It went well, and took so long.
    pub(super) fn done(&self, kind: Kind, took: Duration) {
        self.with(|counts| {
            *counts.done.entry(kind).or_default() += 1;
            let slowest = counts.slowest.entry(kind).or_default();
            *slowest = took.max(*slowest);
        });
    }

    /// It ended in a way that is on the list.
    pub(super) fn expected(&self, kind: Kind, why: Why) {
        self.with(|counts| *counts.expected.entry((kind, why)).or_default() += 1);
    }

    /// It broke off on a connection through a proxy in that life.
    pub(super) fn broke(&self, kind: Kind, life: &Life, what: &str) {
        if life.is_killed() {
            self.expected(kind, Why::Killed);
        } else if life.is_over() {
            self.expected(kind, Why::Stopped);
        } else {
            let stopping = if life.is_stopping() {
                " (its proxy stops)"
            } else {
                ""
            };
            self.failed(kind, &format!("{what}{stopping}"));
        }
    }

    /// It must not have ended so.
    pub(super) fn failed(&self, kind: Kind, what: &str) {
        self.with(|counts| {
            *counts.failed.entry(kind).or_default() += 1;
            if counts.samples.len() < SAMPLES {
                counts.samples.push(format!("{kind:?}: {what}"));
            }
        });
    }

    /// What there is so far.
    pub(super) fn counts(&self) -> Counts {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
