//! What other proxies said of a session, and for how long that counts. Pure.

use crate::table::Route;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long it counts that something is open, from before the question was sent; and that nothing is,
/// where something may be opened.
pub const KEPT: Duration = Duration::from_secs(1);
/// How long it counts that nothing is open where nothing will be: all others route past the old pods, so
/// that whoever has nothing open on them opens nothing there. Not for longer, since a handshake that was
/// under way as they began to may still end in a socket.
pub const NOTHING: Duration = Duration::from_secs(10);

/// What all of them said.
#[derive(Debug)]
pub struct Word {
    /// When they were asked.
    pub(super) asked: Instant,
    /// The route that it is about: it says which pods may be followed.
    pub(super) route: Weak<Route>,
    /// The pods on which the session has something open.
    pub(super) pods: Vec<Arc<str>>,
    /// Whether all of them answered, and route past all pods that were asked about.
    pub(super) past: bool,
}

impl Word {
    /// The pods on which the session has something open.
    #[must_use]
    pub fn pods(&self) -> &[Arc<str>] {
        &self.pods
    }

    /// Whether it counts at `now` for a request by that route.
    #[must_use]
    pub fn counts(&self, route: &Arc<Route>, now: Instant) -> bool {
        let kept = if self.past && self.pods.is_empty() {
            NOTHING
        } else {
            KEPT
        };
        is_about(&self.route, route) && now.saturating_duration_since(self.asked) < kept
    }
}

pub(super) fn is_about(asked: &Weak<Route>, route: &Arc<Route>) -> bool {
    std::ptr::eq(asked.as_ptr(), Arc::as_ptr(route))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::LEASE;
    use crate::table::Status;
    use nogoo9_model::access::Visibility;

    fn route() -> Arc<Route> {
        Arc::new(Route {
            owner: "alice".to_owned(),
            visibility: Visibility::Private,
            allow_origins: Default::default(),
            backends: Default::default(),
            status: Status::Serving,
            recreating: false,
            progress: Default::default(),
            ports: Default::default(),
        })
    }

    #[test]
    fn a_word_counts_for_its_route_and_its_time() {
        let (this, another, asked) = (route(), route(), Instant::now());
        let moment = Duration::from_millis(1);
        for (pods, past, kept) in [
            (&["old"][..], true, KEPT),
            (&["old"], false, KEPT),
            (&[], true, NOTHING),
            (&[], false, KEPT),
        ] {
            let word = Word {
                asked,
                route: Arc::downgrade(&this),
                pods: pods.iter().map(|uid| Arc::from(*uid)).collect(),
                past,
            };
            assert!(word.counts(&this, asked + kept - moment), "{pods:?} {past}");
            assert!(!word.counts(&this, asked + kept), "{pods:?} {past}");
            assert!(!word.counts(&another, asked), "{pods:?} {past}");
        }
    }

    #[test]
    fn a_lease_outlasts_the_word_and_controls_round() {
        let round = Duration::from_secs(2);
        assert!(LEASE > KEPT + round + Duration::from_secs(1));
    }
}
