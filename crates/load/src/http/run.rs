//! A load under way: what its workers share, and the handle to it.

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

/// What a run's workers share.
#[derive(Debug)]
pub(super) struct Run {
    /// The run's start on the clock of `phases`; the schedule counts from here.
    pub(super) begin: Duration,
    pub(super) phases: Phases,
    pub(super) request: Request<Full<Bytes>>,
    recorder: Mutex<Recorder>,
    /// Numbers given to requests so far.
    tickets: AtomicU64,
    requests: AtomicU64,
    failures: AtomicU64,
    /// The limit is reached or the run was stopped: no new request leaves.
    over: AtomicBool,
    pub(super) stop: CancellationToken,
    pub(super) load: HttpLoad,
}

impl Run {
    pub(super) fn new(
        load: HttpLoad,
        request: Request<Full<Bytes>>,
        phases: &Phases,
    ) -> Result<Self, LoadError> {
        let begin = phases.elapsed();
        Ok(Self {
            begin,
            phases: phases.clone(),
            request,
            recorder: Mutex::new(Recorder::new(begin, load.max_samples)?),
            tickets: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            over: AtomicBool::new(false),
            stop: CancellationToken::new(),
            load,
        })
    }

    /// The next request's number, unless the run is over.
    pub(super) fn ticket(&self) -> Option<u64> {
        if self.over.load(Ordering::Relaxed) || self.stop.is_cancelled() {
            return None;
        }
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        if self.load.limit.is_some_and(|limit| ticket >= limit) {
            self.over.store(true, Ordering::Relaxed);
            return None;
        }
        Some(ticket)
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

/// A load under way. Dropping it stops the load at once, without waiting for answers.
#[derive(Debug)]
pub struct HttpRun {
    run: Arc<Run>,
    workers: JoinSet<()>,
    _guard: DropGuard,
}

impl HttpRun {
    pub(super) fn start(run: Run) -> Self {
        let run = Arc::new(run);
        let mut workers = JoinSet::new();
        for connection in 0..run.load.connections {
            workers.spawn(worker::work(Arc::clone(&run), connection));
        }
        let guard = run.stop.clone().drop_guard();
        Self {
            run,
            workers,
            _guard: guard,
        }
    }

    /// Requests ended so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.run.requests.load(Ordering::Acquire)
    }

    /// Those that failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.run.failures.load(Ordering::Relaxed)
    }

    /// What the run has seen so far.
    #[must_use]
    pub fn snapshot(&self) -> HttpReport {
        let timeline = self.run.phases.timeline();
        self.run
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
        self.run.stop.cancel();
        self.ended().await;
        self.snapshot()
    }
}
