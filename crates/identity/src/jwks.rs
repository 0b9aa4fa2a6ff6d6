//! Public keys that keep themselves up to date.
//!
//! [`Keys`] is read on every request, without a lock and without waiting. A [`Refresher`], spawned
//! once by the binary, reads the [`KeySource`] at its start, then every few minutes, and soon after
//! somebody met an unknown key id, though never twice within [`Timing::min_gap`]: a flood of forged
//! tokens costs the provider one request each ten seconds.
//!
//! A source that is away never stops the process: old keys stay in use for [`Timing::max_stale`],
//! and the refresher tries again with back-off. After that they are given up, since nobody has
//! vouched for them for so long, and tokens are refused with 503 until the source is back.

use crate::keyset::KeySet;
use crate::source::{KeySource, SourceError};
use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

/// When keys are read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From one successful read to the next.
    pub interval: Duration,
    /// Least time from one read to one that an unknown key id asks for.
    pub min_gap: Duration,
    /// First pause after a failed read; doubles from there.
    pub backoff: Duration,
    /// Longest pause after a failed read.
    pub max_backoff: Duration,
    /// Longest that [`Keys::refetch`] waits.
    pub patience: Duration,
    /// Longest that keys stay in use after the last read that found them.
    pub max_stale: Duration,
}

impl Timing {
    /// For keys fetched over the network.
    pub const NETWORK: Self = Self {
        interval: Duration::from_secs(300),
        min_gap: Duration::from_secs(10),
        backoff: Duration::from_millis(500),
        max_backoff: Duration::from_secs(30),
        patience: Duration::from_secs(5),
        // Longer than a session lives, so that a provider that is away signs nobody out, and short
        // enough that a key withdrawn meanwhile is not honoured for good.
        max_stale: Duration::from_secs(24 * 3600),
    };
    /// For keys in a file: cheap to look at, and changed by whoever rotates them.
    pub const FILE: Self = Self {
        interval: Duration::from_secs(5),
        min_gap: Duration::from_secs(1),
        ..Self::NETWORK
    };
}

/// The current keys of one source. Clones share them.
#[derive(Debug, Clone)]
pub struct Keys {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    current: ArcSwap<Snapshot>,
    /// Generation of the current ones.
    changes: watch::Sender<u64>,
    wanted: Notify,
    /// When the last read ended, be it with keys or without.
    last_read: watch::Sender<Option<Instant>>,
    timing: Timing,
}

/// One state of the keys.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) set: KeySet,
    /// Grows with every change, so that what an older set verified can be told.
    pub(crate) generation: u64,
}

/// Reads the source for as long as its [`Refresher::run`] is polled.
#[derive(Debug)]
pub struct Refresher {
    source: KeySource,
    shared: Arc<Shared>,
}

impl Keys {
    /// Keys of a source, none yet, and what fetches them. Spawn [`Refresher::run`].
    #[must_use]
    pub fn new(source: KeySource) -> (Self, Refresher) {
        let timing = match source {
            KeySource::File(_) => Timing::FILE,
            KeySource::Issuer { .. } | KeySource::Url(_) | KeySource::UrlOrFile(..) => {
                Timing::NETWORK
            }
        };
        Self::with_timing(source, timing)
    }

    /// As [`Self::new`], at another pace.
    #[must_use]
    pub fn with_timing(source: KeySource, timing: Timing) -> (Self, Refresher) {
        let shared = Arc::new(Shared::new(KeySet::default(), timing));
        (
            Self {
                shared: Arc::clone(&shared),
            },
            Refresher { source, shared },
        )
    }

    /// Keys that are known already: control's own.
    #[must_use]
    pub fn fixed(set: KeySet) -> Self {
        Self {
            shared: Arc::new(Shared::new(set, Timing::NETWORK)),
        }
    }

    /// Puts another set in place of the current one. The same document again changes nothing.
    pub fn replace(&self, set: KeySet) {
        self.shared.store(set);
    }

