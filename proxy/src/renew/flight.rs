//! The way to control and back, for as many sessions at once as wait for it.

use super::Entry;
use crate::clock::Clock;
use crate::control::{self, Control, Spoilt};
use crate::metrics::{Metrics, RenewalLabels, Renewed};
use nogoo9_model::renew::{Answer, Answers, Held, MOST, PATH, Question, VERSION};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// Longest wait for control, which waits for the provider for 8 s at most.
const ANSWER: Duration = Duration::from_secs(11);
/// Questions under way at once.
const FLIGHTS: usize = 4;
/// Longest answer, in bytes.
const MAX_ANSWER: usize = 512 * 1024;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Its name has no address yet.
    #[error("control's address is not known")]
    NoAddress,
    /// No answer, or it broke off.
    #[error("control gives no answer")]
    NoAnswer,
    /// An answer in other words.
    #[error("control's answer cannot be read")]
    Unreadable,
    /// It took too long.
    #[error("control takes too long")]
    TooLong,
}

/// Asks.
#[derive(Debug, Clone)]
pub(super) struct Flights {
    control: Control,
    client: reqwest::Client,
    metrics: Metrics,
    clock: Clock,
}

impl Flights {
    pub(super) fn new(
        control: Control,
        metrics: Metrics,
        clock: Clock,
    ) -> Result<Self, reqwest::Error> {
        let client = Control::client().build()?;
        Ok(Self {
            control,
            client,
            metrics,
            clock,
        })
    }

    /// Asks about those that wait, many at once, for as long as anybody can put one there.
    pub(super) async fn run(self, mut waiting: mpsc::Receiver<Arc<Entry>>) {
        let places = Arc::new(Semaphore::new(FLIGHTS));
        let mut batch = Vec::new();
        while waiting.recv_many(&mut batch, MOST).await > 0 {
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            let (flights, entries) = (self.clone(), std::mem::take(&mut batch));
            tokio::spawn(async move {
                flights.fly(&entries).await;
                drop(place);
            });
        }
    }

    async fn fly(&self, entries: &[Arc<Entry>]) {
        let asked = tokio::time::timeout(ANSWER, self.ask(entries)).await;
        let answers = asked.unwrap_or(Err(AskError::TooLong));
        let now = self.clock.now();
        match answers {
            Ok(answers) => {
                for (entry, answer) in entries.iter().zip(answers) {
                    self.count(match answer {
                        Answer::Renewed { .. } => Renewed::Renewed,
                        Answer::Refused => Renewed::Refused,
                        Answer::Unknown | Answer::Other => Renewed::Unknown,
                    });
                    entry.settle(Some(answer), now);
                }
            }
            Err(error) => {
                tracing::warn!(%error, sessions = entries.len(), "control cannot be asked whether sessions go on");
                for entry in entries {
                    self.count(Renewed::Unreachable);
                    entry.settle(None, now);
                }
            }
        }
    }

    async fn ask(&self, entries: &[Arc<Entry>]) -> Result<Vec<Answer>, AskError> {
        let address = self.control.address().ok_or(AskError::NoAddress)?;
        let held = entries.iter().map(|entry| Held {
            host: entry.host.clone(),
            token: entry.known.borrow().token.to_string(),
        });
        let question = Question {
            version: VERSION,
            sessions: held.collect(),
        };
        let request = self.client.post(format!("http://{address}{PATH}"));
        let response = request.json(&question).send().await;
        let response = response.map_err(|_| AskError::NoAnswer)?;
        if !response.status().is_success() {
            return Err(AskError::NoAnswer);
        }
        let body = control::body(response, MAX_ANSWER).await;
        let body = body.map_err(|spoilt| match spoilt {
            Spoilt::BrokeOff => AskError::NoAnswer,
            Spoilt::TooLong => AskError::Unreadable,
        })?;
        let answers: Answers = serde_json::from_slice(&body).map_err(|_| AskError::Unreadable)?;
        if answers.answers.len() == entries.len() {
            Ok(answers.answers)
        } else {
            Err(AskError::Unreadable)
        }
    }

    fn count(&self, answer: Renewed) {
        let labels = RenewalLabels { answer };
        self.metrics.renewals.get_or_create(&labels).inc();
    }
}
