//! Latency histograms: three significant digits from 1 µs to 10 min, in fixed memory.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::LoadError;
use crate::phases::micros;

/// The largest latency told apart from longer ones, in microseconds.
const MAX_US: u64 = 600_000_000;

/// A histogram of durations.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
}

impl Latency {
    /// An empty one.
    ///
    /// # Errors
    /// [`LoadError::Histogram`] if the library refuses the bounds.
    pub fn new() -> Result<Self, LoadError> {
        Ok(Self {
            histogram: Histogram::new_with_bounds(1, MAX_US, 3)?,
        })
    }

    /// An empty one with the same bounds.
    #[must_use]
    pub fn empty(&self) -> Self {
        Self {
            histogram: Histogram::new_from(&self.histogram),
        }
    }

    /// Adds one duration; what lies beyond the bounds counts as the bound.
    pub fn record(&mut self, duration: Duration) {
        self.histogram.saturating_record(micros(duration).max(1));
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        for value in other.histogram.iter_recorded() {
            self.histogram
                .saturating_record_n(value.value_iterated_to(), value.count_at_value());
        }
    }

    /// The figures that reports print.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let h = &self.histogram;
        if h.is_empty() {
            return LatencySummary::default();
        }
        LatencySummary {
            count: h.len(),
            min_us: h.min(),
            // Between min and max, so the cast neither truncates nor wraps.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            mean_us: h.mean().round() as u64,
            p50_us: h.value_at_quantile(0.50),
            p90_us: h.value_at_quantile(0.90),
            p99_us: h.value_at_quantile(0.99),
            p999_us: h.value_at_quantile(0.999),
            max_us: h.max(),
        }
    }
}

/// Figures of a [`Latency`], in microseconds; all zero when nothing was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LatencySummary {
    /// How many durations were recorded.
    pub count: u64,
    /// The shortest.
    pub min_us: u64,
    /// The mean, rounded.
    pub mean_us: u64,
    /// The median.
    pub p50_us: u64,
    /// 90 % were at most this.
    pub p90_us: u64,
    /// 99 % were at most this.
    pub p99_us: u64,
    /// 99.9 % were at most this.
    pub p999_us: u64,
    /// The longest.
    pub max_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_known_distribution() {
        let mut latency = Latency::new().unwrap();
        assert_eq!(latency.summary(), LatencySummary::default());
        for n in 1..=1000 {
            latency.record(Duration::from_micros(n));
        }
        let s = latency.summary();
        assert_eq!(
            (
                s.count, s.min_us, s.p50_us, s.p90_us, s.p99_us, s.p999_us, s.max_us
            ),
            (1000, 1, 500, 900, 990, 999, 1000)
        );

        let mut sum = latency.empty();
        sum.add(&latency);
        sum.add(&latency);
        assert_eq!(sum.summary().count, 2000);
        assert_eq!(sum.summary().p50_us, 500);
    }

    #[test]
    fn out_of_bounds_counts_as_the_bound() {
        let mut latency = Latency::new().unwrap();
        latency.record(Duration::ZERO);
        latency.record(Duration::from_secs(86_400));
        let s = latency.summary();
        assert_eq!((s.count, s.min_us), (2, 1));
        assert!(
            s.max_us >= MAX_US && s.max_us < MAX_US + MAX_US / 500,
            "{}",
            s.max_us
        );
    }
}
