//! The one writer of the table: pods in, routes out.

use super::addresses::Addresses;
use super::progress::{Progress, progress};
use super::{Route, Status, Table, Workspace, backend};
use nogoo9_model::origins::AllowedOrigins;
use nogoo9_model::pod::{PodView, UpgradeState};
use nogoo9_model::select::{claimants, is_routable, newest_live, order};
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Follows pods and publishes routes.
#[derive(Debug)]
pub struct Writer {
    table: Table,
    workspaces: HashMap<Arc<str>, Vec<Pod>>,
    /// Workspace of each pod, since somebody may change a pod's label.
    homes: HashMap<Arc<str>, Arc<str>>,
    /// Pods by where they listen, as they say.
    addresses: Addresses,
    /// Workspaces that have contested pods, with how many.
    contested: HashMap<Arc<str>, usize>,
    /// Workspaces without pods, oldest first, with the time at which they may be forgotten. An entry
    /// counts if it is the newest of its workspace.
    leaving: VecDeque<(Instant, Arc<str>)>,
    /// The newest entry of each.
    leaves: HashMap<Arc<str>, Instant>,
    remember: Duration,
    /// Pods that were looked at to publish routes, in all: what events cost.
    looked_at: u64,
}

#[derive(Debug)]
struct Pod {
    view: Arc<PodView>,
    uid: Arc<str>,
    /// Whether it was routable once: then it has done what an upgrade made it for, and if it fails
    /// later, no recreate is under way because of it.
    served: bool,
}

/// What a change amounted to, for whoever counts and logs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// The active pod is another than before: workspace, and the name of the new one if there is.
    pub switched: Option<(Arc<str>, Option<String>)>,
    /// Names of pods that claim an id which is another's.
    pub ignored: Vec<String>,
    /// Names of pods whose address another pod has, too: none of them is routed to.
    pub contested: Vec<String>,
    /// The pod's generation label cannot be read.
    pub bad_generation: bool,
}

impl Writer {
    /// A writer of `table` that remembers a workspace for `remember` after its last pod went.
    #[must_use]
    pub fn new(table: Table, remember: Duration) -> Self {
        Self {
            table,
            workspaces: HashMap::new(),
            homes: HashMap::new(),
            addresses: Addresses::default(),
            contested: HashMap::new(),
            leaving: VecDeque::new(),
            leaves: HashMap::new(),
            remember,
            looked_at: 0,
        }
    }

