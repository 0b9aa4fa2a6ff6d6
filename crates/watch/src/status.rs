//! How a watch is doing, for readiness and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A handle on a watch's state; clones share it.
#[derive(Debug, Clone)]
pub struct Status(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: Instant,
    /// Milliseconds after `started` at which what is known was last proved to be what there is.
    proved: AtomicU64,
    failures_in_a_row: AtomicU32,
    events: AtomicU64,
    failures: AtomicU64,
    lists: AtomicU64,
    restarts: AtomicU64,
    went_back: AtomicU64,
    restores: AtomicU64,
    running: AtomicBool,
    synced: watch::Sender<bool>,
}

/// Totals since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Changes of single objects that the API server sent.
    pub events: u64,
    /// Lists and watches that failed.
    pub failures: u64,
    /// Full lists taken in.
    pub lists: u64,
    /// Times that all was listed anew.
    pub restarts: u64,
    /// Lists and events that were not taken in, since they were older than what was seen.
    pub went_back: u64,
    /// Times that the server's database was found put back to an older copy.
    pub restores: u64,
}

impl Status {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            proved: AtomicU64::new(0),
            failures_in_a_row: AtomicU32::new(0),
            events: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            went_back: AtomicU64::new(0),
            restores: AtomicU64::new(0),
            running: AtomicBool::new(true),
            synced: watch::Sender::new(false),
        }))
    }

    /// Resolves once the first full list was delivered.
    pub async fn synced(&self) {
        let mut receiver = self.0.synced.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = receiver.wait_for(|synced| *synced).await;
    }

    /// Whether a full list was delivered.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    /// Whether the last call to the API server failed: what is known may be old.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.0.failures_in_a_row.load(Ordering::Relaxed) > 0
    }

    /// Whether the watching task is alive.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.0.running.load(Ordering::Relaxed)
    }

    /// Time since what is known last proved to be what there is: by a change, a bookmark or a full
    /// list; before the first of them, since the start. A server that sends bookmarks keeps it within
    /// [`crate::Config::watch_seconds`], another within [`crate::Config::relist_every`].
    #[must_use]
    pub fn age(&self) -> Duration {
        let proved = Duration::from_millis(self.0.proved.load(Ordering::Relaxed));
        self.0.started.elapsed().saturating_sub(proved)
    }

    /// Totals since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            events: self.0.events.load(Ordering::Relaxed),
            failures: self.0.failures.load(Ordering::Relaxed),
            lists: self.0.lists.load(Ordering::Relaxed),
            restarts: self.0.restarts.load(Ordering::Relaxed),
            went_back: self.0.went_back.load(Ordering::Relaxed),
            restores: self.0.restores.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn event(&self) {
        self.0.events.fetch_add(1, Ordering::Relaxed);
        self.proved();
    }

    /// The server answers; that proves nothing of what is known.
    pub(crate) fn answered(&self) {
        self.0.failures_in_a_row.store(0, Ordering::Relaxed);
    }

    pub(crate) fn proved(&self) {
        let millis = u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.proved.store(millis, Ordering::Relaxed);
        self.answered();
    }

    pub(crate) fn listed(&self) {
        self.0.lists.fetch_add(1, Ordering::Relaxed);
        self.proved();
        self.0.synced.send_replace(true);
    }

    pub(crate) fn went_back(&self) {
        self.0.went_back.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn restored(&self) {
        self.0.restores.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a failure and returns how many there were in a row.
    pub(crate) fn failed(&self) -> u32 {
        self.0.failures.fetch_add(1, Ordering::Relaxed);
        self.0
            .failures_in_a_row
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }

    pub(crate) fn restarted(&self) {
        self.0.restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) {
        self.0.running.store(false, Ordering::Relaxed);
    }
}
