//! The watching task.

use crate::backoff;
use crate::config::Config;
use crate::course::{Course, Ended, Said, Verdict};
use crate::mirror::{Change, Event, Key, Mirror, Seen};
use crate::status::Status;
use crate::store::Store;
use futures::{Stream, StreamExt};
use kube::api::WatchEvent;
use kube::core::ObjectList;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How much longer than asked for a watch may last before its connection counts as dead.
const OVERTIME: Duration = Duration::from_secs(5);
/// When all is listed once more after a restore, should that not be due before: what was hidden as a
/// thing of the past has been begun anew or cleared away by then.
const AFTER_RESTORE: Duration = Duration::from_secs(60);

/// How much longer than one page a list in one piece may take.
const WHOLE: u32 = 4;

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
            course: Course::default(),
            config,
            project,
            sink,
        };
        let task = tokio::spawn(worker.run(api));
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

/// Why following is left for a full list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// It is time for one.
    Due,
    /// Too many failures in a row.
    Failing,
    /// The server knows nothing of that version any more (410).
    Gone,
    /// The server was silent, and is not by habit.
    Silent,
    /// Something came that is older than what was seen.
    WentBack,
}

/// Why a list was not had.
#[derive(Debug)]
enum Failure {
    /// The rest of a list is not to be had any more (410): it took too long.
    Expired,
    /// Anything else.
    Other(String),
}

struct Worker<V, P, S> {
    store: Store<V>,
    status: Status,
    mirror: Mirror<V>,
    course: Course,
    config: Config,
    project: P,
    sink: S,
}

/// Tells [`Status`] that the task is gone, however it ends.
struct Finished(Status);

impl Drop for Finished {
    fn drop(&mut self) {
        self.0.ended();
    }
}

impl<V, P, S> Worker<V, P, S> {
    async fn run<K>(mut self, api: Api<K>)
    where
        K: Resource + Clone + DeserializeOwned + Debug + 'static,
        P: Fn(K) -> Option<V>,
        S: FnMut(Change<V>),
    {
        let _finished = Finished(self.status.clone());
        loop {
            let next = self.list(&api).await;
            let left = self.follow(&api, next).await;
            self.status.restarted();
            tracing::debug!(reason = ?left, "all is listed anew");
        }
    }

    /// Lists until a list was taken in, and returns when the next one is due.
    async fn list<K>(&mut self, api: &Api<K>) -> Instant
    where
        K: Resource + Clone + DeserializeOwned + Debug,
        P: Fn(K) -> Option<V>,
        S: FnMut(Change<V>),
    {
        let mut paged = true;
        loop {
            match self.pages(api, paged).await {
                Ok(version) => match self.course.listed(&version) {
                    Verdict::Current => {
                        self.deliver(Event::Listed);
                        // Up to a tenth earlier, so that replicas do not list in step.
                        let every = self.config.relist_every.mul_f64(1.0 - dice() / 10.0);
                        return Instant::now() + every;
                    }
                    Verdict::Restored => {
                        self.status.restored();
                        tracing::error!(
                            version,
                            "the API server was put back to an older state; what it says now counts"
                        );
                        self.deliver(Event::Restored {
                            distrust: self.config.distrust_restored,
                        });
                        return Instant::now() + self.config.relist_every.min(AFTER_RESTORE);
                    }
                    Verdict::Old(times) => {
                        self.status.went_back();
                        self.status.failed();
                        if times == 1 {
                            tracing::warn!(
                                version,
                                seen = self.course.from(),
                                "the API server's list is older than what was seen; what is known stays in use"
                            );
                        }
                        sleep(backoff::wait(times, dice())).await;
                    }
                },
                // The next one is asked for in one piece, which cannot expire half-way.
                Err(Failure::Expired) => {
                    paged = false;
                    self.failed("the list of objects took too long for its pages")
                        .await;
                }
                // And where that does not come either, in pages again.
                Err(Failure::Other(trouble)) => {
                    paged = true;
                    self.failed(&trouble).await;
                }
            }
        }
    }

    /// Reads one list, and returns its version.
    async fn pages<K>(&mut self, api: &Api<K>, paged: bool) -> Result<String, Failure>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
        P: Fn(K) -> Option<V>,
    {
        self.mirror.begin();
        let mut params = self.config.list(paged);
        let silence = match paged {
            true => self.config.list_silence,
            false => self.config.list_silence.saturating_mul(WHOLE),
        };
        loop {
            let page = timeout(silence, api.list(&params)).await;
            let page: ObjectList<K> = match page {
                Err(_) => {
                    let trouble = "the list of objects has stalled".to_owned();
                    return Err(Failure::Other(trouble));
                }
                Ok(Err(error)) if is_gone(&error) => return Err(Failure::Expired),
                Ok(Err(error)) => return Err(Failure::Other(error.to_string())),
                Ok(Ok(page)) => page,
            };
            for object in page.items {
                let seen = self.seen(object);
                self.mirror.list(seen);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                // All pages of a list tell the version at which it was read.
                None => {
                    let version = page.metadata.resource_version;
                    return version
                        .filter(|version| !version.is_empty())
                        .ok_or_else(|| {
                            Failure::Other("the list of objects tells no version".to_owned())
                        });
                }
            }
        }
    }

