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

/// A scenario that makes few calls has so many random turns at most where the longest has one.
const TURNS: usize = 8;

/// A list of schedules.
pub(crate) struct Plan {
    strikes: Vec<(usize, usize, Fault)>,
    /// Which scenarios random schedules are of, and the how manieth turn of the scenario each is.
    turns: Vec<(usize, usize)>,
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
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let turns = (0..TURNS).flat_map(|turn| {
            let all = lengths.iter().enumerate();
            let short = all.filter(move |(_, length)| turn * **length <= longest);
            short.map(move |(scenario, _)| (scenario, turn))
        });
        Self {
            strikes,
            turns: turns.collect(),
            count,
        }
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
        let (scenario, turn) = self.turns[random % self.turns.len()];
        Some(Schedule {
            scenario,
            strike: None,
            seed: (random / self.turns.len() * TURNS + turn) as u64,
        })
    }
}
