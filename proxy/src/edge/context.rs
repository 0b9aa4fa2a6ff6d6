//! What is kept of one request from hook to hook.

use super::find::Search;
use super::line::Line;
use super::personal::Watched;
use super::renew::Riding;
use crate::accept::count::Admitted;
use crate::busy::Busy;
use crate::gate::{Gate, Opened};
use crate::reply::{Html, Reply};
use crate::sessions::Entered;
use crate::table::{Backend, Status};
use http::Version;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use nogoo9_identity::Verified;
use nogoo9_model::UnixSeconds;
use nogoo9_model::absent::Absent;
use pingora::http::ResponseHeader;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::Instant;

/// One request.
#[derive(Debug)]
pub struct Context {
    pub(super) started: Instant,
    pub(super) hop: Hop,
    /// The client's address.
    pub(super) client: Option<IpAddr>,
    /// Why there is no pod.
    pub(super) failure: Option<Failure>,
    /// Its answer, if it was turned away once it had been held.
    pub(super) turned_away: Option<Reply>,
    /// Status that the proxy itself answered with; 0: it did not.
    pub(super) status: u16,
    /// Informational answers so far.
    pub(super) informed: u32,
    /// Whether its answer has no body.
    pub(super) bodiless: bool,
    /// Whether the connection was taken out of Pingora.
    pub(super) tunnelled: bool,
    /// Workspace and pod whose refusal of a WebSocket was handed on.
    pub(super) refused_by: Option<(Arc<str>, Arc<Backend>)>,
    /// Whether an error may be shown as a page.
    pub(super) html: Html,
    /// The browser session, once it is not fresh any more.
    pub(super) riding: Option<Riding>,
    /// Whether that has ended meanwhile.
    pub(super) over: bool,
    /// Bytes of its body that have come.
    pub(super) body: u64,
    /// Its place among what goes on in its workspace.
    pub(super) busy: Option<Busy>,
    /// Its place among what goes on towards control.
    pub(super) towards_control: Option<Admitted>,
}

/// Where the request goes.
#[derive(Debug)]
pub(super) enum Hop {
    /// Nowhere.
    None,
    /// To control.
    Control {
        /// Host that the client asked for.
        host: String,
    },
    /// To a workspace's pod.
    Pod(Box<PodHop>),
}

/// A request on its way to a pod.
#[derive(Debug)]
pub(super) struct PodHop {
    pub(super) opened: Opened,
    pub(super) search: Search,
    /// When the answer ends at the latest.
    pub(super) expires: UnixSeconds,
    /// When its session is to be looked at, if it has one that is renewed.
    pub(super) look_at: Option<UnixSeconds>,
    /// Whether it was revoked meanwhile, if it is a personal access token.
    pub(super) personal: Option<Watched>,
    /// The client's connection, while an answer without an end goes over it.
    pub(super) line: Option<Line>,
    /// The same, while its body is still to come.
    pub(super) body_line: Option<Line>,
    /// Whether nothing but the end of the pod's connection ends its answer.
    pub(super) until_closed: bool,
    /// Repetitions after a connection broke.
    pub(super) repeats: u32,
    /// Whether the pod went while it was dialled.
    pub(super) missed: bool,
    /// Chosen, and not dialled yet.
    pub(super) next: Option<(Arc<Backend>, Entered)>,
    /// Dialled.
    pub(super) current: Option<(Arc<Backend>, Entered)>,
}

/// Why there is no pod for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It took too long for a page to stay blank.
    Page,
    /// Nothing came in time.
    TimedOut,
    /// Too many wait already.
    Full,
    /// Nobody waits for the answer.
    ClientGone,
    /// The workspace is not the caller's any more.
    NotTheirs,
    /// This proxy stops.
    Stopping,
    /// Control says that no pod comes by itself.
    Told(Arc<Absent>),
}

