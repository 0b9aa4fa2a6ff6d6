//! What a driver knows of its bulk: head and chunks as they were last read or written, and what it
//! has learnt by looking live at targets. Writes are conditional on the versions remembered here, so
//! a memory that is out of date costs a refused write and is then read anew.

use super::quota::Quota;
use super::{chunks, is_sign};
use crate::cluster::{Caches, Cluster, ClusterError, Stored};
use futures::{StreamExt, TryStreamExt, stream};
use nogoo9_model::bulk::{CHUNK, Chunk, Sight, Target, child, sight};
use nogoo9_model::operation::Operation;
use nogoo9_model::record::Phase;
use std::collections::{BTreeMap, VecDeque};

/// Chunks read at once.
const CALLS: usize = 8;
/// Own writes that are remembered, to be told from those of others when the watch brings them.
const OWN_WRITES: usize = 16;
/// Seconds until an attempt that could not be made is repeated.
const PAUSE: i64 = 3;

/// Seconds in which the pod of an upgrade that has begun is expected to be there. It may be refused,
/// or the API server slow; then the next upgrade does not wait for it.
pub(super) const EXPECTED: i64 = 3;

/// A bulk as it was last read or written.
pub(super) struct Loaded {
    pub(super) head: Stored<Operation>,
    pub(super) chunks: Vec<Stored<Chunk>>,
}

/// What was learnt of a target by looking live.
struct Note {
    sight: Sight,
    /// Version of the record that was looked at; `None`: there was none.
    record: Option<String>,
    /// When it was learnt.
    at: i64,
}

impl Note {
    /// When to try again what was postponed.
    fn again(&self) -> i64 {
        self.at.saturating_add(PAUSE)
    }
}

/// What a driver knows. An empty one is as good, after some reading.
#[derive(Default)]
pub struct Memory {
    loaded: Option<Loaded>,
    notes: BTreeMap<usize, Note>,
    /// Versions of the head that hold nothing new: own writes, and what the watch lagged behind with.
    known: VecDeque<String>,
    quota: Quota,
}

