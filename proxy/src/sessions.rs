//! What is open on which pod: the facts by which control decides that an old pod may go.
//!
//! A request or socket is entered **before** its pod is dialled, and the route is looked at once more
//! afterwards ([`crate::edge`] does). So whoever reads first that a pod is not active any more and
//! then that nothing is open on it, knows that nothing new will come to it.
//!
//! Entered by workspace: what is asked about one, or done to one of its pods, costs what is open in
//! that workspace, however much is open in all. Workspaces are spread over many locks, each held for
//! the time of a map's insertion. (A lock-free map was measured here and was worse by far: a key that
//! comes and goes with every request makes it copy all the others every few dozen times.)

mod leases;

use crate::affinity::SessionKey;
pub use leases::LEASE;
use leases::Leases;

use nogoo9_model::wire;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A session that has been silent for longer does not keep a pod.
pub const ACTIVE_FOR: Duration = Duration::from_secs(600);
/// An answer that has begun and is silent for longer is a stream between two events, or has a reader
/// that does not read: a recreate does not wait for it.
pub const STREAM_IDLE: Duration = Duration::from_secs(3);

/// All that is open. Clones share it.
#[derive(Debug, Clone)]
pub struct Sessions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: Instant,
    next: AtomicU64,
    requests: AtomicUsize,
    sockets: AtomicUsize,
    /// Whether sockets are ended as soon as they are entered: this proxy stops.
    stopping: AtomicBool,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    leases: Mutex<Leases>,
}

/// What is open in some of the workspaces, by id and key. Workspaces without anything are not in it.
type Shard = HashMap<Arc<str>, HashMap<u64, Arc<Open>>>;

/// Locks that workspaces are spread over: more than there are cores that could meet at one.
const SHARDS: usize = 64;

/// What is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An HTTP request with its answer, or a stream of events.
    Request,
    /// A WebSocket.
    Socket,
}

/// Why a socket is ended by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// Its pod is gone: the client may come back at once (Close 1012).
    Restart = 1,
    /// What opened it has expired, or was revoked (Close 1008).
    Expired,
    /// This proxy stops: the client finds another one (Close 1001).
    Shutdown,
    /// Nothing flowed for longer than is allowed (Close 1001).
    Idle,
}

impl End {
    /// The status code of the Close by which both sides are told (RFC 6455, section 7.4, and 1012 of
    /// its registry).
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::Restart => 1012,
            Self::Expired => 1008,
            Self::Shutdown | Self::Idle => 1001,
        }
    }

    fn from_u8(byte: u8) -> Option<Self> {
        [Self::Restart, Self::Expired, Self::Shutdown, Self::Idle]
            .into_iter()
            .find(|end| *end as u8 == byte)
    }
}

#[derive(Debug)]
struct Open {
    pod: Arc<str>,
    kind: Kind,
    /// Whether the head of its answer has come.
    begun: AtomicBool,
    /// Milliseconds after the start of the registry at which data last flowed.
    last_data: AtomicU64,
    /// Why it is to be ended; 0: it is not.
    end: AtomicU8,
    ending: Notify,
    /// Whose requests follow it to its pod, if any do.
    holder: OnceLock<SessionKey>,
}

impl Open {
    /// Has it ended; the first reason counts.
    fn end(&self, why: End) -> bool {
        let first = self
            .end
            .compare_exchange(0, why as u8, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if first {
            self.ending.notify_waiters();
        }
        first
    }
}

/// Keeps a session entered for as long as it lives, also if its task is aborted.
#[derive(Debug)]
pub struct Entered {
    sessions: Sessions,
    workspace: Arc<str>,
    key: u64,
    open: Arc<Open>,
}

/// A socket that can be ended from outside of its task.
#[derive(Debug, Clone)]
pub struct OpenSocket(Arc<Open>);

impl OpenSocket {
    /// Ends it; whether nobody had before.
    pub fn end(&self, why: End) -> bool {
        self.0.end(why)
    }

