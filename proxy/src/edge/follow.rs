//! Sessions that stay with the pod on which they have something open; the rule is
//! [`crate::affinity`]'s.

use super::Edge;
use super::context::{Context, Hop};
use crate::affinity::{followed, matters, session_of};
use crate::gate::Opened;
use crate::sessions::Entered;
use crate::table::{Backend, Route};
use http::header::CONTENT_TYPE;
use pingora::http::ResponseHeader;
use std::sync::Arc;

impl Edge {
    /// The pod that a request follows, if it is not the one that all requests go to. Costs a look at the
    /// route, and more only while an upgrade of a workspace that asks for it goes on.
    pub(super) fn follows(&self, opened: &Opened, route: &Route) -> Option<Arc<Backend>> {
        if !matters(route) {
            return None;
        }
        let session = session_of(&opened.caller);
        let holding = self.sessions.holding(&opened.workspace.id, &session);
        followed(route, &holding).cloned()
    }

    /// Notes that an answer is a stream of events, which its session's requests follow.
    pub(super) fn holds_stream(answer: &ResponseHeader, ctx: &Context) {
        let kind = answer.headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let events = kind
            .get(..17)
            .is_some_and(|kind| kind.eq_ignore_ascii_case("text/event-stream"));
        if events
            && let Hop::Pod(hop) = &ctx.hop
            && let Some((backend, entered)) = &hop.current
        {
            Self::holds(&hop.opened, backend, entered);
        }
    }

    /// Notes that what is open is what its session's requests follow.
    pub(super) fn holds(opened: &Opened, backend: &Backend, entered: &Entered) {
        if backend.affinity {
            entered.holds(session_of(&opened.caller));
        }
    }
}
