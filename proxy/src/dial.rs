//! Which pod a request tries next. Pure.
//!
//! A pod that cannot be reached was not sent anything, so trying again is always safe: the active pod
//! once more after a moment (it may just be opening its port), then, while that one is a candidate of
//! an upgrade, the next best one (the old pod), then waiting until the route changes. Once an upgrade is
//! committed nothing new goes to the old pod, which may be deleted as soon as it is not in use. A pod
//! that is not the active one is tried once and never again.

use crate::table::{Backend, Route};
use std::sync::Arc;
use std::time::Duration;

/// Wait before the same pod is tried once more.
pub const BACK_OFF: Duration = Duration::from_millis(100);
/// First wait before pods that could not be reached are tried anew, if the route stays as it is. It
/// doubles up to [`ANEW_MOST`].
const ANEW: Duration = Duration::from_secs(1);
/// Longest such wait.
const ANEW_MOST: Duration = Duration::from_secs(4);
/// Most attempts of one request: more than fit into the longest hold in earnest, so that it is time
/// that ends a search, and fewer than a tight loop would make.
pub const MAX_ATTEMPTS: u32 = 200;

/// What a request has tried.
#[derive(Debug, Default)]
pub struct Attempts {
    made: u32,
    /// Rounds with one route.
    rounds: u32,
    /// Failures of this round.
    failed: Vec<(Arc<str>, u32)>,
    /// All pods that ever failed.
    ever: Vec<Arc<str>>,
}

/// What to do next.
#[derive(Debug, Clone)]
pub enum Next {
    /// Dial this pod, after a wait.
    Dial(Arc<Backend>, Duration),
    /// Wait for another route.
    Hold,
    /// Enough was tried.
    GiveUp,
}

impl Attempts {
    /// Notes that a pod failed: it could not be reached, or broke off.
    pub fn failed(&mut self, uid: &Arc<str>) {
        self.made += 1;
        if !self.ever.contains(uid) {
            self.ever.push(uid.clone());
        }
        match self.failed.iter_mut().find(|(known, _)| known == uid) {
            Some((_, times)) => *times += 1,
            None => self.failed.push((uid.clone(), 1)),
        }
    }

    /// Begins anew with another route.
    pub fn changed(&mut self) {
        self.failed.clear();
        self.rounds = 0;
    }

    /// Begins another round with the same route.
    pub fn again(&mut self) {
        self.failed.clear();
        self.rounds += 1;
    }

    /// How long to wait before the next round.
    #[must_use]
    pub fn pause(&self) -> Duration {
        (ANEW * (1 << self.rounds.min(2))).min(ANEW_MOST)
    }

    /// Attempts that failed.
    #[must_use]
    pub fn made(&self) -> u32 {
        self.made
    }

