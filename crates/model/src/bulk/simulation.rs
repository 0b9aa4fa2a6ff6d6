//! Bulks in a world where anything happens: two who drive one at once with memories of different
//! age, killed anywhere, robbed of requests and replies, while people stop, start, delete and
//! upgrade workspaces under their hands. Every write is checked against the promises.

mod driver;
mod world;

use super::tests::operation;
use super::*;
use crate::UnixSeconds;
use crate::container::Trouble;
use crate::operation::{Operation, Phase, State};
use crate::record::tests::intent;
use crate::record::{Desired, Finished, Phase as Upgrading, Record};
use crate::upgrade::running_operation;
use driver::{Driver, Fault};
use proptest::prelude::*;
use std::collections::BTreeSet;
use world::{Asked, World};

const WORKSPACES: usize = 6;
const BULK: &str = "op-bulk";

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
