//! The routing table: which pods serve which workspace.
//!
//! Written by one task that follows the watch, read by every request. A lookup takes no lock and
//! makes no copy; one event costs as much as its workspace has pods, however many workspaces there
//! are. Nothing ever empties the table: a workspace goes from it when its last pod has been gone for
//! as long as requests may be held. Of two pods at one address neither is routed to.

mod addresses;
pub mod progress;
mod writer;

use crate::busy::Going;
use crate::retry::{Budget, Rate};
use arc_swap::ArcSwap;
use nogoo9_model::access::Visibility;
use nogoo9_model::origins::AllowedOrigins;
use nogoo9_model::pod::{PodView, UpgradeState};
use nogoo9_model::ports::ExtraPorts;
use nogoo9_model::wire;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;

pub use progress::Progress;
pub use writer::{Noted, Writer};

/// The table. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Table(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    workspaces: papaya::HashMap<Arc<str>, Arc<Workspace>>,
    /// How often workspaces name each origin in `allow-origins`.
    origins: papaya::HashMap<String, usize>,
    complete: AtomicBool,
    /// Pods that would be routed to if nobody else had their address.
    contested: AtomicUsize,
    /// Wakes whoever waits for a workspace that is not there yet.
    arrived: Notify,
}

/// One workspace, for as long as the table knows it.
#[derive(Debug)]
pub struct Workspace {
    /// Its id.
    pub id: Arc<str>,
    route: ArcSwap<Route>,
    changed: Notify,
    /// Requests held at this moment.
    pub(crate) held: AtomicUsize,
    /// What may be repeated of its requests.
    pub(crate) repeats: Budget,
    /// Connections of their own for requests that cannot be repeated.
    pub(crate) fresh: Budget,
    /// Requests and sockets open at this moment.
    pub(crate) going: Going,
}

/// Where a workspace's requests go at one moment. Never changed, only replaced, and only by one that
/// differs: whoever waits for another is woken by nothing else.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// Raw subject of the owner.
    pub owner: String,
    /// Who else may open it: what the pod that serves it says, else the newest.
    pub visibility: Visibility,
    /// Whose pages beside its own may use a session on its host; said by the same pod.
    pub allow_origins: AllowedOrigins,
    /// What it serves beside its port, and who may open that; said by the same pod.
    pub ports: ExtraPorts,
    /// Pods that requests may be sent to, best first. The first is the active one; the others are there
    /// for when it is a candidate that cannot be reached, and for what goes on on them.
    pub backends: Box<[Arc<Backend>]>,
    /// What a person is told while there is none.
    pub status: Status,
    /// Whether the pod is being replaced while nothing else can serve: requests are held for longer.
    pub recreating: bool,
    /// What it waits for, while there is no pod to send requests to.
    pub progress: Progress,
}

/// A pod that requests may be sent to.
#[derive(Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its uid; connections belong to it and to no other pod of the same address.
    pub uid: Arc<str>,
    /// Its name, for logs.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it listens beside that.
    pub ports: ExtraPorts,
    /// Key of its connection pool, made from the uid.
    pub pool: u64,
    /// Whether path mode takes the prefix off.
    pub strip_prefix: bool,
    /// Whether identity headers are added.
    pub identity_headers: bool,
    /// Whether a session's requests stay here while it holds a socket or stream here.
    pub affinity: bool,
    /// Whether it is an upgrade's new pod, and that is not committed yet.
    pub candidate: bool,
    /// Whether it speaks HTTP/2 in clear, and nothing else.
    pub http2: bool,
}

/// What a workspace without a routable pod is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It has a pod that requests go to.
    Serving,
    /// Its newest pod is not ready yet; with what the container complains of.
    Starting(Option<String>),
    /// An upgrade replaces its pod; with what the new one's container complains of.
    Switching(Option<String>),
    /// Its pods are ending or have ended, and no new one is there.
    Away,
}

impl Status {
    /// One word for the status document.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Starting(_) => "starting",
            Self::Switching(_) => "switching",
            Self::Away => "away",
        }
    }

    /// What a person reads meanwhile; what the container complains of is for its owner alone.
    #[must_use]
    pub fn message(&self, to_owner: bool) -> String {
        let (what, trouble) = match self {
            Self::Serving => return "It is ready.".to_owned(),
            Self::Starting(trouble) => ("It is starting", trouble.as_deref()),
            Self::Switching(trouble) => ("It is moving to its new version", trouble.as_deref()),
            Self::Away => ("It is going away or coming back", None),
        };
        match trouble.filter(|_| to_owner) {
            Some(trouble) => format!("{what}; it says: {trouble}. This page opens by itself."),
            None => format!("{what}. This page opens by itself."),
        }
    }
}

impl Route {
    /// The pod that new requests go to.
    #[must_use]
    pub fn active(&self) -> Option<&Arc<Backend>> {
        self.backends.first()
    }

    /// The pods that new requests go to while the active one cannot be reached, best first: the others,
    /// while that one is the candidate of an upgrade.
    pub fn spare(&self) -> impl Iterator<Item = &Arc<Backend>> {
        let candidate = self.active().is_some_and(|active| active.candidate);
        self.backends.iter().skip(1).filter(move |_| candidate)
    }

    /// Whether requests may go to that pod at that address.
    #[must_use]
    pub fn reaches(&self, pod: &Backend) -> bool {
        let mut backends = self.backends.iter();
        backends.any(|known| known.uid == pod.uid && known.address == pod.address)
    }
}

