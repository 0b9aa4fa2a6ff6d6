//! WATCH: the events of a kind after a version, filtered, as a stream of JSON lines.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::events::to_served;
use super::failure::Failure;
use super::registry::Served;
use super::request::Form;
use super::selectors::{Selector, in_namespace};
use super::store::{Event, Store};
use super::table::{self, IncludeObject};

/// Bookmarks at this pace, so that an idle watcher can resume after a restart of its own.
const BOOKMARK_EVERY: Duration = Duration::from_secs(10);
/// Events read from the log in one go.
const CHUNK: usize = 256;

/// What is watched, and in which form.
pub(crate) struct WatchOptions {
    pub(crate) served: Served,
    pub(crate) namespace: Option<String>,
    pub(crate) selector: Selector,
    pub(crate) form: Form,
    pub(crate) include: IncludeObject,
    /// `None` or 0: start with what there is.
    pub(crate) version: Option<u64>,
    pub(crate) bookmarks: bool,
    /// End what there is at the start with a marked bookmark (`sendInitialEvents`).
    pub(crate) initial_events: bool,
    pub(crate) timeout: Duration,
}

/// What an event is to a watcher with a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Added,
    Modified,
    Deleted,
}

/// An object that leaves the selection is deleted to its watcher, one that enters is added.
fn change(event: &Event, matches: impl Fn(&Value) -> bool) -> Option<Change> {
    let before = event.before.as_deref().is_some_and(&matches);
    let after = !event.deletes() && matches(&event.object);
    match (before, after) {
        (true, true) => Some(Change::Modified),
        (false, true) => Some(Change::Added),
        (true, false) => Some(Change::Deleted),
        (false, false) => None,
    }
}

struct Watcher {
    store: Arc<Store>,
    options: WatchOptions,
    changed: tokio::sync::watch::Receiver<u64>,
    last: u64,
    ready: VecDeque<Bytes>,
    bookmark: Interval,
    deadline: Instant,
    shutdown: CancellationToken,
    done: bool,
}

/// The stream of a watch.
pub(crate) fn stream(
    store: Arc<Store>,
    options: WatchOptions,
    shutdown: CancellationToken,
) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    let mut bookmark = tokio::time::interval_at(Instant::now() + BOOKMARK_EVERY, BOOKMARK_EVERY);
    bookmark.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut watcher = Watcher {
        changed: store.changed(),
        last: 0,
        ready: VecDeque::new(),
        bookmark,
        deadline: Instant::now() + options.timeout,
        shutdown,
        done: false,
        store,
        options,
    };
    watcher.start();
    futures::stream::unfold(watcher, |mut watcher| async move {
        watcher.next().await.map(|line| (Ok(line), watcher))
    })
}

impl Watcher {
    fn start(&mut self) {
        let current = self.store.version();
        match self.options.version {
            Some(version) if version > 0 && !self.options.initial_events => {
                self.last = version;
                // A version from another life of this server: the state is not that of the client.
                if version > current {
                    self.fail(&Failure::expired(format!(
                        "too large resource version: {version} ({current})"
                    )));
                }
            }
            _ => {
                let (objects, version) = self.store.list(
                    self.options.served.resource,
                    self.options.namespace.as_deref(),
                );
                for object in objects.iter().filter(|o| self.options.selector.matches(o)) {
                    let line = self.line(Change::Added, object, version, false);
                    self.ready.push_back(line);
                }
                self.last = version;
                if self.options.initial_events && self.options.bookmarks {
                    self.bookmark(true);
                }
            }
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.done {
                return None;
            }
            // Marked as seen before the log is read, so that no change is missed in between.
            self.changed.borrow_and_update();
            if self.read_log() {
                continue;
            }
            tokio::select! {
                changed = self.changed.changed() => self.done = changed.is_err(),
                () = self.shutdown.cancelled() => self.done = true,
                () = tokio::time::sleep_until(self.deadline) => {
                    self.bookmark(false);
                    self.done = true;
                }
                _ = self.bookmark.tick() => self.bookmark(false),
            }
        }
    }

    /// Takes the next events from the log; false when there was nothing new.
    fn read_log(&mut self) -> bool {
        match self
            .store
            .events(self.options.served.resource, self.last, CHUNK)
        {
            Err(old) => self.fail(&old.into()),
            Ok((events, reached)) => {
                self.last = reached;
                for event in &events {
                    self.take(event);
                }
                if events.is_empty() {
                    return false;
                }
            }
        }
        true
    }

    fn take(&mut self, event: &Event) {
        let options = &self.options;
        let chosen = change(event, |object| {
            in_namespace(object, options.namespace.as_deref()) && options.selector.matches(object)
        });
        let Some(kind) = chosen else { return };
        // What left the selection without being deleted is shown as it was when it belonged.
        let object = match (&event.before, kind) {
            (Some(before), Change::Deleted) if !event.deletes() => before,
            _ => &event.object,
        };
        let line = self.line(kind, object, event.version, kind == Change::Deleted);
        self.ready.push_back(line);
    }

    fn line(&self, change: Change, object: &Value, version: u64, stamp: bool) -> Bytes {
        let served = self.options.served;
        let kind = match change {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        };
        let stamped;
        let object = if stamp {
            let mut copy = object.clone();
            super::object::set(
                &mut copy,
                &["metadata", "resourceVersion"],
                version.to_string(),
            );
            stamped = copy;
            &stamped
        } else {
            object
        };
        let shown = match self.options.form {
            Form::Whole => to_served(served, object),
            Form::Metadata => table::partial(object),
            Form::Table => {
                let metadata = json!({"resourceVersion": version.to_string()});
                table::render(
                    served,
                    [object],
                    self.options.include,
                    Timestamp::now(),
                    &metadata,
                )
            }
        };
        line(kind, &shown)
    }

    fn bookmark(&mut self, initial_end: bool) {
        if !self.options.bookmarks {
            return;
        }
        let served = self.options.served;
        let mut metadata =
            json!({"resourceVersion": self.last.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.options.form {
            Form::Whole => json!({
                "kind": served.resource.info().kind, "apiVersion": served.api_version(),
                "metadata": metadata,
            }),
            Form::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            }),
            Form::Table => table::render(
                served,
                [],
                self.options.include,
                Timestamp::now(),
                &metadata,
            ),
        };
        self.ready.push_back(line("BOOKMARK", &object));
    }

    /// Ends the watch with an ERROR event: the way in which clients expect to learn of a 410.
    fn fail(&mut self, failure: &Failure) {
        self.ready.push_back(line("ERROR", &failure.status()));
        self.done = true;
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut text = json!({"type": kind, "object": object}).to_string();
    text.push('\n');
    Bytes::from(text)
}
