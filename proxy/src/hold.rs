//! Waiting with a request until its workspace has a pod, within bounds.

mod gone;
pub mod share;
mod turn;
mod wait;
pub mod word;

use crate::table::{Held, Route, Workspace};
use pingora::http::RequestHeader;
use share::{Ledger, Limits};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use word::Word;

pub use gone::gone;
pub use share::{Amount, Full};
pub use turn::Turn;
pub use wait::{Woken, wait_for};

/// How much may be held.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Longest wait of one request.
    pub timeout: Duration,
    /// Longest wait of one request while a recreate runs: the old pod must end, and the new one pull
    /// and start, before anything can answer. Never less than [`Self::timeout`].
    pub recreate: Duration,
    /// Most requests of one workspace.
    pub per_workspace: usize,
    /// Most requests in all.
    pub total: usize,
    /// Most bytes that their heads may occupy, in all. Their bodies occupy nothing here: they are not
    /// read before there is a pod to send them to.
    pub bytes: usize,
}

impl Bounds {
    /// Of the streams of events that waiting pages follow: two for each person and workspace, since
    /// browsers open six connections to one host, and a tenth of what may be held in all.
    #[must_use]
    pub fn of_streams(held: Self) -> Self {
        Self {
            per_workspace: 2,
            total: (held.total / 10).max(1),
            ..held
        }
    }
}

/// What a held request occupies, in bytes: its head.
#[must_use]
pub fn weight(request: &RequestHeader) -> usize {
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len());
    request.raw_path().len() + headers.sum::<usize>()
}

/// How long a browser's navigation is held before the waiting page is shown.
pub const PAGE_AFTER: Duration = Duration::from_secs(2);

/// How long one request goes on looking for a pod.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    since: Instant,
    until: Instant,
    page_at: Option<Instant>,
}

impl Patience {
    /// From `since` on; `page`: a page may be shown meanwhile.
    #[must_use]
    pub fn new(since: Instant, bounds: &Bounds, page: bool) -> Self {
        Self {
            since,
            until: since + bounds.timeout,
            // Where less than that is waited at all, a page still comes, and goes on waiting.
            page_at: page.then(|| since + PAGE_AFTER.min(bounds.timeout)),
        }
    }

    /// Begins to count anew: a request that had a pod lost it at `now`.
    pub fn restart(&mut self, now: Instant, bounds: &Bounds) {
        *self = Self::new(now, bounds, self.page_at.is_some());
    }

    /// Notes what the workspace is doing. What a recreate once promised is kept when it ends.
    pub fn note(&mut self, route: &Route, bounds: &Bounds) {
        if route.recreating {
            self.until = self.until.max(self.since + bounds.recreate);
        }
    }

    /// When to look at the clock again.
    #[must_use]
    pub fn next(&self) -> Instant {
        self.page_at.map_or(self.until, |page| page.min(self.until))
    }

    /// Whether nothing is left of it.
    #[must_use]
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// Whether a page is due.
    #[must_use]
    pub fn wants_page(&self, now: Instant) -> bool {
        self.page_at.is_some_and(|page| now >= page)
    }
}

/// Counts what is held. Clones share the count.
#[derive(Debug, Clone)]
pub struct Holds {
    /// The bounds.
    pub bounds: Bounds,
    all: Arc<Mutex<All>>,
}

/// All that is held.
#[derive(Debug)]
struct All {
    ledger: Ledger,
    /// What is heard of each workspace for which something is held.
    words: HashMap<Arc<str>, Arc<Word>>,
}

/// A held request's place.
#[derive(Debug)]
pub struct Place {
    /// How many of its workspace were before it.
    pub before: usize,
    /// What control says of it meanwhile.
    pub word: Arc<Word>,
    holds: Holds,
    workspace: Arc<str>,
    bytes: usize,
    /// Keeps the table from forgetting the workspace, if it knows it.
    held: Option<Held>,
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.held.take());
        let mut all = self.holds.all();
        if all.ledger.give_back(&self.workspace, self.bytes) {
            all.words.remove(&self.workspace);
        }
    }
}

impl Place {
    /// Notes that its workspace has come to the table.
    pub fn arrived(&mut self, workspace: &Arc<Workspace>) {
        self.held = Some(Held::take(workspace));
    }
}

