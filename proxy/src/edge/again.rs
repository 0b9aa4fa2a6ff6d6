//! Connections to pods: which requests get one of their own, and what is sent once more after one broke.

use super::Edge;
use super::context::{Context, Hop, PodHop};
use super::upstream::{peer, speak_http2};
use crate::endless;
use crate::gate::Opened;
use crate::retry::{Broken, spend_both};
use crate::table::Backend;
use h2::Reason;
use pingora::http::RequestHeader;
use pingora::protocols::ALPN;
use pingora::protocols::http::v2::client::PING_TIMEDOUT;
use pingora::proxy::Session;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long an unused connection to a pod is kept: less than the 5 s after which common application
/// servers close theirs, so that no request meets a connection that is just being closed.
const POD_IDLE: Duration = Duration::from_secs(4);

impl Edge {
    /// Has a request sent once more, if it may be, whose connection was of no use or broke after it was
    /// sent.
    pub(super) fn once_more(
        &self,
        session: &Session,
        mut e: Box<Error>,
        ctx: &mut Context,
        reused: bool,
    ) -> Box<Error> {
        if let Hop::Pod(hop) = &mut ctx.hop
            && std::mem::take(&mut hop.missed)
        {
            // Nothing was sent. The route is another one, so `pick` chooses anew.
            hop.current = None;
            hop.search.attempts.changed();
            self.metrics.retries.inc();
            e.set_retry(true);
            return e;
        }
        let unseen = is_unseen(&e);
        e.set_retry(false);
        if endless::was_cut() {
            // It would do the same again.
            return e;
        }
        let broke = *e.esource() == ErrorSource::Upstream
            && (matches!(
                e.etype(),
                ErrorType::ConnectionClosed
                    | ErrorType::ReadError
                    | ErrorType::WriteError
                    | ErrorType::H2Error
            ) || *e.etype() == PING_TIMEDOUT);
        let repeats = match &ctx.hop {
            Hop::Pod(hop) => hop.repeats,
            // Control closes connections that are not in use when it stops; another one answers.
            Hop::Control { .. } if reused => 0,
            Hop::Control { .. } | Hop::None => return e,
        };
        let broken = Broken {
            method: &session.req_header().method,
            unseen,
            answered: session.response_written().is_some(),
            replayable: !session.as_ref().retry_buffer_truncated(),
            repeats,
        };
        if !broke || !broken.may_repeat() {
            return e;
        }
        let Hop::Pod(hop) = &mut ctx.hop else {
            ctx.body = 0;
            e.set_retry(true);
            return e;
        };
        // What was not looked at, or only reads, may be asked of a dead pod's successor, or once more of a
        // pod that closed a connection which was not in use.
        if !self.may_repeat(&hop.opened) {
            return e;
        }
        hop.repeats += 1;
        // What was read of its body goes through the filters once more.
        ctx.body = 0;
        // It had a pod; if there is none any more, it has as much time as one that arrives.
        hop.search
            .patience
            .restart(tokio::time::Instant::now(), &self.holds.bounds);
        self.metrics.retries.inc();
        if let Some((backend, _)) = hop.current.take()
            && !reused
        {
            hop.search.attempts.failed(&backend.uid);
        }
        e.set_retry(true);
        e
    }

    /// Takes a repetition out of the budgets, if there is one.
    pub(super) fn may_repeat(&self, opened: &Opened) -> bool {
        let may = spend_both(&opened.workspace.repeats, &self.repeats, Instant::now());
        if !may {
            self.metrics.retries_refused.inc();
        }
        may
    }

    /// Whether an answer ended because its pod's connections were shut down, and looks as if it were
    /// complete.
    pub(super) fn was_cut_off(&self, ctx: &Context) -> bool {
        let Hop::Pod(hop) = &ctx.hop else {
            return false;
        };
        let pod = hop.current.as_ref().filter(|_| hop.until_closed);
        pod.is_some_and(|(backend, _)| self.lines.were_shut_down(&backend.uid))
    }
}

/// Whether a pod that speaks HTTP/2 has said that it did not look at a request, whatever it is: by
/// REFUSED_STREAM, or by a GOAWAY that is no complaint and names an earlier request as the last that it
/// has seen (RFC 9113, section 8.7). Streams up to that one are not told of the GOAWAY.
fn is_unseen(e: &Error) -> bool {
    let cause = e.root_cause().downcast_ref::<h2::Error>();
    cause.is_some_and(|cause| {
        let refused = cause.is_reset() && cause.reason() == Some(Reason::REFUSED_STREAM);
        let goes = cause.is_go_away() && cause.reason() == Some(Reason::NO_ERROR);
        cause.is_remote() && (refused || goes)
    })
}

/// The connection that a request takes to its pod.
///
/// Applications close connections that were not in use for a while, and one may be closed at the very
/// moment at which the next request is sent on it. What only reads is sent once more then. All else gets
/// a connection of its own, which nobody has had the time to close, and is not kept afterwards: so that
/// no request that must not be repeated needs to be.
pub(super) fn pod_peer(
    request: &RequestHeader,
    uploads: bool,
    hop: &PodHop,
    backend: &Backend,
    address: SocketAddr,
) -> HttpPeer {
    let mut peer = peer(address, POD_IDLE);
    peer.group_key = backend.pool;
    if backend.speaks_http2(address) {
        speak_http2(&mut peer, uploads);
    }
    // HTTP/2 says itself which requests were not looked at.
    let may_meet_its_end = peer.options.alpn == ALPN::H1;
    let unrepeatable = !request.method.is_safe() || hop.repeats > 0;
    if may_meet_its_end && unrepeatable && hop.opened.workspace.fresh.spend(Instant::now()) {
        take_own(&mut peer);
    }
    peer
}

/// Has a request take a connection of its own, which is not kept afterwards.
pub(super) fn take_own(peer: &mut HttpPeer) {
    peer.group_key = own_key(peer.group_key);
    peer.options.idle_timeout = Some(Duration::ZERO);
}

/// The key of a pool that nothing else is in.
fn own_key(pool: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    pool.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}
