//! What people may change of a bulk while it runs, and what stops it.

use super::tests::{Case, begun, by, target};
use super::*;
use crate::container::Trouble;
use crate::operation::{Operation, Phase, State};
use TargetState::{Cancelled, Failed, Pending, Running, Skipped, Succeeded};

fn states(case: &Case) -> Vec<TargetState> {
    let targets = case.chunks.iter().flat_map(|chunk| &chunk.targets);
    targets.map(|target| target.state).collect()
}

fn end(case: &mut Case, index: usize, state: State) {
    let sight = begun(&format!("w{index}"), state, Phase::Done);
    case.sights.insert(index, sight);
}

#[test]
fn a_pause_gives_out_no_slots_until_it_is_resumed() {
    let mut case = Case::new(1, &[Pending, Pending]);
    assert_eq!(case.settle(1000), [0]);
    *case.head() = case.head().pause(by()).unwrap();
    assert_eq!(case.head().pause(by()), None, "it is paused");
    end(&mut case, 0, State::Succeeded);
    assert_eq!(case.settle(1010), Vec::<usize>::new());
    assert_eq!(states(&case), [Succeeded, Pending]);
    assert_eq!(case.operation.state, State::Running, "it has not ended");
    assert_eq!(case.plan(9000), Step::Wait { until: None });
    *case.head() = case.head().resume(by()).unwrap().unwrap();
    assert_eq!(case.head().resume(by()), Ok(None), "it goes on");
    assert_eq!(case.settle(9010), [1]);
}

#[test]
fn a_cancel_ends_a_pause() {
    let mut case = Case::new(1, &[Pending, Pending]);
    *case.head() = case.head().pause(by()).unwrap();
    assert_eq!(case.settle(1000), Vec::<usize>::new());
    *case.head() = case.head().cancel(by()).unwrap();
    let head = case.head();
    assert_eq!((head.cancel(by()), head.pause(by())), (None, None));
    assert_eq!(head.resume(by()), Ok(None));
    case.settle(1010);
    assert_eq!(states(&case), [Cancelled, Cancelled]);
    assert_eq!(case.operation.state, State::Cancelled);
}

#[test]
fn a_canary_goes_first_and_the_others_wait_for_approval() {
    let mut case = Case::new(5, &[Pending; 6]);
    case.head().canary = Some(2);
    assert_eq!(case.settle(1000), [0, 1], "no more, whatever is free");
    assert!(!case.head().waits_for_approval());
    let early = case.head().resume(by());
    assert_eq!(early, Err(NotResumed::CanaryUnderWay));
    // One was no canary after all: somebody stopped the workspace. The next is, in its place.
    case.sights.insert(0, Sight::Refused(Skipped, stopped()));
    end(&mut case, 1, State::Failed);
    assert_eq!(case.settle(1010), [2]);
    end(&mut case, 2, State::Succeeded);
    assert_eq!(case.settle(1020), Vec::<usize>::new());
    assert_eq!(
        states(&case),
        [Skipped, Failed, Succeeded, Pending, Pending, Pending]
    );
    assert!(case.head().waits_for_approval());
    assert_eq!(case.plan(9000), Step::Wait { until: None });
    *case.head() = case.head().resume(by()).unwrap().unwrap();
    assert!(!case.head().waits_for_approval());
    assert_eq!(case.settle(9010), [3, 4, 5]);
}

#[test]
fn a_canary_that_drains_waits_for_approval_and_one_of_all_does_not() {
    let mut case = Case::new(5, &[Pending, Pending]);
    case.head().canary = Some(1);
    assert_eq!(case.settle(1000), [0]);
    let draining = begun("w0", State::Running, Phase::Draining);
    case.sights.insert(0, draining);
    case.settle(1010);
    assert!(case.head().waits_for_approval());
    let mut case = Case::new(5, &[Pending, Skipped]);
    case.head().canary = Some(1);
    assert_eq!(case.settle(1000), [0]);
    end(&mut case, 0, State::Succeeded);
    case.settle(1010);
    assert_eq!(case.operation.state, State::Succeeded);
}

/// Whoever resumes what was paused may not have seen what became of the canary since.
#[test]
fn a_pause_and_a_canary_are_resumed_one_after_the_other() {
    let mut case = Case::new(5, &[Pending, Pending]);
    case.head().canary = Some(1);
    assert_eq!(case.settle(1000), [0]);
    *case.head() = case.head().pause(by()).unwrap();
    end(&mut case, 0, State::Succeeded);
    case.settle(1010);
    *case.head() = case.head().resume(by()).unwrap().unwrap();
    assert!(case.head().paused.is_none() && case.head().waits_for_approval());
    assert_eq!(case.settle(1020), Vec::<usize>::new());
    *case.head() = case.head().resume(by()).unwrap().unwrap();
    assert_eq!(case.settle(1030), [1]);
}

#[test]
fn one_failure_more_than_the_budget_stops_the_rest() {
    let mut case = Case::new(2, &[Pending; 6]);
    case.head().failure_budget = Some(1);
    assert_eq!(case.settle(1000), [0, 1]);
    end(&mut case, 0, State::Failed);
    assert_eq!(case.settle(1010), [2], "one may fail");
    end(&mut case, 1, State::Failed);
    let running = begun("w2", State::Running, Phase::Starting);
    case.sights.insert(2, running);
    assert_eq!(case.settle(1020), Vec::<usize>::new());
    let failed = case.head().stopped.unwrap().failed;
    assert_eq!((failed, case.head().counts.cancelled), (2, 3));
    case.settle(1022);
    assert_eq!(
        states(&case),
        [Failed, Failed, Running, Cancelled, Cancelled, Cancelled]
    );
    let why = case.chunks[0].targets[3].error.clone().unwrap();
    assert_eq!(
        why,
        Trouble::new("FailureBudget", "stopped: 2 failed, 1 were allowed to")
    );
    assert_eq!(case.operation.state, State::Running, "one is under way");
    end(&mut case, 2, State::Succeeded);
    case.settle(1030);
    assert_eq!(case.operation.state, State::Failed);
    let counts = case.head().counts;
    assert_eq!(
        (counts.succeeded, counts.failed, counts.cancelled),
        (1, 2, 3)
    );
}