    /// Whether somebody has.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.0.end.load(Ordering::Acquire) != 0
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self::new()
    }
}

impl Sessions {
    /// Nothing open.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            next: AtomicU64::new(0),
            requests: AtomicUsize::new(0),
            sockets: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
            leases: Mutex::default(),
        }))
    }

    /// Enters a session.
    #[must_use]
    pub fn enter(&self, workspace: &Arc<str>, pod: &Arc<str>, kind: Kind) -> Entered {
        let key = self.0.next.fetch_add(1, Ordering::Relaxed);
        let open = Arc::new(Open {
            pod: pod.clone(),
            kind,
            begun: AtomicBool::new(false),
            last_data: AtomicU64::new(self.clock()),
            end: AtomicU8::new(0),
            ending: Notify::new(),
            holder: OnceLock::new(),
        });
        self.counter(kind).fetch_add(1, Ordering::Relaxed);
        let mut shard = self.shard(workspace);
        let there = shard.entry(workspace.clone()).or_default();
        there.insert(key, open.clone());
        drop(shard);
        // Entered first, looked at then: whoever stops says so first, and looks at all then.
        std::sync::atomic::fence(Ordering::SeqCst);
        if kind == Kind::Socket && self.0.stopping.load(Ordering::Relaxed) {
            open.end(End::Shutdown);
        }
        Entered {
            sessions: self.clone(),
            workspace: workspace.clone(),
            key,
            open,
        }
    }

    fn shard(&self, workspace: &str) -> MutexGuard<'_, Shard> {
        let hash = self.0.hasher.hash_one(workspace);
        let nth = usize::try_from(hash % SHARDS as u64).unwrap_or_default();
        lock(&self.0.shards[nth])
    }

    /// Ends the sockets of a pod of that workspace and returns how many there were.
    pub fn end_pod(&self, workspace: &str, pod: &str, why: End) -> usize {
        let shard = self.shard(workspace);
        let open = shard.get(workspace).into_iter().flat_map(HashMap::values);
        open.filter(|open| &*open.pod == pod && open.kind == Kind::Socket)
            .filter(|open| open.end(why))
            .count()
    }

    /// From now on sockets are ended as soon as they are entered; returns those that are open, in the
    /// order in which they were.
    #[must_use]
    pub fn stop(&self) -> Vec<OpenSocket> {
        self.0.stopping.store(true, Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::SeqCst);
        let mut all: Vec<(u64, OpenSocket)> = Vec::new();
        for shard in &self.0.shards {
            let shard = lock(shard);
            let sockets = shard.values().flatten();
            let sockets = sockets.filter(|(_, open)| open.kind == Kind::Socket);
            all.extend(sockets.map(|(key, open)| (*key, OpenSocket(open.clone()))));
        }
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter().map(|(_, socket)| socket).collect()
    }

    /// Open sessions of one workspace that had data lately, by pod, and leases. Where requests go is for the caller
    /// to add, who has to read it *before* this.
    #[must_use]
    pub fn to_wire(&self, workspace: &str) -> wire::Sessions {
        let now = self.clock();
        let mut sessions: BTreeMap<String, u32> = BTreeMap::new();
        let mut requests: BTreeMap<String, u32> = BTreeMap::new();
        let shard = self.shard(workspace);
        for open in shard.get(workspace).into_iter().flat_map(HashMap::values) {
            let silent = now.saturating_sub(open.last_data.load(Ordering::Relaxed));
            if silent >= milliseconds(ACTIVE_FOR) {
                continue;
            }
            count(&mut sessions, &open.pod);
            let idle = open.begun.load(Ordering::Relaxed) && silent >= milliseconds(STREAM_IDLE);
            if open.kind == Kind::Request && !idle {
                count(&mut requests, &open.pod);
            }
        }
        drop(shard);
        // Last: whoever is told that something is open has a lease first, and looks for it then.
        for pod in lock(&self.0.leases).of(workspace, Instant::now()) {
            count(&mut sessions, pod);
        }
        wire::Sessions {
            version: wire::VERSION,
            sessions,
            requests,
            ..wire::Sessions::default()
        }
    }

    /// The pods of a workspace on which `session` has something open that its requests follow. What has
    /// been silent for so long that it keeps no pod is not followed either, so that nothing comes to a
    /// pod which control has found unused.
    #[must_use]
    pub fn holding(&self, workspace: &str, session: SessionKey) -> Vec<Arc<str>> {
        let now = self.clock();
        let shard = self.shard(workspace);
        let mut pods: Vec<Arc<str>> = Vec::new();
        for open in shard.get(workspace).into_iter().flat_map(HashMap::values) {
            let silent = now.saturating_sub(open.last_data.load(Ordering::Relaxed));
            let holds = open.holder.get() == Some(&session);
            if holds && silent < milliseconds(ACTIVE_FOR) && !pods.contains(&open.pod) {
                pods.push(open.pod.clone());
            }
        }
        pods
    }

    /// As [`Self::holding`], of those that another proxy has `asked` about: what is returned is kept for
    /// a while ([`leases::LEASE`]), in which that proxy may have its own request there.
    #[must_use]
    pub fn lend(&self, workspace: &str, session: SessionKey, asked: &[String]) -> Vec<Arc<str>> {
        let mut pods = self.holding(workspace, session);
        pods.retain(|pod| asked.iter().any(|uid| *uid == **pod));
        lock(&self.0.leases).enter(workspace, &pods, Instant::now());
        // Kept first, looked at then: had the last of it ended in between, the pod may have been found
        // unused already.
        let still = self.holding(workspace, session);
        pods.retain(|pod| still.contains(pod));
        pods
    }

    /// Number of open sessions of that kind.
    #[must_use]
    pub fn count(&self, kind: Kind) -> usize {
        self.counter(kind).load(Ordering::Relaxed)
    }

    fn counter(&self, kind: Kind) -> &AtomicUsize {
        match kind {
            Kind::Request => &self.0.requests,
            Kind::Socket => &self.0.sockets,
        }
    }

    fn clock(&self) -> u64 {
        milliseconds(self.0.started.elapsed())
    }
}

