//! What the gate decides.

use super::{Asked, Extra, may_open, ours, prefix};
use crate::reply::{Html, Reply, Told};
use crate::route::Mode;
use crate::sessions::Kind;
use crate::table::progress::WaitsFor;
use crate::table::{Backend, Route, Status, Workspace};
use nogoo9_identity::Verified;
use nogoo9_model::access::Role;
use std::net::SocketAddr;
use std::sync::Arc;

/// What is done with a request.
#[derive(Debug)]
pub enum Decision {
    /// Answered here.
    Reply(Reply),
    /// Passed to control, as for this host.
    Control {
        /// Host that the client asked for.
        host: String,
    },
    /// Passed to a workspace's pod.
    Open(Opened),
    /// Answered by what control says of a workspace without pods.
    Ask(Box<Asked>),
    /// The bearer token's key is not known: fetch newer keys and ask again.
    FetchKeys,
    /// The session of the cookie is not fresh any more: learn whether it goes on, and ask again.
    AskSession(Stale),
    /// The caller is proven by a personal access token, which only control knows: learn what it comes
    /// to, and ask again with [`Gate::decide_for`].
    AskPersonal,
}

/// A session that counts only if control says so.
#[derive(Debug)]
pub struct Stale {
    /// What its token says.
    pub verified: Arc<Verified>,
    /// Host that the client asked for, as sessions are bound to it.
    pub host: String,
}

/// What is known of the session of a cookie beyond its token.
#[derive(Debug, Clone)]
pub enum Session {
    /// Nothing.
    AsSent,
    /// It goes on, and this is what its newest token says.
    GoesOn(Arc<Verified>),
    /// It is over: the cookie is as good as none.
    Over,
}

/// A workspace that the caller may open.
#[derive(Debug)]
pub struct Opened {
    /// The workspace.
    pub workspace: Arc<Workspace>,
    /// Which of its extra ports, if it is for one.
    pub extra: Option<Extra>,
    /// Who is calling.
    pub caller: Arc<Verified>,
    /// How the workspace was reached.
    pub mode: Mode,
    /// Host that the client asked for, as sessions are bound to it.
    pub host: String,
    /// How an answer may be shown that is the edge's own.
    pub html: Html,
    /// Whether a WebSocket is asked for.
    pub websocket: bool,
    /// What control has said of it, if it was asked.
    pub said: Option<Told>,
}

impl Opened {
    /// What stands before the paths of whatever serves the request: what path mode puts before the
    /// workspace's own, and then the path of an extra port.
    #[must_use]
    pub fn prefix(&self) -> Option<String> {
        let root = prefix(self.mode, &self.workspace.id);
        match self.extra.as_ref().and_then(|extra| extra.path.as_deref()) {
            None => root,
            Some(path) => Some(root.unwrap_or_default() + path),
        }
    }

    /// Where on a pod the request goes; `None`: that one has no such port.
    #[must_use]
    pub fn address(&self, pod: &Backend) -> Option<SocketAddr> {
        pod.listens_at(self.port())
    }

    /// Name of the extra port, if it is for one.
    #[must_use]
    pub fn port(&self) -> Option<&str> {
        self.extra.as_ref().map(|extra| &*extra.name)
    }

    /// What the waiting page asks for: how things stand.
    #[must_use]
    pub fn status(&self) -> Reply {
        Reply::status(&self.told(&self.workspace.route()))
    }

    /// What is said of it.
    #[must_use]
    pub fn told(&self, route: &Route) -> Told {
        // Of what is away control knows more than whether it comes back.
        if route.status == Status::Away
            && let Some(said) = &self.said
        {
            return said.clone();
        }
        let is_owner = self.is_owner(route);
        let all = is_owner || self.caller.caller.role == Role::Admin;
        Told {
            word: route.status.word(),
            message: route.status.message(is_owner),
            waits_for: route.progress.waits_for.clone(),
            last_error: route.progress.last_error.clone().filter(|_| all),
        }
    }

    /// What is said of it while its pod is ready and takes no connections.
    #[must_use]
    pub fn told_silent(&self, route: &Route) -> Told {
        let which = match self.port() {
            Some(port) => format!("its port '{port}'"),
            None => "its port".to_owned(),
        };
        Told {
            word: Status::Starting(None).word(),
            message: format!("Nothing answers on {which} yet. This page opens by itself."),
            waits_for: Some(WaitsFor::Port),
            ..self.told(route)
        }
    }

    /// Whether the caller may still open the workspace. While a request waits, its workspace may be
    /// deleted and its id be taken by somebody else.
    #[must_use]
    pub fn is_permitted(&self, route: &Route) -> bool {
        may_open(&self.caller, route, self.mode, self.extra.as_ref())
    }

    /// What it is counted as.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.websocket {
            true => Kind::Socket,
            false => Kind::Request,
        }
    }

    /// Whether it leads to the same port of the same workspace.
    #[must_use]
    pub fn is_for_what(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.workspace, &other.workspace) && self.extra == other.extra
    }

    /// Whether the caller owns it.
    #[must_use]
    pub fn is_owner(&self, route: &Route) -> bool {
        self.caller.caller.is(&route.owner)
    }

    /// Where the waiting page asks how things stand.
    #[must_use]
    pub fn status_path(&self) -> String {
        ours(self.mode, &self.workspace.id, "status")
    }
}
