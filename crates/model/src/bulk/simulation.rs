//! Bulks in a world where anything happens: two who drive one at once with memories of different
//! age, killed anywhere, robbed of requests and replies, while people stop, start, delete and
//! upgrade workspaces under their hands. Every write is checked against the promises.

use super::tests::operation;
use super::*;
use crate::UnixSeconds;
use crate::container::Trouble;
use crate::operation::{Operation, Phase, State};
use crate::record::tests::{intent, running};
use crate::record::{Desired, Finished, Phase as Upgrading, Record};
use crate::upgrade::running_operation;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const WORKSPACES: usize = 6;
const BULK: &str = "op-bulk";

/// An object with the version that conditional writes are about.
#[derive(Debug, Clone)]
struct Kept<T> {
    version: u64,
    value: T,
}

struct World {
    now: UnixSeconds,
    version: u64,
    head: Kept<Operation>,
    chunks: Vec<Kept<Chunk>>,
    records: BTreeMap<usize, Kept<Record>>,
    operations: BTreeMap<String, Operation>,
    /// Workspaces whose template asks for what cannot be.
    broken: BTreeSet<usize>,
    begins: BTreeMap<usize, u32>,
    /// The slots when it was said that none are added.
    slots_at_end: Option<BTreeSet<usize>>,
}

/// What was asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    max_parallel: u32,
    canary: Option<u32>,
    failure_budget: Option<u32>,
}

fn id(index: usize) -> String {
    format!("w{index}")
}

