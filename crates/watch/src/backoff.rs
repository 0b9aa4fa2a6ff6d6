//! How long to wait after failures.

use std::time::Duration;

/// First wait. Short, since a restarted API server is usually back within a second.
const FIRST: Duration = Duration::from_millis(200);
/// Longest wait before jitter: what a routing table may lag behind once the server is back.
pub(crate) const LONGEST: Duration = Duration::from_secs(8);

/// The wait after `failures` failures in a row (one at least), doubling from 0.2 s to 8 s.
/// `dice` from 0 to 1 adds up to half of it, so that many replicas do not come back in step.
pub(crate) fn wait(failures: u32, dice: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let plain = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    plain + plain.mul_f64(dice.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_a_ceiling() {
        let waits: Vec<u64> = [0, 1, 2, 3, 6, 7, u32::MAX]
            .map(|failures| wait(failures, 0.0).as_millis() as u64)
            .to_vec();
        assert_eq!(waits, [200, 200, 400, 800, 6400, 8000, 8000]);
    }

    #[test]
    fn jitter_adds_half_at_most() {
        assert_eq!(wait(1, 1.0), Duration::from_millis(300));
        assert_eq!(wait(1, 7.0), Duration::from_millis(300));
        assert_eq!(wait(1, -1.0), Duration::from_millis(200));
    }
}
