//! The watching task.

use crate::backoff;
use crate::config::Config;
use crate::mirror::{Change, Event, Key, Mirror, Seen};
use crate::status::Status;
use crate::store::Store;
use futures::{Stream, StreamExt};
use kube::runtime::watcher;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use tokio::time::Instant;

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watch<V> {
    store: Store<V>,
    status: Status,
    task: tokio::task::JoinHandle<()>,
}

impl<V> Drop for Watch<V> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<V: Send + Sync + 'static> Watch<V> {
    /// Starts watching, inside a tokio runtime.
    ///
    /// `project` makes of each object what is kept and delivered; `None` means that the object is
    /// none of ours, and if it was before, it is delivered as deleted. `sink` is called by one task,
    /// in order; while it runs nothing else is delivered, so it must be quick. The store shows a
    /// change before the sink hears of it.
    ///
    /// Give `api` a client that does not retry on its own: waiting is this task's business.
    pub fn start<K>(
        api: Api<K>,
        config: Config,
        project: impl Fn(K) -> Option<V> + Send + 'static,
        sink: impl FnMut(Change<V>) + Send + 'static,
    ) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let store = Store::new();
        let status = Status::new();
        let worker = Worker {
            store: store.clone(),
            status: status.clone(),
            mirror: Mirror::default(),
            project,
            sink,
        };
        let streams = {
            let config = config.clone();
            move || watcher(api.clone(), config.watcher())
        };
        let task = tokio::spawn(worker.run(streams, config));
        Self {
            store,
            status,
            task,
        }
    }

    /// What is known now.
    #[must_use]
    pub fn store(&self) -> Store<V> {
        self.store.clone()
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// Resolves once the first full list was delivered.
    pub async fn synced(&self) {
        self.status.synced().await;
    }
}

/// For projections that keep the whole object: takes away the bookkeeping of writers, often the
/// larger half of it.
pub fn strip_managed_fields<K: Resource>(mut object: K) -> Option<K> {
    object.meta_mut().managed_fields = None;
    Some(object)
}

/// Why a stream is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Time for a full list.
    Due,
    /// It failed too often in a row, or fell silent during a list.
    Failing,
}

struct Worker<V, P, S> {
    store: Store<V>,
    status: Status,
    mirror: Mirror<V>,
    project: P,
    sink: S,
}

/// Tells [`Status`] that the task is gone, however it ends.
struct Ended(Status);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended();
    }
}

impl<V, P, S> Worker<V, P, S> {
    async fn run<K, W>(mut self, streams: impl Fn() -> W, config: Config)
    where
        K: Resource + 'static,
        W: Stream<Item = watcher::Result<watcher::Event<K>>>,
        P: Fn(K) -> Option<V>,
        S: FnMut(Change<V>),
    {
        let _ended = Ended(self.status.clone());
        loop {
            let left = self.follow(streams(), &config).await;
            self.status.restarted();
            tracing::debug!(reason = ?left, "watch begins anew");
        }
    }

    /// Follows one stream until the watchdog leaves it.
    async fn follow<K>(
        &mut self,
        stream: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
        config: &Config,
    ) -> Left
    where
        K: Resource + 'static,
        P: Fn(K) -> Option<V>,
        S: FnMut(Change<V>),
    {
        let mut stream = pin!(stream);
        // Up to a tenth earlier, so that replicas do not list in step.
        let relist_at = Instant::now() + config.relist_every.mul_f64(1.0 - dice() / 10.0);
        let mut listing = true;
        loop {
            let deadline = if listing {
                Instant::now() + config.list_silence
            } else {
                relist_at
            };
            match tokio::time::timeout_at(deadline, stream.next()).await {
                Err(_) if listing => {
                    let failures = self.status.failed();
                    tracing::warn!(failures, "the list of objects has stalled");
                    tokio::time::sleep(backoff::wait(failures, dice())).await;
                    return Left::Failing;
                }
                Err(_) => return Left::Due,
                Ok(None) => return Left::Failing,
                Ok(Some(Ok(event))) => {
                    match &event {
                        watcher::Event::Init => listing = true,
                        watcher::Event::InitDone => listing = false,
                        _ => {}
                    }
                    self.take(event);
                }
                Ok(Some(Err(error))) => {
                    let failures = self.status.failed();
                    report(failures, &error);
                    tokio::time::sleep(backoff::wait(failures, dice())).await;
                    if failures.is_multiple_of(config.max_failures.max(1)) {
                        return Left::Failing;
                    }
                }
            }
        }
    }

    fn take<K>(&mut self, event: watcher::Event<K>)
    where
        K: Resource + 'static,
        P: Fn(K) -> Option<V>,
        S: FnMut(Change<V>),
    {
        let event = match event {
            // A failing list repeats `Init` without having heard anything.
            watcher::Event::Init => Event::Init,
            watcher::Event::InitApply(object) => {
                self.status.heard();
                Event::InitApply(self.seen(object))
            }
            watcher::Event::InitDone => Event::InitDone,
            watcher::Event::Apply(object) => {
                self.status.event();
                Event::Apply(self.seen(object))
            }
            watcher::Event::Delete(object) => {
                self.status.event();
                let uid = object.meta().uid.clone().unwrap_or_default();
                Event::Delete(key(&object), uid)
            }
        };
        let changes = self.store.write(|known| self.mirror.step(known, event));
        for change in changes {
            let synced = matches!(change, Change::Synced);
            (self.sink)(change);
            if synced {
                self.status.listed();
            }
        }
    }

    fn seen<K>(&self, object: K) -> Seen<V>
    where
        K: Resource,
        P: Fn(K) -> Option<V>,
    {
        let meta = object.meta();
        Seen {
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            key: key(&object),
            value: (self.project)(object),
        }
    }
}

fn key<K: Resource>(object: &K) -> Key {
    let meta = object.meta();
    Key {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

/// The first failure is worth a warning, its repetitions are not.
fn report(failures: u32, error: &watcher::Error) {
    if failures == 1 {
        tracing::warn!(%error, "watch failed; what is known stays in use");
    } else {
        tracing::debug!(%error, failures, "watch failed again");
    }
}

/// A number from 0 to 1. The seed of a hash map is random enough to spread replicas.
fn dice() -> f64 {
    let bits = RandomState::new().hash_one(0u8) >> 11;
    bits as f64 / (1u64 << 53) as f64
}
