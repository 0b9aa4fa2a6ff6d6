//! What ends a wait beside a pod: what control says of the workspace, asked again while it is away.

use super::Edge;
use crate::ask::{AskError, Prepared, Question};
use crate::hold::word::{ASK_EVERY, ends_waiting};
use crate::hold::{Place, Woken, wait_for};
use crate::metrics::{Told, ToldLabels};
use crate::tunnel::request::wants_websocket;
use nogoo9_model::absent::Absent;
use pingora::http::RequestHeader;
use pingora::protocols::http::ServerSession;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::Instant;

/// What control said that ends a wait.
#[derive(Debug)]
pub(super) enum Heard {
    /// No pod comes by itself.
    Away(Arc<Absent>),
    /// It is not there, or not theirs.
    NotTheirs,
}

/// By whom control is asked while a request waits.
#[derive(Debug)]
pub(super) struct Asks<'a> {
    id: &'a str,
    host: &'a str,
    from: Option<IpAddr>,
    /// Not before that: the last time there was no answer, so that it is another's turn.
    not_before: Option<Instant>,
}

impl<'a> Asks<'a> {
    /// About the workspace `id`, for a request to `host` that came `from` there.
    pub(super) fn new(id: &'a str, host: &'a str, from: Option<IpAddr>) -> Self {
        Self {
            id,
            host,
            from,
            not_before: None,
        }
    }
}

impl Edge {
    /// A wait of what has a place: for a change, as [`wait_for`] does, and, where it `asks`, for what
    /// control says to it or to another one that waits for the same.
    pub(super) async fn listen(
        &self,
        client: &mut ServerSession,
        place: &Place,
        asks: Option<&mut Asks<'_>>,
        changed: impl Future<Output = ()>,
        until: Instant,
    ) -> Woken<Heard> {
        let mut changed = std::pin::pin!(changed);
        let Some(asks) = asks else {
            let never = std::future::pending();
            let stopping = self.leaves(client.req_header());
            return wait_for(client, changed, never, stopping, until).await;
        };
        let word = &place.word;
        let mut ears = word.ears();
        loop {
            let now = Instant::now();
            let may_ask = asks.not_before.is_none_or(|at| now >= at);
            let question =
                (may_ask && word.takes_turn(now)).then(|| self.question(client.req_header(), asks));
            let look = match (&question, asks.not_before) {
                (Some(_), _) => until,
                (None, not_before) => until.min(word.due().max(not_before.unwrap_or(now))),
            };
            let asking = async {
                match question {
                    Some(question) => self.heard(self.asker.absent(question).await),
                    None => std::future::pending().await,
                }
            };
            let told = async {
                tokio::select! {
                    told = ears.ended() => Ok(Heard::Away(told)),
                    answer = asking => match answer {
                        Ok(told) if ends_waiting(told.status) => {
                            word.heard(&told);
                            Ok(Heard::Away(Arc::new(told)))
                        }
                        Ok(_) => Err(None),
                        Err(AskError::NotTheirs) => {
                            word.gives_back(Instant::now());
                            Ok(Heard::NotTheirs)
                        }
                        Err(_) => Err(Some(Instant::now() + 2 * ASK_EVERY)),
                    },
                }
            };
            let stopping = self.leaves(client.req_header());
            match wait_for(client, changed.as_mut(), told, stopping, look).await {
                Woken::Told(Ok(heard)) => return Woken::Told(heard),
                Woken::Told(Err(not_before)) => asks.not_before = not_before,
                Woken::TimedOut if look < until => {}
                Woken::TimedOut => return Woken::TimedOut,
                Woken::Changed => return Woken::Changed,
                Woken::ClientGone => return Woken::ClientGone,
                Woken::Stopping => return Woken::Stopping,
            }
        }
    }

    /// Returns once this proxy stops, and another one is to be asked: its pod may still come for as long as
    /// requests in flight may take; and a WebSocket is opened here no more.
    pub(super) fn leaves(
        &self,
        request: &RequestHeader,
    ) -> impl Future<Output = ()> + Send + use<'_> {
        match wants_websocket(request) {
            true => self.stopping.cancelled(),
            false => self.last_call.cancelled(),
        }
    }

    fn question(&self, request: &RequestHeader, asks: &Asks<'_>) -> Prepared {
        self.asker.prepare(Question {
            id: asks.id,
            host: asks.host,
            path: self.gate.inside(request),
            client: asks.from,
            headers: &request.headers,
        })
    }

    /// Counts an answer of control's.
    pub(super) fn heard(&self, told: Result<Absent, AskError>) -> Result<Absent, AskError> {
        let answer = match &told {
            Ok(_) => Told::Known,
            Err(AskError::NotTheirs) => Told::NotTheirs,
            Err(AskError::Refused(_)) => Told::Refused,
            Err(AskError::Unreachable(reason)) => {
                tracing::warn!(reason, "control cannot be asked about a workspace");
                Told::Unreachable
            }
        };
        let labels = ToldLabels { answer };
        self.metrics.asked.get_or_create(&labels).inc();
        told
    }
}
