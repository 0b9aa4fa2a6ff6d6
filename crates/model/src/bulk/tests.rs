use super::*;
use crate::UnixSeconds;
use crate::container::Trouble;
use crate::mode::Mode;
use crate::operation::{Kind, Operation, Phase, State, TargetResult};
use crate::record::tests::{intent, running};
use crate::record::{Finished, Record};
use crate::upgrade::running_operation;
use std::collections::BTreeMap;

pub(super) fn target(id: &str, state: TargetState) -> Target {
    Target {
        workspace: id.into(),
        owner: "alice".into(),
        template: "sample".into(),
        from_version: "v1".into(),
        to_version: Some("v2".into()),
        state,
        phase: None,
        mode: None,
        pod_name: None,
        previous_pod_name: None,
        error: None,
        under_way: None,
    }
}

fn result(id: &str, state: State, phase: Phase) -> TargetResult {
    TargetResult {
        workspace: id.into(),
        owner: "alice".into(),
        pod_name: format!("{id}-new"),
        previous_pod_name: format!("{id}-old"),
        from_version: "v1".into(),
        to_version: "v2".into(),
        mode: Mode::SideBySide,
        state,
        phase,
        error: None,
    }
}

pub(super) fn begun(id: &str, state: State, phase: Phase) -> Sight {
    Sight::Begun(Box::new(result(id, state, phase)))
}

pub(super) fn operation(chunks: &[Chunk], max_parallel: u32, now: UnixSeconds) -> Operation {
    Operation {
        id: "op-bulk".into(),
        kind: Kind::UpgradeAll,
        actor: "root".into(),
        parent: None,
        retry_of: None,
        state: State::Running,
        started_at: now,
        finished_at: None,
        targets: Vec::new(),
        bulk: Some(Head::new(max_parallel, chunks, now)),
    }
}

pub(super) fn by() -> By {
    By {
        actor: "root".into(),
        at: 1001,
    }
}

/// A bulk in one place, and what is known of its targets.
pub(super) struct Case {
    pub(super) operation: Operation,
    pub(super) chunks: Vec<Chunk>,
    pub(super) sights: BTreeMap<usize, Sight>,
}

impl Case {
    pub(super) fn new(max_parallel: u32, states: &[TargetState]) -> Self {
        let targets = states
            .iter()
            .enumerate()
            .map(|(i, state)| target(&format!("w{i}"), *state));
        let chunks = chunks("op-bulk", targets.collect());
        Self {
            operation: operation(&chunks, max_parallel, 1000),
            chunks,
            sights: BTreeMap::new(),
        }
    }

    pub(super) fn plan(&self, now: UnixSeconds) -> Step {
        let chunks: Vec<&Chunk> = self.chunks.iter().collect();
        let observed = Observed {
            operation: &self.operation,
            chunks: &chunks,
        };
        let sight =
            |index: usize, _: &Target| self.sights.get(&index).cloned().unwrap_or(Sight::Unbegun);
        plan(observed, sight, now)
    }

    pub(super) fn head(&mut self) -> &mut Head {
        self.operation.bulk.as_mut().unwrap()
    }

    /// Makes the writes that are planned, and returns the places to begin at.
    pub(super) fn settle(&mut self, now: UnixSeconds) -> Vec<usize> {
        let mut to_begin = Vec::new();
        loop {
            match self.plan(now) {
                Step::Begin { index } => {
                    to_begin.push(index);
                    self.sights.insert(index, Sight::Postponed);
                }
                Step::PutChunk(chunk) => {
                    let index = chunk.index;
                    self.chunks[index] = *chunk;
                }
                Step::PutHead(next) => self.operation = *next,
                Step::Wait { .. } | Step::Done => return to_begin,
            }
        }
    }
}

use TargetState::{Cancelled as Gone, Failed, Pending, Running, Skipped, Succeeded};

#[test]
fn the_first_are_taken_up_at_once_and_no_more_than_asked_for() {
    let mut case = Case::new(2, &[Skipped, Pending, Pending, Pending]);
    let Step::PutHead(next) = case.plan(1000) else {
        panic!("slots first")
    };
    let head = next.bulk.as_ref().unwrap();
    assert_eq!(head.slots, [1, 2].into());
    assert_eq!(
        (
            head.counts.total,
            head.counts.running,
            head.counts.pending,
            head.counts.skipped
        ),
        (4, 2, 1, 1)
    );
    case.operation = *next;
    assert_eq!(case.plan(1000), Step::Begin { index: 1 });
    assert_eq!(case.settle(1000), [1, 2]);
}

