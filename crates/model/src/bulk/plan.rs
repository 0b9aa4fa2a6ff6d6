//! What happens next to a bulk: one conditional write, one workspace to begin, or a wait.

use super::{Chunk, Counts, FLUSH_EVERY, Head, Sight, Stopped, Target, TargetState, VERSION};
use crate::UnixSeconds;
use crate::operation::{Operation, State};

/// Everything that a decision rests on. Head and chunks as they were last read or written: if they
/// are not the newest, the write that follows from them is refused.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The head.
    pub operation: &'a Operation,
    /// All chunks, in order.
    pub chunks: &'a [&'a Chunk],
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Look at this target live; begin its upgrade if it shows no sign of one. What comes of it is
    /// the target's [`Sight`] from then on.
    Begin {
        /// Its place among all targets.
        index: usize,
    },
    /// Replace this chunk, if it is still the one that was observed.
    PutChunk(Box<Chunk>),
    /// Replace the head, if it is still the one that was observed.
    PutHead(Box<Operation>),
    /// Nothing can be done yet.
    Wait {
        /// When to look again if nothing happens before.
        until: Option<UnixSeconds>,
    },
    /// It has ended.
    Done,
}

/// Decides what happens next. `sight` tells what is known of the upgrade of the target at that place.
#[must_use]
pub fn plan(
    observed: Observed<'_>,
    sight: impl Fn(usize, &Target) -> Sight,
    now: UnixSeconds,
) -> Step {
    let operation = observed.operation;
    let Some(head) = &operation.bulk else {
        return Step::Done;
    };
    if operation.state.is_terminal() {
        return Step::Done;
    }
    let versions = || observed.chunks.iter().map(|chunk| chunk.version);
    if head.version > VERSION || versions().any(|version| version > VERSION) {
        // A later version began it: not this one's to go on with.
        return Step::Wait { until: None };
    }
    let due = head.flushed_at.saturating_add(FLUSH_EVERY);
    let mut first = 0;
    let mut results = None;
    for chunk in observed.chunks {
        let mut next: Option<Chunk> = None;
        for (place, target) in chunk.targets.iter().enumerate() {
            match look(head, first + place, target, &sight) {
                // Beginning comes before writing results: it is what the slot is held for.
                Looked::Begin => {
                    return Step::Begin {
                        index: first + place,
                    };
                }
                Looked::As(seen) if *seen != *target => {
                    let next = next.get_or_insert_with(|| Chunk {
                        revision: chunk.revision.wrapping_add(1),
                        ..Chunk::clone(chunk)
                    });
                    if let Some(slot) = next.targets.get_mut(place) {
                        *slot = *seen;
                    }
                }
                Looked::As(_) | Looked::Same => {}
            }
        }
        first += chunk.targets.len();
        results = results.or(next);
    }
    let write = match results {
        Some(chunk) => Step::PutChunk(Box::new(chunk)),
        None => match next_head(operation, head, observed.chunks, now) {
            Some(next) => Step::PutHead(Box::new(next)),
            None => return Step::Wait { until: None },
        },
    };
    if now < due {
        return Step::Wait { until: Some(due) };
    }
    write
}

enum Looked {
    Begin,
    As(Box<Target>),
    Same,
}

/// What is to be stored of a target.
fn look(
    head: &Head,
    index: usize,
    target: &Target,
    sight: &impl Fn(usize, &Target) -> Sight,
) -> Looked {
    match head.state_of(index, target) {
        TargetState::Running => {}
        TargetState::Cancelled if target.state == TargetState::Pending => {
            let ended = target.ended(TargetState::Cancelled, &head.why_closed());
            return Looked::As(Box::new(ended));
        }
        _ => return Looked::Same,
    }
    match sight(index, target) {
        Sight::Begun(result) => Looked::As(Box::new(target.seen(&result))),
        Sight::Refused(state, why) => Looked::As(Box::new(target.ended(state, &why))),
        Sight::Postponed => Looked::Same,
        Sight::Unbegun | Sight::Lost => Looked::Begin,
    }
}

/// The head that follows from the chunks: slots given back and given out, targets counted, and the
/// end once all have ended. `None`: it is so already.
fn next_head(
    operation: &Operation,
    head: &Head,
    chunks: &[&Chunk],
    now: UnixSeconds,
) -> Option<Operation> {
    let targets = || chunks.iter().flat_map(|chunk| &chunk.targets).enumerate();
    let mut next = head.clone();
    next.chunks = chunks.iter().map(|chunk| chunk.revision).collect();
    next.slots = targets()
        .filter(|(index, target)| head.slots.contains(index) && !target.leaves_slot())
        .map(|(index, _)| index)
        .collect();
    next.counts = count(&next, targets());
    let spent = |budget: u32| next.counts.failed > budget && next.counts.pending > 0;
    if !next.is_closed() && next.failure_budget.is_some_and(spent) {
        next.stopped = Some(Stopped {
            failed: next.counts.failed,
            at: now,
        });
    }
    let taken: Vec<usize> = targets()
        .filter(|(index, target)| {
            target.state == TargetState::Pending && !next.slots.contains(index)
        })
        .map(|(index, _)| index)
        .take(free(&next))
        .collect();
    next.slots.extend(taken);
    next.counts = count(&next, targets());
    let mut operation = operation.clone();
    let counts = next.counts;
    // What has just been stopped is written to the chunks first.
    if counts.done() == counts.total && next.stopped == head.stopped {
        operation.state = match counts {
            _ if next.cancelled.is_some() && counts.cancelled > 0 => State::Cancelled,
            _ if counts.failed > 0 => State::Failed,
            _ => State::Succeeded,
        };
        operation.finished_at = Some(now);
    }
    let changed = next != *head || operation.state.is_terminal();
    next.flushed_at = now;
    operation.bulk = Some(next);
    changed.then_some(operation)
}

/// How many slots may be given out now. The counts have to be those of this head.
fn free(head: &Head) -> usize {
    if head.is_closed() || head.paused.is_some() {
        return 0;
    }
    let most = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let free = most(head.max_parallel).saturating_sub(head.slots.len());
    free.min(head.canary_left().map_or(usize::MAX, most))
}

fn count<'a>(head: &Head, targets: impl Iterator<Item = (usize, &'a Target)>) -> Counts {
    let mut counts = Counts::default();
    for (index, target) in targets {
        counts.add(head.state_of(index, target));
    }
    counts
}
