//! Sums up what a run saw, in bounded memory. Synchronous and without a clock: moments
//! are passed in.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::outcome::Stale;
use crate::phases::micros;
use crate::slices::Slices;
use crate::{
    FailureKind, FailureSample, HttpReport, LabelReport, Latency, LoadError, PhaseId, PhaseReport,
    Timeline,
};

/// Labels told apart; answers with others count as unlabelled.
const MAX_LABELS: usize = 1024;
/// Characters kept of a failure's description.
const MAX_DETAIL: usize = 400;

/// One request, ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) phase: PhaseId,
    /// The moment from which its latency counts.
    pub(crate) from: Duration,
    pub(crate) sent: Duration,
    pub(crate) ended: Duration,
    pub(crate) lag: Duration,
    pub(crate) connection: usize,
    pub(crate) reused: bool,
    pub(crate) stale: Option<Stale>,
    pub(crate) result: Result<Success, Failure>,
}

#[derive(Debug)]
pub(crate) struct Success {
    pub(crate) label: Option<String>,
    pub(crate) body_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) detail: String,
}

#[derive(Debug)]
struct PhaseSum {
    requests: u64,
    failures: u64,
    latency: Latency,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    started: Duration,
    ended: Duration,
    sequence: u64,
    kinds: BTreeMap<FailureKind, u64>,
    stale_retries: u64,
    stale_unsent: u64,
    connections_opened: u64,
    body_bytes: u64,
    max_lag: Duration,
    blank: Latency,
    phases: Vec<PhaseSum>,
    slices: Slices,
    labels: BTreeMap<String, LabelReport>,
    unlabelled: u64,
    samples: Vec<(PhaseId, FailureSample)>,
    max_samples: usize,
    samples_omitted: u64,
}

impl Recorder {
    pub(crate) fn new(started: Duration, max_samples: usize) -> Result<Self, LoadError> {
        Ok(Self {
            started,
            ended: started,
            sequence: 0,
            kinds: BTreeMap::new(),
            stale_retries: 0,
            stale_unsent: 0,
            connections_opened: 0,
            body_bytes: 0,
            max_lag: Duration::ZERO,
            blank: Latency::new()?,
            phases: Vec::new(),
            slices: Slices::new(),
            labels: BTreeMap::new(),
            unlabelled: 0,
            samples: Vec::new(),
            max_samples,
            samples_omitted: 0,
        })
    }

    pub(crate) fn connection_opened(&mut self) {
        self.connections_opened += 1;
    }

    pub(crate) fn record(&mut self, request: Ended) {
        self.sequence += 1;
        self.ended = self.ended.max(request.ended);
        self.max_lag = self.max_lag.max(request.lag);
        if let Some(stale) = request.stale {
            self.stale_retries += 1;
            self.stale_unsent += u64::from(stale == Stale::Unsent);
        }
        let latency = request.ended.saturating_sub(request.from);
        self.slices
            .record(request.from, request.result.is_ok().then_some(latency));
        let PhaseId(index) = request.phase;
        while self.phases.len() <= index {
            self.phases.push(PhaseSum {
                requests: 0,
                failures: 0,
                latency: self.blank.empty(),
            });
        }
        if let Some(phase) = self.phases.get_mut(index) {
            phase.requests += 1;
            match request.result {
                Ok(_) => phase.latency.record(latency),
                Err(_) => phase.failures += 1,
            }
        }
        match request.result {
            Ok(Success { label, body_bytes }) => {
                self.body_bytes += body_bytes;
                self.count_label(label, micros(request.sent), micros(request.ended));
            }
            Err(Failure { kind, mut detail }) => {
                *self.kinds.entry(kind).or_default() += 1;
                if self.samples.len() >= self.max_samples {
                    self.samples_omitted += 1;
                    return;
                }
                if let Some((end, _)) = detail.char_indices().nth(MAX_DETAIL) {
                    detail.truncate(end);
                }
                let sample = FailureSample {
                    sequence: self.sequence,
                    phase: String::new(),
                    kind,
                    sent_us: micros(request.sent),
                    ended_us: micros(request.ended),
                    connection: request.connection,
                    reused: request.reused,
                    detail,
                };
                self.samples.push((request.phase, sample));
            }
        }
    }

    fn count_label(&mut self, label: Option<String>, sent_us: u64, seen_us: u64) {
        let Some(label) = label else {
            self.unlabelled += 1;
            return;
        };
        if let Some(known) = self.labels.get_mut(&label) {
            known.answers += 1;
            known.last_sequence = self.sequence;
            known.first_sent_us = known.first_sent_us.min(sent_us);
            known.last_sent_us = known.last_sent_us.max(sent_us);
            known.last_seen_us = known.last_seen_us.max(seen_us);
        } else if self.labels.len() < MAX_LABELS {
            let report = LabelReport {
                label: label.clone(),
                answers: 1,
                first_sequence: self.sequence,
                last_sequence: self.sequence,
                first_sent_us: sent_us,
                last_sent_us: sent_us,
                first_seen_us: seen_us,
                last_seen_us: seen_us,
            };
            self.labels.insert(label, report);
        } else {
            self.unlabelled += 1;
        }
    }

