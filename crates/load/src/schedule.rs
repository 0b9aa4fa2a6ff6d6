//! When request `n` is due, and from which moment its latency counts. Pure.

use std::time::Duration;

use crate::LoadError;

/// How late tokio's timer may wake a waiting worker before that counts as the server's
/// latency. The timer has a granularity of 1 ms and rounds up.
pub const TIMER_SLACK: Duration = Duration::from_millis(2);

/// The highest rate accepted, a second: above it the interval drowns in timer noise.
const MAX_RATE: f64 = 1_000_000.0;

/// The plan of one open or closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Events in 1000 s; `None`: closed loop.
    millihertz: Option<u64>,
}

impl Schedule {
    /// Closed loop: each connection asks as soon as it has its answer.
    #[must_use]
    pub const fn closed() -> Self {
        Self { millihertz: None }
    }

    /// Open loop: `per_second` events a second in all, evenly spaced.
    ///
    /// # Errors
    /// [`LoadError::Rate`] unless `per_second` lies in 0.001..=1,000,000.
    pub fn open(per_second: f64) -> Result<Self, LoadError> {
        let error = LoadError::Rate {
            rate: per_second,
            max: MAX_RATE,
        };
        if !per_second.is_finite() || per_second > MAX_RATE {
            return Err(error);
        }
        let millihertz = (per_second * 1000.0).round();
        if millihertz < 1.0 {
            return Err(error);
        }
        // In 1..=10^9 by the checks above, so the cast neither truncates nor wraps.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let millihertz = millihertz as u64;
        Ok(Self {
            millihertz: Some(millihertz),
        })
    }

    /// When event `n` (from 0) is due, counted from the start; `None` in a closed loop.
    #[must_use]
    pub fn due(&self, n: u64) -> Option<Duration> {
        let nanos = u128::from(n) * 1_000_000_000_000 / u128::from(self.millihertz?);
        Some(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }

    /// The moment from which a request's latency counts.
    ///
    /// `idle_at` is when a connection became free to send it, `sent_at` when it was sent.
    /// If every connection was busy when the request was due, it counts from `due`: the
    /// user waited, although nothing was on the wire (no coordinated omission). If a
    /// connection was idle then, only the timer made it late, and up to [`TIMER_SLACK`]
    /// of that is not held against the server.
    #[must_use]
    pub fn counts_from(due: Option<Duration>, idle_at: Duration, sent_at: Duration) -> Duration {
        match due {
            None => sent_at,
            Some(due) if idle_at > due => due,
            Some(due) => sent_at.min(due.saturating_add(TIMER_SLACK)).max(due),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn evenly_spaced_without_drift() {
        let schedule = Schedule::open(3.0).unwrap();
        assert_eq!(schedule.due(0), Some(Duration::ZERO));
        assert_eq!(schedule.due(1), Some(Duration::from_nanos(333_333_333)));
        assert_eq!(
            schedule.due(3_000_000),
            Some(Duration::from_secs(1_000_000))
        );
        assert_eq!(Schedule::closed().due(7), None);
    }

    #[test]
    fn impossible_rates_are_refused() {
        for rate in [0.0, -1.0, 0.000_1, 1e9, f64::NAN, f64::INFINITY] {
            assert!(
                matches!(Schedule::open(rate), Err(LoadError::Rate { .. })),
                "{rate}"
            );
        }
    }

    #[test]
    fn latency_counts_from_the_intended_start_when_all_were_busy() {
        let due = Some(ms(100));
        assert_eq!(Schedule::counts_from(due, ms(150), ms(150)), ms(100));
        assert_eq!(
            Schedule::counts_from(due, ms(90), ms(101)),
            ms(101),
            "timer noise"
        );
        assert_eq!(
            Schedule::counts_from(due, ms(90), ms(130)),
            ms(102),
            "slack is bounded"
        );
        assert_eq!(Schedule::counts_from(None, ms(90), ms(130)), ms(130));
    }

    proptest! {
        #[test]
        fn due_never_goes_back(rate in 0.001f64..1_000_000.0, n in 0u64..1_000_000_000) {
            let schedule = Schedule::open(rate).unwrap();
            prop_assert!(schedule.due(n) <= schedule.due(n + 1));
        }

        #[test]
        fn never_counts_from_after_the_send_or_before_due(
            due in 0u64..10_000, idle in 0u64..10_000, wait in 0u64..10_000,
        ) {
            // A request is sent once a connection is idle and it is due.
            let sent = ms(idle.max(due) + wait);
            let from = Schedule::counts_from(Some(ms(due)), ms(idle), sent);
            prop_assert!(from >= ms(due) && from <= sent);
        }
    }
}
