//! Pingora's hooks. Each does one thing and leaves the deciding to pure modules.

mod absent;
mod again;
mod answer;
mod claim;
mod context;
mod downstream;
mod find;
mod follow;
mod judge;
mod line;
mod listen;
mod peer;
mod personal;
mod pick;
mod progress;
mod refusal;
mod renew;
mod socket;
mod unchunked;
mod upstream;

use crate::ask::Asker;
use crate::busy::{Bounds, TowardsControl};
use crate::clock::Clock;
use crate::control::Control;
use crate::endless;
use crate::gate::{Decision, Gate, host_of};
use crate::headers::{self, Mapping, Origin};
use crate::hold::Holds;
use crate::lines::Lines;
use crate::metrics::{By, Class, Metrics, RequestLabels};
use crate::peers::Peers;
use crate::personal::Personal;
use crate::renew::Renewals;
use crate::reply::{Html, Reply};
use crate::retry::Budget;
use crate::route::Mode;
use crate::sessions::Sessions;
use crate::tls;
use crate::tunnel::handshake::MAX_INFORMATIONAL;
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use nogoo9_runtime::client::TrustedProxies;
use nogoo9_runtime::limit::Failures;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::HttpModules;
use pingora::protocols::Digest;
use pingora::proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType};
use std::num::NonZeroU64;
use std::os::fd::RawFd;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use context::{Failure, Hop};
use personal::Watched;

pub use context::Context;

/// The proxy as Pingora runs it.
#[derive(Debug)]
pub struct Edge {
    /// Decides.
    pub gate: Gate,
    /// Where control is.
    pub control: Control,
    /// Asks control about workspaces without pods.
    pub asker: Asker,
    /// Asks control about personal access tokens.
    pub personal: Personal,
    /// Asks control whether browser sessions go on.
    pub renewals: Renewals,
    /// What tokens and sessions are judged by.
    pub clock: Clock,
    /// Longest life of a socket or stream that a bearer token opened (`--max-bearer-age`).
    pub max_bearer_age: Duration,
    /// How long nothing may flow over a WebSocket (`--socket-idle-timeout`).
    pub socket_idle: Option<Duration>,
    /// Whose word counts about where requests come from.
    pub trusted: TrustedProxies,
    /// Forged credentials, by address; `None`: they are not limited.
    pub failures: Option<Failures>,
    /// What is open.
    pub sessions: Sessions,
    /// Asks other proxies what is open there.
    pub peers: Peers,
    /// Connections to pods.
    pub lines: Lines,
    /// What is held.
    pub holds: Holds,
    /// How much goes on in one workspace.
    pub busy: Bounds,
    /// How much goes on towards control.
    pub towards_control: TowardsControl,
    /// Largest body of a request, in bytes; `None`: any.
    pub max_body: Option<NonZeroU64>,
    /// Streams of events that waiting pages follow.
    pub streams: Holds,
    /// What is counted.
    pub metrics: Metrics,
    /// What may be repeated, in all.
    pub repeats: Budget,
    /// Open sockets' tasks, waited for when stopping.
    pub sockets: TaskTracker,
    /// Once the listener closes: nothing new is opened that lasts.
    pub stopping: CancellationToken,
    /// Once requests in flight are nearly out of time: what is held still is told to ask elsewhere.
    pub last_call: CancellationToken,
}

#[async_trait]
impl ProxyHttp for Edge {
    type CTX = Context;

    fn new_ctx(&self) -> Context {
        Context::new(Instant::now())
    }

    fn init_downstream_modules(&self, modules: &mut HttpModules) {
        modules.add_module(Box::new(unchunked::Builder));
    }

    async fn request_filter(
        &self,
        session: &mut Session,
        ctx: &mut Context,
    ) -> pingora::Result<bool> {
        crate::accept::reached(session);
        downstream::begin(session);
        ctx.client = self.client(session);
        if let Err(flaw) = self.read(session) {
            tracing::debug!(%flaw, client = ?ctx.client, "a request that may be read in two ways");
            // What comes behind it may be of the same kind.
            session.set_keepalive(None);
            return self.reply(session, ctx, &Reply::flawed(flaw)).await;
        }
        if tls::shown().is_some_and(|shown| shown.is_misdirected(host_of(session.req_header()))) {
            let message = "This connection is that of another host; open one for this host.";
            return self.reply(session, ctx, &Reply::misdirected(message)).await;
        }
        if self.is_too_large(session.req_header()) {
            return self.reply(session, ctx, &Reply::too_large()).await;
        }
        let decision = match self.decide(session.req_header(), ctx).await {
            Ok(decision) => decision,
            Err(reply) => return self.reply(session, ctx, &reply).await,
        };
        match decision {
            Decision::Reply(reply) => {
                let reply = self.turned_away(session.req_header(), ctx, reply);
                self.reply(session, ctx, &reply).await
            }
            Decision::FetchKeys | Decision::AskPersonal | Decision::AskSession(_) => {
                self.reply(session, ctx, &Reply::unavailable(Html::No, "Try again."))
                    .await
            }
            Decision::Control { host } => self.to_control(session, ctx, host).await,
            Decision::Open(opened) => self.open(session, ctx, opened, None).await,
            Decision::Ask(asked) => self.ask(session, ctx, asked).await,
        }
    }