impl Memory {
    /// Reads what is not known. `false`: there is no such bulk.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub(super) async fn refresh(
        &mut self,
        cluster: &Cluster,
        caches: &Caches,
        id: &str,
    ) -> Result<bool, ClusterError> {
        let shown = caches
            .operation(id)
            .map(|stored| stored.resource_version.clone());
        let news = shown.filter(|version| !self.known.contains(version));
        if self.loaded.is_some() && news.is_none() {
            return Ok(true);
        }
        let before = self.loaded.take();
        let Some(head) = cluster.operation(id).await? else {
            return Ok(false);
        };
        let Some(bulk) = &head.value.bulk else {
            return Ok(false);
        };
        self.know(news);
        self.know(Some(head.resource_version.clone()));
        if head.value.state.is_terminal() {
            // Its chunks may be going already.
            let chunks = Vec::new();
            self.loaded = Some(Loaded { head, chunks });
            return Ok(true);
        }
        // Only those chunks that the head tells were written since.
        let mut had = before.map(|before| before.chunks).unwrap_or_default();
        had.retain(|chunk| bulk.chunks.get(chunk.value.index) == Some(&chunk.value.revision));
        let missing = (0..bulk.chunks.len())
            .filter(|index| !had.iter().any(|chunk| chunk.value.index == *index))
            .collect::<Vec<_>>();
        let read: Vec<Stored<Chunk>> = stream::iter(missing)
            .map(|index| chunks::read(cluster, id, bulk, index))
            .buffer_unordered(CALLS)
            .try_collect()
            .await?;
        had.extend(read);
        had.sort_by_key(|chunk| chunk.value.index);
        self.loaded = Some(Loaded { head, chunks: had });
        Ok(true)
    }

    pub(super) fn loaded(&self) -> Option<&Loaded> {
        self.loaded.as_ref()
    }

    pub(super) fn chunk(&self, index: usize) -> Option<&Stored<Chunk>> {
        self.loaded.as_ref()?.chunks.get(index)
    }

    /// What is known of a target's upgrade: signs that the watches show, else what was learnt by
    /// looking live. A sign stays true however old it is.
    pub(super) fn sight(
        &self,
        caches: &Caches,
        bulk: &str,
        index: usize,
        target: &Target,
        now: i64,
    ) -> Sight {
        let child = child(bulk, &target.workspace);
        let record = caches.record(&target.workspace);
        let operation = caches.operation(&child);
        let shown = sight(
            record.as_ref().map(|stored| &stored.value),
            &child,
            operation.as_ref().map(|stored| &stored.value),
        );
        if is_sign(&shown) {
            return shown;
        }
        match self.notes.get(&index) {
            Some(note) if note.sight == Sight::Postponed && now >= note.again() => Sight::Unbegun,
            Some(note) => note.sight.clone(),
            None => Sight::Unbegun,
        }
    }

    /// Whether the next upgrade has to wait for the pod of one that has just begun.
    pub(super) async fn waits_for_pod(
        &mut self,
        cluster: &Cluster,
        caches: &Caches,
        now: i64,
    ) -> bool {
        self.expects_pod(caches, now) && self.quota.may_refuse(cluster, now).await
    }

    /// Whether an upgrade of this bulk has just begun whose pod is not there yet.
    fn expects_pod(&self, caches: &Caches, now: i64) -> bool {
        let Some(loaded) = &self.loaded else {
            return false;
        };
        let (id, head) = (&loaded.head.value.id, &loaded.head.value.bulk);
        let slots = head.iter().flat_map(|head| &head.slots);
        slots.copied().any(|index| {
            let chunk = loaded.chunks.get(index / CHUNK);
            let target = chunk.and_then(|chunk| chunk.value.targets.get(index % CHUNK));
            let Some(target) = target else { return false };
            let child = child(id, &target.workspace);
            let record = caches.record(&target.workspace);
            let record = record.as_ref().map(|stored| &stored.value);
            let upgrade = record.and_then(|record| record.upgrade.as_ref());
            match upgrade.filter(|upgrade| upgrade.operation == child) {
                Some(upgrade) => {
                    // Where it is tight, the room that a check of images leaves is its successor's.
                    let due = if self.quota.is_tight() {
                        upgrade.deadline
                    } else {
                        upgrade.started_at.saturating_add(EXPECTED)
                    };
                    let to_come = matches!(upgrade.phase, Phase::Probing { .. } | Phase::Starting);
                    to_come && upgrade.successor.uid.is_none() && now < due
                }
                // The watch does not show yet that it has begun.
                None => self.notes.get(&index).is_some_and(|note| {
                    is_sign(&note.sight)
                        && now < note.at.saturating_add(EXPECTED)
                        && !record.is_some_and(|record| {
                            let last = record.last.as_ref();
                            last.is_some_and(|last| last.operation.id == child)
                        })
                }),
            }
        })
    }

    /// Remembers what looking live at a target has shown. `record`: the version that was looked at.
    pub(super) fn note(&mut self, index: usize, sight: Sight, record: Option<String>, now: i64) {
        let note = Note {
            sight,
            record,
            at: now,
        };
        self.notes.insert(index, note);
    }

    /// The version of the record that a refusal was about (inside `None`: there was no record).
    /// Outside `None`: the target was not refused.
    pub(super) fn refused_on(&self, index: usize) -> Option<Option<String>> {
        let note = self.notes.get(&index)?;
        matches!(note.sight, Sight::Refused(..)).then(|| note.record.clone())
    }

    /// Places of targets that looking live has shown to be begun.
    pub(super) fn begun(&self) -> impl Iterator<Item = usize> {
        let notes = self.notes.iter();
        notes
            .filter(|(_, note)| is_sign(&note.sight))
            .map(|(index, _)| *index)
    }

    /// A quota had no room: from now on pods that are to come are waited for.
    pub(super) fn tight(&mut self) {
        self.quota.was_tight();
    }

    /// Forgets what was learnt of a target.
    pub(super) fn look_anew(&mut self, index: usize) {
        self.notes.remove(&index);
    }

    /// Forgets head and chunks: others have changed them.
    pub(super) fn reload(&mut self) {
        self.loaded = None;
    }

    /// The earliest time at which something that was postponed is to be tried again.
    pub(super) fn postponed_until(&self) -> Option<i64> {
        let postponed = self.notes.values();
        postponed
            .filter(|note| note.sight == Sight::Postponed)
            .map(Note::again)
            .min()
    }

    /// Takes in how the write of a chunk went.
    pub(super) fn wrote_chunk(
        &mut self,
        written: Result<Stored<Chunk>, ClusterError>,
    ) -> Result<(), ClusterError> {
        let written = self.settle(written)?;
        if let (Some(written), Some(loaded)) = (written, &mut self.loaded) {
            let index = written.value.index;
            if let Some(chunk) = loaded.chunks.get_mut(index) {
                *chunk = written;
            }
        }
        Ok(())
    }

    /// Takes in how the write of the head went.
    pub(super) fn wrote_head(
        &mut self,
        written: Result<Stored<Operation>, ClusterError>,
    ) -> Result<(), ClusterError> {
        let written = self.settle(written)?;
        if let Some(written) = written {
            self.know(Some(written.resource_version.clone()));
            let slots = written.value.bulk.as_ref().map(|head| head.slots.clone());
            let slots = slots.unwrap_or_default();
            // Whoever has no slot was dealt with, or shows signs of its upgrade.
            self.notes.retain(|index, _| slots.contains(index));
            if let Some(loaded) = &mut self.loaded {
                loaded.head = written;
            }
        }
        Ok(())
    }

    /// After a refused write, and after one of which it is not known whether it was made, everything
    /// is read anew. `None`: others were first.
    fn settle<T>(&mut self, written: Result<T, ClusterError>) -> Result<Option<T>, ClusterError> {
        match written {
            Ok(written) => Ok(Some(written)),
            Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => {
                self.reload();
                Ok(None)
            }
            Err(error) => {
                self.reload();
                Err(error)
            }
        }
    }

    fn know(&mut self, version: Option<String>) {
        self.known.extend(version);
        while self.known.len() > OWN_WRITES {
            self.known.pop_front();
        }
    }
}
