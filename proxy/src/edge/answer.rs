//! What the client is told, and a pod for whoever may have one.

use super::Edge;
use super::context::{Context, Failure, Hop, PodHop};
use super::downstream;
use super::find::Search;
use crate::accept::count::Full;
use crate::busy::Busy;
use crate::dial::Attempts;
use crate::gate::{Opened, html_for, target};
use crate::headers::let_read_ours;
use crate::hold::{Patience, Place};
use crate::metrics::{HoldEnd, HoldLabels};
use crate::reply::{Html, Reply, TRANSPORT_SECURITY};
use http::header::{CONTENT_LENGTH, SET_COOKIE, STRICT_TRANSPORT_SECURITY};
use http::{Method, StatusCode};
use nogoo9_identity::Verified;
use nogoo9_identity::session::RENEW_AHEAD;
use nogoo9_model::UnixSeconds;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::proxy::Session;
use pingora::{Error, ErrorSource, ErrorType};

/// How long an answer may take in any case, in seconds. Tokens count for some seconds beyond their
/// end, since clocks differ, and what was let in is answered in full.
const LEAST_ANSWER: UnixSeconds = 60;

/// Nobody knows where control is.
pub(super) const NO_ADDRESS: ErrorType = ErrorType::HTTPStatus(503);

/// A body that has turned out to be larger than it may be.
pub(super) const TOO_LARGE: ErrorType = ErrorType::HTTPStatus(413);

impl Edge {
    /// Whether a request announces a body that is larger than it may be.
    pub(super) fn is_too_large(&self, request: &RequestHeader) -> bool {
        let length = request.headers.get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        length.is_some_and(|length: u64| self.exceeds(length))
    }

    /// Whether so many bytes of a body are too many.
    pub(super) fn exceeds(&self, bytes: u64) -> bool {
        self.max_body.is_some_and(|most| bytes > most.get())
    }

    /// Lets a request go on to control, if there is a place for it there.
    pub(super) async fn to_control(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        host: String,
    ) -> pingora::Result<bool> {
        ctx.html = html_for(session.req_header());
        // A proxy that does not tell whose its requests are stands for many.
        let client = ctx.client.filter(|client| !self.trusted.trust(*client));
        match self.towards_control.take(client) {
            Ok(place) => {
                ctx.towards_control = Some(place);
                ctx.hop = Hop::Control { host };
                Ok(false)
            }
            Err(full) => {
                self.metrics.control_full(full);
                let message = match full {
                    Full::Total => "Too much is going on at the console at once.",
                    Full::Client => "Too much of your address is going on at the console at once.",
                };
                let reply = Reply::unavailable(ctx.html, message);
                self.reply(session, ctx, &reply).await
            }
        }
    }

    /// Picks a pod for a request that may go to one, and holds it until there is one; with its `place`,
    /// if it is held already.
    pub(super) async fn open(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        mut opened: Opened,
        place: Option<Place>,
    ) -> pingora::Result<bool> {
        let kind = opened.kind();
        ctx.busy = Busy::take(&opened.workspace, kind, &self.busy);
        let Some(busy) = &ctx.busy else {
            self.metrics.busy(kind);
            // Not 429: it may be others who have taken all places (RFC 9110, section 15.6.4).
            let message = "Too much is going on in this workspace at once.";
            let reply = Reply::unavailable(opened.html, message);
            return self.reply(session, ctx, &reply).await;
        };
        if opened.websocket || !session.as_downstream_mut().is_body_empty() {
            downstream::bound(session, busy);
        }
        let mut search = Search {
            attempts: Attempts::default(),
            patience: Patience::new(ctx.started, &self.holds.bounds, opened.html.may_reload()),
            place,
            // Before a pod is picked: what changes later is looked at later.
            judged: self.judged(&opened),
        };
        if opened.websocket {
            return self.socket(session, ctx, opened, search).await;
        }
        let next = match self.find(session, ctx, &mut opened, &mut search).await {
            Ok(next) => next,
            Err(why) => return self.not_served(session, ctx, &opened, why).await,
        };
        // Once, however often it will be tried.
        opened.workspace.repeats.earn();
        self.repeats.earn();
        let (expires, look_at) = self.terms(&opened.caller);
        ctx.hop = Hop::Pod(Box::new(PodHop {
            opened,
            search,
            expires,
            look_at,
            personal: self.watched(session.req_header()),
            line: None,
            body_line: None,
            until_closed: false,
            repeats: 0,
            missed: false,
            next: Some(next),
            current: None,
        }));
        self.watch_body(session, ctx);
        Ok(false)
    }