fn count(by_pod: &mut BTreeMap<String, u32>, pod: &str) {
    match by_pod.get_mut(pod) {
        Some(n) => *n += 1,
        None => {
            by_pod.insert(pod.to_owned(), 1);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked left whole entries behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Entered {
    /// Notes that data flowed, either way.
    pub fn data(&self) {
        self.open
            .last_data
            .store(self.sessions.clock(), Ordering::Relaxed);
    }

    /// Notes that the head of the answer has come.
    pub fn begun(&self) {
        self.open.begun.store(true, Ordering::Relaxed);
        self.data();
    }

    /// Has the requests of `session` follow it to its pod for as long as it is open.
    pub fn holds(&self, session: SessionKey) {
        // Once is enough: it is one session's.
        let _ = self.open.holder.set(session);
    }

    /// Time since data last flowed, either way.
    #[must_use]
    pub fn silent(&self) -> Duration {
        let last = self.open.last_data.load(Ordering::Relaxed);
        Duration::from_millis(self.sessions.clock().saturating_sub(last))
    }

    /// Has this one session ended.
    pub fn end(&self, why: End) {
        self.open.end(why);
    }

    /// Resolves when the session is to be ended.
    pub async fn ended(&self) -> End {
        loop {
            // Listens first, looks then, so that nothing is missed between the two.
            let ending = self.open.ending.notified();
            if let Some(why) = End::from_u8(self.open.end.load(Ordering::Acquire)) {
                return why;
            }
            ending.await;
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut shard = self.sessions.shard(&self.workspace);
        if let Some(there) = shard.get_mut(&self.workspace) {
            there.remove(&self.key);
            if there.is_empty() {
                shard.remove(&self.workspace);
            }
        }
        drop(shard);
        let counter = self.sessions.counter(self.open.kind);
        counter.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