    /// The next step with this route, for a request that follows a certain pod if it can.
    #[must_use]
    pub fn next(&self, route: &Route, follows: Option<&Arc<Backend>>) -> Next {
        if self.made >= MAX_ATTEMPTS {
            return Next::GiveUp;
        }
        if let Some(pod) = follows
            && !self.ever.contains(&pod.uid)
        {
            return Next::Dial(pod.clone(), Duration::ZERO);
        }
        let failures = |pod: &Arc<Backend>| {
            self.failed
                .iter()
                .find(|(uid, _)| *uid == pod.uid)
                .map_or(0, |(_, times)| *times)
        };
        if let Some(active) = route.active() {
            match failures(active) {
                0 => return Next::Dial(active.clone(), Duration::ZERO),
                1 => return Next::Dial(active.clone(), BACK_OFF),
                _ => {}
            }
        }
        let untried = |pod: &&Arc<Backend>| !self.ever.contains(&pod.uid);
        route
            .spare()
            .find(untried)
            .map_or(Next::Hold, |pod| Next::Dial(pod.clone(), Duration::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Status;
    use crate::testing::pod;
    use nogoo9_model::access::Visibility;

    fn route(uids: &[&str]) -> Route {
        let pod = |uid: &&str| {
            Arc::new(Backend {
                candidate: uid.starts_with("new"),
                ..pod(uid)
            })
        };
        Route {
            owner: "alice".to_owned(),
            visibility: Visibility::Private,
            allow_origins: Default::default(),
            ports: Default::default(),
            backends: uids.iter().map(pod).collect(),
            status: Status::Serving,
            recreating: false,
            progress: Default::default(),
        }
    }

    fn short(next: &Next) -> String {
        match next {
            Next::Dial(pod, wait) => format!("{} {}", pod.uid, wait.as_millis()),
            Next::Hold => "hold".to_owned(),
            Next::GiveUp => "give up".to_owned(),
        }
    }

    #[test]
    fn twice_the_active_once_each_other_then_hold() {
        let route = route(&["new", "old", "older"]);
        let mut attempts = Attempts::default();
        let mut seen = Vec::new();
        for uid in ["new", "new", "old", "older"] {
            seen.push(short(&attempts.next(&route, None)));
            attempts.failed(&Arc::from(uid));
        }
        seen.push(short(&attempts.next(&route, None)));
        assert_eq!(seen, ["new 0", "new 100", "old 0", "older 0", "hold"]);
    }

    #[test]
    fn none_but_the_active_once_an_upgrade_is_committed() {
        let route = route(&["committed", "old"]);
        let old = route.backends[1].clone();
        let mut attempts = Attempts::default();
        for _ in 0..3 {
            for wait in [0, 100] {
                let next = short(&attempts.next(&route, None));
                assert_eq!(next, format!("committed {wait}"));
                attempts.failed(&Arc::from("committed"));
            }
            assert_eq!(short(&attempts.next(&route, None)), "hold");
            attempts.again();
        }
        // What a session follows is another matter.
        assert_eq!(short(&attempts.next(&route, Some(&old))), "old 0");
    }

    #[test]
    fn others_are_never_tried_twice() {
        let (both, new, old) = (route(&["new", "old"]), "new", "old");
        let mut attempts = Attempts::default();
        for uid in [new, new, old] {
            attempts.failed(&Arc::from(uid));
        }
        for _ in 0..3 {
            attempts.again();
            assert_eq!(short(&attempts.next(&both, None)), "new 0");
            attempts.failed(&Arc::from(new));
            assert_eq!(short(&attempts.next(&both, None)), "new 100");
            attempts.failed(&Arc::from(new));
            assert_eq!(short(&attempts.next(&both, None)), "hold");
        }
        attempts.changed();
        attempts.failed(&Arc::from(new));
        attempts.failed(&Arc::from(new));
        assert_eq!(
            short(&attempts.next(&both, None)),
            "hold",
            "nor by another route"
        );
        assert_eq!(
            short(&attempts.next(&route(&["old"]), None)),
            "old 0",
            "it is the active one"
        );
    }

    #[test]
    fn what_is_followed_comes_first_and_once() {
        let route = route(&["new", "old"]);
        let old = route.backends[1].clone();
        let mut attempts = Attempts::default();
        assert_eq!(short(&attempts.next(&route, Some(&old))), "old 0");
        attempts.failed(&old.uid);
        assert_eq!(short(&attempts.next(&route, Some(&old))), "new 0");
    }

    #[test]
    fn rounds_grow_apart_until_the_route_changes() {
        let mut attempts = Attempts::default();
        let mut pauses = Vec::new();
        for _ in 0..4 {
            pauses.push(attempts.pause().as_secs());
            attempts.again();
        }
        assert_eq!(pauses, [1, 2, 4, 4]);
        attempts.changed();
        assert_eq!(attempts.pause().as_secs(), 1);
    }

    #[test]
    fn no_pods_is_a_hold_and_attempts_end() {
        let mut attempts = Attempts::default();
        assert_eq!(short(&attempts.next(&route(&[]), None)), "hold");
        for _ in 0..MAX_ATTEMPTS {
            attempts.failed(&Arc::from("a"));
            attempts.again();
        }
        assert_eq!(short(&attempts.next(&route(&["a"]), None)), "give up");
    }
}
