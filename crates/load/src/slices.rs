//! Latency over time: a run cut into slices of equal width, so that a moment can be looked at.
//!
//! A request belongs to the slice in which it started: one that waited for a switch shows where it
//! began to wait. Memory is bounded: a run that outgrows the slices gets them twice as wide.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::LoadError;
use crate::phases::micros;

/// Width of a slice at first, in microseconds.
const FIRST_WIDTH_US: u64 = 100_000;
/// The most slices kept.
const MAX_SLICES: usize = 1024;
/// Latencies are told apart to two digits: a picture shows no more.
const DIGITS: u8 = 2;
/// The largest latency told apart from longer ones, in microseconds.
const MAX_US: u64 = 600_000_000;

/// One slice of a run. Moments are microseconds on the clock of the run's [`crate::Phases`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceReport {
    /// Where it begins.
    pub at_us: u64,
    /// Requests that started in it.
    pub requests: u64,
    /// Those that failed.
    pub failures: u64,
    /// Median latency of the others; 0 without any.
    pub p50_us: u64,
    /// 99 % of them took at most this.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
}

#[derive(Debug)]
pub(crate) struct Slices {
    width_us: u64,
    slices: Vec<Slice>,
}

#[derive(Debug)]
struct Slice {
    failures: u64,
    latency: Histogram<u32>,
}

impl Slice {
    fn new() -> Result<Self, LoadError> {
        Ok(Self {
            failures: 0,
            // Grows with the largest latency it meets.
            latency: Histogram::new(DIGITS)?,
        })
    }
}

impl Slices {
    pub(crate) const fn new() -> Self {
        Self {
            width_us: FIRST_WIDTH_US,
            slices: Vec::new(),
        }
    }

    /// Width of a slice, in microseconds.
    pub(crate) const fn width_us(&self) -> u64 {
        self.width_us
    }

    /// Adds a request that started at `from` and took `latency`; `None`: it failed.
    pub(crate) fn record(&mut self, from: Duration, latency: Option<Duration>) {
        let from = micros(from);
        while from / self.width_us >= MAX_SLICES as u64 {
            self.widen();
        }
        let index = usize::try_from(from / self.width_us).unwrap_or(usize::MAX);
        while self.slices.len() <= index {
            // The digits are within the library's bounds, so it always makes one.
            let Ok(slice) = Slice::new() else { return };
            self.slices.push(slice);
        }
        let Some(slice) = self.slices.get_mut(index) else {
            return;
        };
        match latency {
            // A histogram that grows takes any value.
            Some(latency) => {
                let _ = slice.latency.record(micros(latency).clamp(1, MAX_US));
            }
            None => slice.failures += 1,
        }
    }

    /// Makes one slice of each two.
    fn widen(&mut self) {
        self.width_us = self.width_us.saturating_mul(2);
        let mut merged = Vec::with_capacity(MAX_SLICES);
        let mut all = std::mem::take(&mut self.slices).into_iter();
        while let Some(mut slice) = all.next() {
            if let Some(second) = all.next() {
                slice.failures += second.failures;
                let _ = slice.latency.add(&second.latency);
            }
            merged.push(slice);
        }
        self.slices = merged;
    }

    /// The slices in which anything started.
    pub(crate) fn report(&self) -> Vec<SliceReport> {
        let starts = (0..).map(|number| self.width_us.saturating_mul(number));
        starts
            .zip(&self.slices)
            .map(|(at_us, slice)| SliceReport {
                at_us,
                requests: slice.latency.len() + slice.failures,
                failures: slice.failures,
                p50_us: slice.latency.value_at_quantile(0.5),
                p99_us: slice.latency.value_at_quantile(0.99),
                max_us: slice.latency.max(),
            })
            .filter(|slice| slice.requests > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_request_shows_where_it_began() {
        let mut slices = Slices::new();
        slices.record(ms(10), Some(ms(1)));
        slices.record(ms(99), Some(ms(7000)));
        slices.record(ms(350), None);
        let report = slices.report();
        assert_eq!(
            report
                .iter()
                .map(|s| (s.at_us, s.requests, s.failures))
                .collect::<Vec<_>>(),
            [(0, 2, 0), (300_000, 1, 1)],
            "empty slices are left out"
        );
        // Two digits.
        assert!(
            (6_930_000..7_070_000).contains(&report[0].max_us),
            "{report:?}"
        );
        assert_eq!((report[1].p50_us, report[1].max_us), (0, 0));
    }

    #[test]
    fn room_is_bounded_and_nothing_is_lost() {
        let mut slices = Slices::new();
        for second in 0..1000 {
            slices.record(ms(second * 1000), Some(ms(second % 7 + 1)));
            slices.record(ms(second * 1000 + 1), None);
        }
        let report = slices.report();
        assert!(report.len() <= MAX_SLICES);
        assert_eq!(slices.width_us(), 1_600_000, "1000 s, doubled from 0.1 s");
        let sum = |f: fn(&SliceReport) -> u64| report.iter().map(f).sum::<u64>();
        assert_eq!((sum(|s| s.requests), sum(|s| s.failures)), (2000, 1000));
        assert!(report.iter().all(|s| s.at_us % slices.width_us() == 0));
    }

    #[test]
    fn any_latency_fits() {
        let mut slices = Slices::new();
        slices.record(Duration::ZERO, Some(Duration::ZERO));
        slices.record(Duration::ZERO, Some(Duration::MAX));
        let report = slices.report();
        assert_eq!(report[0].requests, 2);
        assert!(report[0].max_us >= MAX_US);
    }
}
