//! A cap on deletions that nobody asked for, and an alarm beyond it: whatever makes control believe
//! that very many pods are too many, it is found out before they are gone.

use nogoo9_model::upgrade::{DeleteReason, Wait};
use prometheus_client::metrics::gauge::Gauge;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Deletions a minute that are always allowed.
const LEAST: u32 = 10;
/// Of so many workspaces, one deletion more a minute.
const SHARE: usize = 20;
/// What they are counted over.
const WINDOW: Duration = Duration::from_secs(60);

/// Counts deletions. Clones share it.
#[derive(Debug, Clone)]
pub struct DeletionCap(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    most: u32,
    /// Those of the last minute, oldest first; never more than `most` are added to it.
    made: VecDeque<Instant>,
    /// Workspaces whose deletion waits, and until when.
    waiting: HashMap<String, Instant>,
    /// How many these are.
    gauge: Gauge,
}

/// A deletion that has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capped {
    /// Deletions a minute that are allowed.
    pub most: u32,
    /// How long it has to wait at least.
    pub left: Duration,
}

impl Capped {
    /// The same, as a reason for people.
    #[must_use]
    pub fn reason(self) -> Wait {
        // Rounded up: what is looked at a moment too early waits again.
        let left = self.left.as_millis().div_ceil(1000);
        Wait::DeletionsCapped {
            most: self.most,
            left: i64::try_from(left).unwrap_or(i64::MAX),
        }
    }
}

impl DeletionCap {
    /// A cap; `gauge` shows how many workspaces wait because of it.
    #[must_use]
    pub fn new(gauge: Gauge) -> Self {
        Self(Arc::new(Mutex::new(State {
            most: LEAST,
            made: VecDeque::new(),
            waiting: HashMap::new(),
            gauge,
        })))
    }

    /// Sets how many workspaces there are: the more, the more deletions are plausible.
    pub fn set_workspaces(&self, count: usize) {
        let share = u32::try_from(count.div_ceil(SHARE)).unwrap_or(u32::MAX);
        self.with(|state| state.most = LEAST.max(share));
    }

    /// Whether a pod of this workspace may be deleted now; it counts as deleted then.
    ///
    /// # Errors
    /// [`Capped`]: not now.
    pub fn take(&self, workspace: &str, why: DeleteReason) -> Result<(), Capped> {
        self.take_at(workspace, why, Instant::now())
    }

    fn take_at(&self, workspace: &str, why: DeleteReason, now: Instant) -> Result<(), Capped> {
        if !counts(why) {
            return Ok(());
        }
        self.with(|state| {
            while state.made.front().is_some_and(|at| now >= *at + WINDOW) {
                state.made.pop_front();
            }
            let made = u32::try_from(state.made.len()).unwrap_or(u32::MAX);
            let oldest = state.made.front().copied();
            match oldest.filter(|_| made >= state.most) {
                None => {
                    state.made.push_back(now);
                    Ok(())
                }
                Some(oldest) => {
                    let until = oldest + WINDOW;
                    state.waiting.insert(workspace.to_owned(), until);
                    state.show();
                    Err(Capped {
                        most: state.most,
                        left: until - now,
                    })
                }
            }
        })
    }

    /// The workspace is looked at anew.
    pub fn forget(&self, workspace: &str) {
        self.with(|state| {
            if state.waiting.remove(workspace).is_some() {
                state.show();
            }
        });
    }

    /// Why a deletion in this workspace waits, if one does.
    #[must_use]
    pub fn waits(&self, workspace: &str) -> Option<Wait> {
        self.waits_at(workspace, Instant::now())
    }

    fn waits_at(&self, workspace: &str, now: Instant) -> Option<Wait> {
        self.with(|state| {
            let until = state.waiting.get(workspace)?;
            let left = until.saturating_duration_since(now);
            let capped = Capped {
                most: state.most,
                left,
            };
            Some(capped.reason())
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn show(&self) {
        let waiting = i64::try_from(self.waiting.len()).unwrap_or(i64::MAX);
        self.gauge.set(waiting);
    }
}

/// Whether this is a deletion that nobody has asked for.
fn counts(why: DeleteReason) -> bool {
    matches!(
        why,
        DeleteReason::Duplicate | DeleteReason::Blocking | DeleteReason::Ended
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cap() -> (DeletionCap, Gauge) {
        let gauge = Gauge::default();
        (DeletionCap::new(gauge.clone()), gauge)
    }

    #[test]
    fn ten_a_minute_and_the_next_one_waits_for_the_first_to_be_a_minute_ago() {
        let (cap, gauge) = cap();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for n in 0..10 {
            assert_eq!(cap.take_at("a", DeleteReason::Ended, at(2 * n)), Ok(()));
        }
        let capped = cap
            .take_at("b", DeleteReason::Blocking, at(20))
            .unwrap_err();
        assert_eq!((capped.most, capped.left.as_secs()), (10, 40));
        assert_eq!(gauge.get(), 1);
        let waits = cap.waits_at("b", at(25)).map(|wait| wait.to_string());
        assert_eq!(
            waits.as_deref(),
            Some(
                "more than 10 pods were to be deleted within a minute, which is not plausible; the next one goes in 35 s"
            )
        );
        assert_eq!(cap.waits_at("a", at(25)), None);
        // What somebody asked for does not wait.
        for why in [
            DeleteReason::Superseded,
            DeleteReason::Aborted,
            DeleteReason::Stopped,
            DeleteReason::Deleted,
            DeleteReason::Probe,
        ] {
            assert_eq!(cap.take_at("c", why, at(25)), Ok(()));
        }
        cap.forget("b");
        assert_eq!((gauge.get(), cap.waits_at("b", at(60))), (0, None));
        assert_eq!(cap.take_at("b", DeleteReason::Duplicate, at(60)), Ok(()));
        // One is a minute ago, the others are not.
        assert!(cap.take_at("b", DeleteReason::Blocking, at(61)).is_err());
        assert_eq!(cap.take_at("b", DeleteReason::Blocking, at(62)), Ok(()));
    }

    #[test]
    fn one_in_twenty_workspaces_where_there_are_many() {
        let (cap, _) = cap();
        let now = Instant::now();
        let take = || cap.take_at("a", DeleteReason::Ended, now);
        cap.set_workspaces(401);
        let allowed = std::iter::repeat_with(take).take(100);
        assert_eq!(allowed.filter(Result::is_ok).count(), 21);
        cap.set_workspaces(3);
        assert_eq!(take().unwrap_err().most, 10);
    }
}