#[test]
fn a_slot_is_free_at_commit_and_the_result_waits_for_the_drain() {
    let mut case = Case::new(1, &[Pending, Pending]);
    assert_eq!(case.settle(1000), [0]);
    case.sights
        .insert(0, begun("w0", State::Running, Phase::Starting));
    assert_eq!(case.settle(1002), Vec::<usize>::new(), "its slot is taken");
    assert_eq!(
        case.chunks[0].targets[0].pod_name.as_deref(),
        Some("w0-new")
    );
    case.sights
        .insert(0, begun("w0", State::Running, Phase::Draining));
    assert_eq!(case.settle(1004), [1], "committed: the next one's turn");
    assert_eq!(case.chunks[0].targets[0].state, Running);
    for (index, id) in [(0, "w0"), (1, "w1")] {
        case.sights
            .insert(index, begun(id, State::Succeeded, Phase::Done));
    }
    case.settle(1006);
    assert_eq!(case.operation.state, State::Succeeded);
    assert_eq!(case.operation.finished_at, Some(1006));
    assert_eq!(case.plan(2000), Step::Done);
}

#[test]
fn results_are_written_at_most_every_two_seconds() {
    let mut case = Case::new(5, &[Pending, Pending]);
    case.settle(1000);
    case.sights
        .insert(0, begun("w0", State::Succeeded, Phase::Done));
    assert_eq!(case.plan(1000), Step::Wait { until: Some(1002) });
    assert_eq!(case.plan(1001), Step::Wait { until: Some(1002) });
    assert!(matches!(case.plan(1002), Step::PutChunk(_)));
    case.settle(1002);
    assert_eq!(
        case.plan(1002),
        Step::Wait { until: None },
        "nothing to write"
    );
}

#[test]
fn a_cancel_ends_what_has_not_begun_and_nothing_else() {
    let mut case = Case::new(1, &[Pending, Pending, Pending]);
    assert_eq!(case.settle(1000), [0]);
    *case.head() = case.head().cancel(by()).unwrap();
    case.sights
        .insert(0, begun("w0", State::Running, Phase::Starting));
    assert_eq!(case.settle(1010), Vec::<usize>::new());
    let states: Vec<_> = case.chunks[0].targets.iter().map(|t| t.state).collect();
    assert_eq!(states, [Running, Gone, Gone]);
    assert_eq!(case.operation.state, State::Running);
    case.sights
        .insert(0, begun("w0", State::Succeeded, Phase::Done));
    case.settle(1020);
    assert_eq!(case.operation.state, State::Cancelled);
    let counts = case.head().counts;
    assert_eq!((counts.succeeded, counts.cancelled), (1, 2));
}

#[test]
fn how_it_ends() {
    for (states, cancelled, expected) in [
        (vec![Succeeded, Skipped], false, State::Succeeded),
        (vec![Succeeded, Failed], false, State::Failed),
        (vec![Skipped], false, State::Succeeded),
        // A workspace that was stopped in the middle does not make the bulk cancelled.
        (vec![Succeeded, Gone], false, State::Succeeded),
        (vec![Failed, Gone], true, State::Cancelled),
        // The cancel came too late to stop anything.
        (vec![Succeeded], true, State::Succeeded),
    ] {
        let mut case = Case::new(5, &states);
        case.head().cancelled = cancelled.then(by);
        case.settle(1000);
        assert_eq!(case.operation.state, expected, "{states:?}");
    }
}

#[test]
fn a_refusal_is_a_result_and_a_later_version_is_left_alone() {
    let mut case = Case::new(5, &[Pending]);
    case.settle(1000);
    case.sights.insert(0, Sight::Refused(Skipped, stopped()));
    case.settle(1002);
    assert_eq!(case.chunks[0].targets[0].state, Skipped);
    assert_eq!(case.chunks[0].targets[0].error, Some(stopped()));
    let mut case = Case::new(5, &[Pending]);
    case.head().version = VERSION + 1;
    assert_eq!(case.plan(1000), Step::Wait { until: None });
}

#[test]
fn ten_thousand_are_forty_chunks_and_one_write_at_a_time() {
    let mut case = Case::new(50, &vec![Pending; 10_000]);
    assert_eq!(case.chunks.len(), 40);
    assert_eq!(case.settle(1000), (0..50).collect::<Vec<_>>());
    for index in 0..50 {
        let id = format!("w{index}");
        case.sights
            .insert(index, begun(&id, State::Succeeded, Phase::Done));
    }
    assert_eq!(case.settle(1002), (50..100).collect::<Vec<_>>());
    let revisions = &case.operation.bulk.as_ref().unwrap().chunks;
    assert_eq!(
        (revisions[0], revisions[1]),
        (1, 0),
        "only the chunk that changed"
    );
}

