//! One clock and one timeline for a whole run: what happened when, and in which phase a
//! moment lies.
//!
//! A *phase* is a bucket that numbers are summed up in; entering a name again continues
//! its bucket, so "during" can cover twenty upgrades. A *mark* is a remark at a moment
//! ("upgrade 3 committed"); it changes no bucket.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Distinct phases kept; one more falls into the last one.
const MAX_PHASES: usize = 32;
/// Marks kept; those beyond are counted only.
const MAX_MARKS: usize = 10_000;
/// Switches between phases kept; those beyond leave the phase as it is.
const MAX_TURNS: usize = 10_000;

/// A phase, by its place in [`Timeline::names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhaseId(pub(crate) usize);

/// A remark at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// Microseconds from the start of the timeline.
    pub at_us: u64,
    /// What happened.
    pub text: String,
}

/// The timeline without the clock: pure, moments are passed in.
#[derive(Debug, Clone)]
pub struct Timeline {
    names: Vec<String>,
    turns: Vec<(Duration, PhaseId)>,
    marks: Vec<Mark>,
    marks_omitted: u64,
}

impl Timeline {
    /// A timeline that begins in phase `first`.
    #[must_use]
    pub fn new(first: &str) -> Self {
        Self {
            names: vec![first.to_owned()],
            turns: vec![(Duration::ZERO, PhaseId(0))],
            marks: Vec::new(),
            marks_omitted: 0,
        }
    }

    /// From `at` on, moments lie in phase `name`. A moment before the last switch counts
    /// as that switch's: the timeline never runs backwards.
    pub fn enter(&mut self, name: &str, at: Duration) -> PhaseId {
        let known = self.names.iter().position(|n| n == name);
        let id = match known {
            Some(index) => PhaseId(index),
            None if self.names.len() < MAX_PHASES => {
                self.names.push(name.to_owned());
                PhaseId(self.names.len() - 1)
            }
            None => PhaseId(self.names.len() - 1),
        };
        let at = self.turns.last().map_or(at, |(last, _)| at.max(*last));
        if self.turns.len() < MAX_TURNS {
            self.turns.push((at, id));
        }
        id
    }

    /// Adds a remark.
    pub fn mark(&mut self, text: String, at: Duration) {
        if self.marks.len() < MAX_MARKS {
            self.marks.push(Mark {
                at_us: micros(at),
                text,
            });
        } else {
            self.marks_omitted += 1;
        }
    }

    /// The phase that the moment `at` lies in.
    #[must_use]
    pub fn at(&self, at: Duration) -> PhaseId {
        self.turns
            .iter()
            .rev()
            .find(|(from, _)| *from <= at)
            .map_or(PhaseId(0), |(_, id)| *id)
    }

    /// The phases' names, in the order in which they were first entered.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// All remarks, oldest first.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// How many remarks were dropped for want of room.
    #[must_use]
    pub const fn marks_omitted(&self) -> u64 {
        self.marks_omitted
    }
}

/// A shared [`Timeline`] with its clock. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Phases(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    origin: Instant,
    timeline: RwLock<Timeline>,
}

impl Phases {
    /// Starts the clock, in phase `first`.
    #[must_use]
    pub fn new(first: &str) -> Self {
        Self(Arc::new(Shared {
            origin: Instant::now(),
            timeline: RwLock::new(Timeline::new(first)),
        }))
    }

    /// From now on, requests that start belong to phase `name`. Returns the moment.
    pub fn enter(&self, name: &str) -> Duration {
        let mut timeline = self
            .0
            .timeline
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let at = self.elapsed();
        timeline.enter(name, at);
        at
    }

    /// Remarks that something happened now. Returns the moment.
    pub fn mark(&self, text: impl Into<String>) -> Duration {
        let mut timeline = self
            .0
            .timeline
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let at = self.elapsed();
        timeline.mark(text.into(), at);
        at
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.origin.elapsed()
    }

    /// The instant that lies `offset` after the start.
    #[must_use]
    pub fn instant(&self, offset: Duration) -> Instant {
        self.0.origin + offset
    }

    /// A copy of the timeline as it stands.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.0
            .timeline
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The phase that the moment `at` lies in.
    #[must_use]
    pub fn at(&self, at: Duration) -> PhaseId {
        self.0
            .timeline
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .at(at)
    }
}

/// Whole microseconds, as reports state moments.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn entering_a_name_again_continues_its_bucket() {
        let mut t = Timeline::new("before");
        let during = t.enter("during", s(10));
        let after = t.enter("after", s(20));
        assert_eq!(t.enter("during", s(30)), during);
        assert_eq!(t.names(), ["before", "during", "after"]);
        assert_eq!(t.at(s(0)), PhaseId(0));
        assert_eq!(t.at(s(10)), during);
        assert_eq!(t.at(s(29)), after);
        assert_eq!(t.at(s(99)), during);
    }

    #[test]
    fn room_is_bounded() {
        let mut t = Timeline::new("p");
        for n in 0..100 {
            t.enter(&format!("p{n}"), s(n));
        }
        assert_eq!(t.names().len(), MAX_PHASES);
        for n in 0..MAX_MARKS as u64 + 5 {
            t.mark("m".into(), s(n));
        }
        assert_eq!((t.marks().len(), t.marks_omitted()), (MAX_MARKS, 5));
    }

    proptest! {
        /// Whatever order the switches come in, a later moment never lies in an earlier turn.
        #[test]
        fn a_moment_lies_in_the_last_turn_at_or_before_it(
            turns in prop::collection::vec((0usize..4, 0u64..100), 0..20), at in 0u64..120,
        ) {
            let mut t = Timeline::new("0");
            let mut expected = (0, 0);
            let mut last = 0;
            for (name, when) in turns {
                t.enter(&name.to_string(), s(when));
                last = last.max(when);
                if last <= at {
                    expected = (last, name);
                }
            }
            prop_assert_eq!(t.names()[t.at(s(at)).0].clone(), expected.1.to_string());
        }
    }
}