    async fn upstream_peer(
        &self,
        session: &mut Session,
        ctx: &mut Context,
    ) -> pingora::Result<Box<HttpPeer>> {
        self.next_peer(session, ctx).await
    }

    async fn connected_to_upstream(
        &self,
        _: &mut Session,
        reused: bool,
        _: &HttpPeer,
        connection: RawFd,
        _: Option<&Digest>,
        ctx: &mut Context,
    ) -> pingora::Result<()> {
        self.connected(connection, reused, ctx)
    }

    fn fail_to_connect(
        &self,
        _: &mut Session,
        _: &HttpPeer,
        ctx: &mut Context,
        e: Box<Error>,
    ) -> Box<Error> {
        self.not_connected(ctx, e)
    }

    fn error_while_proxy(
        &self,
        peer: &HttpPeer,
        session: &mut Session,
        e: Box<Error>,
        ctx: &mut Context,
        client_reused: bool,
    ) -> Box<Error> {
        let e = e.more_context(format!("peer: {peer}"));
        self.once_more(session, e, ctx, client_reused)
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut Context,
    ) -> pingora::Result<()> {
        let client = ctx.client;
        match &ctx.hop {
            Hop::Pod(hop) => {
                let strips = hop
                    .current
                    .as_ref()
                    .is_none_or(|(backend, _)| backend.strip_prefix);
                let identity = hop
                    .current
                    .as_ref()
                    .is_some_and(|(backend, _)| backend.identity_headers);
                let sent = session.req_header();
                *request = self.shape(sent, request, &hop.opened, client, strips, identity)?;
                Ok(())
            }
            Hop::Control { host } => headers::towards_control(
                request,
                Origin {
                    host,
                    scheme: self.gate.console.scheme(),
                    client,
                },
            ),
            Hop::None => Ok(()),
        }
    }

