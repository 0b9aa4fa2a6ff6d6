//! How long to wait before a child is started again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// A child that ran this long starts afresh.
const RESET: Duration = Duration::from_secs(30);

/// Doubles from 0.1 s to 5 s; forgets after a run of 30 s.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    deaths: u32,
}

impl Backoff {
    /// The wait after a child died that had run for `ran`.
    pub(super) fn next(&mut self, ran: Duration) -> Duration {
        if ran >= RESET {
            self.deaths = 0;
        }
        let factor = 2_u32.saturating_pow(self.deaths);
        self.deaths = self.deaths.saturating_add(1);
        FIRST.saturating_mul(factor).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_five_seconds_and_resets() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..8)
            .map(|_| backoff.next(Duration::from_secs(1)).as_millis())
            .collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(backoff.next(Duration::from_secs(30)).as_millis(), 100);
        assert_eq!(backoff.next(Duration::from_secs(29)).as_millis(), 200);
    }
}
