//! Browser sessions along the way of a request: asked about where it is time, and the next token
//! handed to the browser.

use super::Edge;
use super::context::Context;
use crate::gate::{Decision, Opened, Session as Known, Stale, html_for};
use crate::headers;
use crate::renew::{Asked, Entry, Verdict};
use crate::reply::Reply;
use crate::table::Backend;
use nogoo9_identity::Verified;
use nogoo9_identity::session::Freshness;
use nogoo9_model::UnixSeconds;
use pingora::http::{RequestHeader, ResponseHeader};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// How often a stream that flows is looked at, once its token is not fresh any more, in seconds.
const LOOK_EVERY: UnixSeconds = 5;

/// The session that a request rides on, once it is not fresh any more.
#[derive(Debug, Clone)]
pub(super) struct Riding {
    pub(super) entry: Arc<Entry>,
    /// Until when the token counts that the request carries.
    held: UnixSeconds,
}

impl Edge {
    /// What is known of a session that is not fresh any more, once control has been asked.
    pub(super) async fn ask_session(
        &self,
        request: &RequestHeader,
        ctx: &mut Context,
        stale: &Stale,
    ) -> Result<Known, Reply> {
        let Some(riding) = self.ride(request, &stale.verified, &stale.host) else {
            // Stale tokens say what session they are of.
            return Ok(Known::Over);
        };
        let now = self.clock.now();
        match self
            .renewals
            .ask_first(&riding.entry, riding.held, now)
            .await
        {
            Asked::Accepted => {
                let newest = riding.entry.newer(riding.held).and_then(|(token, _)| {
                    let sessions = self.gate.auth.sessions();
                    sessions.verify(&token, &stale.host, self.clock.now()).ok()
                });
                ctx.riding = Some(riding);
                let newest = newest.unwrap_or_else(|| stale.verified.clone());
                Ok(Known::GoesOn(newest))
            }
            Asked::Refused => Ok(Known::Over),
            Asked::Unknown => Err(Reply::unavailable(
                html_for(request),
                "Whether you are still signed in cannot be told at the moment.",
            )),
        }
    }

    /// Notes the session of a request that is let through, and asks control where that is due.
    /// `Some`: it is over all the same, as control has said a moment ago.
    pub(super) fn in_passing(
        &self,
        request: &RequestHeader,
        ctx: &mut Context,
        decision: &Decision,
    ) -> Option<Known> {
        let (caller, host) = match decision {
            Decision::Open(opened) => (&opened.caller, &opened.host),
            Decision::Ask(asked) => (&asked.caller, &asked.host),
            _ => return None,
        };
        let now = self.clock.now();
        if ctx.riding.is_some() || caller.freshness(now) == Freshness::Fresh {
            return None;
        }
        let riding = self.ride(request, caller, host)?;
        match self.renewals.look(&riding.entry, riding.held, now) {
            Verdict::Refuse => Some(Known::Over),
            _ => {
                ctx.riding = Some(riding);
                None
            }
        }
    }

    fn ride(&self, request: &RequestHeader, held: &Verified, host: &str) -> Option<Riding> {
        let auth = &self.gate.auth;
        let token = auth.session_token(&request.headers, host, self.clock.now())?;
        Some(Riding {
            entry: self.renewals.entry(held, token, host)?,
            held: held.fresh_until?,
        })
    }

    /// `Set-Cookie` of the session's next token, if there is one by now.
    pub(super) fn next_cookie(&self, ctx: &Context) -> Option<String> {
        let riding = ctx.riding.as_ref()?;
        let (token, ends) = riding.entry.newer(riding.held)?;
        let names = self.gate.auth.names();
        let life = ends.saturating_sub(self.clock.now());
        Some(names.set(names.session(), &token, life))
    }

    /// Hands the browser its next token with an answer.
    pub(super) fn pass_on(
        &self,
        response: &mut ResponseHeader,
        ctx: &Context,
    ) -> pingora::Result<()> {
        match self.next_cookie(ctx) {
            Some(cookie) => headers::add_cookie(response, &cookie),
            None => Ok(()),
        }
    }

    /// Whether what flows may go on: looks now and then at its session.
    pub(super) fn flows_on(&self, request: &RequestHeader, ctx: &mut Context) -> bool {
        if !self.is_still_theirs(request, ctx) {
            return false;
        }
        ctx.over = !self.goes_on(request, ctx);
        !ctx.over
    }

    fn goes_on(&self, request: &RequestHeader, ctx: &mut Context) -> bool {
        if ctx
            .riding
            .as_ref()
            .is_some_and(|riding| riding.entry.is_over())
        {
            return false;
        }
        let Some((caller, host)) = ctx.to_look(self.clock.now()) else {
            return true;
        };
        if ctx.riding.is_none() {
            ctx.riding = self.ride(request, &caller, &host);
        }
        ctx.look_again(self.clock.now().saturating_add(LOOK_EVERY));
        let Some(riding) = &ctx.riding else {
            return true;
        };
        let verdict = self
            .renewals
            .look(&riding.entry, riding.held, self.clock.now());
        !matches!(verdict, Verdict::Refuse | Verdict::Unknown)
    }

    /// What the client is told of a request whose session has ended before its answer began: what it
    /// would have been told a moment later.
    pub(super) fn over_reply(&self, request: &RequestHeader, ctx: &Context) -> Option<Reply> {
        if !ctx.over {
            return None;
        }
        match self
            .gate
            .decide_session(request, self.clock.now(), Known::Over)
        {
            Decision::Reply(reply) => Some(reply),
            _ => None,
        }
    }

    /// Returns once a socket, or a stream, that is being opened is its caller's no more, or the session
    /// is over that it is opened by.
    pub(super) fn over(
        &self,
        request: &RequestHeader,
        opened: &Opened,
        pod: Option<Arc<Backend>>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let riding = self.ride(request, &opened.caller, &opened.host);
        let entry = riding.map(|riding| riding.entry);
        let lost = self.lost(request, opened, pod, entry.clone());
        let Some(entry) = entry else {
            return Box::pin(lost);
        };
        let session_over = self.renewals.clone().until_over(entry);
        Box::pin(async move {
            tokio::select! {
                () = session_over => {}
                () = lost => {}
            }
        })
    }
}