    /// Follows, watch after watch, until a full list is to be had.
    async fn follow<K>(&mut self, api: &Api<K>, due: Instant) -> Left
    where
        K: Resource + Clone + DeserializeOwned + Debug + 'static,
        P: Fn(K) -> Option<V>,
        S: FnMut(Change<V>),
    {
        let params = self.config.watch();
        let lasts = Duration::from_secs(self.config.watch_seconds.into());
        // No failure is waited for beyond the time for a list.
        loop {
            let began = Instant::now();
            let until = due.min(began + lasts + OVERTIME);
            let from = self.course.from().to_owned();
            let trouble = match timeout_at(until, api.watch(&params, &from)).await {
                Ok(Ok(stream)) => {
                    self.status.answered();
                    match self.take_all(stream, until).await {
                        // A moment less than asked for: clocks differ.
                        Ok(said) => {
                            let lasted = began.elapsed() >= backoff::LONGEST;
                            let in_full = began.elapsed() >= lasts.mul_f64(0.9);
                            match self.course.ended(said, lasted, in_full) {
                                Ended::Fine => continue,
                                Ended::Early => "a watch ended before its time".to_owned(),
                                Ended::Silent => return Left::Silent,
                            }
                        }
                        Err(Broke::Dead) if Instant::now() >= due => return Left::Due,
                        Err(Broke::Dead) => "a watch does not end".to_owned(),
                        Err(Broke::Left(left)) => return left,
                        Err(Broke::Failed(error)) => error,
                    }
                }
                Ok(Err(error)) if is_gone(&error) => return self.gone().await,
                Ok(Err(error)) => error.to_string(),
                Err(_) if Instant::now() >= due => return Left::Due,
                Err(_) => "a watch does not begin".to_owned(),
            };
            let failures = self.unfollowed(&trouble, began.elapsed() >= backoff::LONGEST);
            sleep(backoff::wait(failures, dice())).await;
            if failures.is_multiple_of(self.config.max_failures.max(1)) {
                return Left::Failing;
            }
        }
    }

    /// Takes in what one watch brings, and returns what that was.
    async fn take_all<K>(
        &mut self,
        stream: impl Stream<Item = kube::Result<WatchEvent<K>>>,
        until: Instant,
    ) -> Result<Said, Broke>
    where
        K: Resource + Clone + DeserializeOwned + Debug + 'static,
        P: Fn(K) -> Option<V>,
        S: FnMut(Change<V>),
    {
        let mut stream = pin!(stream);
        let mut said = Said::Nothing;
        loop {
            let event = match timeout_at(until, stream.next()).await {
                Err(_) => return Err(Broke::Dead),
                Ok(None) => return Ok(said),
                Ok(Some(Err(error))) if is_gone(&error) => {
                    return Err(Broke::Left(self.gone().await));
                }
                Ok(Some(Err(error))) => return Err(Broke::Failed(error.to_string())),
                Ok(Some(Ok(event))) => event,
            };
            let came = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => self
                    .changed(&object)
                    .then(|| Event::Apply(self.seen(object))),
                WatchEvent::Deleted(object) => self.changed(&object).then(|| {
                    let uid = object.meta().uid.clone().unwrap_or_default();
                    Event::Delete(key(&object), uid)
                }),
                WatchEvent::Bookmark(bookmark) => {
                    let version = &bookmark.metadata.resource_version;
                    match self.course.heard(version, true) {
                        Said::Nothing => None,
                        heard => {
                            said = said.max(heard);
                            self.status.proved();
                            continue;
                        }
                    }
                }
                WatchEvent::Error(status) if status.code == 410 => {
                    return Err(Broke::Left(self.gone().await));
                }
                WatchEvent::Error(status) => return Err(Broke::Failed(status.message)),
            };
            let Some(event) = came else {
                // The list decides what that was; nothing that is known gives way to it.
                self.status.went_back();
                let trouble = "the API server sent something older than what was seen";
                let failures = self.unfollowed(trouble, false);
                sleep(backoff::wait(failures, dice())).await;
                return Err(Broke::Left(Left::WentBack));
            };
            said = Said::News;
            self.status.event();
            self.deliver(event);
        }
    }

    /// Whether a change is newer than anything before.
    fn changed<K: Resource>(&mut self, object: &K) -> bool {
        let version = object.meta().resource_version.as_deref();
        self.course.heard(version.unwrap_or_default(), false) == Said::News
    }

    fn deliver(&mut self, event: Event<V>)
    where
        S: FnMut(Change<V>),
    {
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

    fn failed(&self, trouble: &str) -> impl Future<Output = ()> + use<V, P, S> {
        let failures = self.status.failed();
        report(failures, trouble);
        sleep(backoff::wait(failures, dice()))
    }

    /// Notes a watch that came to nothing, and returns how often that was so in a row.
    fn unfollowed(&mut self, trouble: &str, lasted: bool) -> u32 {
        self.status.failed();
        let failures = self.course.failed(lasted);
        report(failures, trouble);
        failures
    }

    /// Waits before a list that a 410 asks for: at first a moment, longer where it does not help.
    async fn gone(&mut self) -> Left {
        let times = self.course.gone();
        self.status.failed();
        tracing::debug!(times, "the watch's version is forgotten");
        sleep(backoff::wait(times, dice())).await;
        Left::Gone
    }
}

/// Why one watch is over.
enum Broke {
    /// Its connection says nothing, not even that it is over.
    Dead,
    /// It failed; another one may not.
    Failed(String),
    /// Another one would not help.
    Left(Left),
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410)
}

fn key<K: Resource>(object: &K) -> Key {
    let meta = object.meta();
    Key {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

/// The first failure is worth a warning, its repetitions are not.
fn report(failures: u32, error: &str) {
    if failures == 1 {
        tracing::warn!(error, "watch failed; what is known stays in use");
    } else {
        tracing::debug!(error, failures, "watch failed again");
    }
}

/// A number from 0 to 1. The seed of a hash map is random enough to spread replicas.
fn dice() -> f64 {
    let bits = RandomState::new().hash_one(0u8) >> 11;
    bits as f64 / (1u64 << 53) as f64
}
