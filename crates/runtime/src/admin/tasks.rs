//! How many tasks the process has: what grows there while the work does not, leaks.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::runtime::Handle;

/// Tells the tasks of an async runtime, at the moment of a scrape.
#[derive(Debug)]
pub struct Tasks(Handle);

impl Tasks {
    /// Those of the runtime that this is called on.
    ///
    /// # Panics
    /// It is called on none.
    #[must_use]
    pub fn here() -> Self {
        Self(Handle::current())
    }
}

impl Collector for Tasks {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let alive = self.0.metrics().num_alive_tasks();
        let gauge = ConstGauge::new(i64::try_from(alive).unwrap_or(i64::MAX));
        let help = "Tasks that have begun and not ended";
        gauge.encode(encoder.encode_descriptor("nogoo9_tasks", help, None, gauge.metric_type())?)
    }
}
