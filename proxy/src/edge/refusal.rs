//! What is turned away leaves its record, and too much of it from one address gets 429.

use super::Edge;
use super::context::Context;
use crate::refusal::Refusal;
use crate::reply::Reply;
use http::StatusCode;
use nogoo9_identity::Verified;
use nogoo9_runtime::audit::{self, How, Outcome, Record, What};
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use std::net::IpAddr;
use std::time::Instant;

/// Where a request may say its id.
const REQUEST_ID: &str = "x-request-id";

impl Edge {
    /// The client's address.
    pub(super) fn client(&self, session: &Session) -> Option<IpAddr> {
        let peer = session.client_addr()?.as_inet()?.ip();
        Some(self.trusted.client(peer, &session.req_header().headers))
    }

    /// The answer to a request that the gate has turned away, and its record.
    pub(super) fn turned_away(
        &self,
        request: &RequestHeader,
        ctx: &Context,
        reply: Reply,
    ) -> Reply {
        let Some((workspace, host)) = self.gate.addressed(request) else {
            return reply;
        };
        let now = self.clock.now();
        let token = self.gate.auth.personal_token(&request.headers);
        let personal = token.and_then(|token| self.personal.remembered(token, now));
        let refusal = Refusal::of(&self.gate, request, &host, &reply, personal, now);
        let Some(refusal) = refusal else {
            return reply;
        };
        let limited = self.failures.as_ref().and_then(|failures| {
            let verdict = failures.failed(ctx.client?, refusal.forged?, Instant::now());
            // Whoever navigates is sent to sign in, which mends it.
            verdict
                .err()
                .filter(|_| reply.status == StatusCode::UNAUTHORIZED)
        });
        tell(
            request,
            ctx.client,
            &Refusal {
                reason: limited.map_or(refusal.reason, |_| "too_many_failures"),
                ..refusal
            },
            &workspace,
        );
        limited.map_or(reply, |too_many| Reply::too_many_failures(too_many.seconds))
    }

    /// Leaves a record of somebody who may not open what they asked for, or asked for what is not
    /// there.
    pub(super) fn not_theirs(
        &self,
        request: &RequestHeader,
        from: Option<IpAddr>,
        caller: &Verified,
        workspace: &str,
    ) {
        let how = if self.gate.auth.personal_token(&request.headers).is_some() {
            How::PersonalToken
        } else if caller.sid.is_some() {
            How::Session
        } else {
            How::Bearer
        };
        let refusal = Refusal {
            reason: "not_theirs",
            who: Some(caller.caller.sub.clone()),
            how,
            forged: None,
        };
        tell(request, from, &refusal, workspace);
    }
}

fn tell(request: &RequestHeader, from: Option<IpAddr>, refusal: &Refusal, workspace: &str) {
    let id = request.headers.get(REQUEST_ID);
    audit::write(&Record {
        what: What::Request,
        who: refusal.who.as_deref(),
        from,
        how: refusal.how,
        object: Some(workspace),
        outcome: Outcome::Refused(refusal.reason),
        request: id.and_then(|id| id.to_str().ok()),
    });
}
