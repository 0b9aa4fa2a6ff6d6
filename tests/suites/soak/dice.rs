//! Chance that can be had again: everything at random comes from one printed seed.

use std::time::Duration;

/// A stream of numbers.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    /// The stream of that name under a seed.
    pub(super) fn of(seed: u64, name: u64) -> Self {
        let mut dice = Self(seed ^ name.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // The first numbers of neighbours are alike.
        for _ in 0..8 {
            dice.next();
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 to below `n`.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n.max(1)
    }

    /// A time of so many milliseconds.
    pub(super) fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most.saturating_sub(least) + 1))
    }
}
