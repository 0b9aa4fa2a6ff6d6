//! Which schedules are run: every fault at every call, and between them random ones.

use crate::scenario::ALL;
use crate::schedule::{FAULTS, Fault, KILLS, Schedule};

/// Scenarios whose every call is struck by every crash, in `make test` too.
const MAIN: [&str; 4] = [
    "beside",
    "recreate",
    "recreate-no-image",
    "recreate-crash-loop",
];
/// Places are taken in this stride, so that a run that is cut short has seen some of everything.
const STRIDE: usize = 7919;

/// A list of schedules.
pub(crate) struct Plan {
    strikes: Vec<(usize, usize, Fault)>,
    count: usize,
}

impl Plan {
    /// `lengths`: how many calls each scenario makes. `all`: every fault at every call, else every
    /// crash at every call of the main scenarios.
    pub(crate) fn new(lengths: &[usize], all: bool, count: usize) -> Self {
        let faults: &[Fault] = if all { &FAULTS } else { &KILLS };
        let mut strikes = Vec::new();
        for (scenario, length) in lengths.iter().enumerate() {
            if all || MAIN.contains(&ALL[scenario].name) {
                let calls =
                    (1..=*length).flat_map(|call| faults.iter().map(move |fault| (call, *fault)));
                strikes.extend(calls.map(|(call, fault)| (scenario, call, fault)));
            }
        }
        assert!(
            !strikes.len().is_multiple_of(STRIDE),
            "choose another stride"
        );
        Self { strikes, count }
    }

    /// The one at this place.
    pub(crate) fn get(&self, place: usize) -> Option<Schedule> {
        if place >= self.count {
            return None;
        }
        let (half, strikes) = (place / 2, self.strikes.len());
        if place.is_multiple_of(2) && half < strikes {
            let (scenario, call, fault) = self.strikes[half * STRIDE % strikes];
            return Some(Schedule {
                scenario,
                strike: Some((call, fault)),
                seed: 0,
            });
        }
        // All odd places, and the even ones once every call was struck.
        let random = if half < strikes {
            half
        } else {
            place - strikes
        };
        Some(Schedule {
            scenario: random % ALL.len(),
            strike: None,
            seed: (random / ALL.len()) as u64,
        })
    }
}