    async fn request_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        ctx: &mut Context,
    ) -> pingora::Result<()> {
        // An upload over HTTP/2 that ends in an empty DATA frame would be ended twice towards an
        // HTTP/1 pod, and spoil the connection for whoever uses it next.
        if end_of_stream && body.as_ref().is_some_and(Bytes::is_empty) {
            *body = None;
        }
        ctx.body += body.as_ref().map_or(0, |body| body.len() as u64);
        if self.exceeds(ctx.body) {
            return Error::e_explain(answer::TOO_LARGE, "the body is too large");
        }
        ctx.data();
        if end_of_stream {
            ctx.body_came();
        }
        if !self.flows_on(session.req_header(), ctx) {
            return Error::e_explain(ErrorType::InternalError, "the caller's session is over");
        }
        Ok(())
    }

    async fn upstream_response_filter(
        &self,
        _: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> pingora::Result<()> {
        endless::came(response.status.is_informational());
        if !headers::fit(response)? {
            return Error::e_explain(ErrorType::InvalidHTTPHeader, "a head that is too large");
        }
        if let Err(why) = headers::settle(response) {
            return Error::e_explain(ErrorType::InvalidHTTPHeader, why);
        }
        // Here, since Pingora makes chunks of such an answer.
        ctx.ends_with_connection(response);
        Self::holds_stream(response, ctx);
        Ok(())
    }

    fn upstream_response_trailer_filter(
        &self,
        _: &mut Session,
        trailers: &mut HeaderMap,
        _: &mut Context,
    ) -> pingora::Result<()> {
        match headers::fit_trailers(trailers) {
            true => Ok(()),
            false => Error::e_explain(ErrorType::InvalidHTTPHeader, "trailers that are too large"),
        }
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> pingora::Result<()> {
        if response.status == StatusCode::SWITCHING_PROTOCOLS {
            // Nothing that goes this way asks for another protocol.
            let why = "a 101 that nobody asked for";
            return Error::e_explain(ErrorType::InvalidHTTPHeader, why);
        }
        if response.status.is_informational() {
            ctx.data();
            ctx.informed += 1;
            if ctx.informed > MAX_INFORMATIONAL {
                let what = "informational answers without an end";
                return Error::e_explain(ErrorType::InvalidHTTPHeader, what);
            }
        } else {
            ctx.begun();
            ctx.bodiless = downstream::is_bodiless(session.req_header(), response);
        }
        self.watch(session, response, ctx);
        if session.is_process_shutting_down() {
            // The client is to go on elsewhere.
            session.set_keepalive(None);
        }
        // The version is the edge's, whatever the pod speaks (RFC 9110, section 6.2).
        response.set_version(Version::HTTP_11);
        if unchunked::ends_with_connection(session.req_header(), response) {
            session.set_keepalive(None);
        }
        let Hop::Pod(hop) = &ctx.hop else {
            return self.secure_transport(response);
        };
        if let Some(origin) = self.gate.reader(session.req_header(), &hop.opened) {
            headers::let_read(response, &origin)?;
        }
        let Some(prefix) = hop.opened.prefix() else {
            headers::from_pod(response, None)?;
            return self.pass_on(response, ctx);
        };
        let pod = hop.current.as_ref().and_then(|(backend, _)| {
            let address = hop.opened.address(backend)?;
            Some((address.to_string(), backend.strip_prefix))
        });
        let (pod, stripped) = pod.unwrap_or_default();
        let mapping = Mapping {
            prefix: &prefix,
            stripped,
            shared: hop.opened.mode == Mode::Path,
            host: &hop.opened.host,
            pod: &pod,
        };
        headers::from_pod(response, Some(mapping))?;
        self.pass_on(response, ctx)
    }

    fn response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        ctx: &mut Context,
    ) -> pingora::Result<Option<Duration>> {
        ctx.data();
        if ctx.bodiless {
            // A pod that speaks HTTP/2 may send one all the same. It comes here before its head is
            // written, where both have come at once.
            *body = None;
        }
        if end_of_stream && self.was_cut_off(ctx) {
            return Error::e_explain(ErrorType::ConnectionClosed, "the pod is gone");
        }
        if let Hop::Pod(hop) = &ctx.hop
            && (self.clock.now() >= hop.expires
                || hop.personal.as_ref().is_some_and(Watched::is_revoked))
        {
            // No stream outlives the token that opened it.
            return Error::e_explain(ErrorType::InternalError, "the caller's token has ended");
        }
        if !self.flows_on(session.req_header(), ctx) {
            return Error::e_explain(ErrorType::InternalError, "the caller's session is over");
        }
        Ok(None)
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        e: &Error,
        ctx: &mut Context,
    ) -> FailToProxy {
        let gone = FailToProxy {
            error_code: 0,
            can_reuse_downstream: false,
        };
        let broke = *e.esource() == ErrorSource::Downstream
            && matches!(
                e.etype(),
                ErrorType::ConnectionClosed | ErrorType::ReadError | ErrorType::WriteError
            )
            && !crate::accept::is_lost(session.as_downstream());
        if broke || ctx.failure == Some(Failure::ClientGone) {
            ctx.status = 0;
            return gone;
        }
        if session.response_written().is_some() {
            return gone;
        }
        let reply = match ctx.turned_away.take() {
            Some(reply) => Some(reply),
            None => self.over_reply(session.req_header(), ctx),
        };
        let reply = reply.unwrap_or_else(|| self.failure_reply(e, ctx));
        ctx.status = reply.status.as_u16();
        // The connection ends with this, and the client is to know.
        session.set_keepalive(None);
        if let Err(error) = self.write(session, &reply).await {
            tracing::debug!(%error, "the client went before the answer");
        }
        FailToProxy {
            error_code: reply.status.as_u16(),
            can_reuse_downstream: false,
        }
    }

    fn suppress_error_log(&self, _: &Session, _: &Context, _: &Error) -> bool {
        // `logging` writes one line a request, with the reason.
        true
    }

    fn suppress_proxy_warn_log(
        &self,
        _: &Session,
        _: &Context,
        _: &Error,
        _: ProxyWarnLogContext,
    ) -> bool {
        true
    }

    async fn logging(&self, session: &mut Session, e: Option<&Error>, ctx: &mut Context) {
        // After this the connection is closed, or used again.
        ctx.let_go();
        downstream::end(session);
        if ctx.tunnelled {
            return;
        }
        let status = session
            .response_written()
            .map_or(ctx.status, |head| head.status.as_u16());
        let by = match &ctx.hop {
            Hop::Pod(_) if ctx.status == 0 => By::Pod,
            Hop::None if ctx.refused_by.is_some() => By::Pod,
            Hop::Control { .. } if ctx.status == 0 => By::Control,
            _ => By::Proxy,
        };
        let took = ctx.started.elapsed();
        self.metrics
            .requests
            .get_or_create(&RequestLabels {
                by,
                class: Class::of(status),
            })
            .inc();
        self.metrics.duration.observe(took.as_secs_f64());
        let request = session.req_header();
        let (workspace, pod) = ctx.names();
        tracing::info!(
            target: "access",
            method = %request.method,
            path = request.uri.path(),
            status,
            by = ?by,
            workspace,
            port = ctx.port(),
            pod,
            attempts = ctx.attempts(),
            milliseconds = took.as_millis() as u64,
            error = e.map(|e| e.etype().as_str()),
            "request"
        );
    }
}
