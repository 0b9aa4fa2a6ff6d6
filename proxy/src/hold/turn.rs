//! When what was held goes on, once there is a pod. Pure.
//!
//! In order, in groups, so that a pod which has just come up does not meet all of them in one instant.
//! Applications take 128 connections that they have not looked at yet, or more.

use std::time::Duration;
use tokio::time::Instant;

/// So many requests of a workspace go to its new pod at once.
const FIRST: usize = 64;
/// Pause before as many more.
const STEP: Duration = Duration::from_millis(50);
/// Longest wait of one that had a pod.
const LAST: Duration = Duration::from_secs(2);

/// How long a request waits on, once there is a pod, that has `before` others before it.
fn pace(before: usize) -> Duration {
    let groups = u32::try_from(before / FIRST).unwrap_or(u32::MAX);
    STEP.saturating_mul(groups).min(LAST)
}

/// The turn of one request.
#[derive(Debug, Default)]
pub struct Turn(Option<Instant>);

impl Turn {
    /// When it goes on that has `before` others before it, and has a pod `now`. Whatever happens to the
    /// workspace until then, it stays so: a new pod has more to say in its first moments, and each word
    /// would send all of them at once.
    pub fn at(&mut self, before: usize, now: Instant) -> Instant {
        *self.0.get_or_insert_with(|| now + pace(before))
    }

    /// It has no pod any more: the next one is as new.
    pub fn lost(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_go_in_groups() {
        let paces = [0, 63, 64, 199, 1_000_000].map(|before| pace(before).as_millis());
        assert_eq!(paces, [0, 0, 50, 150, 2000]);
    }

    #[test]
    fn a_turn_stays_until_the_pod_is_lost() {
        let start = Instant::now();
        let mut turn = Turn::default();
        assert_eq!(turn.at(64, start), start + STEP);
        assert_eq!(turn.at(64, start + STEP / 2), start + STEP);
        turn.lost();
        assert_eq!(turn.at(64, start + STEP), start + 2 * STEP);
    }
}