    /// When an answer to `caller` that begins now ends at the latest, and when its session is to be looked
    /// at, if that is renewed.
    pub(super) fn terms(&self, caller: &Verified) -> (UnixSeconds, Option<UnixSeconds>) {
        let least = self.clock.now().saturating_add(LEAST_ANSWER);
        let look_at = caller.fresh_until;
        let look_at = look_at.map(|until| until.saturating_sub(RENEW_AHEAD));
        (self.ends(caller).max(least), look_at)
    }

    /// When a socket or stream of `caller` ends that begins now. A browser session is asked about all
    /// along; nobody can be asked about a bearer token, so what one opens ends before long.
    pub(super) fn ends(&self, caller: &Verified) -> UnixSeconds {
        if caller.sid.is_some() {
            return caller.expires;
        }
        let most = UnixSeconds::try_from(self.max_bearer_age.as_secs()).unwrap_or(UnixSeconds::MAX);
        caller.expires.min(self.clock.now().saturating_add(most))
    }

    pub(super) fn failure_reply(&self, e: &Error, ctx: &Context) -> Reply {
        if *e.etype() == TOO_LARGE {
            return Reply::too_large();
        }
        if *e.esource() == ErrorSource::Downstream {
            return match e.etype() {
                ErrorType::ReadTimedout => Reply::timed_out(),
                _ => Reply::bad_request(),
            };
        }
        match (&ctx.hop, &ctx.failure) {
            (Hop::Pod(hop), Some(failure)) => failure.reply(&hop.opened, &self.gate),
            (Hop::Pod(hop), None) => match e.etype() {
                ErrorType::ConnectTimedout
                | ErrorType::ConnectRefused
                | ErrorType::ConnectError => Failure::TimedOut.reply(&hop.opened, &self.gate),
                _ => Reply::bad_gateway(hop.opened.html),
            },
            (Hop::Control { .. }, _) if is_unreached(e) => Reply::unavailable(
                ctx.html,
                "The console is not reachable at the moment. Workspaces go on working.",
            ),
            // It may have done what it was asked: whoever sends that again has it done twice.
            (Hop::Control { .. }, _) => Reply::broken_off(ctx.html),
            (Hop::None, _) => Reply::unavailable(Html::No, "The request could not be handled."),
        }
    }

    pub(super) async fn reply(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        reply: &Reply,
    ) -> pingora::Result<bool> {
        ctx.status = reply.status.as_u16();
        match self.next_cookie(ctx) {
            // Nothing that the proxy says is stored by anybody.
            Some(cookie) => {
                let reply = reply.clone().with(SET_COOKIE.as_str(), cookie);
                self.write(session, &reply).await?;
            }
            None => self.write(session, reply).await?,
        }
        Ok(true)
    }

    pub(super) async fn write(&self, session: &mut Session, reply: &Reply) -> pingora::Result<()> {
        let again = (reply.status == StatusCode::SERVICE_UNAVAILABLE)
            .then(|| reply.again_at(target(session.req_header())))
            .flatten();
        let reply = again.as_ref().unwrap_or(reply);
        // What the client still sends is not read, so the connection cannot be used again.
        if !session.as_downstream_mut().is_body_empty() {
            session.set_keepalive(None);
        }
        let bodiless = session.req_header().method == Method::HEAD || reply.body.is_empty();
        let mut head = reply.head()?;
        self.secure_transport(&mut head)?;
        if let Some(origin) = self.gate.reader_of_ours(session.req_header()) {
            let_read_ours(&mut head, origin)?;
        }
        session.write_response_header(head, bodiless).await?;
        if !bodiless {
            session
                .write_response_body(Some(reply.body.clone()), true)
                .await?;
        }
        Ok(())
    }

    /// Has browsers come back by https alone, where that is how they came: said with our own answers,
    /// and never with a workspace's.
    pub(super) fn secure_transport(&self, head: &mut ResponseHeader) -> pingora::Result<()> {
        if self.gate.console.scheme() != "https" {
            return Ok(());
        }
        head.insert_header(STRICT_TRANSPORT_SECURITY, TRANSPORT_SECURITY)
    }

    pub(super) fn held(&self, end: HoldEnd) {
        self.metrics.holds.get_or_create(&HoldLabels { end }).inc();
    }
}

/// Whether nothing was sent: there was nobody to connect to.
fn is_unreached(e: &Error) -> bool {
    matches!(
        e.etype(),
        ErrorType::ConnectTimedout
            | ErrorType::ConnectRefused
            | ErrorType::ConnectNoRoute
            | ErrorType::ConnectError
            | ErrorType::BindError
            | ErrorType::SocketError
    ) || *e.etype() == NO_ADDRESS
}
