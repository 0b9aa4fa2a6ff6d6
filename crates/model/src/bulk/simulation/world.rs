//! What is stored, and the promises that every write to it is held to.

use super::*;
use crate::record::tests::running;
use std::collections::BTreeMap;

/// An object with the version that conditional writes are about.
#[derive(Debug, Clone)]
pub(super) struct Kept<T> {
    pub(super) version: u64,
    pub(super) value: T,
}

pub(super) struct World {
    pub(super) now: UnixSeconds,
    pub(super) version: u64,
    pub(super) head: Kept<Operation>,
    pub(super) chunks: Vec<Kept<Chunk>>,
    pub(super) records: BTreeMap<usize, Kept<Record>>,
    pub(super) operations: BTreeMap<String, Operation>,
    /// Workspaces whose template asks for what cannot be.
    pub(super) broken: BTreeSet<usize>,
    pub(super) begins: BTreeMap<usize, u32>,
    /// The slots when it was said that none are added.
    pub(super) slots_at_end: Option<BTreeSet<usize>>,
}

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) max_parallel: u32,
    pub(super) canary: Option<u32>,
    pub(super) failure_budget: Option<u32>,
}

pub(super) fn id(index: usize) -> String {
    format!("w{index}")
}

impl World {
    pub(super) fn new(asked: Asked, broken: BTreeSet<usize>) -> Self {
        let mut records = BTreeMap::new();
        let mut targets = Vec::new();
        for index in 0..WORKSPACES {
            let mut record = running();
            record.id = id(index);
            let candidate = Candidate {
                record: &record,
                version: Ok("v2"),
            };
            targets.push(consider(candidate, Scope::Outdated, 1000).expect("outdated"));
            records.insert(
                index,
                Kept {
                    version: 1,
                    value: record,
                },
            );
        }
        let chunks = chunks(BULK, targets);
        let mut operation = operation(&chunks, asked.max_parallel, 1000);
        let head = operation.bulk.as_mut().expect("a bulk");
        (head.canary, head.failure_budget) = (asked.canary, asked.failure_budget);
        Self {
            now: 1000,
            version: 1,
            head: Kept {
                version: 1,
                value: operation,
            },
            chunks: chunks
                .into_iter()
                .map(|value| Kept { version: 1, value })
                .collect(),
            records,
            operations: BTreeMap::new(),
            broken,
            begins: BTreeMap::new(),
            slots_at_end: None,
        }
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = (usize, &Target)> {
        let chunks = self.chunks.iter();
        chunks.flat_map(|chunk| &chunk.value.targets).enumerate()
    }

    pub(super) fn bulk(&self) -> &Head {
        self.head.value.bulk.as_ref().expect("a bulk")
    }

    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(super) fn sight(&self, index: usize) -> Sight {
        let record = self.records.get(&index).map(|kept| &kept.value);
        let child = child(BULK, &id(index));
        sight(record, &child, self.operations.get(&child))
    }

    /// The version of the record; `None`: there is none.
    pub(super) fn version_of(&self, index: usize) -> Option<u64> {
        self.records.get(&index).map(|kept| kept.version)
    }

    pub(super) fn put_record(&mut self, index: usize, value: Record) {
        let version = self.next_version();
        self.records.insert(index, Kept { version, value });
    }

    pub(super) fn put_head(&mut self, read: u64, next: Operation) -> bool {
        if self.head.version != read {
            return false;
        }
        assert!(
            !self.head.value.state.is_terminal(),
            "an ended bulk was changed"
        );
        let version = self.next_version();
        let before = self.bulk().slots.clone();
        self.head = Kept {
            version,
            value: next,
        };
        let head = self.bulk();
        assert!(head.slots.len() <= head.max_parallel as usize);
        if let Some(slots) = &self.slots_at_end {
            let why = (&head.paused, &head.stopped, &head.cancelled);
            assert!(head.slots.is_subset(slots), "taken up after {why:?}");
        }
        let failed = self
            .targets()
            .filter(|(_, t)| t.state == TargetState::Failed);
        if head
            .failure_budget
            .is_some_and(|budget| failed.count() > budget as usize)
        {
            assert!(head.slots.is_subset(&before), "taken up beyond the budget");
        }
        if head.stopped.is_some() && self.slots_at_end.is_none() {
            self.slots_at_end = Some(head.slots.clone());
        }
        true
    }

    pub(super) fn put_chunk(&mut self, read: u64, next: Chunk) -> bool {
        let index = next.index;
        let Kept { version, value } = &self.chunks[index];
        if *version != read {
            return false;
        }
        for (before, after) in value.targets.iter().zip(&next.targets) {
            assert!(
                !before.state.is_terminal() || before == after,
                "a result was changed: {before:?} to {after:?}"
            );
        }
        let version = self.next_version();
        self.chunks[index] = Kept {
            version,
            value: next,
        };
        true
    }

    pub(super) fn begin(&mut self, index: usize, read: &Kept<Record>, operation: &str) -> bool {
        if self.version_of(index) != Some(read.version) {
            return false;
        }
        let mut asked = intent("v2");
        asked.operation = operation.to_owned();
        let next = read
            .value
            .begin_upgrade(asked, self.now)
            .expect("it can begin");
        self.put_record(index, next);
        if operation == child(BULK, &id(index)) {
            *self.begins.entry(index).or_default() += 1;
        }
        true
    }

    /// Ends the workspace's upgrade, whoever's it is.
    pub(super) fn end(&mut self, index: usize, outcome: State) {
        let Some(kept) = self.records.get(&index) else {
            return;
        };
        let mut record = kept.value.clone();
        let Some(upgrade) = record.upgrade.take() else {
            return;
        };
        let mut ended = running_operation(&record, &upgrade);
        ended.state = outcome;
        ended.finished_at = Some(self.now);
        ended.targets[0].state = outcome;
        ended.targets[0].phase = Phase::Done;
        if outcome == State::Succeeded {
            record.template = upgrade.template;
            record.pod.uid = Some("new".into());
        }
        record.last = Some(Finished {
            operation: ended.clone(),
            shown: true,
        });
        self.operations.insert(ended.id.clone(), ended);
        self.put_record(index, record);
    }

    pub(super) fn check(&self) {
        let head = self.bulk();
        if let (Some(canary), None) = (head.canary, &head.approved) {
            assert!(
                self.begins.len() <= canary as usize,
                "{} were begun before the approval",
                self.begins.len()
            );
        }
        for (index, count) in &self.begins {
            assert!(*count <= 1, "w{index} was begun {count} times");
        }
        for (index, kept) in &self.records {
            let upgrade = kept.value.upgrade.as_ref();
            let ours = upgrade.filter(|u| u.operation == child(BULK, &id(*index)));
            if ours.is_some_and(|upgrade| upgrade.phase == Upgrading::Starting) {
                assert!(
                    self.bulk().slots.contains(index),
                    "w{index} runs without a slot"
                );
            }
        }
    }
}
