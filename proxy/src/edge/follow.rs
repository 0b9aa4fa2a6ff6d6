//! Sessions that stay with the pod on which they have something open; the rule is
//! [`crate::affinity`]'s.

use super::Edge;
use super::context::{Context, Hop};
use crate::affinity::{followed, matters, session_of};
use crate::gate::Opened;
use crate::peers::Word;
use crate::sessions::Entered;
use crate::table::{Backend, Route};
use http::header::CONTENT_TYPE;
use pingora::http::ResponseHeader;
use std::sync::Arc;
use std::time::Instant;

/// A pod that a request follows.
#[derive(Debug)]
pub(super) struct Follows {
    pub(super) pod: Arc<Backend>,
    /// By whose word; `None`: by what is open here.
    word: Option<Arc<Word>>,
}

impl Edge {
    /// What a request follows, if that is not the pod that all requests go to. Costs a look at the route,
    /// and more only while an upgrade of a workspace that asks for it goes on: then other proxies are
    /// asked where nothing of the session is open here.
    pub(super) async fn follows(&self, opened: &Opened, route: &Arc<Route>) -> Option<Follows> {
        if !matters(route) {
            return None;
        }
        let session = session_of(&opened.caller);
        let id = &opened.workspace.id;
        let here = self.sessions.holding(id, session);
        if let Some(pod) = followed(route, &here) {
            let pod = pod.clone();
            return Some(Follows { pod, word: None });
        }
        let word = self.peers.word(id, session, route).await?;
        let pod = followed(route, word.pods())?.clone();
        let word = Some(word);
        Some(Follows { pod, word })
    }

    /// Whether a request that is entered now where `follows` says still does follow it. Had what it
    /// follows ended before, or the time for which another proxy's word counts, the pod may be taken for
    /// unused.
    pub(super) fn still(&self, opened: &Opened, route: &Arc<Route>, follows: &Follows) -> bool {
        match &follows.word {
            Some(word) => word.counts(route, Instant::now()),
            None => {
                let session = session_of(&opened.caller);
                let here = self.sessions.holding(&opened.workspace.id, session);
                here.contains(&follows.pod.uid)
            }
        }
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