    /// The report as of `now`.
    pub(crate) fn report(&self, timeline: &Timeline) -> HttpReport {
        let name =
            |PhaseId(index): PhaseId| timeline.names().get(index).cloned().unwrap_or_default();
        let mut total = self.blank.empty();
        let mut phases = Vec::new();
        for (index, phase) in self.phases.iter().enumerate() {
            total.add(&phase.latency);
            phases.push(PhaseReport {
                phase: name(PhaseId(index)),
                requests: phase.requests,
                failures: phase.failures,
                latency: phase.latency.summary(),
            });
        }
        let mut labels: Vec<LabelReport> = self.labels.values().cloned().collect();
        labels.sort_by_key(|l| l.first_sequence);
        HttpReport {
            started_us: micros(self.started),
            ended_us: micros(self.ended),
            requests: self.sequence,
            failures: self.kinds.values().sum(),
            failures_by_kind: self.kinds.clone(),
            stale_retries: self.stale_retries,
            stale_unsent: self.stale_unsent,
            connections_opened: self.connections_opened,
            body_bytes: self.body_bytes,
            max_lag_us: micros(self.max_lag),
            latency: total.summary(),
            phases,
            slice_us: self.slices.width_us(),
            slices: self.slices.report(),
            labels,
            unlabelled: self.unlabelled,
            samples: self
                .samples
                .iter()
                .map(|(phase, sample)| FailureSample {
                    phase: name(*phase),
                    ..sample.clone()
                })
                .collect(),
            samples_omitted: self.samples_omitted,
            marks: timeline.marks().to_vec(),
            marks_omitted: timeline.marks_omitted(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn ended(phase: PhaseId, sent: u64, ended: u64, result: Result<Success, Failure>) -> Ended {
        Ended {
            phase,
            from: ms(sent),
            sent: ms(sent),
            ended: ms(ended),
            lag: Duration::ZERO,
            connection: 3,
            reused: true,
            stale: None,
            result,
        }
    }

    fn ok(label: &str) -> Result<Success, Failure> {
        Ok(Success {
            label: Some(label.to_owned()),
            body_bytes: 10,
        })
    }

    fn failed(kind: FailureKind) -> Result<Success, Failure> {
        Err(Failure {
            kind,
            detail: "é".repeat(1000),
        })
    }

    #[test]
    fn sums_by_phase_label_and_kind() {
        let mut timeline = Timeline::new("before");
        let during = timeline.enter("during", ms(100));
        let mut r = Recorder::new(ms(0), 1).unwrap();
        r.connection_opened();
        r.record(ended(PhaseId(0), 0, 10, ok("old")));
        r.record(Ended {
            stale: Some(Stale::Unsent),
            ..ended(during, 120, 140, ok("new"))
        });
        // Sent early, answered late: the old pod's last answer, by two different measures.
        r.record(ended(PhaseId(0), 90, 150, ok("old")));
        r.record(ended(during, 160, 170, failed(FailureKind::ResetInBody)));
        r.record(ended(during, 160, 170, failed(FailureKind::Timeout)));

        let report = r.report(&timeline);
        assert_eq!(
            (report.requests, report.failures, report.body_bytes),
            (5, 2, 30)
        );
        assert_eq!(
            (
                report.stale_retries,
                report.stale_unsent,
                report.connections_opened
            ),
            (1, 1, 1)
        );
        let phases: Vec<_> = report
            .phases
            .iter()
            .map(|p| (p.phase.as_str(), p.requests, p.failures, p.latency.count))
            .collect();
        assert_eq!(phases, [("before", 2, 0, 2), ("during", 3, 2, 1)]);
        assert_eq!(report.latency.count, 3);

        let slices: Vec<_> = report
            .slices
            .iter()
            .map(|s| (s.at_us, s.requests, s.failures))
            .collect();
        assert_eq!(slices, [(0, 2, 0), (100_000, 3, 2)]);

        let old = report.label("old").unwrap();
        assert_eq!(
            (old.answers, old.first_sequence, old.last_sequence),
            (2, 1, 3)
        );
        assert_eq!(
            (
                old.first_sent_us,
                old.last_sent_us,
                old.first_seen_us,
                old.last_seen_us
            ),
            (0, 90_000, 10_000, 150_000)
        );
        assert_eq!(
            report
                .labels
                .iter()
                .map(|l| l.label.as_str())
                .collect::<Vec<_>>(),
            ["old", "new"]
        );

        assert_eq!((report.samples.len(), report.samples_omitted), (1, 1));
        let sample = &report.samples[0];
        assert_eq!(
            (sample.sequence, sample.phase.as_str(), sample.kind),
            (4, "during", FailureKind::ResetInBody)
        );
        assert_eq!(sample.detail.chars().count(), MAX_DETAIL);

        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<HttpReport>(&json).unwrap(), report);
        assert!(
            json.contains(r#""failuresByKind":{"resetInBody":1,"timeout":1}"#),
            "{json}"
        );
    }

    #[test]
    fn labels_are_bounded() {
        let mut r = Recorder::new(ms(0), 1).unwrap();
        for n in 0..MAX_LABELS + 7 {
            r.record(ended(PhaseId(0), 0, 1, ok(&n.to_string())));
        }
        let report = r.report(&Timeline::new("all"));
        assert_eq!((report.labels.len(), report.unlabelled), (MAX_LABELS, 7));
    }
}
