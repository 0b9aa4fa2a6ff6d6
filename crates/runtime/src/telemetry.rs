//! Logs: `tracing` to standard error as text or JSON, and the `log` crate bridged in.

use std::io::IsTerminal as _;

use tracing::level_filters::LevelFilter;
use tracing_log::AsLog as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, layer::SubscriberExt as _};

/// Shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One readable line an event, coloured on a terminal.
    Text,
    /// One JSON object an event.
    Json,
}

/// Checked log settings.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// A filter in the syntax of `tracing_subscriber::EnvFilter`.
    pub filter: String,
    /// Shape of a line.
    pub format: LogFormat,
}

/// Logs could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter does not parse (it was checked before: only for hand-made settings).
    #[error("--log {filter}: {reason}")]
    Filter {
        /// The filter.
        filter: String,
        /// What the parser said.
        reason: String,
    },
    /// Another subscriber is installed in this process.
    #[error("logs are already set up in this process")]
    Installed,
}

impl Telemetry {
    /// Checks a filter without installing anything.
    ///
    /// # Errors
    /// The parser's message.
    pub(crate) fn check_filter(filter: &str) -> Result<(), String> {
        EnvFilter::builder()
            .parse(filter)
            .map(drop)
            .map_err(|e| e.to_string())
    }

    /// Installs it for the whole process. Once only.
    ///
    /// # Errors
    /// [`TelemetryError`].
    pub fn install(&self) -> Result<(), TelemetryError> {
        let filter =
            EnvFilter::builder()
                .parse(&self.filter)
                .map_err(|e| TelemetryError::Filter {
                    filter: self.filter.clone(),
                    reason: e.to_string(),
                })?;
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let lines = fmt::layer::<Registry>().with_writer(std::io::stderr);
        let lines = match self.format {
            LogFormat::Text => lines.with_ansi(colour).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        tracing::subscriber::set_global_default(
            Registry::default().with(lines.with_filter(filter)),
        )
        .map_err(|_| TelemetryError::Installed)?;
        // Pingora logs through `log`; the bridge drops what the filter would drop.
        tracing_log::LogTracer::builder()
            .with_max_level(LevelFilter::current().as_log())
            .init()
            .map_err(|_| TelemetryError::Installed)
    }
}
