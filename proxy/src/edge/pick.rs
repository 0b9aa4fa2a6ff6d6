//! Choosing a pod, and waiting for one.

use super::Edge;
use super::context::Failure;
use super::find::Search;
use super::listen::{Asks, Heard};
use crate::dial::Next;
use crate::gate::Opened;
use crate::hold::{Turn, Woken, wait_for, weight};
use crate::metrics::HoldEnd;
use crate::sessions::Entered;
use crate::table::{Backend, Status};
use pingora::protocols::http::ServerSession;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use tokio::time::Instant;

/// The pod that was chosen; the request is entered as open on it.
#[derive(Debug)]
pub(super) struct Picked {
    pub(super) backend: Arc<Backend>,
    pub(super) entered: Entered,
    /// Whether the request was held before: then it is judged once more.
    pub(super) held: bool,
}

impl Edge {
    /// Chooses the pod that a request tries next, and waits for one if there is none, for as long as
    /// its patience lasts; with its place, if it has one already. It came `from` there.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn pick(
        &self,
        client: &mut ServerSession,
        opened: &mut Opened,
        search: &mut Search,
        from: Option<IpAddr>,
    ) -> Result<Picked, Failure> {
        let Search {
            attempts, patience, ..
        } = search;
        let mut place = search.place.take();
        let kind = opened.kind();
        let workspace = &opened.workspace;
        let mut asks = Asks::new(&workspace.id, &opened.host, from);
        // What has waited, or tried one, may see another version of the workspace.
        let mut again = place.is_some() || attempts.made() > 0;
        let mut turn = Turn::default();
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
            Err(failure)
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
                    let now = Instant::now();
                    // What was held goes in order.
                    let before = place.as_ref().map_or(0, |place| place.before);
                    let until = turn.at(before, now).max(now + back_off);
                    if until > now {
                        // There is a pod: a proxy that stops has it answer.
                        let never = std::future::pending::<()>;
                        let changed = workspace.changed_from(&route);
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
                    return Ok(Picked {
                        backend,
                        entered,
                        held,
                    });
                }
                Next::Hold => {
                    turn.lost();
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