impl World {
    fn new(asked: Asked, broken: BTreeSet<usize>) -> Self {
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

    fn targets(&self) -> impl Iterator<Item = (usize, &Target)> {
        let chunks = self.chunks.iter();
        chunks.flat_map(|chunk| &chunk.value.targets).enumerate()
    }

    fn bulk(&self) -> &Head {
        self.head.value.bulk.as_ref().expect("a bulk")
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn sight(&self, index: usize) -> Sight {
        let record = self.records.get(&index).map(|kept| &kept.value);
        let child = child(BULK, &id(index));
        sight(record, &child, self.operations.get(&child))
    }

    /// The version of the record; `None`: there is none.
    fn version_of(&self, index: usize) -> Option<u64> {
        self.records.get(&index).map(|kept| kept.version)
    }

    fn put_record(&mut self, index: usize, value: Record) {
        let version = self.next_version();
        self.records.insert(index, Kept { version, value });
    }

    fn put_head(&mut self, read: u64, next: Operation) -> bool {
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

    fn put_chunk(&mut self, read: u64, next: Chunk) -> bool {
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

    fn begin(&mut self, index: usize, read: &Kept<Record>, operation: &str) -> bool {
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
    fn end(&mut self, index: usize, outcome: State) {
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

    fn check(&self) {
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

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    Lost,
    ReplyLost,
}

/// What a driver has learnt of a target by trying to begin it, and the record that it saw then.
struct Note {
    sight: Sight,
    record: Option<u64>,
}

/// One who drives the bulk.
#[derive(Default)]
struct Driver {
    memory: Option<(Kept<Operation>, Vec<Kept<Chunk>>)>,
    notes: BTreeMap<usize, Note>,
    /// An attempt that has read everything and is about to write.
    stalled: Option<(usize, Kept<Record>)>,
}

impl Driver {
    fn forget(&mut self) {
        *self = Self::default();
    }

    fn plan(&mut self, world: &World) -> Step {
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
    fn step(&mut self, world: &mut World, fault: Fault, stall: bool) {
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
    fn look(&mut self, world: &mut World, index: usize, fault: Fault, stall: bool) {
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

    fn write_begin(&mut self, world: &mut World, index: usize, read: &Kept<Record>, fault: Fault) {
        if fault != Fault::Lost {
            world.begin(index, read, &child(BULK, &id(index)));
        }
    }

    fn put_chunk(&mut self, world: &mut World, chunk: Chunk, fault: Fault) {
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

    fn put_head(&mut self, world: &mut World, next: Operation, fault: Fault) {
        let (head, _) = self.memory.as_ref().expect("a memory");
        if fault != Fault::Lost {
            world.put_head(head.version, next);
        }
        self.memory = None;
    }
}

#[derive(Debug, Clone)]
enum Event {
    Drive(usize, Fault),
    Stall(usize),
    Kill(usize),
    /// The memory is kept although others go on.
    Pass(u8),
    Commit(usize),
    End(usize, bool),
    Stop(usize),
    Start(usize),
    Delete(usize),
    Upgrade(usize),
    Pause,
    Resume,
    Cancel,
}

fn event() -> impl Strategy<Value = Event> {
    let fault = prop_oneof![
        6 => Just(Fault::None), 1 => Just(Fault::Lost), 1 => Just(Fault::ReplyLost)
    ];
    prop_oneof![
        12 => (0..2usize, fault).prop_map(|(driver, fault)| Event::Drive(driver, fault)),
        3 => (0..2usize).prop_map(Event::Stall),
        1 => (0..2usize).prop_map(Event::Kill),
        4 => (1..4u8).prop_map(Event::Pass),
        4 => (0..WORKSPACES).prop_map(Event::Commit),
        4 => (0..WORKSPACES, any::<bool>()).prop_map(|(i, good)| Event::End(i, good)),
        1 => (0..WORKSPACES).prop_map(Event::Stop),
        2 => (0..WORKSPACES).prop_map(Event::Start),
        1 => (0..WORKSPACES).prop_map(Event::Delete),
        1 => (0..WORKSPACES).prop_map(Event::Upgrade),
        1 => Just(Event::Pause),
        2 => Just(Event::Resume),
        1 => Just(Event::Cancel),
    ]
}

fn happen(world: &mut World, drivers: &mut [Driver; 2], event: &Event) {
    match event {
        Event::Drive(driver, fault) => drivers[*driver].step(world, *fault, false),
        Event::Stall(driver) => drivers[*driver].step(world, Fault::None, true),
        Event::Kill(driver) => drivers[*driver].forget(),
        Event::Pass(seconds) => world.now += i64::from(*seconds),
        Event::Commit(index) => {
            let now = world.now;
            if let Some(kept) = world.records.get(index)
                && let mut record = kept.value.clone()
                && let Some(upgrade) = &mut record.upgrade
            {
                upgrade.phase = Upgrading::Committed { at: now };
                world.put_record(*index, record);
            }
        }
        Event::End(index, good) => {
            world.end(
                *index,
                if *good {
                    State::Succeeded
                } else {
                    State::Failed
                },
            );
        }
        Event::Stop(index) => {
            world.end(*index, State::Cancelled);
            change(world, *index, Record::stop);
        }
        Event::Start(index) => change(world, *index, |record| {
            let mut next = record.start()?;
            next.pod.uid = Some("again".into());
            Some(next)
        }),
        Event::Delete(index) => {
            world.end(*index, State::Cancelled);
            world.records.remove(index);
        }
        Event::Upgrade(index) => {
            if let Some(kept) = world.records.get(index).cloned()
                && kept.value.begin_upgrade(intent("v2"), world.now).is_ok()
            {
                world.begin(*index, &kept, &format!("op-{}", world.version));
            }
        }
        Event::Pause => command(world, |head| head.pause(by())),
        Event::Resume => command(world, |head| head.resume(by()).ok().flatten()),
        Event::Cancel => command(world, |head| head.cancel(by())),
    }
    world.check();
}

fn by() -> By {
    By {
        actor: "root".into(),
        at: 1000,
    }
}

/// Somebody decides something about the bulk.
fn command(world: &mut World, decide: impl Fn(&Head) -> Option<Head>) {
    if world.head.value.state.is_terminal() {
        return;
    }
    let Some(head) = decide(world.bulk()) else {
        return;
    };
    let closed = head.paused.is_some() || head.is_closed();
    world.slots_at_end = closed.then(|| head.slots.clone());
    let mut next = world.head.value.clone();
    next.bulk = Some(head);
    assert!(world.put_head(world.head.version, next));
}

fn change(world: &mut World, index: usize, change: impl Fn(&Record) -> Option<Record>) {
    if let Some(next) = world
        .records
        .get(&index)
        .and_then(|kept| change(&kept.value))
    {
        world.put_record(index, next);
    }
}

/// From here on all goes well.
fn calm(world: &mut World, drivers: &mut [Driver; 2]) {
    for _ in 0..400 {
        for driver in 0..2 {
            happen(world, drivers, &Event::Drive(driver, Fault::None));
        }
        for index in 0..WORKSPACES {
            happen(world, drivers, &Event::End(index, true));
        }
        happen(world, drivers, &Event::Pass(1));
        happen(world, drivers, &Event::Resume);
        if world.head.value.state.is_terminal() {
            return;
        }
    }
    panic!("it did not end: {:#?}", world.head.value);
}

fn asked() -> impl Strategy<Value = Asked> {
    let canary = prop::option::of(1..4u32);
    let failure_budget = prop::option::of(0..3u32);
    (1..4u32, canary, failure_budget).prop_map(|(max_parallel, canary, failure_budget)| Asked {
        max_parallel,
        canary,
        failure_budget,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn whatever_happens_each_workspace_has_one_result(
        events in prop::collection::vec(event(), 0..120),
        asked in asked(),
        broken in prop::collection::btree_set(0..WORKSPACES, 0..2),
    ) {
        let mut world = World::new(asked, broken.clone());
        let mut drivers = [Driver::default(), Driver::default()];
        for event in &events {
            happen(&mut world, &mut drivers, event);
        }
        calm(&mut world, &mut drivers);
        let mut counts = Counts::default();
        for (index, target) in world.targets() {
            counts.add(target.state);
            prop_assert!(target.state.is_terminal());
            let begun = world.begins.contains_key(&index);
            let outcome = match world.sight(index) {
                Sight::Begun(result) => Some(TargetState::from(result.state)),
                _ => None,
            };
            prop_assert_eq!(begun, outcome.is_some());
            match outcome {
                Some(outcome) => prop_assert_eq!(target.state, outcome, "{:?}", target),
                None if broken.contains(&index) => prop_assert_ne!(target.state, TargetState::Succeeded),
                None => prop_assert!(
                    matches!(target.state, TargetState::Skipped | TargetState::Cancelled), "{:?}", target
                ),
            }
        }
        let head = world.bulk();
        prop_assert_eq!(head.counts, counts);
        let expected = match counts {
            _ if head.cancelled.is_some() && counts.cancelled > 0 => State::Cancelled,
            _ if counts.failed > 0 => State::Failed,
            _ => State::Succeeded,
        };
        prop_assert_eq!(world.head.value.state, expected);
        if head.stopped.is_some() {
            prop_assert!(head.failure_budget.is_some_and(|budget| counts.failed > budget));
        }
        prop_assert!(world.bulk().slots.is_empty());
        prop_assert!(world.records.values().all(|kept| kept.value.desired != Desired::Running
            || kept.value.upgrade.is_none()));
    }
}

#[test]
fn undisturbed_all_are_upgraded() {
    let asked = Asked {
        max_parallel: 2,
        canary: Some(1),
        failure_budget: Some(0),
    };
    let mut world = World::new(asked, BTreeSet::new());
    let mut drivers = [Driver::default(), Driver::default()];
    calm(&mut world, &mut drivers);
    assert_eq!(world.head.value.state, State::Succeeded);
    assert_eq!(world.bulk().counts.succeeded as usize, WORKSPACES);
    assert_eq!(world.begins.len(), WORKSPACES);
}
