//! What changes, for whoever looks on: first everything that the caller may see, then what becomes
//! of it.
//!
//! There is no queue. All onlookers share one picture of all workspaces, made anew at most every
//! [`PACE`] and only while somebody looks; each compares it with what it told its reader last. So a
//! reader that stalls costs no memory that grows, misses nothing in the end, and a hundred changes
//! of one workspace between two looks are one.

use super::types::{ListOperations, Operation, Workspace};
use super::{Answer, Parts, ServiceError, allow_reading, operations, workspaces};
use nogoo9_model::UnixSeconds;
use nogoo9_model::access::{Action, Caller, Target, Visibility, may};
use serde::Serialize;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Least time between two pictures.
const PACE: Duration = Duration::from_millis(200);
/// Longest time between two: messages tell how long something takes, and templates change too.
const REFRESH: Duration = Duration::from_secs(2);
/// Most onlookers of one user: some browsers with some tabs each.
const MOST_OF_ONE: usize = 16;
/// Most onlookers in all.
const MOST: usize = 2000;
/// Targets of an operation that are told; longer ones are asked for page by page.
const MOST_TARGETS: usize = 50;

/// One thing that onlookers are told.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// Everything there is; the first event.
    Snapshot {
        /// Ordered by owner, then id.
        workspaces: Vec<Arc<Workspace>>,
        /// Newest first.
        operations: Vec<Operation>,
    },
    /// A workspace came or changed.
    Workspace(Arc<Workspace>),
    /// A workspace is no more.
    Gone {
        /// Its id.
        id: String,
    },
    /// An operation came or changed.
    Operation(Box<Operation>),
}

impl Event {
    /// Its name on the wire.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Snapshot { .. } => "snapshot",
            Self::Workspace(_) => "workspace",
            Self::Gone { .. } => "workspace-gone",
            Self::Operation(_) => "operation",
        }
    }
}

/// What all onlookers share.
#[derive(Default)]
pub struct Feed {
    picture: tokio::sync::Mutex<Option<Picture>>,
    onlookers: Arc<Mutex<HashMap<String, usize>>>,
}

/// All workspaces at one moment.
struct Picture {
    at: Instant,
    workspaces: Arc<Vec<Arc<Workspace>>>,
}

/// A place among the onlookers; given back when dropped.
struct Place {
    onlookers: Arc<Mutex<HashMap<String, usize>>>,
    sub: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut onlookers = self
            .onlookers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = onlookers.get_mut(&self.sub) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                onlookers.remove(&self.sub);
            }
        }
    }
}

impl Feed {
    fn admit(&self, sub: &str) -> Result<Place, ServiceError> {
        let mut onlookers = self
            .onlookers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let all: usize = onlookers.values().sum();
        let of_one = onlookers.get(sub).copied().unwrap_or_default();
        if all >= MOST || of_one >= MOST_OF_ONE {
            return Err(ServiceError::TooManyStreams);
        }
        *onlookers.entry(sub.to_owned()).or_default() += 1;
        Ok(Place {
            onlookers: Arc::clone(&self.onlookers),
            sub: sub.to_owned(),
        })
    }

    /// All workspaces, as of now or a moment ago. Those that did not change are the same allocation
    /// as in the picture before.
    async fn picture(&self, parts: &Parts) -> Arc<Vec<Arc<Workspace>>> {
        let mut picture = self.picture.lock().await;
        let before = match picture.as_ref() {
            Some(seen) if seen.at.elapsed() < PACE => return Arc::clone(&seen.workspaces),
            Some(seen) => Arc::clone(&seen.workspaces),
            None => Arc::default(),
        };
        let known: HashMap<&str, &Arc<Workspace>> = before
            .iter()
            .map(|workspace| (workspace.id.as_str(), workspace))
            .collect();
        // Taken before looking: what changes meanwhile is in the next one.
        let at = Instant::now();
        let workspaces: Vec<_> = workspaces::all(parts, |_| true)
            .into_iter()
            .map(|seen| match known.get(seen.id.as_str()) {
                Some(same) if ***same == seen => Arc::clone(same),
                _ => Arc::new(seen),
            })
            .collect();
        let workspaces = Arc::new(workspaces);
        *picture = Some(Picture {
            at,
            workspaces: Arc::clone(&workspaces),
        });
        workspaces
    }
}

/// One onlooker.
pub struct Subscription {
    parts: Arc<Parts>,
    caller: Caller,
    changes: watch::Receiver<u64>,
    /// When what proves the caller ends, and the subscription with it.
    end: UnixSeconds,
    /// Told and not yet taken.
    ready: VecDeque<Event>,
    workspaces: HashMap<String, Arc<Workspace>>,
    operations: HashMap<String, Operation>,
    _place: Place,
}

