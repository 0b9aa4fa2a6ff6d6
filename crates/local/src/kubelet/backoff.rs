//! Back-off as the kubelet has it, for restarts and for image pulls: the first
//! retry comes at once (restarts) or after the base (pulls), then the delay doubles
//! from 10 s to 5 min, and 10 min without trouble forget it all.

use jiff::{SignedDuration, Timestamp};

/// First delay.
const BASE: SignedDuration = SignedDuration::from_secs(10);
/// Longest delay.
const MAX: SignedDuration = SignedDuration::from_secs(300);
/// Quiet time after which the count starts anew.
const RESET: SignedDuration = SignedDuration::from_secs(600);

/// The back-off of one container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BackOff {
    delay: SignedDuration,
    since: Option<Timestamp>,
}

impl BackOff {
    /// The delay that a failure at `at` has to wait out.
    pub(crate) fn delay(&self, at: Timestamp) -> SignedDuration {
        match self.since {
            Some(since) if at.duration_since(since) <= RESET => self.delay,
            _ => SignedDuration::ZERO,
        }
    }

    /// A retry is made at `now`: the next failure waits longer.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        let delay = self.delay(now);
        self.delay = if delay.is_zero() {
            BASE
        } else {
            delay.saturating_mul(2).min(MAX)
        };
        self.since = Some(now);
    }

    /// Forgets everything.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// `at + by`, at the end of time if that is beyond it.
pub(crate) fn after(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn doubles_to_five_minutes() {
        let mut backoff = BackOff::default();
        let mut now = 1_000;
        let mut delays = Vec::new();
        for _ in 0..8 {
            let delay = backoff.delay(at(now)).as_secs();
            delays.push(delay);
            now += delay;
            backoff.advance(at(now));
        }
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn ten_quiet_minutes_reset() {
        let mut backoff = BackOff::default();
        for _ in 0..4 {
            backoff.advance(at(1_000));
        }
        assert_eq!(backoff.delay(at(1_600)).as_secs(), 80);
        assert_eq!(backoff.delay(at(1_601)).as_secs(), 0);
        backoff.advance(at(1_601));
        assert_eq!(backoff.delay(at(1_601)).as_secs(), 10);
    }
}
