//! Connections to pods and to control: which one a request takes, and what becomes of it where there is
//! none.

use super::Edge;
use super::again::{pod_peer, take_own};
use super::answer::NO_ADDRESS;
use super::context::{Context, Hop};
use super::find::NotFound;
use super::upstream::peer;
use crate::buffers;
use crate::busy::Busy;
use crate::endless;
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Duration;

/// How long an unused connection to control is kept.
const CONTROL_IDLE: Duration = Duration::from_secs(30);
/// Longest silence of control: it answers everything within 40 s, and keeps its streams alive.
const CONTROL_ANSWER: Duration = Duration::from_secs(60);

fn control_peer(request: &RequestHeader, address: SocketAddr) -> HttpPeer {
    let mut peer = peer(address, CONTROL_IDLE);
    if !request.method.is_safe() {
        // It is not to meet the end of a connection that control closes at this very moment.
        take_own(&mut peer);
    }
    peer.options.read_timeout = Some(CONTROL_ANSWER);
    // It is no application of somebody's: one that takes nothing hangs. While it is written to, its
    // answer is not waited for, so that has no bound of its own then.
    peer.options.write_timeout = Some(CONTROL_ANSWER);
    peer
}

impl Edge {
    /// Where a request goes next.
    pub(super) async fn next_peer(
        &self,
        session: &mut Session,
        ctx: &mut Context,
    ) -> pingora::Result<Box<HttpPeer>> {
        self.find_another(session, ctx).await?;
        match &mut ctx.hop {
            Hop::Pod(hop) => {
                let Some((backend, entered)) = hop.next.take() else {
                    return Error::err_in(ErrorType::InternalError);
                };
                let Some(address) = hop.opened.address(&backend) else {
                    return Error::err_in(ErrorType::InternalError);
                };
                let uploads = !session.as_downstream_mut().is_body_empty();
                let peer = pod_peer(session.req_header(), uploads, hop, &backend, address);
                hop.current = Some((backend, entered));
                Ok(Box::new(peer))
            }
            Hop::Control { .. } => match self.control.address() {
                Some(address) => Ok(Box::new(control_peer(session.req_header(), address))),
                None => Error::err_in(NO_ADDRESS),
            },
            Hop::None => Error::err_in(ErrorType::InternalError),
        }
    }

    /// Finds a pod for a request that needs another one.
    async fn find_another(&self, session: &mut Session, ctx: &mut Context) -> pingora::Result<()> {
        let mut hop = match std::mem::replace(&mut ctx.hop, Hop::None) {
            Hop::Pod(hop) if hop.next.is_none() => hop,
            other => {
                ctx.hop = other;
                return Ok(());
            }
        };
        // What ends while it is held is answered, and not cut off.
        let sends = hop.body_line.take().is_some();
        let found = self
            .find(session, ctx, &mut hop.opened, &mut hop.search)
            .await;
        let found = match found {
            Ok(next) => {
                // Its answer begins with this pod.
                (hop.expires, hop.look_at) = self.terms(&hop.opened.caller);
                hop.next = Some(next);
                Ok(())
            }
            Err(NotFound::TurnedAway(reply)) => {
                ctx.turned_away = Some(reply);
                Error::err_in(ErrorType::HTTPStatus(401))
            }
            Err(NotFound::None(failure)) => {
                self.note_failure(session.req_header(), ctx, &hop.opened, failure);
                Error::err_in(ErrorType::HTTPStatus(503))
            }
        };
        ctx.hop = Hop::Pod(hop);
        if sends && found.is_ok() {
            self.watch_body(session, ctx);
        }
        found
    }

    /// Notes a connection to a pod, and whether it is to be used.
    pub(super) fn connected(
        &self,
        connection: RawFd,
        reused: bool,
        ctx: &mut Context,
    ) -> pingora::Result<()> {
        if let Hop::Pod(hop) = &mut ctx.hop
            && let Some((backend, _)) = &hop.current
        {
            let going = ctx.busy.as_ref().map_or(1, Busy::going);
            buffers::towards_pod(connection, going);
            if !reused {
                self.lines.opened(&backend.uid, connection);
            }
            // While a pod is dialled it may go, and another one get its address and answer in its
            // place. So nothing is sent before the route was looked at once more.
            if !hop.opened.workspace.route().reaches(backend) {
                hop.missed = true;
                return Error::e_explain(ErrorType::ConnectError, "the pod has gone meanwhile");
            }
            if let Some(pod) = hop.opened.address(backend)
                && !backend.speaks_http2(pod)
            {
                endless::awaits(connection, pod);
            }
        }
        Ok(())
    }

    /// Has another pod tried, where one was not reached.
    pub(super) fn not_connected(&self, ctx: &mut Context, mut e: Box<Error>) -> Box<Error> {
        match &mut ctx.hop {
            Hop::Pod(hop) => {
                if let Some((backend, _)) = hop.current.take() {
                    hop.search.attempts.failed(&backend.uid);
                }
                self.metrics.retries.inc();
                // Nothing was sent. Whether there is anything left to try is for `pick` to say.
                e.set_retry(true);
            }
            Hop::Control { .. } | Hop::None => e.set_retry(false),
        }
        e
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_is_not_waited_for_as_a_pod_is() {
        let peer = |method| {
            let request = RequestHeader::build(method, b"/", None).unwrap();
            control_peer(&request, SocketAddr::from(([127, 0, 0, 1], 1)))
        };
        let options = peer("GET").options;
        assert_eq!(options.read_timeout, Some(CONTROL_ANSWER));
        assert_eq!(options.write_timeout, Some(CONTROL_ANSWER));
        // What must not be repeated takes no connection that others had.
        assert_eq!(peer("GET").group_key, peer("HEAD").group_key);
        assert_ne!(peer("POST").group_key, peer("POST").group_key);
    }
}
