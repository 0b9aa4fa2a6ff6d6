//! What to watch, and when to distrust the watch.

use kube::api::{ListParams, WatchParams};
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
    /// After the server's database was put back to an older copy: do not believe what its first list
    /// tells of the past. Objects that were known stay as they were known, and objects that were gone
    /// are not delivered, until they change or until the next list, a minute later. For whoever acts on
    /// what objects say of the world outside, as which pod has which address.
    pub distrust_restored: bool,
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
            distrust_restored: false,
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

    /// A list of the present: without a version, so that the answer is as new as the database and not
    /// as a cache; in pages, so that neither side holds more than one. (No streaming lists: servers
    /// stopped serving them, and one cut off before its end is not noticed.)
    pub(crate) fn list(&self, paged: bool) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: paged.then_some(self.page_size),
            ..ListParams::default()
        }
    }

    pub(crate) fn watch(&self) -> WatchParams {
        WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(self.watch_seconds),
            bookmarks: true,
            ..WatchParams::default()
        }
    }
}