/// With nothing else under way the bulk ends at once, but not before each target has its result.
#[test]
fn a_bulk_that_is_stopped_ends_after_its_targets() {
    let mut case = Case::new(1, &[Pending, Pending]);
    case.head().failure_budget = Some(0);
    assert_eq!(case.settle(1000), [0]);
    end(&mut case, 0, State::Failed);
    let mut writes = Vec::new();
    loop {
        match case.plan(1010 + 10 * i64::try_from(writes.len()).unwrap()) {
            Step::PutChunk(chunk) => {
                writes.push("chunk");
                case.chunks[0] = *chunk;
            }
            Step::PutHead(next) => {
                writes.push(if next.state.is_terminal() {
                    "end"
                } else {
                    "head"
                });
                case.operation = *next;
            }
            Step::Done => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(writes, ["chunk", "head", "chunk", "end"]);
    assert_eq!(states(&case), [Failed, Cancelled]);
}

#[test]
fn a_budget_that_is_spent_with_nothing_left_stops_nothing() {
    let mut case = Case::new(2, &[Pending, Pending]);
    case.head().failure_budget = Some(0);
    case.settle(1000);
    end(&mut case, 0, State::Failed);
    end(&mut case, 1, State::Succeeded);
    case.settle(1010);
    assert_eq!(case.operation.state, State::Failed);
    assert_eq!(case.head().stopped, None);
}

#[test]
fn what_became_of_a_chunk_that_was_deleted_or_changed_by_hand() {
    let targets = (0..CHUNK + 7).map(|n| target(&format!("w{n}"), Pending));
    let stored = chunks("op-bulk", targets.collect());
    let head = Head::new(5, &stored, 1000);
    assert_eq!(
        [0, 1, 2].map(|index| head.targets_of_chunk(index)),
        [CHUNK, 7, 0]
    );
    for (how, what) in [(Loss::Deleted, "deleted"), (Loss::Changed, "changed")] {
        let left = head.targets_of_chunk(1);
        let lost = Chunk::lost("op-bulk", 1, head.chunks[1], left, how);
        assert_eq!((lost.index, lost.revision, lost.targets.len()), (1, 1, 7));
        let first = &lost.targets[0];
        assert_eq!(
            (first.workspace.as_str(), first.state),
            ("?250", Failed),
            "no id of a workspace looks like this"
        );
        let why = first.error.as_ref().unwrap();
        assert_eq!(why.reason, "ResultLost");
        let told = format!("somebody {what} the ConfigMap nogoo9-op-bulk-1,");
        assert!(why.message.starts_with(&told), "{}", why.message);
    }
}

/// Ten thousand targets with the longest messages there may be: their chunks and their head fit
/// into objects of a cluster, which hold 1 MiB at most.
#[test]
fn ten_thousand_targets_fit_whatever_became_of_them() {
    const FITS: usize = 900 * 1024;
    let long = Trouble::new("CrashLoopBackOff", "\"".repeat(4096));
    let targets = (0..10_000).map(|n| {
        let name = format!("{n:0>40}");
        let mut target = target(&name, Pending).ended(Failed, &long);
        target.owner = "o".repeat(200);
        target.template = "t".repeat(63);
        target.pod_name = Some("p".repeat(63));
        target.previous_pod_name = Some("p".repeat(63));
        target.under_way = Some(child("op", &name));
        target
    });
    let chunks = chunks("op-bulk", targets.collect());
    assert_eq!(chunks.len(), 40);
    for chunk in &chunks {
        let size = serde_json::to_string(chunk).unwrap().len();
        assert!(size < FITS, "{size} bytes");
    }
    let mut operation = super::tests::operation(&chunks, MAX_PARALLEL, 1000);
    let head = operation.bulk.as_mut().unwrap();
    head.slots = (9950..10_000).collect();
    head.paused = Some(by());
    head.failure_budget = Some(7);
    let text = serde_json::to_string(&operation).unwrap();
    assert!(text.len() < 4096, "{} bytes", text.len());
    assert_eq!(serde_json::from_str::<Operation>(&text).unwrap(), operation);
}

/// A bulk as the version before this one stored it.
#[test]
fn an_older_bulk_is_gone_on_with() {
    let text = r#"{"version":1,"maxParallel":5,"chunks":[0],"counts":{"total":1,"pending":1,"running":0,
        "succeeded":0,"failed":0,"skipped":0,"cancelled":0},"slots":[],
        "cancelled":{"actor":"root","at":5},"flushedAt":1}"#;
    let head: Head = serde_json::from_str(text).unwrap();
    assert_eq!(
        (head.scope, head.canary, &head.paused),
        (Scope::Outdated, None, &None)
    );
    assert_eq!(head.cancelled.as_ref().map(|by| by.at), Some(5));
    // What an older one does not know it must not take up.
    let fresh = Head {
        cancelled: None,
        ..head
    };
    assert_eq!(fresh.pause(by()).unwrap().version, VERSION);
}