    /// Pods that were looked at to publish routes since the start: what events have cost.
    #[must_use]
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Entries of each of its maps.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 5] {
        [
            self.workspaces.len(),
            self.homes.len(),
            self.addresses.len(),
            self.leaving.len(),
            self.leaves.len(),
        ]
    }

    /// A pod is new or has changed.
    pub fn applied(&mut self, pod: Arc<PodView>, now: Instant) -> Vec<Noted> {
        let mut noted = Vec::with_capacity(1);
        let uid: Arc<str> = Arc::from(pod.uid.as_str());
        let id: Arc<str> = Arc::from(pod.workspace.as_str());
        let bad_generation = pod.generation_unreadable;
        if let Some(home) = self.homes.insert(uid.clone(), id.clone())
            && home != id
        {
            noted.push(self.remove(&home, &uid, now));
        }
        let left = self.addresses.leave(&uid);
        let met = self.addresses.enter(&uid, &id, &pod);
        let pods = self.workspaces.entry(id.clone()).or_default();
        match pods.iter_mut().find(|known| known.uid == uid) {
            Some(known) => {
                known.served |= is_routable(&pod);
                known.view = pod;
            }
            None => pods.push(Pod {
                served: is_routable(&pod),
                view: pod,
                uid,
            }),
        }
        // First whoever loses an address, last whoever gets it back: at no time does an address have
        // two routes.
        noted.extend(self.publish_all(&met, &id, now));
        noted.push(Noted {
            bad_generation,
            ..self.publish(&id, now)
        });
        let left: Vec<_> = left.into_iter().filter(|id| !met.contains(id)).collect();
        noted.extend(self.publish_all(&left, &id, now));
        noted
    }

    /// The pod of that uid is gone.
    pub fn deleted(&mut self, uid: &str, now: Instant) -> Vec<Noted> {
        let Some(home) = self.homes.remove(uid) else {
            return Vec::new();
        };
        let left = self.addresses.leave(uid);
        let mut noted = vec![self.remove(&home, uid, now)];
        noted.extend(self.publish_all(&left, &home, now));
        noted
    }

    fn publish_all(&mut self, ids: &[Arc<str>], but: &Arc<str>, now: Instant) -> Vec<Noted> {
        let others = ids.iter().filter(|id| *id != but);
        others.map(|id| self.publish(id, now)).collect()
    }

    fn remove(&mut self, id: &Arc<str>, uid: &str, now: Instant) -> Noted {
        if let Some(pods) = self.workspaces.get_mut(id) {
            pods.retain(|known| &*known.uid != uid);
        }
        self.publish(id, now)
    }

    /// Forgets workspaces whose time has come and that no request waits for.
    pub fn sweep(&mut self, now: Instant) {
        while let Some((when, _)) = self.leaving.front()
            && *when <= now
        {
            let Some((when, id)) = self.leaving.pop_front() else {
                return;
            };
            // Its pods came back, or went once more since.
            if self.leaves.get(&id) != Some(&when) {
                continue;
            }
            if self.forget(&id) {
                self.workspaces.remove(&id);
                self.leaves.remove(&id);
            } else {
                self.leave(id, now);
            }
        }
    }

    fn leave(&mut self, id: Arc<str>, now: Instant) {
        let mut when = now + self.remember;
        // Two entries of one workspace are told apart by their time.
        if self.leaves.get(&id) == Some(&when) {
            when += Duration::from_nanos(1);
        }
        self.leaves.insert(id.clone(), when);
        self.leaving.push_back((when, id));
    }

    /// Takes a workspace out of the table, unless a request waits for it: that would wait in vain,
    /// since the next pod would have another entry.
    fn forget(&self, id: &Arc<str>) -> bool {
        let all = self.table.0.workspaces.pin();
        let Some(workspace) = all.get(id).cloned() else {
            return true;
        };
        if workspace.is_awaited() {
            return false;
        }
        all.remove(id);
        // Whoever began to wait before the removal is seen here; whoever begins later sees that the
        // workspace is not in the table.
        fence(Ordering::SeqCst);
        let awaited = workspace.is_awaited();
        if awaited {
            // Whoever has just missed it would wait in vain, too.
            self.table.put(workspace);
        } else {
            self.count_origins(&workspace.route().allow_origins, &AllowedOrigins::NONE);
        }
        !awaited
    }

    /// Counts the origins that a workspace names `now` and did not `before`, and the other way round.
    fn count_origins(&self, before: &AllowedOrigins, now: &AllowedOrigins) {
        if before == now {
            return;
        }
        let counts = self.table.0.origins.pin();
        // First those that come: what stays is never missing in between.
        for origin in now.iter() {
            counts.update_or_insert(origin.to_owned(), |count| count + 1, 1);
        }
        for origin in before.iter() {
            let left = counts.update(origin.to_owned(), |count| count.saturating_sub(1));
            if left.is_some_and(|left| *left == 0) {
                counts.remove(origin);
            }
        }
    }

    fn publish(&mut self, id: &Arc<str>, now: Instant) -> Noted {
        let none = Vec::new();
        let pods = self.workspaces.get(id).unwrap_or(&none);
        let known = self.table.get(id);
        let before = known.as_ref().map(|workspace| workspace.route());
        let claims = claimants(pods.iter().map(|pod| &*pod.view));
        let ignored = claims.ignored.iter().map(|pod| pod.name.clone()).collect();
        let contested = |pod: &PodView| self.addresses.is_contested(pod);
        let route = route(pods, &claims.holder, contested, before.as_deref());
        let contested: Vec<_> = pods
            .iter()
            .filter(|pod| is_routable(&pod.view) && contested(&pod.view))
            .map(|pod| pod.view.name.clone())
            .collect();
        let empty = pods.is_empty();
        self.looked_at += pods.len() as u64;
        let before_that = match contested.len() {
            0 => self.contested.remove(id),
            now => self.contested.insert(id.clone(), now),
        };
        let all = &self.table.0.contested;
        all.fetch_add(contested.len(), Ordering::Relaxed);
        all.fetch_sub(before_that.unwrap_or(0), Ordering::Relaxed);
        let active = |route: &Route| route.active().map(|pod| pod.uid.clone());
        let old = before.as_deref().and_then(active);
        let new = active(&route);
        let switched =
            (old != new).then(|| (id.clone(), route.active().map(|pod| pod.name.clone())));
        let named = before.as_deref().map(|route| &route.allow_origins);
        self.count_origins(named.unwrap_or(&AllowedOrigins::NONE), &route.allow_origins);
        match known {
            Some(workspace) => workspace.publish(route),
            None => self.table.put(Arc::new(Workspace::new(id.clone(), route))),
        }
        if empty {
            self.leave(id.clone(), now);
        } else {
            self.leaves.remove(id);
        }
        Noted {
            switched,
            ignored,
            contested,
            bad_generation: false,
        }
    }
}

