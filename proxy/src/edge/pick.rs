//! Choosing a pod, and waiting for one.

use super::Edge;
use super::context::Failure;
use super::listen::{Asks, Heard};
use crate::dial::{Attempts, Next};
use crate::gate::{Gate, Opened};
use crate::hold::{Patience, Place, Woken, pace, wait_for, weight};
use crate::metrics::HoldEnd;
use crate::reply::Reply;
use crate::sessions::{Entered, Kind};
use crate::table::{Backend, Status};
use pingora::protocols::http::ServerSession;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;
use tokio::time::Instant;

/// What came of looking for a pod.
#[derive(Debug)]
pub(super) enum Picked {
    /// This one; the request is entered as open on it.
    Pod {
        backend: Arc<Backend>,
        entered: Entered,
        /// Whether it was held before: then it is judged once more.
        held: bool,
    },
    /// None.
    None(Failure),
}

impl Picked {
    pub(super) fn failure(&self) -> Option<Failure> {
        match self {
            Self::Pod { .. } => None,
            Self::None(failure) => Some(failure.clone()),
        }
    }

    /// What the client is told; `None` if there is no one to tell.
    pub(super) fn reply(&self, opened: &Opened, gate: &Gate) -> Option<Reply> {
        self.failure()
            .filter(|failure| *failure != Failure::ClientGone)
            .map(|failure| failure.reply(opened, gate))
    }
}

/// How far a request is with looking for a pod.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) attempts: Attempts,
    pub(super) patience: Patience,
    /// Its place, if it is held already.
    pub(super) place: Option<Place>,
}

impl Edge {
    /// Chooses the pod that a request tries next, and waits for one if there is none, for as long as
    /// its patience lasts; with its place, if it has one already. It came `from` there.
    pub(super) async fn pick(
        &self,
        client: &mut ServerSession,
        opened: &mut Opened,
        attempts: &mut Attempts,
        patience: &mut Patience,
        mut place: Option<Place>,
        from: Option<IpAddr>,
    ) -> Picked {
        let kind = if opened.websocket {
            Kind::Socket
        } else {
            Kind::Request
        };
        let workspace = &opened.workspace;
        let mut asks = Asks::new(&workspace.id, &opened.host, from);
        // What has waited, or tried one, may see another version of the workspace.
        let mut again = place.is_some() || attempts.made() > 0;
        let mut paced = false;
        let none = |held: bool, failure: Failure| {
            if held {
                self.held(match failure {
                    Failure::Page => HoldEnd::Page,
                    Failure::TimedOut => HoldEnd::TimedOut,
                    Failure::Full => HoldEnd::Full,
                    Failure::ClientGone => HoldEnd::ClientGone,
                    Failure::NotTheirs => HoldEnd::NotTheirs,
                    Failure::Stopping => HoldEnd::Stopping,
                    Failure::Told(_) => HoldEnd::Told,
                });
            }
            Picked::None(failure)
        };
        loop {
            let route = workspace.route();
            if std::mem::replace(&mut again, true) {
                match self.gate.extra(client.req_header(), &route) {
                    Some(extra) => opened.extra = extra,
                    None => return none(place.is_some(), Failure::NotTheirs),
                }
            }
            if !opened.is_permitted(&route) {
                return none(place.is_some(), Failure::NotTheirs);
            }
            patience.note(&route, &self.holds.bounds);
            let follows = self.follows(opened, &route).await;
            match attempts.next(&route, follows.as_ref().map(|it| &it.pod)) {
                Next::GiveUp => return none(true, Failure::TimedOut),
                // Left over from an upgrade, it has no such port: as good as unreachable.
                Next::Dial(backend, _) if opened.address(&backend).is_none() => {
                    attempts.failed(&backend.uid);
                }
                Next::Dial(backend, back_off) => {
                    // What was held goes in order.
                    let pause = place
                        .as_ref()
                        .filter(|_| !paced)
                        .map(|place| pace(place.before));
                    paced |= pause.is_some();
                    let back_off = back_off.max(pause.unwrap_or_default());
                    if back_off > Duration::ZERO {
                        // There is a pod: a proxy that stops has it answer.
                        let never = std::future::pending::<()>;
                        let changed = workspace.changed_from(&route);
                        let until = Instant::now() + back_off;
                        match wait_for(client, changed, never(), never(), until).await {
                            Woken::TimedOut | Woken::Stopping | Woken::Told(()) => {}
                            Woken::Changed => {
                                attempts.changed();
                                continue;
                            }
                            Woken::ClientGone => return none(place.is_some(), Failure::ClientGone),
                        }
                    }
                    let entered = self.sessions.enter(&workspace.id, &backend.uid, kind);
                    // Entered first, looked at once more then: see the module `sessions`.
                    fence(Ordering::SeqCst);
                    if !workspace.is_current(&route) {
                        continue;
                    }
                    // The same for what it follows.
                    let follows = follows.filter(|it| it.pod.uid == backend.uid);
                    if follows.is_some_and(|it| !self.still(opened, &route, &it)) {
                        continue;
                    }
                    let held = place.is_some();
                    if held {
                        self.held(HoldEnd::Served);
                    }
                    return Picked::Pod {
                        backend,
                        entered,
                        held,
                    };
                }
                Next::Hold => {
                    let held = match &mut place {
                        Some(held) => held,
                        None => {
                            let bytes = weight(client.req_header());
                            let Ok(taken) = self.holds.take(workspace, bytes) else {
                                return none(true, Failure::Full);
                            };
                            place.insert(taken)
                        }
                    };
                    // What waits is not forgotten; what was forgotten a moment ago is not there.
                    fence(Ordering::SeqCst);
                    if !self.gate.table.knows(workspace) {
                        return none(true, Failure::NotTheirs);
                    }
                    let mut until = patience.next();
                    if !route.backends.is_empty() {
                        until = until.min(Instant::now() + attempts.pause());
                    }
                    let changed = workspace.changed_from(&route);
                    // Whether another pod comes when the last one is going, control knows.
                    let asks = (route.status == Status::Away).then_some(&mut asks);
                    match self.listen(client, held, asks, changed, until).await {
                        Woken::Changed => attempts.changed(),
                        Woken::Told(Heard::Away(told)) => return none(true, Failure::Told(told)),
                        Woken::Told(Heard::NotTheirs) => return none(true, Failure::NotTheirs),
                        Woken::Stopping => return none(true, Failure::Stopping),
                        Woken::ClientGone => return none(true, Failure::ClientGone),
                        Woken::TimedOut => {
                            let now = Instant::now();
                            if patience.wants_page(now) {
                                return none(true, Failure::Page);
                            }
                            if patience.is_over(now) {
                                return none(true, Failure::TimedOut);
                            }
                            attempts.again();
                        }
                    }
                }
            }
        }
    }
}
