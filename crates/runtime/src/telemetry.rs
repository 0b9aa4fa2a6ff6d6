//! Logs: `tracing` to standard error as text or JSON, and the `log` crate bridged in.

mod queue;

pub(crate) use queue::flush;

use std::{io::IsTerminal as _, sync::Mutex};

use queue::Queue;
use tracing::{Level, Subscriber, level_filters::LevelFilter};
use tracing_log::AsLog as _;
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt as _};
use tracing_subscriber::{Layer, Registry, fmt};

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
    /// No thread can be started that writes them.
    #[error("no thread can be started that writes logs: {0}")]
    Thread(#[source] std::io::Error),
    /// Another subscriber is installed in this process.
    #[error("logs are already set up in this process")]
    Installed,
}

impl Telemetry {
    /// Checks a filter without installing anything.
    ///
    /// # Errors
    /// The parser's message.
    pub fn check_filter(filter: &str) -> Result<(), String> {
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
        set(Registry::default().with(self.terminal()?))
    }

    /// As [`Telemetry::install`], and writes what passes `filter` to `file` too, as text.
    ///
    /// # Errors
    /// [`TelemetryError`].
    pub fn install_with_file<W>(&self, file: W, filter: &str) -> Result<(), TelemetryError>
    where
        W: std::io::Write + Send + 'static,
    {
        let lines = fmt::layer()
            .with_ansi(false)
            .with_writer(Mutex::new(file))
            .with_filter(parse(filter)?);
        set(Registry::default().with(self.terminal()?).with(lines))
    }

    fn terminal(&self) -> Result<impl Layer<Registry> + Send + Sync + use<>, TelemetryError> {
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let queue = Queue::start(std::io::stderr(), self.format).map_err(TelemetryError::Thread)?;
        queue.publish();
        let lines = fmt::layer::<Registry>().with_writer(queue);
        let lines = match self.format {
            LogFormat::Text => lines.with_ansi(colour).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        Ok(lines.with_filter(parse(&self.filter)?))
    }
}

/// Crates whose lines beyond `info` hold whole heads of requests, with the credentials in them.
const TALKATIVE: &str = "pingora";

/// A filter as it was written; what is talkative says no more than `info` unless it is named.
fn parse<S: Subscriber>(filter: &str) -> Result<impl Filter<S> + use<S>, TelemetryError> {
    let named = filter.contains(TALKATIVE);
    let discreet = filter_fn(move |line| {
        named || *line.level() <= Level::INFO || !line.target().starts_with(TALKATIVE)
    });
    let parsed = EnvFilter::builder()
        .parse(filter)
        .map_err(|e| TelemetryError::Filter {
            filter: filter.to_owned(),
            reason: e.to_string(),
        })?;
    // It has no bound of its own: the written one is the bound of both.
    Ok(parsed.and(discreet.with_max_level_hint(LevelFilter::TRACE)))
}

fn set(subscriber: impl Subscriber + Send + Sync) -> Result<(), TelemetryError> {
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::Installed)?;
    // Pingora logs through `log`; the bridge drops what the filter would drop.
    tracing_log::LogTracer::builder()
        .with_max_level(LevelFilter::current().as_log())
        .init()
        .map_err(|_| TelemetryError::Installed)
}
