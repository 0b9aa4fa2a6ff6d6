//! Objects, resource versions and the event log.
//!
//! One writer thread applies jobs in order to its own copy of the index. Jobs that wait are taken
//! together and made durable in one transaction; only then are their events published to readers
//! and their callers answered. So a reader never sees what a crash could take back, and a caller
//! with a reply has its write on disk.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use super::disk::{Disk, DiskError};
use super::failure::Failure;
use super::registry::Resource;
use super::tx::Tx;

/// A stored object; its `metadata.resourceVersion` is that of its last change.
pub(crate) type Object = Arc<Value>;

/// Events kept a kind. A watcher further behind than that gets 410 and lists again. Events hold
/// whole objects, and a workspace record may have 200 KiB, so a longer log could take gigabytes.
const LOG_LENGTH: usize = 1024;
/// Jobs committed together at most.
const BATCH: usize = 64;
/// Jobs that may wait; further writers wait for room.
const QUEUE: usize = 256;

/// Where an object stands within its kind; the namespace is empty for cluster-scoped kinds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// One change.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) resource: Resource,
    pub(crate) key: Key,
    /// The state before; `None`: this creates it.
    pub(crate) before: Option<Object>,
    /// The state after; for a deletion the last state, at the version of the deletion.
    pub(crate) object: Object,
    pub(crate) deleted: bool,
}

impl Event {
    pub(crate) fn deletes(&self) -> bool {
        self.deleted
    }
}

/// The index of all objects.
#[derive(Debug, Default, Clone)]
pub(crate) struct Objects(BTreeMap<Resource, BTreeMap<Key, Object>>);

impl Objects {
    pub(crate) fn get(&self, resource: Resource, key: &Key) -> Option<&Object> {
        self.0.get(&resource)?.get(key)
    }

    pub(crate) fn insert(&mut self, resource: Resource, key: Key, object: Object) {
        self.0.entry(resource).or_default().insert(key, object);
    }

    pub(crate) fn remove(&mut self, resource: Resource, key: &Key) {
        if let Some(map) = self.0.get_mut(&resource) {
            map.remove(key);
        }
    }

    /// Objects of a kind in key order, of one namespace or of all.
    pub(crate) fn iter<'a>(
        &'a self,
        resource: Resource,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Key, &'a Object)> + 'a {
        self.0.get(&resource).into_iter().flat_map(move |map| {
            map.range(Key::new(namespace.unwrap_or_default(), "")..)
                .take_while(move |(key, _)| namespace.is_none_or(|ns| key.namespace == ns))
        })
    }

    fn apply(&mut self, event: &Event) {
        if event.deleted {
            self.remove(event.resource, &event.key);
        } else {
            self.insert(event.resource, event.key.clone(), Arc::clone(&event.object));
        }
    }

    /// Takes an event back; events are undone newest first.
    pub(crate) fn undo(&mut self, event: &Event) {
        match &event.before {
            Some(before) => {
                self.insert(event.resource, event.key.clone(), Arc::clone(before));
            }
            None => self.remove(event.resource, &event.key),
        }
    }
}

#[derive(Default)]
struct Log {
    /// Changes at or below this version are no longer known.
    floor: u64,
    events: VecDeque<Arc<Event>>,
}

struct Shared {
    objects: Objects,
    version: u64,
    logs: BTreeMap<Resource, Log>,
}

/// What a job gives back, to be called with the outcome of the commit.
type Completion = Box<dyn FnOnce(Result<(), Failure>) + Send>;

