//! When each workspace is looked at: after events, at planned times, after failures with a growing
//! pause, and all of them every minute. Never two passes of one workspace at once.

use super::pass::{self, Next};
use super::proxies::Proxies;
use super::sweep;
use crate::cluster::{Caches, Cluster, ClusterError};
use crate::lease::Leadership;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::time::{DelayQueue, delay_queue};

/// Pokes that may wait; beyond that everything is looked at, which is the same and more.
const POKES: usize = 4096;
/// Passes at once.
const PASSES: usize = 16;
/// Time between two looks at everything.
const RESYNC: Duration = Duration::from_secs(60);
/// First pause after a failed pass; doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(500);
/// Lost races in a row that are nobody's fault.
const CONFLICTS: u32 = 10;
/// Longest pause after a failed pass.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// What the engine works with.
pub struct EngineConfig {
    /// The cluster.
    pub cluster: Cluster,
    /// The proxies to ask.
    pub proxies: Proxies,
}

/// A handle on the engine; clones share it.
#[derive(Clone)]
pub struct Engine {
    pokes: mpsc::Sender<String>,
    all: Arc<AtomicBool>,
}

impl Engine {
    /// A handle and the part that does the work, to be given to [`Worker::run`]. They are made
    /// apart since the caches, which poke, exist before the worker, which reads them.
    #[must_use]
    pub fn new(config: EngineConfig) -> (Self, Worker) {
        let (pokes, inbox) = mpsc::channel(POKES);
        let all = Arc::new(AtomicBool::new(false));
        let engine = Self {
            pokes,
            all: all.clone(),
        };
        (
            engine,
            Worker {
                config: Arc::new(config),
                inbox,
                all,
            },
        )
    }

    /// Something happened to the workspace, or was asked for: look at it now.
    pub fn poke(&self, id: &str) {
        if self.pokes.try_send(id.to_owned()).is_err() {
            self.all.store(true, Ordering::Relaxed);
        }
    }
}

/// The part of the engine that runs.
pub struct Worker {
    config: Arc<EngineConfig>,
    inbox: mpsc::Receiver<String>,
    all: Arc<AtomicBool>,
}

/// One workspace in the queue.
#[derive(Default)]
struct Slot {
    due: Option<delay_queue::Key>,
    running: bool,
    again: bool,
    failures: u32,
    /// Passes in a row in which somebody else wrote first.
    conflicts: u32,
}

struct Queue {
    slots: HashMap<String, Slot>,
    timers: DelayQueue<String>,
}

type Outcome = Result<Next, ClusterError>;

impl Worker {
    /// Works whenever this control leads, until it is told to stop, and then until the passes under
    /// way are over.
    pub async fn run(
        mut self,
        caches: Arc<Caches>,
        mut leadership: Leadership,
        stop: CancellationToken,
    ) {
        tokio::select! {
            () = caches.synced() => {}
            () = stop.cancelled() => return,
        }
        while !stop.is_cancelled() {
            tokio::select! {
                () = leadership.gained() => self.lead(&caches, &mut leadership, &stop).await,
                () = stop.cancelled() => return,
            }
        }
    }

    /// Works until this control does not lead any more or is told to stop.
    async fn lead(
        &mut self,
        caches: &Caches,
        leadership: &mut Leadership,
        stop: &CancellationToken,
    ) {
        let mut queue = Queue {
            slots: HashMap::new(),
            timers: DelayQueue::new(),
        };
        let mut passes = Passes::default();
        let permits = Arc::new(Semaphore::new(PASSES));
        let mut sweeps = JoinSet::new();
        // Begins at once: whatever has happened while another one led.
        let mut resync = tokio::time::interval(RESYNC);
        resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = leadership.lost() => {
                    // Interrupted anywhere, as a kill would: whoever leads now goes on.
                    passes.tasks.abort_all();
                    break;
                }
                Some(id) = self.inbox.recv() => queue.now(&id),
                Some(expired) = futures::StreamExt::next(&mut queue.timers) => {
                    let id = expired.into_inner();
                    if queue.begin(&id) {
                        let pass = run_pass(self.config.clone(), permits.clone(), id.clone());
                        passes.spawn(id, pass);
                    }
                }
                Some((id, outcome)) = passes.next() => match outcome {
                    Some(outcome) => queue.ended(&id, outcome, self.config.cluster.now()),
                    None => queue.failed(&id, "it broke off; please report the panic above"),
                },
                _ = resync.tick() => {
                    let ids = caches.ids();
                    self.config.cluster.deletions().set_workspaces(ids.len());
                    ids.iter().for_each(|id| queue.now(id));
                    let cluster = self.config.cluster.clone();
                    let operations = caches.operations().list();
                    while sweeps.try_join_next().is_some() {}
                    if sweeps.is_empty() {
                        sweeps.spawn(async move { sweep::operations(&cluster, operations).await });
                    }
                }
            }
            if self.all.swap(false, Ordering::Relaxed) {
                caches.ids().iter().for_each(|id| queue.now(id));
            }
        }
        while passes.next().await.is_some() {}
    }
}

