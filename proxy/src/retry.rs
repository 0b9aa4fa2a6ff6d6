//! Which requests are sent once more after their connection broke, and how many of them. Pure.
//!
//! A pod that was not reached was sent nothing; that is [`crate::dial`]'s matter. Here something was
//! sent, and nobody can know what became of it: so only what is safe by its method (RFC 9110, section
//! 9.2.1) is repeated, or what the pod itself says it has not looked at (RFC 9113, section 8.7), only
//! before any of an answer was passed on, and only out of a budget, so that a pod in trouble is not
//! asked many times as much as one that is well.

use http::Method;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most repetitions of one request: one that kills its pod shall not kill them all.
pub const MAX_REPEATS: u32 = 3;

/// A request whose connection broke after it was sent, as a whole or in part.
#[derive(Debug, Clone, Copy)]
pub struct Broken<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Whether the pod has said that it did not look at it.
    pub unseen: bool,
    /// Whether anything of an answer was passed on.
    pub answered: bool,
    /// Whether what was read of its body can be sent again.
    pub replayable: bool,
    /// How often it was repeated already.
    pub repeats: u32,
}

impl Broken<'_> {
    /// Whether it may be sent once more, if the budgets allow.
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        let harmless = self.unseen || self.method.is_safe();
        harmless && !self.answered && self.replayable && self.repeats < MAX_REPEATS
    }
}

/// How much may be repeated.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Of a hundred requests, this many.
    pub percent: u32,
    /// And this many a second in any case.
    pub per_second: u32,
    /// What is not used is saved up to this many.
    pub most: u32,
}

impl Rate {
    /// Repetitions of one workspace's requests: a fifth, and a page's worth at once.
    pub const OF_WORKSPACE: Self = Self {
        percent: 20,
        per_second: 10,
        most: 100,
    };
    /// Repetitions in all.
    pub const OF_PROXY: Self = Self {
        percent: 20,
        per_second: 100,
        most: 1000,
    };
    /// Connections of their own for requests that cannot be repeated, of one workspace. Each leaves a
    /// port in use for a minute (TIME_WAIT), of which there are 28,000 towards one pod: at this rate
    /// half of them at most.
    pub const FRESH: Self = Self {
        percent: 0,
        per_second: 200,
        most: 2000,
    };
}

/// A budget: earned by requests and by time, spent by what is out of the ordinary. Full at first.
#[derive(Debug)]
pub struct Budget {
    rate: Rate,
    /// Requests since it was last spent from; all that a request costs.
    earned: AtomicU32,
    saved: Mutex<Saved>,
}

#[derive(Debug)]
struct Saved {
    /// In hundredths.
    hundredths: u64,
    since: Option<Instant>,
}

impl Budget {
    /// A full one.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        let hundredths = u64::from(rate.most) * 100;
        Self {
            rate,
            earned: AtomicU32::new(0),
            saved: Mutex::new(Saved {
                hundredths,
                since: None,
            }),
        }
    }

    /// Notes an ordinary request.
    pub fn earn(&self) {
        self.earned.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one at `now`, if there is one.
    pub fn spend(&self, now: Instant) -> bool {
        // Whoever panicked left whole numbers behind.
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let earned =
            u64::from(self.earned.swap(0, Ordering::Relaxed)) * u64::from(self.rate.percent);
        let passed = saved
            .since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let by_time = passed.as_millis() * u128::from(self.rate.per_second) / 10;
        let by_time = u64::try_from(by_time).unwrap_or(u64::MAX);
        // What has passed and earned nothing yet is not lost.
        if by_time > 0 || saved.since.is_none() {
            saved.since = Some(now);
        }
        let most = u64::from(self.rate.most) * 100;
        let all = saved
            .hundredths
            .saturating_add(earned)
            .saturating_add(by_time);
        saved.hundredths = all.min(most);
        let enough = saved.hundredths >= 100;
        if enough {
            saved.hundredths -= 100;
        }
        enough
    }

    /// Gives back what was taken and not needed.
    pub fn put_back(&self) {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.hundredths = saved.hundredths.saturating_add(100);
    }
}

