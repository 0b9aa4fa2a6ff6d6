//! Waiting with a request until its workspace has a pod, within bounds.

use crate::table::{Held, Route, Workspace};
use pingora::protocols::http::ServerSession;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

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
}

/// How long a browser's navigation is held before the waiting page is shown.
const PAGE_AFTER: Duration = Duration::from_secs(2);

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
            page_at: page.then(|| since + PAGE_AFTER),
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
    total: Arc<AtomicUsize>,
    /// Requests for workspaces that the table does not know yet, by id.
    absent: Arc<Mutex<HashMap<String, usize>>>,
}

/// A held request's place.
#[derive(Debug)]
pub struct Place {
    _total: Total,
    _held: Held,
}

/// The place of a request that is held for a workspace which the table does not know yet.
#[derive(Debug)]
pub struct AbsentPlace {
    _total: Total,
    holds: Holds,
    id: String,
}

/// One in the count of all.
#[derive(Debug)]
struct Total(Arc<AtomicUsize>);

impl Total {
    fn take(total: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let before = total.fetch_add(1, Ordering::Relaxed);
        let place = Self(total.clone());
        (before < most).then_some(place)
    }
}

impl Drop for Total {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for AbsentPlace {
    fn drop(&mut self) {
        let mut absent = self.holds.absent();
        if let Some(held) = absent.get_mut(&self.id) {
            *held -= 1;
            if *held == 0 {
                absent.remove(&self.id);
            }
        }
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
            total: Arc::default(),
            absent: Arc::default(),
        }
    }

    /// A place for one more request, if the bounds allow.
    #[must_use]
    pub fn take(&self, workspace: &Arc<Workspace>) -> Option<Place> {
        let held = Held::take(workspace, self.bounds.per_workspace)?;
        let total = Total::take(&self.total, self.bounds.total)?;
        Some(Place {
            _total: total,
            _held: held,
        })
    }

    /// A place for one more request for a workspace that the table does not know yet.
    #[must_use]
    pub fn take_absent(&self, id: &str) -> Option<AbsentPlace> {
        let total = Total::take(&self.total, self.bounds.total)?;
        let mut absent = self.absent();
        let held = absent.entry(id.to_owned()).or_default();
        if *held >= self.bounds.per_workspace {
            return None;
        }
        *held += 1;
        Some(AbsentPlace {
            _total: total,
            holds: self.clone(),
            id: id.to_owned(),
        })
    }

    fn absent(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        // Counts are whole between any two steps, whoever panicked.
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests held at this moment.
    #[must_use]
    pub fn count(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }
}

/// Waits until the workspace's route is another than `seen`, until `deadline`, or until the client
/// goes.
pub async fn wait(
    client: &mut ServerSession,
    workspace: &Workspace,
    seen: &Arc<Route>,
    deadline: Instant,
) -> Woken {
    wait_for(client, workspace.changed_from(seen), deadline).await
}

/// Waits for a change, until `deadline`, or until the client goes. A client that still has a body to
/// send cannot be watched; then only the deadline counts.
pub async fn wait_for<T>(
    client: &mut ServerSession,
    changed: impl Future<Output = T>,
    deadline: Instant,
) -> Woken {
    let watchable = client.is_http2() || client.is_body_empty();
    if !watchable {
        return match tokio::time::timeout_at(deadline, changed).await {
            Ok(_) => Woken::Changed,
            Err(_) => Woken::TimedOut,
        };
    }
    tokio::select! {
        _ = changed => Woken::Changed,
        () = tokio::time::sleep_until(deadline) => Woken::TimedOut,
        // No data can come; only the end of the connection, or bytes that break the protocol.
        _ = client.read_body_or_idle(true) => Woken::ClientGone,
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
    };

    fn route(recreating: bool) -> Route {
        Route {
            owner: "alice".to_owned(),
            visibility: Visibility::Private,
            allow_origins: Default::default(),
            backends: Box::new([]),
            status: Status::Away,
            recreating,
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
            total: 3,
            ..BOUNDS
        };
        let holds = Holds::new(bounds);
        let a = holds.take_absent("a").unwrap();
        let _more = holds.take_absent("a").unwrap();
        assert!(holds.take_absent("a").is_none(), "two of one workspace");
        let _b = holds.take_absent("b").unwrap();
        assert!(holds.take_absent("c").is_none(), "three in all");
        assert_eq!(holds.count(), 3);
        drop(a);
        assert!(holds.take_absent("a").is_some());
        drop((_more, _b));
        assert!(holds.count() == 0 && holds.absent().is_empty());
    }

    #[test]
    fn a_page_comes_first() {
        let start = Instant::now();
        let patience = Patience::new(start, &BOUNDS, true);
        assert_eq!(patience.next(), start + PAGE_AFTER);
        assert!(!patience.wants_page(start) && patience.wants_page(start + PAGE_AFTER));
        assert!(!Patience::new(start, &BOUNDS, false).wants_page(start + BOUNDS.timeout));
    }
}