async fn run_pass(config: Arc<EngineConfig>, permits: Arc<Semaphore>, id: String) -> Outcome {
    let _permit = permits.acquire_owned().await;
    // One that is too busy for one workspace is too busy for the others.
    tokio::time::sleep(config.cluster.pressure()).await;
    pass::run(&config.cluster, &config.proxies, &id).await
}

/// Passes under way, by the tasks that run them: also one that panics says whose it was.
#[derive(Default)]
struct Passes {
    tasks: JoinSet<Outcome>,
    ids: HashMap<tokio::task::Id, String>,
}

impl Passes {
    fn spawn(&mut self, id: String, pass: impl Future<Output = Outcome> + Send + 'static) {
        let task = self.tasks.spawn(pass);
        self.ids.insert(task.id(), id);
    }

    /// The next pass that ends: its workspace, and how it ended unless it broke off. `None`: there
    /// is no pass.
    async fn next(&mut self) -> Option<(String, Option<Outcome>)> {
        let (task, outcome) = match self.tasks.join_next_with_id().await? {
            Ok((task, outcome)) => (task, Some(outcome)),
            Err(error) => (error.id(), None),
        };
        Some((self.ids.remove(&task).unwrap_or_default(), outcome))
    }
}

impl Queue {
    fn now(&mut self, id: &str) {
        self.at(id, Instant::now());
    }

    /// Looks at the workspace at `when`, or earlier if that was planned already.
    fn at(&mut self, id: &str, when: Instant) {
        let slot = self.slots.entry(id.to_owned()).or_default();
        if slot.running {
            slot.again |= when <= Instant::now();
            return;
        }
        match &slot.due {
            // Events do not shorten the pause after a failure: they may be what keeps failing.
            Some(_) if slot.failures > 0 => {}
            Some(key) if self.timers.deadline(key) <= when => {}
            Some(key) => self.timers.reset_at(key, when),
            None => slot.due = Some(self.timers.insert_at(id.to_owned(), when)),
        }
    }

    /// The timer of the workspace went off: whether a pass is to begin.
    fn begin(&mut self, id: &str) -> bool {
        let Some(slot) = self.slots.get_mut(id) else {
            return false;
        };
        slot.due = None;
        !std::mem::replace(&mut slot.running, true)
    }