/// Takes one out of both, or out of none.
pub fn spend_both(one: &Budget, other: &Budget, now: Instant) -> bool {
    if !one.spend(now) {
        return false;
    }
    let both = other.spend(now);
    if !both {
        one.put_back();
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_is_safe_and_unanswered_is_repeated() {
        let get = Broken {
            method: &Method::GET,
            unseen: false,
            answered: false,
            replayable: true,
            repeats: 0,
        };
        for (method, may) in [
            (Method::GET, true),
            (Method::HEAD, true),
            (Method::OPTIONS, true),
            (Method::POST, false),
            (Method::PUT, false),
            (Method::DELETE, false),
            (Method::PATCH, false),
            (Method::from_bytes(b"PROPFIND").unwrap(), false),
        ] {
            let broken = Broken {
                method: &method,
                ..get
            };
            assert_eq!(broken.may_repeat(), may, "{method}");
            let unseen = Broken {
                unseen: true,
                ..broken
            };
            assert!(unseen.may_repeat(), "{method}");
            let answered = Broken {
                answered: true,
                ..unseen
            };
            assert!(!answered.may_repeat(), "{method}");
        }
        for not in [
            Broken {
                answered: true,
                ..get
            },
            Broken {
                replayable: false,
                ..get
            },
            Broken {
                repeats: MAX_REPEATS,
                ..get
            },
        ] {
            assert!(!not.may_repeat(), "{not:?}");
        }
    }

    #[test]
    fn one_budget_that_is_spent_leaves_the_other_alone() {
        let rate = |most| Rate {
            percent: 0,
            per_second: 0,
            most,
        };
        let (rich, poor, now) = (Budget::new(rate(2)), Budget::new(rate(1)), Instant::now());
        assert!(spend_both(&rich, &poor, now));
        assert!(!spend_both(&rich, &poor, now));
        assert!(rich.spend(now) && !rich.spend(now));
    }

    proptest! {
        /// However requests and repetitions are mixed: never more than the share, the rate and what is
        /// saved together, and never less than the rate alone gives.
        #[test]
        fn it_keeps_to_its_rate(steps in proptest::collection::vec((0u32..50, 0u32..20, 0u64..500), 1..60)) {
            let rate = Rate { percent: 20, per_second: 10, most: 30 };
            let budget = Budget::new(rate);
            let start = Instant::now();
            let (mut requests, mut spent, mut passed) = (0u64, 0u64, Duration::ZERO);
            // The first look starts its clock.
            prop_assert!(budget.spend(start));
            spent += 1;
            for (ordinary, wanted, milliseconds) in steps {
                passed += Duration::from_millis(milliseconds);
                requests += u64::from(ordinary);
                (0..ordinary).for_each(|_| budget.earn());
                for _ in 0..wanted {
                    spent += u64::from(budget.spend(start + passed));
                }
                let by_time = u64::try_from(passed.as_millis()).unwrap() * 10 / 1000;
                let most = 30 + requests / 5 + by_time + 1;
                prop_assert!(spent <= most, "{spent} > {most}");
            }
        }

        #[test]
        fn time_alone_fills_it_again(looks in 1u64..50) {
            let budget = Budget::new(Rate { percent: 0, per_second: 10, most: 5 });
            let start = Instant::now();
            while budget.spend(start) {}
            // However often it was looked at meanwhile.
            let mut given = 0;
            for look in 1..=looks {
                given += u64::from(budget.spend(start + Duration::from_millis(1000 * look / looks)));
            }
            while budget.spend(start + Duration::from_secs(1)) {
                given += 1;
            }
            prop_assert!((4..=10).contains(&given), "{given}");
        }
    }
}