impl Failure {
    /// What the client is told.
    pub(super) fn reply(&self, opened: &Opened, gate: &Gate) -> Reply {
        match self {
            // The page goes on by itself, through another proxy.
            Self::Stopping if !opened.html.may_reload() => Reply::stopping(opened.html),
            // As does what control says, with what the caller may do about it.
            Self::Told(told) if !opened.html.may_reload() => Reply::away(opened.html, told),
            Self::Page | Self::Stopping | Self::Told(_) => {
                let route = opened.workspace.route();
                // Its pod is there, and is not what is waited for.
                let told = if route.status == Status::Serving {
                    opened.told_silent(&route)
                } else {
                    opened.told(&route)
                };
                Reply::waiting(&opened.workspace.id, &opened.status_path(), &told)
            }
            Self::TimedOut | Self::ClientGone => Reply::unavailable(
                opened.html,
                "The workspace has no running pod that answers.",
            ),
            Self::Full => Reply::unavailable(
                opened.html,
                "Too many requests wait for this workspace already.",
            ),
            Self::NotTheirs => gate.not_found(opened.html),
        }
    }
}

impl Context {
    pub(super) fn new(started: Instant) -> Self {
        Self {
            started,
            hop: Hop::None,
            client: None,
            failure: None,
            turned_away: None,
            status: 0,
            informed: 0,
            bodiless: false,
            tunnelled: false,
            refused_by: None,
            html: Html::No,
            riding: None,
            over: false,
            body: 0,
            busy: None,
            towards_control: None,
        }
    }

    /// Notes that data flowed.
    pub(super) fn data(&self) {
        if let Some(entered) = self.entered() {
            entered.data();
        }
    }

    /// Notes that the head of the answer has come.
    pub(super) fn begun(&self) {
        if let Some(entered) = self.entered() {
            entered.begun();
        }
    }

    /// Notes whether an answer ends with the pod's connection (RFC 9112, section 6.3).
    pub(super) fn ends_with_connection(&mut self, answer: &ResponseHeader) {
        if let Hop::Pod(hop) = &mut self.hop {
            let headers = &answer.headers;
            hop.until_closed = answer.version != Version::HTTP_2
                && !headers.contains_key(CONTENT_LENGTH)
                && !headers.contains_key(TRANSFER_ENCODING);
        }
    }

    /// Leaves the client's connection alone from now on.
    pub(super) fn let_go(&self) {
        if let Hop::Pod(hop) = &self.hop {
            let lines = hop.line.iter().chain(&hop.body_line);
            lines.for_each(Line::let_go);
        }
    }

    /// Notes that all of the request's body has come.
    pub(super) fn body_came(&mut self) {
        if let Hop::Pod(hop) = &mut self.hop {
            hop.body_line = None;
        }
    }

    /// Whose session is to be looked at `now`, and on which host, if one is.
    pub(super) fn to_look(&self, now: UnixSeconds) -> Option<(Arc<Verified>, String)> {
        match &self.hop {
            Hop::Pod(hop) => {
                hop.look_at.filter(|at| now >= *at)?;
                Some((hop.opened.caller.clone(), hop.opened.host.clone()))
            }
            Hop::Control { .. } | Hop::None => None,
        }
    }

    /// Has the session looked at again then.
    pub(super) fn look_again(&mut self, at: UnixSeconds) {
        if let Hop::Pod(hop) = &mut self.hop {
            hop.look_at = Some(at);
        }
    }

    fn entered(&self) -> Option<&Entered> {
        match &self.hop {
            Hop::Pod(hop) => hop.current.as_ref().map(|(_, entered)| entered),
            Hop::Control { .. } | Hop::None => None,
        }
    }

    /// Workspace and pod, for the log.
    pub(super) fn names(&self) -> (Option<&str>, Option<&str>) {
        match &self.hop {
            Hop::Pod(hop) => {
                let pod = hop
                    .current
                    .as_ref()
                    .map(|(backend, _)| backend.name.as_str());
                (Some(&hop.opened.workspace.id), pod)
            }
            Hop::None => match &self.refused_by {
                Some((workspace, backend)) => (Some(workspace), Some(&backend.name)),
                None => (None, None),
            },
            Hop::Control { .. } => (None, None),
        }
    }

    /// The extra port that it is for.
    pub(super) fn port(&self) -> Option<&str> {
        match &self.hop {
            Hop::Pod(hop) => hop.opened.port(),
            Hop::Control { .. } | Hop::None => None,
        }
    }

    /// Attempts that failed.
    pub(super) fn attempts(&self) -> u32 {
        match &self.hop {
            Hop::Pod(hop) => hop.search.attempts.made() + hop.repeats,
            Hop::Control { .. } | Hop::None => 0,
        }
    }
}