    /// The pass of the workspace failed: it is repeated after a pause.
    fn failed(&mut self, id: &str, error: impl std::fmt::Display) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.running = false;
        slot.again = false;
        let pause = MIN_PAUSE
            .saturating_mul(1 << slot.failures.min(6))
            .min(MAX_PAUSE);
        slot.failures = slot.failures.saturating_add(1);
        tracing::warn!(workspace = id, %error, retry_ms = pause.as_millis(), "pass failed");
        slot.due = Some(self.timers.insert_at(id.to_owned(), Instant::now() + pause));
    }

    fn ended(&mut self, id: &str, outcome: Outcome, now: i64) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.running = false;
        let again = std::mem::take(&mut slot.again);
        let pause = match outcome {
            Ok(next) => {
                slot.failures = 0;
                slot.conflicts = 0;
                match next {
                    Next::OnEvent => None,
                    Next::Soon => Some(Duration::ZERO),
                    Next::At(when) => Some(Duration::from_secs(
                        u64::try_from(when.saturating_sub(now)).unwrap_or(0).max(1),
                    )),
                }
            }
            // Somebody else wrote first: nothing is wrong, the next look sees what they wrote. Unless
            // it is always so: then something is.
            Err(ClusterError::Conflict { .. } | ClusterError::Exists { .. })
                if slot.conflicts < CONFLICTS =>
            {
                slot.conflicts += 1;
                Some(MIN_PAUSE / 10)
            }
            Err(error) => return self.failed(id, error),
        };
        match pause {
            _ if again => self.now(id),
            Some(pause) => self.at(id, Instant::now() + pause),
            None => {
                self.slots.remove(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins the pass that is planned, whenever that is, and tells for when it was.
    fn begin(queue: &mut Queue) -> Instant {
        let key = queue.slots["a"].due.as_ref().expect("a planned pass");
        let when = queue.timers.deadline(key);
        queue.timers.remove(key);
        assert!(queue.begin("a"));
        when
    }

    fn queue() -> Queue {
        Queue {
            slots: HashMap::new(),
            timers: DelayQueue::new(),
        }
    }

    #[tokio::test]
    async fn a_poke_during_a_pass_leads_to_another() {
        let mut queue = queue();
        queue.now("a");
        queue.now("a");
        begin(&mut queue);
        assert!(queue.timers.is_empty(), "two pokes are one pass");
        queue.now("a");
        assert!(queue.timers.is_empty(), "no second pass beside the first");
        queue.ended("a", Ok(Next::OnEvent), 0);
        begin(&mut queue);
        queue.ended("a", Ok(Next::OnEvent), 0);
        assert!(
            queue.slots.is_empty() && queue.timers.is_empty(),
            "nothing is kept of the quiet ones"
        );
    }

    #[tokio::test]
    async fn a_pass_that_breaks_off_is_repeated() {
        let mut queue = queue();
        let mut passes = Passes::default();
        queue.now("a");
        begin(&mut queue);
        passes.spawn("a".into(), async { panic!("as a library may") });
        let (id, outcome) = passes.next().await.expect("a pass");
        assert!(id == "a" && outcome.is_none());
        queue.failed(&id, "it broke off");
        begin(&mut queue);
        passes.spawn("a".into(), async { Ok(Next::OnEvent) });
        let (id, outcome) = passes.next().await.expect("a pass");
        queue.ended(&id, outcome.expect("an outcome"), 0);
        assert!(queue.slots.is_empty() && passes.ids.is_empty() && passes.next().await.is_none());
    }

    #[tokio::test]
    async fn an_event_comes_before_a_planned_look() {
        let mut queue = queue();
        queue.now("a");
        begin(&mut queue);
        queue.ended("a", Ok(Next::At(600)), 0);
        queue.now("a");
        assert!(begin(&mut queue) < Instant::now() + Duration::from_secs(1));
        let planned = Instant::now();
        queue.ended("a", Ok(Next::At(700)), 100);
        assert!(
            begin(&mut queue) >= planned + Duration::from_secs(600),
            "seconds from now, not from 1970"
        );
    }

    #[tokio::test]
    async fn lost_races_are_repeated_at_once_until_they_are_too_many_in_a_row() {
        let mut queue = queue();
        queue.now("a");
        let conflict = || ClusterError::Conflict {
            what: "write record",
            object: "a".into(),
        };
        for round in 1..=CONFLICTS + 3 {
            begin(&mut queue);
            queue.ended("a", Err(conflict()), 0);
            assert_eq!(queue.slots["a"].failures, round.saturating_sub(CONFLICTS));
        }
        begin(&mut queue);
        queue.ended("a", Ok(Next::Soon), 0);
        begin(&mut queue);
        queue.ended("a", Err(conflict()), 0);
        assert_eq!(queue.slots["a"].failures, 0);
    }

    #[tokio::test]
    async fn failures_pause_longer_and_longer_up_to_a_bound_and_events_do_not_shorten_it() {
        let mut queue = queue();
        queue.now("a");
        // Deadlines are whole milliseconds.
        let grain = Duration::from_millis(1);
        for seconds in [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0] {
            let pause = Duration::from_secs_f64(seconds);
            begin(&mut queue);
            let error = ClusterError::Unavailable {
                what: "list pods of",
                object: "a".into(),
                reason: "gone".into(),
            };
            let before = Instant::now();
            queue.ended("a", Err(error), 0);
            queue.now("a");
            let after = Instant::now();
            let key = queue.slots["a"].due.as_ref().unwrap();
            let due = queue.timers.deadline(key);
            assert!(
                due + grain >= before + pause && due <= after + pause + grain,
                "{seconds}"
            );
        }
    }
}