    /// Whether there are any keys yet: a readiness check.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.current().set.is_empty()
    }

    /// Asks for newer keys, after an unknown key id, and returns at once.
    pub fn want_newer(&self) {
        self.shared.wanted.notify_one();
    }

    /// Asks for newer keys and waits until the source was read once more, or until
    /// [`Timing::patience`] has passed. Returns at once where the source was read so recently that
    /// it will not be read again yet.
    pub async fn refetch(&self) {
        let mut reads = self.shared.last_read.subscribe();
        let last = *reads.borrow_and_update();
        self.want_newer();
        if last.is_some_and(|at| at.elapsed() < self.shared.timing.min_gap) {
            return;
        }
        let _ = timeout(self.shared.timing.patience, reads.changed()).await;
    }

    /// Grows with every change of the keys: what was verified before may not be so any more.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.current().generation
    }

    /// Hears of every change of the keys.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    pub(crate) fn current(&self) -> Guard<Arc<Snapshot>> {
        self.shared.current.load()
    }
}

impl Shared {
    fn new(set: KeySet, timing: Timing) -> Self {
        let current = ArcSwap::from_pointee(Snapshot { set, generation: 1 });
        Self {
            current,
            changes: watch::Sender::new(1),
            wanted: Notify::new(),
            last_read: watch::Sender::new(None),
            timing,
        }
    }

    /// Whether the set is another one than before.
    fn store(&self, set: KeySet) -> bool {
        let before = self.current.load_full();
        if !before.set.is_empty() && before.set.same_document(&set) {
            return false;
        }
        let generation = before.generation.wrapping_add(1);
        self.current.store(Arc::new(Snapshot { set, generation }));
        self.changes.send_replace(generation);
        true
    }
}

impl Refresher {
    /// Reads the source, again and again; never returns. Dropping the future ends it.
    pub async fn run(self) {
        let mut failures: u32 = 0;
        let mut vouched: Option<Instant> = None;
        loop {
            self.forget_requests().await;
            let outcome = self.source.load().await;
            let pause = match self.take(outcome) {
                Ok(()) => {
                    failures = 0;
                    vouched = Some(Instant::now());
                    self.shared.timing.interval
                }
                Err(error) => {
                    self.report(&error, failures);
                    self.give_up_stale(vouched);
                    failures = failures.saturating_add(1);
                    self.backoff(failures)
                }
            };
            let now = Instant::now();
            self.shared.last_read.send_replace(Some(now));
            tokio::select! {
                () = sleep_until(now + pause) => {}
                () = self.asked_for(now + self.shared.timing.min_gap) => {}
            }
        }
    }

    fn take(&self, outcome: Result<KeySet, SourceError>) -> Result<(), SourceError> {
        let set = outcome?;
        let kids = set.kids().collect::<Vec<_>>().join(",");
        if self.shared.store(set) {
            tracing::info!(source = %self.source, %kids, "signing keys read");
        }
        Ok(())
    }

    fn give_up_stale(&self, vouched: Option<Instant>) {
        let stale = vouched.is_some_and(|at| at.elapsed() >= self.shared.timing.max_stale);
        if stale && !self.shared.current.load().set.is_empty() {
            self.shared.store(KeySet::default());
            tracing::error!(source = %self.source, "signing keys given up: not confirmed for too long");
        }
    }

    /// What was asked for until now, the read that follows answers.
    async fn forget_requests(&self) {
        tokio::select! {
            biased;
            () = self.shared.wanted.notified() => {}
            () = std::future::ready(()) => {}
        }
    }

    async fn asked_for(&self, not_before: Instant) {
        self.shared.wanted.notified().await;
        sleep_until(not_before).await;
    }

    fn backoff(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        let pause = self.shared.timing.backoff.saturating_mul(1 << doublings);
        pause.min(self.shared.timing.max_backoff)
    }

    fn report(&self, error: &SourceError, failures: u32) {
        let cause = std::error::Error::source(error)
            .map(ToString::to_string)
            .unwrap_or_default();
        let kept = !self.shared.current.load().set.is_empty();
        // The first failure is news, the ones that follow are not.
        if failures == 0 {
            tracing::warn!(source = %self.source, %error, cause, kept, "signing keys not read, trying again");
        } else {
            tracing::debug!(source = %self.source, %error, cause, kept, failures, "signing keys not read, trying again");
        }
    }
}