/// The route of a workspace whose pods are `holder`.
fn route(
    pods: &[Pod],
    holder: &[&PodView],
    contested: impl Fn(&PodView) -> bool,
    before: Option<&Route>,
) -> Route {
    let known = |view: &PodView| pods.iter().find(|pod| *pod.uid == view.uid);
    let mut routable: Vec<&PodView> = holder
        .iter()
        .copied()
        .filter(|pod| is_routable(pod) && !contested(pod))
        .collect();
    routable.sort_unstable_by_key(|pod| Reverse(order(pod)));
    let backends: Box<[_]> = routable
        .iter()
        .filter_map(|pod| backend(pod, &known(pod)?.uid))
        .collect();
    let newest = newest_live(holder.iter().copied());
    let speaks = routable
        .first()
        .copied()
        .or(newest)
        .or(holder.first().copied());
    // With no pod left, the last one's word stands; two equal claims are nobody's workspace.
    let (owner, visibility, allow_origins, ports) = match (speaks, before) {
        (Some(pod), _) => {
            let serving = &pod.serving;
            let (origins, ports) = (serving.allow_origins.clone(), serving.ports.clone());
            let visibility = serving.visibility.clone();
            (pod.owner.clone(), visibility, origins, ports)
        }
        (None, Some(before)) if pods.is_empty() => {
            let (origins, ports) = (before.allow_origins.clone(), before.ports.clone());
            let visibility = before.visibility.clone();
            (before.owner.clone(), visibility, origins, ports)
        }
        (None, _) => Default::default(),
    };
    let recreating = backends.is_empty()
        && holder.iter().any(|pod| {
            let successor = pod.is_live() && pod.upgrade_of.is_some();
            pod.state == UpgradeState::Quiesced
                || (successor && known(pod).is_some_and(|known| !known.served))
        });
    let status = if backends.is_empty() {
        status(newest, recreating)
    } else {
        Status::Serving
    };
    let progress = if backends.is_empty() {
        progress(holder, &contested)
    } else {
        Progress::default()
    };
    Route {
        owner,
        visibility,
        allow_origins,
        ports,
        backends,
        status,
        recreating,
        progress,
    }
}

fn status(newest: Option<&PodView>, recreating: bool) -> Status {
    let trouble = newest
        .and_then(|pod| pod.trouble.as_ref())
        .map(|trouble| trouble.reason.clone());
    match newest {
        _ if recreating => Status::Switching(trouble),
        None => Status::Away,
        Some(_) => Status::Starting(trouble),
    }
}
