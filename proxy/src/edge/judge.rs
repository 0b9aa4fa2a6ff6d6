//! What is done with a request: when it comes, and once more when it was held. Meanwhile its token may
//! have ended or been revoked, its workspace be closed to its caller, or name its page's origin no more;
//! and nothing that comes now would be let in.

use super::Edge;
use super::context::Context;
use crate::gate::{Decision, Opened};
use crate::reply::{Html, Reply};
use pingora::http::RequestHeader;

impl Edge {
    /// What is done with a request, by what its credential proves once whoever knows was asked.
    ///
    /// # Errors
    /// Its answer: nobody can tell.
    pub(super) async fn decide(
        &self,
        request: &RequestHeader,
        ctx: &mut Context,
    ) -> Result<Decision, Reply> {
        let mut decision = self.gate.decide(request, self.clock.now(), false);
        match decision {
            Decision::FetchKeys => {
                self.gate.auth.bearers().refetch().await;
                decision = self.gate.decide(request, self.clock.now(), true);
            }
            Decision::AskPersonal => decision = self.proven(request, ctx.client).await,
            _ => {}
        }
        if let Decision::AskSession(stale) = &decision {
            let known = self.ask_session(request, ctx, stale).await?;
            decision = self.gate.decide_session(request, self.clock.now(), known);
        }
        if let Some(over) = self.in_passing(request, ctx, &decision) {
            decision = self.gate.decide_session(request, self.clock.now(), over);
        }
        Ok(decision)
    }

    /// The same for one that was held, as if it came now: what it opens.
    ///
    /// # Errors
    /// Its answer, since it opens nothing any more.
    pub(super) async fn judge_again(
        &self,
        request: &RequestHeader,
        ctx: &mut Context,
    ) -> Result<Opened, Reply> {
        // Looked at anew, too.
        ctx.riding = None;
        // Apart, so that what is never held has no room kept for it.
        let decision = Box::pin(self.decide(request, ctx)).await?;
        match decision {
            Decision::Open(opened) => Ok(opened),
            Decision::Ask(mut asked) => asked.opened.take().ok_or_else(|| {
                self.not_theirs(request, ctx.client, &asked.caller, &asked.id);
                self.gate.not_found(asked.html)
            }),
            Decision::Reply(reply) => Err(self.turned_away(request, ctx, reply)),
            Decision::FetchKeys
            | Decision::AskPersonal
            | Decision::AskSession(_)
            | Decision::Control { .. } => Err(Reply::unavailable(Html::No, "Try again.")),
        }
    }
}