#[test]
fn signs_of_an_upgrade() {
    let child = child("op-bulk", "dev");
    let mut asked = intent("v2");
    asked.operation.clone_from(&child);
    asked.parent = Some("op-bulk".into());
    let begun = running().begin_upgrade(asked, 2000).unwrap();
    let upgrade = begun.upgrade.clone().unwrap();
    let mut operation = running_operation(&begun, &upgrade);
    assert_eq!(operation.parent.as_deref(), Some("op-bulk"));
    let state = |sight: Sight| match sight {
        Sight::Begun(result) => Some(result.state),
        _ => None,
    };
    let of =
        |record: Option<&Record>, operation: Option<&Operation>| sight(record, &child, operation);
    assert_eq!(of(Some(&running()), None), Sight::Unbegun);
    assert_eq!(of(None, None), Sight::Unbegun);
    assert_eq!(state(of(Some(&begun), None)), Some(State::Running));
    // The record knows nothing of what its operation says is under way.
    assert_eq!(of(Some(&running()), Some(&operation)), Sight::Lost);
    operation.state = State::Failed;
    operation.targets[0].state = State::Failed;
    let mut ended = running();
    ended.last = Some(Finished {
        operation: operation.clone(),
        shown: false,
    });
    assert_eq!(state(of(Some(&ended), None)), Some(State::Failed));
    // The next upgrade took its place in the record; the workspace may even be gone.
    assert_eq!(
        state(of(Some(&running()), Some(&operation))),
        Some(State::Failed)
    );
    assert_eq!(state(of(None, Some(&operation))), Some(State::Failed));
}

#[test]
fn which_workspaces_are_targets() {
    let record = running();
    let of = |record: &Record, version, scope| {
        consider(Candidate { record, version }, scope, 5000).map(|target| {
            let reason = target.error.map(|error| error.reason);
            (target.state, reason.unwrap_or_default())
        })
    };
    let state = |record: &Record, version| of(record, version, Scope::Outdated);
    let skipped = |reason: &str| Some((Skipped, reason.to_owned()));
    let pending = Some((Pending, String::new()));
    assert_eq!(state(&record, Ok("v1")), None);
    assert_eq!(of(&record, Ok("v1"), Scope::All), pending);
    assert_eq!(state(&record, Ok("v2")), pending);
    assert_eq!(state(&record, Err("broken")), skipped("TemplateUnreadable"));
    let stopped = record.stop().unwrap();
    assert_eq!(state(&stopped, Ok("v2")), skipped("Stopped"));
    assert_eq!(state(&stopped, Ok("v1")), None);
    assert_eq!(of(&stopped, Ok("v1"), Scope::All), skipped("Stopped"));
    for scope in [Scope::Outdated, Scope::All] {
        assert_eq!(of(&record.delete().unwrap(), Ok("v2"), scope), None);
    }
    let upgrading = record.begin_upgrade(intent("v2"), 1).unwrap();
    assert_eq!(state(&upgrading, Ok("v2")), skipped("UnderWay"));
    let candidate = Candidate {
        record: &upgrading,
        version: Ok("v2"),
    };
    let target = consider(candidate, Scope::All, 5000).unwrap();
    assert_eq!(target.under_way.as_deref(), Some("op-1"));
    let mut draining = upgrading;
    draining.upgrade.as_mut().unwrap().phase = crate::record::Phase::Committed { at: 2 };
    assert_eq!(state(&draining, Ok("v2")), None, "new requests meet it");
    assert_eq!(state(&draining, Ok("v3")), skipped("UnderWay"));
}

#[test]
fn an_owner_who_wants_it_later_is_left_alone_until_then() {
    let mut record = running();
    record.not_before = Some(1_796_119_200);
    let target = |now| {
        let candidate = Candidate {
            record: &record,
            version: Ok("v2"),
        };
        consider(candidate, Scope::Outdated, now).unwrap()
    };
    let before = target(1_796_119_199);
    assert_eq!(before.state, Skipped);
    let why = before.error.unwrap();
    assert_eq!(
        (why.reason.as_str(), why.message.as_str()),
        (
            "NotBefore",
            "its owner wants no upgrade before 2026-12-01T10:00:00Z"
        )
    );
    assert_eq!(target(1_796_119_200).state, Pending);
}

#[test]
fn ids_of_children_are_ids_of_operations_and_messages_are_kept_short() {
    let id = child("op-a", "dev");
    assert_eq!(id, child("op-a", "dev"));
    assert!(id != child("op-b", "dev") && id != child("op-a", "dew"));
    assert_eq!(id.len(), "op-".len() + 26);
    let long = Trouble::new("Error", "ä".repeat(4000));
    let kept = target("w", Pending).ended(Failed, &long).error.unwrap();
    assert!(kept.message.len() <= MAX_MESSAGE && kept.message.chars().all(|c| c == 'ä'));
}

#[test]
fn what_is_stored_can_be_read_again_and_absent_is_absent() {
    let chunks = chunks("op-bulk", vec![target("w0", Pending)]);
    let operation = operation(&chunks, 5, 1000);
    let text = serde_json::to_string(&operation).unwrap();
    assert_eq!(serde_json::from_str::<Operation>(&text).unwrap(), operation);
    let text = serde_json::to_string(&chunks[0]).unwrap();
    assert_eq!(serde_json::from_str::<Chunk>(&text).unwrap(), chunks[0]);
    assert!(!text.contains("null"), "{text}");
    // Operations of single upgrades, as earlier versions stored them.
    let single = r#"{"id":"op-1","kind":"upgrade","actor":"a","state":"succeeded","startedAt":1,"targets":[]}"#;
    let single: Operation = serde_json::from_str(single).unwrap();
    assert!(single.bulk.is_none() && single.parent.is_none());
}
