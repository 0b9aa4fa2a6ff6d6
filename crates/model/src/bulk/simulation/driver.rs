//! One who drives the bulk, by a memory of some age, and whose calls fail.

use super::world::{Kept, World, id};
use super::*;
use std::collections::BTreeMap;

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fault {
    None,
    Lost,
    ReplyLost,
}

/// What a driver has learnt of a target by trying to begin it, and the record that it saw then.
pub(super) struct Note {
    sight: Sight,
    record: Option<u64>,
}

/// One who drives the bulk.
#[derive(Default)]
pub(super) struct Driver {
    memory: Option<(Kept<Operation>, Vec<Kept<Chunk>>)>,
    notes: BTreeMap<usize, Note>,
    /// An attempt that has read everything and is about to write.
    stalled: Option<(usize, Kept<Record>)>,
}

impl Driver {
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(super) fn plan(&mut self, world: &World) -> Step {
        let memory = self
            .memory
            .get_or_insert_with(|| (world.head.clone(), world.chunks.clone()));
        let chunks: Vec<&Chunk> = memory.1.iter().map(|kept| &kept.value).collect();
        let observed = Observed {
            operation: &memory.0.value,
            chunks: &chunks,
        };
        let sight = |index: usize, _: &Target| match world.sight(index) {
            Sight::Unbegun | Sight::Lost => self
                .notes
                .get(&index)
                .map_or(Sight::Unbegun, |note| note.sight.clone()),
            seen => seen,
        };
        plan(observed, sight, world.now)
    }

    /// One step; `stall`: an attempt to begin stops right before its write.
    pub(super) fn step(&mut self, world: &mut World, fault: Fault, stall: bool) {
        if let Some((index, read)) = self.stalled.take() {
            self.write_begin(world, index, &read, fault);
            return;
        }
        match self.plan(world) {
            Step::Begin { index } => self.look(world, index, fault, stall),
            Step::PutChunk(chunk) => self.put_chunk(world, *chunk, fault),
            Step::PutHead(next) => self.put_head(world, *next, fault),
            Step::Wait { .. } => {
                // What others wrote is learnt by watching the head.
                let memory = self.memory.as_ref().expect("a memory");
                if memory.0.version != world.head.version {
                    self.memory = None;
                }
            }
            Step::Done => {}
        }
    }

    /// Looks live at a target that shows no sign of its upgrade, and begins it.
    pub(super) fn look(&mut self, world: &mut World, index: usize, fault: Fault, stall: bool) {
        let read = world.records.get(&index).cloned();
        let version = read.as_ref().map(|kept| kept.version);
        let mut note = |sight: Sight| {
            self.notes.insert(
                index,
                Note {
                    sight,
                    record: version,
                },
            );
        };
        match world.sight(index) {
            Sight::Unbegun => {}
            seen => return note(seen),
        }
        let (_, chunks) = self.memory.as_ref().expect("a memory");
        if chunks[index / CHUNK].version != world.chunks[index / CHUNK].version {
            self.memory = None;
            return;
        }
        let Some(read) = read else {
            return note(Sight::Refused(
                TargetState::Skipped,
                Trouble::new("Gone", ""),
            ));
        };
        if world.broken.contains(&index) {
            return note(Sight::Refused(
                TargetState::Failed,
                Trouble::new("Broken", ""),
            ));
        }
        match read.value.begin_upgrade(intent("v2"), world.now) {
            Ok(_) if stall => self.stalled = Some((index, read)),
            Ok(_) => self.write_begin(world, index, &read, fault),
            Err(_) => note(Sight::Refused(TargetState::Skipped, stopped())),
        }
    }

    pub(super) fn write_begin(
        &mut self,
        world: &mut World,
        index: usize,
        read: &Kept<Record>,
        fault: Fault,
    ) {
        if fault != Fault::Lost {
            world.begin(index, read, &child(BULK, &id(index)));
        }
    }

    pub(super) fn put_chunk(&mut self, world: &mut World, chunk: Chunk, fault: Fault) {
        let (_, chunks) = self.memory.as_ref().expect("a memory");
        let stored = &chunks[chunk.index];
        // A refusal is only as good as the record that it was about.
        for (place, (before, after)) in stored.value.targets.iter().zip(&chunk.targets).enumerate()
        {
            let index = chunk.index * CHUNK + place;
            if before != after
                && let Some(note) = self.notes.get(&index)
                && matches!(note.sight, Sight::Refused(..))
                && (note.record != world.version_of(index) || world.sight(index) != Sight::Unbegun)
            {
                self.notes.remove(&index);
                return;
            }
        }
        if fault != Fault::Lost {
            world.put_chunk(stored.version, chunk);
        }
        // Whatever came of it, and whatever of that was heard: read anew.
        self.memory = None;
    }

    pub(super) fn put_head(&mut self, world: &mut World, next: Operation, fault: Fault) {
        let (head, _) = self.memory.as_ref().expect("a memory");
        if fault != Fault::Lost {
            world.put_head(head.version, next);
        }
        self.memory = None;
    }
}
