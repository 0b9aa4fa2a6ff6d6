//! Which bulks are driven: all that have not ended, each by a task of its own.

use super::{Memory, Next, pass};
use crate::service::Service;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Least time between two looks: what happens in between is looked at together.
const PACE: Duration = Duration::from_millis(250);
/// Longest time between two looks at a bulk.
const RESYNC: Duration = Duration::from_secs(30);
/// How often it is looked for bulks that nobody drives.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// First pause after a pass that failed; doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(500);
/// Longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Drives all bulks until it is told to stop. What is under way then, the next start goes on with.
pub async fn run(service: Service, stop: CancellationToken) {
    let caches = service.parts().caches.clone();
    tokio::select! {
        () = caches.synced() => {}
        () = stop.cancelled() => return,
    }
    let mut changes = caches.changes();
    let mut tasks = JoinSet::new();
    let mut driven: HashMap<Id, String> = HashMap::new();
    let mut tick = tokio::time::interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let taken: HashSet<&String> = driven.values().collect();
        let new: Vec<String> = caches
            .operations()
            .list()
            .iter()
            .map(|stored| &stored.value)
            .filter(|operation| operation.bulk.is_some() && !operation.state.is_terminal())
            .filter(|operation| !taken.contains(&operation.id))
            .map(|operation| operation.id.clone())
            .collect();
        for id in new {
            let task = tasks.spawn(drive(service.clone(), id.clone()));
            driven.insert(task.id(), id);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            Some(ended) = tasks.join_next_with_id() => {
                let id = match ended {
                    Ok((id, ())) => id,
                    Err(error) => {
                        tracing::error!(%error, "driving a bulk broke off; it is taken up again");
                        sleep(MIN_PAUSE).await;
                        error.id()
                    }
                };
                driven.remove(&id);
                // The watch may show a moment longer what has ended.
                sleep(PACE).await;
            }
            _ = changes.changed() => sleep(PACE).await,
            _ = tick.tick() => {}
        }
        changes.mark_unchanged();
    }
}

/// Drives one bulk to its end.
async fn drive(service: Service, id: String) {
    let parts = service.parts();
    let mut changes = parts.caches.changes();
    let mut memory = Memory::default();
    let mut pause = MIN_PAUSE;
    loop {
        changes.mark_unchanged();
        let wait = match pass(&service, &mut memory, &id).await {
            Ok(Next::Ended) => return,
            Ok(next) => {
                pause = MIN_PAUSE;
                match next {
                    Next::Soon => Duration::ZERO,
                    Next::At(when) => {
                        let left = when.saturating_sub(parts.cluster.now()).max(0);
                        Duration::from_secs(u64::try_from(left).unwrap_or(0)).min(RESYNC)
                    }
                    Next::OnEvent | Next::Ended => RESYNC,
                }
            }
            Err(error) => {
                tracing::warn!(operation = id, %error, retry_ms = pause.as_millis(), "pass over a bulk failed");
                memory = Memory::default();
                // Events do not shorten this: they may be what keeps failing.
                sleep(pause.max(parts.cluster.pressure())).await;
                pause = pause.saturating_mul(2).min(MAX_PAUSE);
                continue;
            }
        };
        let due = Instant::now() + wait;
        sleep(PACE.min(wait)).await;
        let left = due.saturating_duration_since(Instant::now());
        let _due = timeout(left, changes.changed()).await;
    }
}