impl Holds {
    /// Nothing held.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let limits = Limits {
            per_workspace: bounds.per_workspace,
            total: Amount {
                requests: bounds.total,
                bytes: bounds.bytes,
            },
        };
        Self {
            bounds,
            all: Arc::new(Mutex::new(All {
                ledger: Ledger::new(limits),
                words: HashMap::new(),
            })),
        }
    }

    /// A place for one more request that occupies so many bytes.
    ///
    /// # Errors
    /// [`Full`].
    pub fn take(&self, workspace: &Arc<Workspace>, bytes: usize) -> Result<Place, Full> {
        let mut place = self.take_absent(&workspace.id, bytes)?;
        place.arrived(workspace);
        Ok(place)
    }

    /// A place for one more request for a workspace that the table does not know yet.
    ///
    /// # Errors
    /// [`Full`].
    pub fn take_absent(&self, id: &Arc<str>, bytes: usize) -> Result<Place, Full> {
        let mut all = self.all();
        let before = all.ledger.take(id, bytes)?;
        let words = all.words.entry(id.clone());
        let word = words.or_insert_with(|| Arc::new(Word::new(Instant::now())));
        Ok(Place {
            before,
            word: word.clone(),
            holds: self.clone(),
            workspace: id.clone(),
            bytes,
            held: None,
        })
    }

    fn all(&self) -> MutexGuard<'_, All> {
        // Counts are whole between any two steps, whoever panicked.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is held at this moment.
    #[must_use]
    pub fn count(&self) -> Amount {
        self.all().ledger.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Status;
    use nogoo9_model::access::Visibility;

    const BOUNDS: Bounds = Bounds {
        timeout: Duration::from_secs(30),
        recreate: Duration::from_secs(120),
        per_workspace: 1,
        total: 1,
        bytes: 1,
    };

    fn route(recreating: bool) -> Route {
        Route {
            owner: "alice".to_owned(),
            visibility: Visibility::Private,
            allow_origins: Default::default(),
            ports: Default::default(),
            backends: Box::new([]),
            status: Status::Away,
            recreating,
            progress: Default::default(),
        }
    }

    #[test]
    fn a_recreate_is_waited_for_longer_and_its_promise_is_kept() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut patience = Patience::new(start, &BOUNDS, false);
        patience.note(&route(false), &BOUNDS);
        assert!(!patience.is_over(at(29)) && patience.is_over(at(30)));
        patience.note(&route(true), &BOUNDS);
        patience.note(&route(false), &BOUNDS);
        assert!(!patience.is_over(at(119)) && patience.is_over(at(120)));
        patience.restart(at(100), &BOUNDS);
        assert!(!patience.is_over(at(129)) && patience.is_over(at(130)));
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let bounds = Bounds {
            per_workspace: 2,
            total: 8,
            bytes: 100,
            ..BOUNDS
        };
        let holds = Holds::new(bounds);
        let (a, b): (Arc<str>, Arc<str>) = (Arc::from("a"), Arc::from("b"));
        let first = holds.take_absent(&a, 10).unwrap();
        let more = holds.take_absent(&a, 10).unwrap();
        assert_eq!((first.before, more.before), (0, 1));
        assert_eq!(holds.take_absent(&a, 10).unwrap_err(), Full::Workspace);
        let other = holds.take_absent(&b, 10).unwrap();
        let three = Amount {
            requests: 3,
            bytes: 30,
        };
        assert_eq!(holds.count(), three);
        drop(first);
        assert!(holds.take_absent(&a, 10).is_ok());
        drop((more, other));
        assert!(holds.all().ledger.is_empty() && holds.all().words.is_empty());
    }

    #[test]
    fn a_page_comes_first() {
        let start = Instant::now();
        let patience = Patience::new(start, &BOUNDS, true);
        assert_eq!(patience.next(), start + PAGE_AFTER);
        assert!(!patience.wants_page(start) && patience.wants_page(start + PAGE_AFTER));
        assert!(!Patience::new(start, &BOUNDS, false).wants_page(start + BOUNDS.timeout));
        let timeout = Duration::from_secs(1);
        let impatient = Bounds { timeout, ..BOUNDS };
        let patience = Patience::new(start, &impatient, true);
        assert!(patience.next() == start + timeout && patience.wants_page(start + timeout));
    }
}
