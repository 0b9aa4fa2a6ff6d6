//! What to watch, and when to distrust the watch.

use kube::runtime::watcher;
use std::time::Duration;

/// Selection and deadlines of one watch.
#[derive(Debug, Clone)]
pub struct Config {
    /// Label selector; `None`: all objects.
    pub labels: Option<String>,
    /// Field selector; `None`: all objects.
    pub fields: Option<String>,
    /// Longest time between two full lists.
    pub relist_every: Duration,
    /// Failures in a row after which the stream is thrown away and everything is listed anew.
    pub max_failures: u32,
    /// Longest silence while a list is under way.
    pub list_silence: Duration,
    /// Seconds that one watch call may run. The connection counts as dead 5 s later.
    pub watch_seconds: u32,
    /// Objects per page of a list.
    pub page_size: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            labels: None,
            fields: None,
            relist_every: Duration::from_secs(300),
            max_failures: 5,
            list_silence: Duration::from_secs(30),
            watch_seconds: 45,
            page_size: 500,
        }
    }
}

impl Config {
    /// The defaults, for objects with these labels.
    #[must_use]
    pub fn labels(selector: impl Into<String>) -> Self {
        Self {
            labels: Some(selector.into()),
            ..Self::default()
        }
    }

    pub(crate) fn watcher(&self) -> watcher::Config {
        watcher::Config {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            // No streaming lists: servers stopped serving them, and a list cut before its bookmark
            // is not noticed. A paged, consistent list is slower and right.
            initial_list_strategy: watcher::InitialListStrategy::ListWatch,
            page_size: Some(self.page_size),
            ..watcher::Config::default().timeout(self.watch_seconds)
        }
    }
}
