//! What control says while requests wait: asked by one of those that wait for a workspace, heard by all.

use nogoo9_model::absent::{Absent, Status};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How often control is asked about one workspace for which requests are held.
pub const ASK_EVERY: Duration = Duration::from_secs(4);

/// Whether what control says ends a wait: no pod comes by itself.
#[must_use]
pub fn ends_waiting(status: Status) -> bool {
    match status {
        Status::Stopped | Status::Stopping | Status::Deleting => true,
        Status::Starting | Status::Failing | Status::Other => false,
    }
}

/// The word about one workspace, shared by all that wait for it.
#[derive(Debug)]
pub struct Word {
    /// When the next question is due.
    due: Mutex<Instant>,
    ended: watch::Sender<Option<Arc<Absent>>>,
}

impl Word {
    /// Of a workspace for which the first request begins to wait at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            due: Mutex::new(now + ASK_EVERY),
            ended: watch::Sender::new(None),
        }
    }

    /// When the next question is due.
    #[must_use]
    pub fn due(&self) -> Instant {
        *self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the turn to ask, if a question is due at `now`: one does, however many there are.
    #[must_use]
    pub fn takes_turn(&self, now: Instant) -> bool {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = now >= *due;
        if is_due {
            *due = now + ASK_EVERY;
        }
        is_due
    }

    /// Notes that control was asked at `now`, by whoever had its own reason.
    pub fn asked(&self, now: Instant) {
        *self.due.lock().unwrap_or_else(PoisonError::into_inner) = now + ASK_EVERY;
    }

    /// Gives the turn back at `now`: what was heard is for whoever asked alone, so the next one asks.
    pub fn gives_back(&self, now: Instant) {
        *self.due.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Tells everybody who waits at this moment what one of them has heard, if it is for all.
    pub fn heard(&self, told: &Absent) {
        if ends_waiting(told.status) {
            // Whether it may be started is another question for each.
            let told = Absent {
                can_start: false,
                ..told.clone()
            };
            self.ended.send_replace(Some(Arc::new(told)));
        }
    }

    /// Hears what is said from now on. What was said before is over: it may have been started since.
    #[must_use]
    pub fn ears(&self) -> Ears {
        Ears(self.ended.subscribe())
    }
}

/// What one that waits hears with.
#[derive(Debug)]
pub struct Ears(watch::Receiver<Option<Arc<Absent>>>);

impl Ears {
    /// What ends the wait, once somebody has heard it.
    pub async fn ended(&mut self) -> Arc<Absent> {
        while self.0.changed().await.is_ok() {
            if let Some(told) = &*self.0.borrow_and_update() {
                return told.clone();
            }
        }
        // Nobody is left to say anything.
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_asks_and_all_who_wait_hear() {
        let word = Word::new(Instant::now());
        assert!(!word.takes_turn(Instant::now()));
        tokio::time::sleep_until(word.due()).await;
        assert!(word.takes_turn(Instant::now()) && !word.takes_turn(Instant::now()));
        word.gives_back(Instant::now());
        assert!(word.takes_turn(Instant::now()));
        let told = |status| Absent {
            version: 1,
            status,
            message: String::new(),
            can_start: true,
        };
        // Said before anybody waits.
        word.heard(&told(Status::Stopped));
        let mut ears = word.ears();
        assert!(at_once(ears.ended()).await.is_none());
        word.heard(&told(Status::Starting));
        assert!(at_once(ears.ended()).await.is_none());
        word.heard(&told(Status::Deleting));
        let heard = at_once(ears.ended()).await;
        let heard = heard.map(|told| (told.status, told.can_start));
        assert_eq!(heard, Some((Status::Deleting, false)));
    }

    /// What is there at once.
    async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = std::future::ready(()) => None,
        }
    }
}
