//! Axes: where a figure lies in the picture. Microseconds in, pixels out.

// Pixels: far fewer digits than a float has.
#![allow(clippy::cast_precision_loss)]

/// The axis of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Linear {
    from: u64,
    to: u64,
    pixels: (f64, f64),
}

impl Linear {
    pub(super) fn new((from, to): (u64, u64), pixels: (f64, f64)) -> Self {
        Self {
            from,
            to: to.max(from + 1),
            pixels,
        }
    }

    /// Where a moment lies; one outside of the axis lies at its end.
    pub(super) fn at(self, us: u64) -> f64 {
        let share =
            (us.clamp(self.from, self.to) - self.from) as f64 / (self.to - self.from) as f64;
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// Whole seconds from the beginning, some ten of them, as moments.
    pub(super) fn seconds(self) -> impl Iterator<Item = u64> {
        let length = (self.to - self.from) / 1_000_000;
        let step = [1, 2, 5, 10, 20, 30, 60, 120, 300]
            .into_iter()
            .find(|step| length / step <= 12)
            .unwrap_or(600);
        let from = self.from;
        (0..=length)
            .step_by(usize::try_from(step).unwrap_or(1))
            .map(move |second| from + second * 1_000_000)
    }
}

/// The axis of latency: whole decades.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log {
    /// The first and the last decade, as exponents of ten.
    decades: (u32, u32),
    pixels: (f64, f64),
}

impl Log {
    /// The decades that hold everything between two figures.
    pub(super) fn around((lowest, longest): (u64, u64), pixels: (f64, f64)) -> Self {
        let first = lowest.max(1).ilog10();
        let last = longest.max(1).saturating_sub(1).max(1).ilog10() + 1;
        Self {
            decades: (first, last.max(first + 1)),
            pixels,
        }
    }

    /// Where a latency lies; one below the axis lies at its foot.
    pub(super) fn at(self, us: u64) -> f64 {
        let (first, last) = (f64::from(self.decades.0), f64::from(self.decades.1));
        let share = ((us.max(1) as f64).log10() - first) / (last - first);
        self.pixels.0 + share.clamp(0.0, 1.0) * (self.pixels.1 - self.pixels.0)
    }

    /// Its decades, in microseconds.
    pub(super) fn decades(self) -> impl Iterator<Item = u64> {
        (self.decades.0..=self.decades.1).map(|exponent| 10_u64.saturating_pow(exponent))
    }
}

/// A decade's name.
pub(super) fn label(us: u64) -> String {
    match us {
        0..1_000 => format!("{} ms", us as f64 / 1e3),
        1_000..1_000_000 => format!("{} ms", us / 1_000),
        _ => format!("{} s", us / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_from_edge_to_edge() {
        let x = Linear::new((5_000_000, 15_000_000), (100.0, 200.0));
        assert_eq!(
            [0, 5_000_000, 10_000_000, 99_000_000].map(|us| x.at(us)),
            [100.0, 100.0, 150.0, 200.0]
        );
        assert_eq!(
            x.seconds().take(2).collect::<Vec<_>>(),
            [5_000_000, 6_000_000]
        );
        let long = Linear::new((0, 600_000_000), (0.0, 1.0));
        assert!(long.seconds().count() <= 13);
        assert!(Linear::new((3, 3), (0.0, 1.0)).at(3).is_finite());
    }

    #[test]
    fn latency_runs_over_whole_decades_upwards() {
        let y = Log::around((400, 2_000_000), (200.0, 0.0));
        assert_eq!(
            y.decades().map(label).collect::<Vec<_>>(),
            ["0.1 ms", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]
        );
        assert_eq!([1, 100, 10_000_000].map(|us| y.at(us)), [200.0, 200.0, 0.0]);
        assert!(y.at(1_000) > y.at(10_000), "longer is higher up");
        // A figure on a decade needs none above it; equal figures still have an axis.
        assert_eq!(Log::around((100, 1_000), (1.0, 0.0)).decades().count(), 2);
        assert_eq!(Log::around((100, 100), (1.0, 0.0)).decades().count(), 2);
    }
}
