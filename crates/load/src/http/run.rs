//! Loads under way: what their workers share, and the handle to them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::http::Request;
use bytes::Bytes;
use http_body_util::Full;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{HttpLoad, worker};
use crate::recorder::{Ended, Recorder};
use crate::{HttpReport, LoadError, Phases, WaitError};

/// How often [`HttpRun::wait_for_requests`] looks.
const LOOK: Duration = Duration::from_millis(5);

/// What all workers of a run share, whatever they ask.
#[derive(Debug)]
pub(super) struct Tally {
    /// The run's start on the clock of `phases`; schedules count from here.
    pub(super) begin: Duration,
    pub(super) phases: Phases,
    recorder: Mutex<Recorder>,
    requests: AtomicU64,
    failures: AtomicU64,
    pub(super) stop: CancellationToken,
}

impl Tally {
    fn new(phases: &Phases, max_samples: usize) -> Result<Self, LoadError> {
        let begin = phases.elapsed();
        Ok(Self {
            begin,
            phases: phases.clone(),
            recorder: Mutex::new(Recorder::new(begin, max_samples)?),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            stop: CancellationToken::new(),
        })
    }

    pub(super) fn with_recorder<T>(&self, f: impl FnOnce(&mut Recorder) -> T) -> T {
        f(&mut self.recorder.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn record(&self, ended: Ended) {
        let failed = ended.result.is_err();
        self.with_recorder(|recorder| recorder.record(ended));
        self.failures
            .fetch_add(u64::from(failed), Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Release);
    }
}

/// What the workers of one load share.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) tally: Arc<Tally>,
    pub(super) request: Request<Full<Bytes>>,
    /// Numbers given to requests so far.
    tickets: AtomicU64,
    /// The limit is reached or the run was stopped: no new request leaves.
    over: AtomicBool,
    pub(super) load: HttpLoad,
}

impl Run {
    /// The next request's number, unless the run is over.
    pub(super) fn ticket(&self) -> Option<u64> {
        if self.over.load(Ordering::Relaxed) || self.tally.stop.is_cancelled() {
            return None;
        }
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        if self.load.limit.is_some_and(|limit| ticket >= limit) {
            self.over.store(true, Ordering::Relaxed);
            return None;
        }
        Some(ticket)
    }
}

/// Loads under way. Dropping it stops them at once, without waiting for answers.
#[derive(Debug)]
pub struct HttpRun {
    tally: Arc<Tally>,
    workers: JoinSet<()>,
    _guard: DropGuard,
}

impl HttpRun {
    pub(super) fn start(
        loads: Vec<(HttpLoad, Request<Full<Bytes>>)>,
        phases: &Phases,
    ) -> Result<Self, LoadError> {
        let samples = loads.iter().map(|(load, _)| load.max_samples).max();
        let tally = Arc::new(Tally::new(phases, samples.unwrap_or_default())?);
        let mut workers = JoinSet::new();
        let mut connections = 0..;
        for (load, request) in loads {
            let count = load.connections;
            let run = Arc::new(Run {
                tally: Arc::clone(&tally),
                request,
                tickets: AtomicU64::new(0),
                over: AtomicBool::new(false),
                load,
            });
            for connection in connections.by_ref().take(count) {
                workers.spawn(worker::work(Arc::clone(&run), connection));
            }
        }
        let guard = tally.stop.clone().drop_guard();
        Ok(Self {
            tally,
            workers,
            _guard: guard,
        })
    }

    /// Requests ended so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.tally.requests.load(Ordering::Acquire)
    }

    /// Those that failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.tally.failures.load(Ordering::Relaxed)
    }

    /// What the run has seen so far.
    #[must_use]
    pub fn snapshot(&self) -> HttpReport {
        let timeline = self.tally.phases.timeline();
        self.tally
            .with_recorder(|recorder| recorder.report(&timeline))
    }

    /// Returns once `requests` requests have ended since the start.
    ///
    /// # Errors
    /// [`WaitError`] if that is not so `within` that time.
    pub async fn wait_for_requests(
        &self,
        requests: u64,
        within: Duration,
    ) -> Result<(), WaitError> {
        self.wait_until(&format!("{requests} requests"), within, |run| {
            run.requests() >= requests
        })
        .await
    }

    /// Returns once `condition` holds; it is looked at every few milliseconds.
    ///
    /// # Errors
    /// [`WaitError`] if it does not hold `within` that time.
    pub async fn wait_until(
        &self,
        what: &str,
        within: Duration,
        condition: impl Fn(&Self) -> bool,
    ) -> Result<(), WaitError> {
        let deadline = Instant::now() + within;
        while !condition(self) {
            if Instant::now() >= deadline {
                let at = format!("{} requests, {} failed", self.requests(), self.failures());
                return Err(WaitError {
                    what: what.to_owned(),
                    waited: within,
                    at,
                });
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Returns once the run has ended by itself: at its count.
    pub async fn ended(&mut self) {
        while self.workers.join_next().await.is_some() {}
    }

    /// Sends nothing new, waits for the answers under way (the request timeout bounds
    /// that) and reports.
    pub async fn finish(mut self) -> HttpReport {
        self.tally.stop.cancel();
        self.ended().await;
        self.snapshot()
    }
}
