//! A pod for a request, however it is sent there: chosen by [`Edge::pick`], and whoever was held for it
//! judged once more.

use super::Edge;
use super::absent::gone;
use super::claim::Judged;
use super::context::{Context, Failure};
use super::pick::Picked;
use crate::dial::Attempts;
use crate::gate::Opened;
use crate::hold::{Patience, Place};
use crate::reply::Reply;
use crate::sessions::Entered;
use crate::table::Backend;
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use std::sync::Arc;

/// How far a request is with looking for a pod.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) attempts: Attempts,
    /// How long it may look.
    pub(super) patience: Patience,
    /// Its place, if it is held already.
    pub(super) place: Option<Place>,
    /// By what it was last found to be its caller's.
    pub(super) judged: Judged,
}

/// Why a request goes to no pod.
#[derive(Debug)]
pub(super) enum NotFound {
    /// There is none for it.
    None(Failure),
    /// It was held, and may not go there any more: its answer.
    TurnedAway(Reply),
}

impl Edge {
    /// The pod that a request tries next; it is entered as open on it. What was held is judged as if it
    /// came now, and looks on where it leads elsewhere by that.
    pub(super) async fn find(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        opened: &mut Opened,
        search: &mut Search,
    ) -> Result<(Arc<Backend>, Entered), NotFound> {
        loop {
            let client = session.as_downstream_mut();
            let picked = self.pick(client, opened, search, ctx.client).await;
            let Picked {
                backend,
                entered,
                held,
            } = picked.map_err(NotFound::None)?;
            if !held {
                return Ok((backend, entered));
            }
            // First what it is judged by: what changes meanwhile is looked at later.
            search.judged = self.judged(opened);
            let anew = self.judge_again(session.req_header(), ctx).await;
            let anew = anew.map_err(NotFound::TurnedAway)?;
            let same = anew.is_for_what(opened);
            *opened = anew;
            if same {
                return Ok((backend, entered));
            }
        }
    }

    /// Notes why there is no pod for a request.
    pub(super) fn note_failure(
        &self,
        request: &RequestHeader,
        ctx: &mut Context,
        opened: &Opened,
        failure: Failure,
    ) {
        if failure == Failure::NotTheirs {
            self.not_theirs(request, ctx.client, &opened.caller, &opened.workspace.id);
        }
        ctx.failure = Some(failure);
    }

    /// Answers a request that goes to no pod.
    pub(super) async fn not_served(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        opened: &Opened,
        why: NotFound,
    ) -> pingora::Result<bool> {
        let reply = match why {
            NotFound::TurnedAway(reply) => reply,
            NotFound::None(Failure::ClientGone) => return Ok(gone(session, ctx)),
            NotFound::None(failure) => {
                let reply = failure.reply(opened, &self.gate);
                self.note_failure(session.req_header(), ctx, opened, failure);
                reply
            }
        };
        self.reply(session, ctx, &reply).await
    }
}
