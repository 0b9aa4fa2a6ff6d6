//! Carrying out bulks: observe, plan, make one write or begin one upgrade, observe again.
//!
//! All decisions are [`nogoo9_model::bulk::plan()`]'s. Nothing in memory matters: after a restart
//! every bulk that has not ended is read and gone on with, and any number of replicas may drive the
//! same one. They get in each other's way at times, which costs a refused write, and nothing else.

mod begin;
mod chunks;
mod driver;
mod memory;
mod quota;

pub use driver::run;
pub use memory::Memory;

use crate::cluster::{Cluster, ClusterError};
use crate::service::{Parts, Service};
use nogoo9_model::bulk::{CHUNK, Chunk, Observed, Sight, Step, Target, plan};
use nogoo9_model::operation::Operation;

/// Steps of one pass; what is not done then is done by the next, after others had their turn.
const MAX_STEPS: usize = 256;

/// When to look at the bulk again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Never: it has ended, or is no more.
    Ended,
    /// When something happens.
    OnEvent,
    /// At this time at the latest (API server's clock).
    At(i64),
    /// Soon: there is more to do.
    Soon,
}

/// Brings the bulk as far as it goes now. Safe to interrupt anywhere and to run beside itself;
/// `memory` only saves reading again what is known.
///
/// # Errors
/// The first call that failed. The next pass observes anew, so nothing needs undoing.
pub async fn pass(service: &Service, memory: &mut Memory, id: &str) -> Result<Next, ClusterError> {
    let parts = service.parts();
    for _ in 0..MAX_STEPS {
        if !memory.refresh(&parts.cluster, &parts.caches, id).await? {
            return Ok(Next::Ended);
        }
        let now = parts.cluster.now();
        let Some(step) = next(memory, &parts.caches, now) else {
            return Ok(Next::Ended);
        };
        match step {
            Step::Done => return Ok(Next::Ended),
            Step::Wait { until } => {
                let until = until.into_iter().chain(memory.postponed_until()).min();
                return Ok(until.map_or(Next::OnEvent, Next::At));
            }
            Step::Begin { .. }
                if memory
                    .waits_for_pod(&parts.cluster, &parts.caches, now)
                    .await =>
            {
                return Ok(Next::At(now.saturating_add(memory::EXPECTED)));
            }
            Step::Begin { index } => begin::begin(service, memory, index).await?,
            Step::PutChunk(chunk) => put_chunk(parts, memory, &chunk).await?,
            Step::PutHead(operation) => put_head(&parts.cluster, memory, &operation).await?,
        }
    }
    Ok(Next::Soon)
}

fn next(memory: &Memory, caches: &crate::cluster::Caches, now: i64) -> Option<Step> {
    let loaded = memory.loaded()?;
    let chunks: Vec<&Chunk> = loaded.chunks.iter().map(|chunk| &chunk.value).collect();
    let observed = Observed {
        operation: &loaded.head.value,
        chunks: &chunks,
    };
    let id = &loaded.head.value.id;
    let sight = |index: usize, target: &Target| memory.sight(caches, id, index, target, now);
    Some(plan(observed, sight, now))
}

/// Writes results. A refusal among them is only as good as the record that it was about: if that has
/// changed since, the target is looked at anew and nothing is written.
async fn put_chunk(parts: &Parts, memory: &mut Memory, next: &Chunk) -> Result<(), ClusterError> {
    let Some(stored) = memory.chunk(next.index).cloned() else {
        return Ok(());
    };
    let first = next.index * CHUNK;
    let changed = || {
        let targets = next.targets.iter().zip(&stored.value.targets).enumerate();
        targets
            .filter(|(_, (after, before))| after != before)
            .map(move |(place, (after, _))| (first + place, after))
    };
    for (index, target) in changed() {
        let Some(seen) = memory.refused_on(index) else {
            continue;
        };
        let record = parts.cluster.living(&target.workspace).await?;
        if record.map(|record| record.resource_version) != seen {
            memory.look_anew(index);
            return Ok(());
        }
    }
    let written = parts.cluster.put_chunk(&stored, next).await;
    for (_, target) in changed().filter(|_| written.is_ok()) {
        if target.state.is_terminal() {
            parts.metrics.bulk_target(target.state);
            tracing::info!(
                operation = next.operation,
                workspace = target.workspace,
                state = ?target.state,
                // Its message may quote what a container or an admission hook says.
                reason = target.error.as_ref().map(|why| why.reason.as_str()),
                "target of a bulk ended"
            );
        }
    }
    memory.wrote_chunk(written)
}

async fn put_head(
    cluster: &Cluster,
    memory: &mut Memory,
    next: &Operation,
) -> Result<(), ClusterError> {
    let Some(stored) = memory.loaded().map(|loaded| loaded.head.clone()) else {
        return Ok(());
    };
    let written = cluster.put_operation(Some(&stored), next).await;
    if written.is_ok() {
        let counts = next.bulk.as_ref().map(|head| head.counts);
        tracing::info!(operation = next.id, state = ?next.state, ?counts, "bulk written");
    }
    memory.wrote_head(written)
}

/// Whether a sight is a sign of an upgrade.
fn is_sign(sight: &Sight) -> bool {
    matches!(sight, Sight::Begun(_))
}