/// Looks on in the caller's name, until `end` at the latest.
pub(super) async fn subscribe(
    parts: &Arc<Parts>,
    caller: &Caller,
    end: UnixSeconds,
) -> Answer<Subscription> {
    allow_reading(caller)?;
    let place = parts.feed.admit(&caller.sub)?;
    let mut subscription = Subscription {
        // Before the first look, so that no change falls in between.
        changes: parts.caches.changes(),
        parts: Arc::clone(parts),
        caller: caller.clone(),
        end,
        ready: VecDeque::new(),
        workspaces: HashMap::new(),
        operations: HashMap::new(),
        _place: place,
    };
    let workspaces = subscription.visible().await;
    let operations = subscription.operations()?;
    subscription.workspaces = by_id(&workspaces);
    subscription.operations = operations
        .iter()
        .map(|operation| (operation.operation_id.clone(), operation.clone()))
        .collect();
    subscription.ready.push_back(Event::Snapshot {
        workspaces,
        operations,
    });
    Ok(subscription)
}

fn by_id(workspaces: &[Arc<Workspace>]) -> HashMap<String, Arc<Workspace>> {
    workspaces
        .iter()
        .map(|workspace| (workspace.id.clone(), Arc::clone(workspace)))
        .collect()
}

impl Subscription {
    /// The next event; `None` once the caller's session has ended.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let left = self.end.saturating_sub(self.parts.cluster.now());
            let left = Duration::from_secs(u64::try_from(left).ok().filter(|left| *left > 0)?);
            // What comes at once is told at once; what follows closely is told together.
            let _tick = tokio::time::timeout(REFRESH.min(left), self.changes.changed()).await;
            tokio::time::sleep(PACE).await;
            self.changes.mark_unchanged();
            self.look().await.ok()?;
        }
    }

    /// Compares what there is with what was told.
    async fn look(&mut self) -> Answer<()> {
        let workspaces = self.visible().await;
        for workspace in &workspaces {
            let told = self.workspaces.get(&workspace.id);
            if !told.is_some_and(|told| Arc::ptr_eq(told, workspace)) {
                self.ready
                    .push_back(Event::Workspace(Arc::clone(workspace)));
            }
        }
        let now = by_id(&workspaces);
        for id in self.workspaces.keys().filter(|id| !now.contains_key(*id)) {
            self.ready.push_back(Event::Gone { id: id.clone() });
        }
        self.workspaces = now;
        let operations = self.operations()?;
        for operation in &operations {
            if self.operations.get(&operation.operation_id) != Some(operation) {
                self.ready
                    .push_back(Event::Operation(Box::new(operation.clone())));
                self.operations
                    .insert(operation.operation_id.clone(), operation.clone());
            }
        }
        let listed: HashSet<&str> = operations
            .iter()
            .map(|operation| operation.operation_id.as_str())
            .collect();
        self.operations.retain(|id, _| listed.contains(id.as_str()));
        Ok(())
    }

    async fn visible(&self) -> Vec<Arc<Workspace>> {
        let mut workspaces = Vec::clone(&*self.parts.feed.picture(&self.parts).await);
        workspaces.retain(|workspace| {
            let target = Target::Workspace {
                owner: &workspace.owner,
                visibility: &Visibility::Private,
            };
            may(&self.caller, Action::Read, target).is_ok()
        });
        workspaces
    }

    fn operations(&self) -> Answer<Vec<Operation>> {
        let all = ListOperations::default();
        let mut operations = operations::list(&self.parts, &self.caller, &all)?.operations;
        for operation in &mut operations {
            if operation.targets.len() > MOST_TARGETS {
                operation.targets.clear();
            }
        }
        Ok(operations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let feed = Feed::default();
        let mut of_alice: Vec<Place> = (0..MOST_OF_ONE)
            .map(|_| feed.admit("alice").unwrap())
            .collect();
        assert!(matches!(
            feed.admit("alice"),
            Err(ServiceError::TooManyStreams)
        ));
        let of_bob = feed.admit("bob").unwrap();
        of_alice.pop();
        of_alice.push(feed.admit("alice").unwrap());
        drop((of_alice, of_bob));
        assert!(feed.onlookers.lock().unwrap().is_empty());

        let all: Vec<Place> = (0..MOST)
            .map(|n| feed.admit(&(n / MOST_OF_ONE).to_string()).unwrap())
            .collect();
        assert!(matches!(
            feed.admit("carol"),
            Err(ServiceError::TooManyStreams)
        ));
        drop(all);
        assert!(feed.admit("carol").is_ok());
    }
}
