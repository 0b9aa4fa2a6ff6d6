//! The pure heart: watch events in, changes out.

use std::collections::HashMap;
use std::sync::Arc;

/// What happened to one object, or to all.
#[derive(Debug)]
pub enum Change<V> {
    /// The object is new, or differs from what was delivered before.
    Applied(Arc<V>),
    /// The object is gone, or is none of ours any more; with its last known value.
    Deleted(Arc<V>),
    /// A full list was taken in; all differences were delivered before this.
    Synced,
}

impl<V> Clone for Change<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Applied(value) => Self::Applied(value.clone()),
            Self::Deleted(value) => Self::Deleted(value.clone()),
            Self::Synced => Self::Synced,
        }
    }
}

/// Where an object lives.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One object as it was last seen.
#[derive(Debug)]
pub(crate) struct Entry<V> {
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) value: Arc<V>,
}

/// An object as an event brings it; `value` is `None` if the projection wants none of it.
#[derive(Debug)]
pub(crate) struct Seen<V> {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) value: Option<V>,
}

/// A watch event whose object was projected.
#[derive(Debug)]
pub(crate) enum Event<V> {
    Apply(Seen<V>),
    Delete(Key, String),
    /// The list is whole.
    Listed,
    /// So it is, but it tells of the past: the server's database was put back to an older copy. Versions
    /// are given out anew from there.
    Restored {
        /// Whether what the list says of objects is not believed.
        distrust: bool,
    },
}

/// What is known.
pub(crate) type Known<V> = HashMap<Key, Entry<V>>;

/// The list that is being taken in. What is known lives beside it, since readers share that.
#[derive(Debug)]
pub(crate) struct Mirror<V> {
    listing: Known<V>,
}

impl<V> Default for Mirror<V> {
    fn default() -> Self {
        Self {
            listing: HashMap::new(),
        }
    }
}

impl<V> Mirror<V> {
    /// A list begins; what an earlier one left behind does not count.
    pub(crate) fn begin(&mut self) {
        self.listing = HashMap::new();
    }

    /// One object of the list.
    pub(crate) fn list(&mut self, seen: Seen<V>) {
        if let Some(value) = seen.value {
            let value = Arc::new(value);
            let entry = Entry {
                uid: seen.uid,
                version: seen.version,
                value,
            };
            self.listing.insert(seen.key, entry);
        }
    }

    /// Takes one event in and returns what changed, in order.
    pub(crate) fn step(&mut self, known: &mut Known<V>, event: Event<V>) -> Vec<Change<V>> {
        match event {
            Event::Listed => replace(known, std::mem::take(&mut self.listing)),
            Event::Restored { distrust } => {
                let mut listed = std::mem::take(&mut self.listing);
                if distrust {
                    keep_present(known, &mut listed);
                }
                // A version may be another one's by now, so whatever is said of an object is new.
                known.values_mut().for_each(|now| now.version.clear());
                replace(known, listed)
            }
            Event::Apply(seen) => apply(known, seen),
            Event::Delete(key, uid) => delete(known, &key, &uid),
        }
    }
}

/// Takes out of a list of the past what is not to be believed: what had gone since then, and how things
/// stood. What has gone since then and was known stays gone, by its absence from the list.
fn keep_present<V>(known: &Known<V>, listed: &mut Known<V>) {
    listed.retain(|key, then| match known.get(key) {
        Some(now) if now.uid == then.uid => {
            // No version, so that whatever comes next has a say.
            then.version.clear();
            then.value = now.value.clone();
            true
        }
        _ => false,
    });
}

/// The difference between what is known and a full list; then the list is what is known.
fn replace<V>(known: &mut Known<V>, mut listed: Known<V>) -> Vec<Change<V>> {
    let mut changes = Vec::new();
    // Arrivals before departures: whoever picks one of several objects (the pods of a workspace)
    // must not see a moment with none.
    let mut departed: Vec<Arc<V>> = Vec::new();
    known.retain(|key, old| match listed.get(key) {
        Some(new) if new.uid == old.uid => true,
        _ => {
            departed.push(old.value.clone());
            false
        }
    });
    for (key, new) in listed.drain() {
        match known.get_mut(&key) {
            Some(old) if old.version == new.version => {}
            _ => {
                changes.push(Change::Applied(new.value.clone()));
                known.insert(key, new);
            }
        }
    }
    changes.extend(departed.into_iter().map(Change::Deleted));
    changes.push(Change::Synced);
    changes
}

fn apply<V>(known: &mut Known<V>, seen: Seen<V>) -> Vec<Change<V>> {
    let Some(value) = seen.value else {
        // It was one of ours and is none any more.
        return known
            .remove(&seen.key)
            .map(|old| Change::Deleted(old.value))
            .into_iter()
            .collect();
    };
    let mut changes = Vec::new();
    if let Some(old) = known.get(&seen.key) {
        if old.uid != seen.uid {
            changes.push(Change::Deleted(old.value.clone()));
        } else if old.version == seen.version {
            return changes;
        }
    }
    let value = Arc::new(value);
    changes.push(Change::Applied(value.clone()));
    known.insert(
        seen.key,
        Entry {
            uid: seen.uid,
            version: seen.version,
            value,
        },
    );
    changes
}

fn delete<V>(known: &mut Known<V>, key: &Key, uid: &str) -> Vec<Change<V>> {
    // A delete that names another uid is about an earlier object of that name.
    match known.get(key) {
        Some(old) if old.uid == uid => {}
        _ => return Vec::new(),
    }
    known
        .remove(key)
        .map(|old| Change::Deleted(old.value))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests;
