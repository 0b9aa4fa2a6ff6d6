//! Whether what is open is still its caller's. A socket or a stream outlives the moment at which it was
//! let in: meanwhile its user may lose a role, the workspace may be closed to them, and the key may be
//! withdrawn that signed their session.

use super::Edge;
use super::context::{Context, Failure, Hop};
use crate::clock::Clock;
use crate::gate::{Extra, Opened, may_keep, may_open};
use crate::renew::Entry;
use crate::route::Mode;
use crate::table::{Backend, Route, Workspace};
use nogoo9_identity::{Authenticator, Verified};
use pingora::http::RequestHeader;
use std::sync::Arc;

/// By what something is open, and on which workspace.
#[derive(Debug)]
pub(super) struct Claim {
    auth: Arc<Authenticator>,
    clock: Clock,
    workspace: Arc<Workspace>,
    /// The pod that it is open on, once there is one.
    pod: Option<Arc<Backend>>,
    extra: Option<Extra>,
    mode: Mode,
    caller: Arc<Verified>,
    session: Option<Held>,
}

/// A session that something is open by.
#[derive(Debug)]
struct Held {
    host: String,
    /// The token that it was opened by; `None`: that verifies no more.
    token: Option<String>,
    /// What control says of it.
    entry: Option<Arc<Entry>>,
}

/// What has become of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// No token of the session verifies any more.
    Session,
    /// The workspace is not the caller's to open.
    Workspace,
}

impl Claim {
    /// The caller as the newest token says.
    fn caller(&self) -> Option<Arc<Verified>> {
        let Some(held) = &self.session else {
            return Some(self.caller.clone());
        };
        let sessions = self.auth.sessions();
        let verify = |token: &str| sessions.verify(token, &held.host, self.clock.now()).ok();
        // The newest may be by a key that is not known here yet; the one before it counts meanwhile.
        let newest = held.entry.as_ref().and_then(|entry| verify(&entry.token()));
        newest.or_else(|| verify(held.token.as_deref()?))
    }

    fn judge(&self, route: &Route) -> Result<(), Lost> {
        let caller = self.caller().ok_or(Lost::Session)?;
        let extra = self.extra.as_ref();
        let may = match &self.pod {
            Some(pod) => may_keep(&caller, route, self.mode, extra, pod),
            None => may_open(&caller, route, self.mode, extra),
        };
        if may { Ok(()) } else { Err(Lost::Workspace) }
    }

    /// Returns once it is lost: looks whenever the route, the keys or the session's token change.
    async fn lost(self) {
        let mut keys = self.auth.sessions().keys().changes();
        let entry = self.session.as_ref().and_then(|held| held.entry.as_ref());
        let mut answers = entry.map(|entry| entry.answers());
        loop {
            let route = self.workspace.route();
            keys.mark_unchanged();
            if let Some(answers) = &mut answers {
                answers.mark_unchanged();
            }
            if let Err(lost) = self.judge(&route) {
                tracing::debug!(?lost, "what is open is its caller's no more");
                return;
            }
            let answered = async {
                match &mut answers {
                    Some(answers) => answers.changed().await.is_ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.workspace.changed_from(&route) => {}
                // Neither ends before the claim does, which holds what sends them.
                _ = keys.changed() => {}
                _ = answered => {}
            }
        }
    }
}

impl Edge {
    fn claim(
        &self,
        request: &RequestHeader,
        opened: &Opened,
        pod: Option<Arc<Backend>>,
        entry: Option<Arc<Entry>>,
    ) -> Claim {
        let auth = &self.gate.auth;
        let token = || {
            let now = self.clock.now();
            let token = auth.session_token(&request.headers, &opened.host, now);
            token.map(ToOwned::to_owned)
        };
        Claim {
            auth: auth.clone(),
            clock: self.clock.clone(),
            workspace: opened.workspace.clone(),
            pod,
            extra: opened.extra.clone(),
            mode: opened.mode,
            caller: opened.caller.clone(),
            session: opened.caller.sid.as_ref().map(|_| Held {
                host: opened.host.clone(),
                token: token(),
                entry,
            }),
        }
    }

    /// Returns once a socket or a stream, that is being opened, is its caller's no more.
    pub(super) fn lost(
        &self,
        request: &RequestHeader,
        opened: &Opened,
        pod: Option<Arc<Backend>>,
        entry: Option<Arc<Entry>>,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.claim(request, opened, pod, entry).lost()
    }

    /// By what a request is let in at this moment.
    pub(super) fn judged(&self, opened: &Opened) -> Judged {
        Judged {
            route: opened.workspace.route(),
            generation: self.gate.auth.sessions().keys().generation(),
            token: None,
        }
    }

    /// Whether what flows is still its caller's. Costs two loads while nothing has changed.
    pub(super) fn is_still_theirs(&self, request: &RequestHeader, ctx: &mut Context) -> bool {
        let entry = ctx.riding.as_ref().map(|riding| riding.entry.clone());
        let Hop::Pod(hop) = &mut ctx.hop else {
            return true;
        };
        let generation = self.gate.auth.sessions().keys().generation();
        let token = entry.as_ref().map(|entry| entry.token());
        if hop.search.judged.generation == generation
            && hop.search.judged.token == token
            && hop.opened.workspace.is_current(&hop.search.judged.route)
        {
            return true;
        }
        let route = hop.opened.workspace.route();
        let pod = hop.current.as_ref().map(|(pod, _)| pod.clone());
        let claim = self.claim(request, &hop.opened, pod, entry);
        let judged = claim.judge(&route);
        hop.search.judged = Judged {
            route,
            generation,
            token,
        };
        match judged {
            Ok(()) => return true,
            Err(Lost::Session) => ctx.over = true,
            Err(Lost::Workspace) => ctx.failure = Some(Failure::NotTheirs),
        }
        false
    }
}

/// What a claim was last judged by.
#[derive(Debug)]
pub(super) struct Judged {
    /// The workspace's route.
    pub(super) route: Arc<Route>,
    /// The keys' generation.
    pub(super) generation: u64,
    /// The session's newest token, once it is not fresh any more.
    pub(super) token: Option<Arc<str>>,
}