enum Message {
    Job(Box<dyn FnOnce(&mut Tx<'_>) -> Completion + Send>),
    Stop,
}

/// The version asked for is older than the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld {
    pub(crate) asked: u64,
    pub(crate) oldest: u64,
}

impl From<TooOld> for Failure {
    fn from(old: TooOld) -> Self {
        Failure::expired(format!(
            "too old resource version: {} ({})",
            old.asked, old.oldest
        ))
    }
}

/// The objects and their history.
pub(crate) struct Store {
    shared: Arc<RwLock<Shared>>,
    jobs: mpsc::Sender<Message>,
    changed: watch::Receiver<u64>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Reads the file and starts the writer thread.
    pub(crate) fn open(path: &Path) -> Result<Self, DiskError> {
        let (disk, objects, version) = Disk::open(path)?;
        let logs = Resource::ALL
            .into_iter()
            .map(|resource| {
                (
                    resource,
                    Log {
                        floor: version,
                        ..Log::default()
                    },
                )
            })
            .collect();
        let shared = Arc::new(RwLock::new(Shared {
            objects: objects.clone(),
            version,
            logs,
        }));
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (notify, changed) = watch::channel(version);
        let writer = Writer {
            disk,
            objects,
            version,
            shared: Arc::clone(&shared),
            notify,
        };
        let thread = std::thread::Builder::new()
            .name("state-writer".into())
            .spawn(move || writer.run(queue))
            .map_err(|error| DiskError::Database(Box::new(redb::Error::Io(error))))?;
        Ok(Self {
            shared,
            jobs,
            changed,
            writer: Mutex::new(Some(thread)),
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest version.
    pub(crate) fn version(&self) -> u64 {
        self.read().version
    }

    pub(crate) fn get(&self, resource: Resource, key: &Key) -> Option<Object> {
        self.read().objects.get(resource, key).cloned()
    }

    /// All objects of a kind in key order, with the version at which that was so.
    pub(crate) fn list(&self, resource: Resource, namespace: Option<&str>) -> (Vec<Object>, u64) {
        let shared = self.read();
        let items = shared
            .objects
            .iter(resource, namespace)
            .map(|(_, o)| Arc::clone(o))
            .collect();
        (items, shared.version)
    }

    /// The same as it was at an earlier version, by undoing what the log has since.
    pub(crate) fn list_at(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        version: u64,
    ) -> Result<Vec<Object>, TooOld> {
        let shared = self.read();
        let mut then: BTreeMap<&Key, &Object> = shared.objects.iter(resource, namespace).collect();
        let log = shared.logs.get(&resource);
        for event in since(log, version)?.rev() {
            if namespace.is_some_and(|ns| event.key.namespace != ns) {
                continue;
            }
            match &event.before {
                Some(before) => then.insert(&event.key, before),
                None => then.remove(&event.key),
            };
        }
        Ok(then.into_values().map(Arc::clone).collect())
    }

    /// Events of a kind after a version, `max` at most, and the version up to which they reach.
    pub(crate) fn events(
        &self,
        resource: Resource,
        after: u64,
        max: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), TooOld> {
        let shared = self.read();
        let events: Vec<_> = since(shared.logs.get(&resource), after)?
            .take(max)
            .map(Arc::clone)
            .collect();
        let reached = match events.last() {
            Some(last) if events.len() == max => last.version,
            _ => shared.version.max(after),
        };
        Ok((events, reached))
    }

    /// Told of every new version.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// Runs a job in the writer and waits until it is durable. A job that fails changes nothing.
    pub(crate) async fn write<T, F>(&self, job: F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let (reply, outcome) = oneshot::channel();
        let message = Message::Job(Box::new(move |tx| {
            let result = job(tx);
            if result.is_err() {
                tx.rollback();
            }
            Box::new(move |committed| {
                // A caller that has gone away wants no answer.
                let _ = reply.send(committed.and(result));
            })
        }));
        let stopped = || Failure::unavailable("the API server is shutting down");
        self.jobs.send(message).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }

    /// Stops the writer once the jobs before are done, and closes the file.
    pub(crate) async fn close(&self) {
        // A closed queue means that the writer has ended already.
        let _ = self.jobs.send(Message::Stop).await;
        let thread = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread
            && tokio::task::spawn_blocking(move || thread.join())
                .await
                .is_err()
        {
            tracing::warn!("state writer could not be joined");
        }
    }
}

/// The events after a version.
fn since(
    log: Option<&Log>,
    version: u64,
) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, TooOld> {
    let (floor, events) = match log {
        Some(log) if version < log.floor => {
            return Err(TooOld {
                asked: version,
                oldest: log.floor,
            });
        }
        Some(log) => (
            log.events.partition_point(|e| e.version <= version),
            Some(&log.events),
        ),
        None => (0, None),
    };
    Ok(events
        .into_iter()
        .flat_map(move |events| events.range(floor..)))
}

/// The one who changes state.
struct Writer {
    disk: Disk,
    objects: Objects,
    version: u64,
    shared: Arc<RwLock<Shared>>,
    notify: watch::Sender<u64>,
}

impl Writer {
    fn run(mut self, mut queue: mpsc::Receiver<Message>) {
        let mut stopping = false;
        while !stopping && let Some(first) = queue.blocking_recv() {
            let mut events = Vec::new();
            let mut completions = Vec::new();
            let mut version = self.version;
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Job(job) => {
                        let mut tx = Tx::new(&mut self.objects, &mut version, &mut events);
                        completions.push(job(&mut tx));
                    }
                    Message::Stop => {
                        stopping = true;
                        break;
                    }
                }
                next = if completions.len() < BATCH {
                    queue.try_recv().ok()
                } else {
                    None
                };
            }
            let outcome = self.commit(events, version);
            for completion in completions {
                completion(outcome.clone());
            }
        }
    }

    fn commit(&mut self, events: Vec<Arc<Event>>, version: u64) -> Result<(), Failure> {
        if events.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.disk.commit(&events, version) {
            tracing::error!(%error, "state could not be written");
            for event in events.iter().rev() {
                self.objects.undo(event);
            }
            return Err(Failure::internal(
                "the state could not be written to --data-dir",
            ));
        }
        self.version = version;
        {
            let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
            for event in events {
                shared.objects.apply(&event);
                let log = shared.logs.entry(event.resource).or_default();
                log.events.push_back(event);
                if log.events.len() > LOG_LENGTH
                    && let Some(dropped) = log.events.pop_front()
                {
                    log.floor = dropped.version;
                }
            }
            shared.version = version;
        }
        self.notify.send_replace(version);
        Ok(())
    }
}
