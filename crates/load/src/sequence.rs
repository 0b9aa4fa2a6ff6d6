//! Did everything numbered come back, once and in order? Pure.
//!
//! Memory is proportional to the number of gaps, not of lines: missing numbers are kept
//! as ranges.

use std::collections::BTreeMap;

/// What the arrival of one number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The one that was due.
    InOrder,
    /// Later than due: this many before it have not arrived yet.
    AfterGap(u64),
    /// One of those, after all.
    Late,
    /// It was here already.
    Duplicate,
    /// It was never sent.
    Unknown,
}

/// Numbers sent (0, 1, 2, …) against numbers that came back.
#[derive(Debug, Clone, Default)]
pub struct Sequence {
    sent: u64,
    next: u64,
    /// Ranges `start..end` below `next` that have not arrived.
    missing: BTreeMap<u64, u64>,
    arrived: u64,
    reordered: u64,
    duplicated: u64,
    unknown: u64,
}

impl Sequence {
    /// Nothing sent yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next number to send.
    pub fn send(&mut self) -> u64 {
        let n = self.sent;
        self.sent += 1;
        n
    }

    /// Notes that `n` arrived.
    pub fn arrive(&mut self, n: u64) -> Arrival {
        if n >= self.sent {
            self.unknown += 1;
            return Arrival::Unknown;
        }
        if n >= self.next {
            let gap = n - self.next;
            if gap > 0 {
                self.missing.insert(self.next, n);
            }
            self.next = n + 1;
            self.arrived += 1;
            return if gap == 0 {
                Arrival::InOrder
            } else {
                Arrival::AfterGap(gap)
            };
        }
        let range = self
            .missing
            .range(..=n)
            .next_back()
            .map(|(start, end)| (*start, *end));
        match range {
            Some((start, end)) if n < end => {
                self.missing.remove(&start);
                if start < n {
                    self.missing.insert(start, n);
                }
                if n + 1 < end {
                    self.missing.insert(n + 1, end);
                }
                self.arrived += 1;
                self.reordered += 1;
                Arrival::Late
            }
            _ => {
                self.duplicated += 1;
                Arrival::Duplicate
            }
        }
    }

    /// How many were sent.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// How many of them came back, each counted once.
    #[must_use]
    pub const fn arrived(&self) -> u64 {
        self.arrived
    }

    /// How many of them have not come back (yet).
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        self.sent - self.arrived
    }

    /// How many came back after one that was sent later.
    #[must_use]
    pub const fn reordered(&self) -> u64 {
        self.reordered
    }

    /// How many came back again.
    #[must_use]
    pub const fn duplicated(&self) -> u64 {
        self.duplicated
    }

    /// How many arrivals bore a number that was never sent.
    #[must_use]
    pub const fn unknown(&self) -> u64 {
        self.unknown
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn sent(n: u64) -> Sequence {
        let mut sequence = Sequence::new();
        for expected in 0..n {
            assert_eq!(sequence.send(), expected);
        }
        sequence
    }

    #[test]
    fn names_every_case() {
        let mut s = sent(10);
        assert_eq!(s.arrive(0), Arrival::InOrder);
        assert_eq!(s.arrive(0), Arrival::Duplicate);
        assert_eq!(s.arrive(4), Arrival::AfterGap(3));
        assert_eq!(s.arrive(2), Arrival::Late);
        assert_eq!(s.arrive(2), Arrival::Duplicate);
        assert_eq!(s.arrive(1), Arrival::Late);
        assert_eq!(s.arrive(3), Arrival::Late);
        assert_eq!(s.arrive(5), Arrival::InOrder);
        assert_eq!(s.arrive(10), Arrival::Unknown);
        assert_eq!((s.arrived(), s.outstanding()), (6, 4));
        assert_eq!((s.reordered(), s.duplicated(), s.unknown()), (3, 2, 1));
    }

    proptest! {
        /// Against the obvious model: a set of all that arrived, and the largest of it.
        #[test]
        fn agrees_with_a_set(total in 1u64..60, arrivals in prop::collection::vec(0u64..70, 0..200)) {
            let mut sequence = sent(total);
            let mut seen = BTreeSet::new();
            let (mut late, mut twice, mut unknown) = (0, 0, 0);
            for n in arrivals {
                let largest = seen.last().copied();
                let got = sequence.arrive(n);
                if n >= total {
                    unknown += 1;
                    prop_assert_eq!(got, Arrival::Unknown);
                } else if !seen.insert(n) {
                    twice += 1;
                    prop_assert_eq!(got, Arrival::Duplicate);
                } else if largest.is_some_and(|l| n < l) {
                    late += 1;
                    prop_assert_eq!(got, Arrival::Late);
                } else {
                    let gap = n - largest.map_or(0, |l| l + 1);
                    prop_assert_eq!(got, if gap == 0 { Arrival::InOrder } else { Arrival::AfterGap(gap) });
                }
            }
            prop_assert_eq!(sequence.arrived(), seen.len() as u64);
            prop_assert_eq!(sequence.outstanding(), total - seen.len() as u64);
            prop_assert_eq!(
                (sequence.reordered(), sequence.duplicated(), sequence.unknown()),
                (late, twice, unknown)
            );
        }
    }
}
