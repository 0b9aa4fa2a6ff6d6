//! What a socket's task knows, shared with its handle.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::dialect::Heard;
use crate::phases::micros;
use crate::{Close, EchoReport, Latency, LoadError, Phases, Sequence};

/// What waiters look at.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) open: bool,
    pub(super) echoed: u64,
    pub(super) pod: Option<String>,
}

#[derive(Debug)]
pub(super) struct State {
    phases: Phases,
    kind: &'static str,
    live: watch::Sender<Live>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    sequence: Sequence,
    /// When the lines under way were typed, by number.
    under_way: VecDeque<(u64, Duration)>,
    round_trip: Latency,
    opened: Duration,
    closed: Option<Duration>,
    last_heard: Option<Duration>,
    longest_gap: Duration,
    longest_gap_at: Duration,
    foreign: u64,
    foreign_sample: Option<String>,
    close: Option<Close>,
    error: Option<String>,
}

impl State {
    pub(super) fn new(
        phases: &Phases,
        kind: &'static str,
        pod: Option<String>,
    ) -> Result<Self, LoadError> {
        let inner = Inner {
            sequence: Sequence::new(),
            under_way: VecDeque::new(),
            round_trip: Latency::new()?,
            opened: phases.elapsed(),
            closed: None,
            last_heard: None,
            longest_gap: Duration::ZERO,
            longest_gap_at: Duration::ZERO,
            foreign: 0,
            foreign_sample: None,
            close: None,
            error: None,
        };
        let (live, _) = watch::channel(Live {
            open: true,
            echoed: 0,
            pod,
        });
        Ok(Self {
            phases: phases.clone(),
            kind,
            live,
            inner: Mutex::new(inner),
        })
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Live> {
        self.live.subscribe()
    }

    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the next line's number and starts its clock.
    pub(super) fn type_line(&self) -> u64 {
        let now = self.phases.elapsed();
        self.with(|inner| {
            let n = inner.sequence.send();
            inner.under_way.push_back((n, now));
            n
        })
    }

    /// Lines typed that have not come back.
    pub(super) fn outstanding(&self) -> u64 {
        self.with(|inner| inner.sequence.outstanding())
    }

    /// Since when the oldest line under way has been, on the clock of the phases.
    pub(super) fn oldest_under_way(&self) -> Option<Duration> {
        self.with(|inner| inner.under_way.front().map(|(_, at)| *at))
    }

    pub(super) fn hear(&self, heard: Heard) {
        match heard {
            Heard::Pod(pod) => {
                self.live.send_if_modified(|live| {
                    let changed = live.pod.as_deref() != Some(&pod);
                    live.pod = Some(pod);
                    changed
                });
            }
            Heard::Foreign(text) => self.with(|inner| inner.hear_foreign(text)),
            Heard::Line(n) => {
                let now = self.phases.elapsed();
                let echoed = self.with(|inner| {
                    inner.hear_line(n, now);
                    inner.sequence.arrived()
                });
                self.live.send_modify(|live| live.echoed = echoed);
            }
        }
    }

    pub(super) fn close(&self, close: Close) {
        self.with(|inner| inner.close.get_or_insert(close).code);
    }

    pub(super) fn fail(&self, error: String) {
        self.with(|inner| inner.error.get_or_insert(error).len());
    }

    /// The last word: waiters see the socket as closed from now on.
    pub(super) fn end(&self) {
        let now = self.phases.elapsed();
        self.with(|inner| inner.closed = Some(now));
        self.live.send_modify(|live| live.open = false);
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.phases.elapsed()
    }

    pub(super) fn report(&self) -> EchoReport {
        let pod = self.live.borrow().pod.clone();
        self.with(|inner| EchoReport {
            kind: self.kind.to_owned(),
            pod,
            opened_us: micros(inner.opened),
            closed_us: inner.closed.map(micros),
            sent: inner.sequence.sent(),
            echoed: inner.sequence.arrived(),
            lost: inner.sequence.outstanding(),
            reordered: inner.sequence.reordered(),
            duplicated: inner.sequence.duplicated(),
            foreign: inner.foreign + inner.sequence.unknown(),
            foreign_sample: inner.foreign_sample.clone(),
            round_trip: inner.round_trip.summary(),
            longest_gap_us: micros(inner.longest_gap),
            longest_gap_at_us: micros(inner.longest_gap_at),
            close: inner.close.clone(),
            error: inner.error.clone(),
        })
    }
}

impl Inner {
    fn hear_foreign(&mut self, text: String) {
        self.foreign += 1;
        self.foreign_sample.get_or_insert(text);
    }

    fn hear_line(&mut self, n: u64, now: Duration) {
        self.sequence.arrive(n);
        // At most as many as may be under way, and the first one as a rule.
        if let Some(index) = self
            .under_way
            .iter()
            .position(|(under_way, _)| *under_way == n)
            && let Some((_, typed)) = self.under_way.remove(index)
        {
            self.round_trip.record(now.saturating_sub(typed));
        }
        if let Some(last) = self.last_heard.replace(now) {
            let gap = now.saturating_sub(last);
            if gap > self.longest_gap {
                self.longest_gap = gap;
                self.longest_gap_at = now;
            }
        }
    }
}
