//! Browser sessions that are not fresh any more: control is asked whether they go on.
//!
//! A session token counts by itself for a quarter of an hour. In its last five minutes control is
//! asked in passing, for the browser's next token; past them it is asked first. What it says is
//! remembered here, so that one flight serves all requests and sockets of a session, and questions
//! that come at once travel together. While control cannot be reached a session is accepted for the
//! grace, which is counted: the price of serving on.
//!
//! Fresh tokens, which most requests carry, never come here.

mod flight;
mod known;

pub use flight::AskError;
pub use known::Verdict;

use crate::clock::Clock;
use crate::control::Control;
use crate::metrics::Metrics;
use known::{Known, verdict};
use nogoo9_identity::Verified;
use nogoo9_model::UnixSeconds;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Sessions remembered, a host each. At some 2 KiB each this is 40 MB.
const CAPACITY: u64 = 20_000;
/// How long one is remembered that nobody asks about.
const IDLE: Duration = Duration::from_secs(1800);
/// Questions waiting to be sent.
const QUEUE: usize = 4096;
/// Longest wait of a request for an answer: longer than a flight takes.
const PATIENCE: Duration = Duration::from_secs(15);

/// What is known of sessions. Clones share it.
#[derive(Debug, Clone)]
pub struct Renewals(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    entries: moka::sync::Cache<Key, Arc<Entry>>,
    queue: mpsc::Sender<Arc<Entry>>,
    grace: UnixSeconds,
    metrics: Metrics,
    clock: Clock,
}

/// A session on one host: tokens are bound to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    sid: String,
    host: String,
}

/// What is known of one session on one host.
#[derive(Debug)]
pub struct Entry {
    host: String,
    known: watch::Sender<Known>,
}

/// What became of a request that had to ask first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The session goes on.
    Accepted,
    /// It is over.
    Refused,
    /// Nobody can tell, and the grace is over.
    Unknown,
}

impl Renewals {
    /// Asks `control`; `grace` is how long a session is accepted beyond its freshness while it cannot
    /// be reached.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn start(
        control: Control,
        grace: Duration,
        metrics: Metrics,
        clock: Clock,
    ) -> Result<Self, reqwest::Error> {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let flights = flight::Flights::new(control, metrics.clone(), clock.clone())?;
        tokio::spawn(flights.run(waiting));
        Ok(Self(Arc::new(Inner {
            entries: moka::sync::Cache::builder()
                .max_capacity(CAPACITY)
                .time_to_idle(IDLE)
                .build(),
            queue,
            grace: UnixSeconds::try_from(grace.as_secs()).unwrap_or(UnixSeconds::MAX),
            metrics,
            clock,
        })))
    }

    /// What is known of the session of a verified cookie, `token`, on `host`. `None` for what control
    /// does not renew: bearers, and sessions of an earlier version.
    #[must_use]
    pub fn entry(&self, held: &Verified, token: &str, host: &str) -> Option<Arc<Entry>> {
        let (sid, fresh_until) = (held.sid.as_ref()?, held.fresh_until?);
        let key = Key {
            sid: sid.clone(),
            host: host.to_owned(),
        };
        let first = || {
            Arc::new(Entry {
                host: host.to_owned(),
                known: watch::Sender::new(Known::of(token, fresh_until, held.expires)),
            })
        };
        let entry = self.0.entries.get_with(key, first);
        // Another one may have got a newer token elsewhere, by a hand-over.
        entry.known.send_if_modified(|known| {
            let newer = fresh_until > known.fresh_until;
            if newer {
                known.hold(token, fresh_until, held.expires);
            }
            newer
        });
        Some(entry)
    }

    /// Whether a session counts whose token is as fresh as that; asks control where it is time, and
    /// does not wait for it.
    #[must_use]
    pub fn look(&self, entry: &Arc<Entry>, held: UnixSeconds, now: UnixSeconds) -> Verdict {
        let found = {
            let known = entry.known.borrow();
            verdict(held, &known, now, self.0.grace)
        };
        if found.asks() {
            self.ask(entry, now);
        }
        if found.is_grace() {
            self.0.metrics.sessions_graced.inc();
        }
        found
    }

    /// As [`Self::look`]; where control is to be asked first, waits for what it says.
    pub async fn ask_first(
        &self,
        entry: &Arc<Entry>,
        held: UnixSeconds,
        now: UnixSeconds,
    ) -> Asked {
        let mut answers = entry.known.subscribe();
        let mut found = self.look(entry, held, now);
        if matches!(found, Verdict::AskFirst { .. }) {
            let answered = answers.wait_for(|known| !known.is_asking(now));
            // What it returns holds the lock that whoever answers waits for.
            drop(tokio::time::timeout(PATIENCE, answered).await);
            let settled = entry.known.borrow().settled(held, now, self.0.grace);
            if settled.is_grace() {
                self.0.metrics.sessions_graced.inc();
            }
            found = settled;
        }
        match found {
            Verdict::Accept { .. } | Verdict::Grace { .. } => Asked::Accepted,
            Verdict::Refuse => Asked::Refused,
            Verdict::AskFirst { .. } | Verdict::Unknown => Asked::Unknown,
        }
    }

    /// Returns once the session is over, or nobody can tell any more. For sockets: checks again and
    /// again, on the way asking control in time. Dropping the future ends it.
    pub async fn until_over(self, entry: Arc<Entry>) {
        let mut answers = entry.known.subscribe();
        loop {
            answers.mark_unchanged();
            let now = self.0.clock.now();
            // The newest token counts: that of the socket's own handshake is spent.
            let again = match self.look(&entry, 0, now) {
                Verdict::Refuse | Verdict::Unknown => return,
                _ => entry.known.borrow().look_again(now),
            };
            tokio::select! {
                () = self.0.clock.sleep_until(again) => {}
                _ = answers.changed() => {}
            }
        }
    }

    /// Has control asked, unless it is being asked.
    fn ask(&self, entry: &Arc<Entry>, now: UnixSeconds) {
        let mine = entry.known.send_if_modified(|known| known.begin(now));
        if mine && self.0.queue.try_send(entry.clone()).is_err() {
            tracing::warn!("too many sessions wait to be renewed");
            entry.settle(None, now);
        }
    }
}

impl Entry {
    /// A token that is fresher than `held`, and when its session ends.
    #[must_use]
    pub fn newer(&self, held: UnixSeconds) -> Option<(Arc<str>, UnixSeconds)> {
        let known = self.known.borrow();
        let newer = known.fresh_until > held && !known.refused;
        newer.then(|| (known.token.clone(), known.ends))
    }

    /// The newest token.
    #[must_use]
    pub fn token(&self) -> Arc<str> {
        self.known.borrow().token.clone()
    }

    /// Hears of all that becomes known of it.
    pub(crate) fn answers(&self) -> watch::Receiver<Known> {
        self.known.subscribe()
    }

    /// Whether control has said that it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.known.borrow().refused
    }

    /// Takes what control said; `None`: it could not be asked.
    fn settle(&self, answer: Option<nogoo9_model::renew::Answer>, now: UnixSeconds) {
        self.known.send_modify(|known| known.end(answer, now));
    }
}

#[cfg(test)]
mod tests;
