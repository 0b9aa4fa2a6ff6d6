//! What is open on which pod: the facts by which control decides that an old pod may go.
//!
//! A request or socket is entered **before** its pod is dialled, and the route is looked at once more
//! afterwards ([`crate::edge`] does). So whoever reads first that a pod is not active any more and
//! then that nothing is open on it, knows that nothing new will come to it.

use nogoo9_model::wire;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

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
    open: papaya::HashMap<u64, Arc<Open>>,
}

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
pub enum End {
    /// Its pod is gone, or this proxy stops: the client may come back at once (Close 1012).
    Restart,
    /// The token that opened it has expired (Close 1008).
    Expired,
}

#[derive(Debug)]
struct Open {
    workspace: Arc<str>,
    pod: Arc<str>,
    kind: Kind,
    /// Whether the head of its answer has come.
    begun: AtomicBool,
    /// Milliseconds after the start of the registry at which data last flowed.
    last_data: AtomicU64,
    end: watch::Sender<Option<End>>,
}

/// Keeps a session entered for as long as it lives, also if its task is aborted.
#[derive(Debug)]
pub struct Entered {
    sessions: Sessions,
    key: u64,
    open: Arc<Open>,
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
            open: papaya::HashMap::new(),
        }))
    }

    /// Enters a session.
    #[must_use]
    pub fn enter(&self, workspace: &Arc<str>, pod: &Arc<str>, kind: Kind) -> Entered {
        let key = self.0.next.fetch_add(1, Ordering::Relaxed);
        let open = Arc::new(Open {
            workspace: workspace.clone(),
            pod: pod.clone(),
            kind,
            begun: AtomicBool::new(false),
            last_data: AtomicU64::new(self.clock()),
            end: watch::Sender::new(None),
        });
        self.0.open.pin().insert(key, open.clone());
        Entered {
            sessions: self.clone(),
            key,
            open,
        }
    }

    /// Ends the sockets of a pod and returns how many there were.
    pub fn end_pod(&self, pod: &str, why: End) -> usize {
        self.end_where(why, |open| &*open.pod == pod)
    }

    /// Ends all sockets and returns how many there were.
    pub fn end_all(&self, why: End) -> usize {
        self.end_where(why, |_| true)
    }

    /// Open sessions of one workspace that had data lately, by pod; with the active pod as the
    /// caller read it *before* this.
    #[must_use]
    pub fn to_wire(&self, workspace: &str, active: Option<String>) -> wire::Sessions {
        let now = self.clock();
        let mut sessions: BTreeMap<String, u32> = BTreeMap::new();
        let mut requests: BTreeMap<String, u32> = BTreeMap::new();
        for open in self.0.open.pin().values() {
            let silent = now.saturating_sub(open.last_data.load(Ordering::Relaxed));
            if &*open.workspace != workspace || silent >= milliseconds(ACTIVE_FOR) {
                continue;
            }
            *sessions.entry(open.pod.to_string()).or_default() += 1;
            let idle = open.begun.load(Ordering::Relaxed) && silent >= milliseconds(STREAM_IDLE);
            if open.kind == Kind::Request && !idle {
                *requests.entry(open.pod.to_string()).or_default() += 1;
            }
        }
        wire::Sessions {
            version: wire::VERSION,
            active,
            sessions,
            requests,
        }
    }

    /// Number of open sessions of that kind.
    #[must_use]
    pub fn count(&self, kind: Kind) -> usize {
        self.0
            .open
            .pin()
            .values()
            .filter(|open| open.kind == kind)
            .count()
    }

    fn end_where(&self, why: End, which: impl Fn(&Open) -> bool) -> usize {
        let mut ended = 0;
        for open in self.0.open.pin().values() {
            if open.kind == Kind::Socket && which(open) {
                open.end.send_replace(Some(why));
                ended += 1;
            }
        }
        ended
    }

    fn clock(&self) -> u64 {
        milliseconds(self.0.started.elapsed())
    }
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

    /// Has this one session ended.
    pub fn end(&self, why: End) {
        self.open.end.send_replace(Some(why));
    }

    /// Resolves when the session is to be ended.
    pub async fn ended(&self) -> End {
        let mut receiver = self.open.end.subscribe();
        match receiver.wait_for(Option::is_some).await {
            Ok(end) => (*end).unwrap_or(End::Restart),
            // The sender lives in `self`; were it gone, so would be the session.
            Err(_) => End::Restart,
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.sessions.0.open.pin().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> (Arc<str>, Arc<str>, Arc<str>) {
        (Arc::from("dev"), Arc::from("old"), Arc::from("new"))
    }

    #[test]
    fn counts_by_pod_while_entered() {
        let (dev, old, new) = ids();
        let sessions = Sessions::new();
        let a = sessions.enter(&dev, &old, Kind::Request);
        let _b = sessions.enter(&dev, &old, Kind::Socket);
        let _c = sessions.enter(&dev, &new, Kind::Request);
        let _other = sessions.enter(&Arc::from("other"), &new, Kind::Request);
        let seen = sessions.to_wire("dev", Some("new".to_owned()));
        assert_eq!(
            seen.sessions,
            BTreeMap::from([("old".to_owned(), 2), ("new".to_owned(), 1)])
        );
        assert_eq!(seen.active.as_deref(), Some("new"));
        drop(a);
        assert_eq!(sessions.to_wire("dev", None).sessions.get("old"), Some(&1));
        assert_eq!(
            (sessions.count(Kind::Request), sessions.count(Kind::Socket)),
            (2, 1)
        );
    }

    #[test]
    fn requests_are_counted_apart_until_they_are_idle_streams() {
        let (dev, old, new) = ids();
        let sessions = old_registry(Duration::from_secs(60));
        let silent = |entered: &Entered| {
            let now = sessions.clock();
            let then = now.saturating_sub(milliseconds(STREAM_IDLE));
            entered.open.last_data.store(then, Ordering::Relaxed);
        };
        let _socket = sessions.enter(&dev, &old, Kind::Socket);
        let request = sessions.enter(&dev, &old, Kind::Request);
        let _other = sessions.enter(&dev, &new, Kind::Request);
        let counted = || sessions.to_wire("dev", None).requests.get("old").copied();
        assert_eq!(counted(), Some(1), "not the socket");
        silent(&request);
        assert_eq!(counted(), Some(1), "a slow answer is no stream");
        request.begun();
        assert_eq!(counted(), Some(1), "it is being answered");
        silent(&request);
        assert_eq!(counted(), None, "a stream between two events");
        assert_eq!(sessions.to_wire("dev", None).sessions.get("old"), Some(&2));
        request.data();
        assert_eq!(counted(), Some(1));
        drop(request);
        let left = sessions.to_wire("dev", None).requests;
        assert_eq!(left, BTreeMap::from([("new".to_owned(), 1)]));
    }

    /// As if the registry had begun that long ago.
    fn old_registry(age: Duration) -> Sessions {
        let mut sessions = Sessions::new();
        if let Some(inner) = Arc::get_mut(&mut sessions.0)
            && let Some(earlier) = inner.started.checked_sub(age)
        {
            inner.started = earlier;
        }
        sessions
    }

    #[test]
    fn silent_sessions_do_not_count() {
        let (dev, old, _) = ids();
        let sessions = old_registry(Duration::from_secs(660));
        let entered = sessions.enter(&dev, &old, Kind::Socket);
        entered.open.last_data.store(0, Ordering::Relaxed);
        assert!(sessions.to_wire("dev", None).sessions.is_empty());
        entered.data();
        assert_eq!(sessions.to_wire("dev", None).sessions.len(), 1);
    }

    #[tokio::test]
    async fn only_sockets_are_ended() {
        let (dev, old, new) = ids();
        let sessions = Sessions::new();
        let socket = sessions.enter(&dev, &old, Kind::Socket);
        let _request = sessions.enter(&dev, &old, Kind::Request);
        let _elsewhere = sessions.enter(&dev, &new, Kind::Socket);
        assert_eq!(sessions.end_pod("old", End::Restart), 1);
        assert_eq!(socket.ended().await, End::Restart);
        assert_eq!(sessions.end_all(End::Expired), 2);
    }
}