impl Backend {
    /// Where its extra port of that name listens, or its main one.
    #[must_use]
    pub fn listens_at(&self, extra: Option<&str>) -> Option<SocketAddr> {
        match extra {
            None => Some(self.address),
            Some(name) => {
                let port = self.ports.named(name)?.port;
                Some(SocketAddr::new(self.address.ip(), port))
            }
        }
    }

    /// Whether HTTP/2 is spoken to it at that address: its extra ports are others, and speak HTTP/1.1.
    #[must_use]
    pub fn speaks_http2(&self, address: SocketAddr) -> bool {
        self.http2 && address == self.address
    }
}

impl Workspace {
    fn new(id: Arc<str>, route: Route) -> Self {
        Self {
            id,
            route: ArcSwap::from_pointee(route),
            changed: Notify::new(),
            held: AtomicUsize::new(0),
            repeats: Budget::new(Rate::OF_WORKSPACE),
            fresh: Budget::new(Rate::FRESH),
            going: Going::default(),
        }
    }

    /// The route at this moment.
    #[must_use]
    pub fn route(&self) -> Arc<Route> {
        self.route.load_full()
    }

    /// Whether `route` is still the one.
    #[must_use]
    pub fn is_current(&self, route: &Arc<Route>) -> bool {
        Arc::ptr_eq(&self.route.load(), route)
    }

    /// Whether requests are held for it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.held.load(Ordering::Relaxed) > 0
    }

    /// Resolves when the route is another than `seen`.
    pub async fn changed_from(&self, seen: &Arc<Route>) {
        loop {
            let notified = self.changed.notified();
            let mut notified = std::pin::pin!(notified);
            // Registered before the look, so that no change falls between the two.
            notified.as_mut().enable();
            if !self.is_current(seen) {
                return;
            }
            notified.await;
        }
    }

    /// Most of what is told of a pod leaves its route as it is. Then nobody is woken, and what was judged
    /// or learnt by that route goes on to count.
    fn publish(&self, route: Route) {
        if **self.route.load() == route {
            return;
        }
        self.route.store(Arc::new(route));
        self.changed.notify_waiters();
    }
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The workspace of that id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<Workspace>> {
        self.0.workspaces.pin().get(id).cloned()
    }

    /// Puts a workspace in, and tells whoever waits for it.
    fn put(&self, workspace: Arc<Workspace>) {
        self.0
            .workspaces
            .pin()
            .insert(workspace.id.clone(), workspace);
        self.0.arrived.notify_waiters();
    }

    /// Whether any workspace lets pages of `origin` use its sessions.
    #[must_use]
    pub fn names_origin(&self, origin: &str) -> bool {
        self.0.origins.pin().contains_key(origin)
    }

    /// Whether that very workspace is still in the table.
    #[must_use]
    pub(crate) fn knows(&self, workspace: &Arc<Workspace>) -> bool {
        let all = self.0.workspaces.pin();
        all.get(&*workspace.id)
            .is_some_and(|known| Arc::ptr_eq(known, workspace))
    }

    /// The workspace of that id, once there is one.
    pub async fn arrival(&self, id: &str) -> Arc<Workspace> {
        loop {
            let notified = self.0.arrived.notified();
            let mut notified = std::pin::pin!(notified);
            // Registered before the look, so that no arrival falls between the two.
            notified.as_mut().enable();
            if let Some(workspace) = self.get(id) {
                return workspace;
            }
            notified.await;
        }
    }

    /// Notes that all pods were listed once.
    pub fn complete(&self) {
        self.0.complete.store(true, Ordering::Release);
    }

    /// Whether all pods were listed once. Before that, a missing workspace may be one that was not
    /// heard of yet.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.0.complete.load(Ordering::Acquire)
    }

    /// Pods that are ready and not routed to, since another may be meant by their address.
    #[must_use]
    pub fn contested(&self) -> usize {
        self.0.contested.load(Ordering::Relaxed)
    }

    /// Number of workspaces known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.workspaces.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What control reads.
    #[must_use]
    pub fn to_wire(&self) -> wire::Routes {
        let routes: BTreeMap<String, wire::Route> = self
            .0
            .workspaces
            .pin()
            .iter()
            .map(|(id, workspace)| {
                let route = workspace.route.load();
                let active = route.active();
                let entry = wire::Route {
                    active: active.map(|pod| pod.uid.to_string()),
                    pod: active.map(|pod| pod.name.clone()),
                };
                (id.to_string(), entry)
            })
            .collect();
        wire::Routes {
            version: wire::VERSION,
            routes,
        }
    }
}

/// Counts a held request for as long as it lives.
#[derive(Debug)]
pub(crate) struct Held(Arc<Workspace>);

impl Held {
    pub(crate) fn take(workspace: &Arc<Workspace>) -> Self {
        workspace.held.fetch_add(1, Ordering::Relaxed);
        Self(workspace.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Key of a pod's connection pool.
fn pool_key(uid: &str) -> u64 {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(uid.as_bytes());
    digest
        .iter()
        .take(8)
        .fold(0, |key, byte| (key << 8) | u64::from(*byte))
}

fn backend(pod: &PodView, uid: &Arc<str>) -> Option<Arc<Backend>> {
    Some(Arc::new(Backend {
        uid: uid.clone(),
        name: pod.name.clone(),
        address: SocketAddr::new(pod.ip?, pod.serving.port),
        ports: pod.serving.ports.clone(),
        pool: pool_key(&pod.uid),
        strip_prefix: pod.serving.strip_prefix,
        identity_headers: pod.serving.identity_headers,
        affinity: pod.serving.affinity,
        candidate: pod.state == UpgradeState::Candidate,
        http2: pod.serving.http2,
    }))
}

#[cfg(test)]
mod tests;
