//! Requests for a workspace without pods: what control says of it decides.

use super::Edge;
use super::context::{Context, Failure};
use super::listen::{Asks, Heard};
use super::progress::stands;
use crate::ask::{ANSWER, AskError, Prepared, Question};
use crate::gate::{Asked, Opened, Wants};
use crate::hold::word::ends_waiting;
use crate::hold::{PAGE_AFTER, Patience, Place, Woken, wait_for, weight};
use crate::metrics::HoldEnd;
use crate::reply::Reply;
use crate::table::Status;
use nogoo9_model::absent::Absent;
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use std::sync::Arc;
use tokio::time::Instant;

/// What a person reads while control cannot be asked.
const NOBODY_KNOWS: &str = "Whether there is such a workspace cannot be told at the moment.";

impl Edge {
    /// Asks control, and answers or holds the request accordingly.
    pub(super) async fn ask(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        mut asked: Box<Asked>,
    ) -> pingora::Result<bool> {
        ctx.html = asked.html;
        let opened = asked.opened.take();
        match (asked.wants, opened) {
            (Wants::Events, _) => self.progress(session, ctx, &asked).await,
            (Wants::Start, _) => {
                let question = self.about(session.req_header(), ctx, &asked);
                let told = self.told(&asked, question).await;
                let reply = match &told {
                    Ok(told) => Reply::started(&asked, told),
                    Err(error) => self.not_told(error, session.req_header(), ctx, &asked),
                };
                self.reply(session, ctx, &reply).await
            }
            (Wants::Status, Some(opened)) => self.status(session, ctx, &asked, &opened).await,
            (Wants::Page, Some(opened)) => self.leave(session, ctx, &asked, opened).await,
            (Wants::Status | Wants::Page, None) => self.arrive(session, ctx, &asked).await,
        }
    }

    fn about(&self, request: &RequestHeader, ctx: &Context, asked: &Asked) -> Prepared {
        self.asker.prepare(Question {
            id: &asked.id,
            host: &asked.host,
            path: &asked.path,
            client: ctx.client,
            headers: &request.headers,
        })
    }

    /// What control says, as far as it is the caller's business.
    async fn told(&self, asked: &Asked, question: Prepared) -> Result<Absent, AskError> {
        let told = match asked.wants {
            Wants::Start => self.asker.start(question).await,
            Wants::Page | Wants::Status | Wants::Events => self.asker.absent(question).await,
        };
        match self.heard(told) {
            // The table knows better whose it is.
            Ok(_) if !asked.theirs => Err(AskError::NotTheirs),
            // What refuses to tell is asked in vain, whatever the id: control has just started, or
            // does not take the caller's word.
            Err(AskError::Refused(_)) if asked.wants != Wants::Start => {
                Err(AskError::Unreachable("it refuses to tell"))
            }
            other => other,
        }
    }

    /// What control says, unless something else comes first: it may be silent.
    pub(super) async fn told_or<C>(
        &self,
        session: &mut Session,
        ctx: &Context,
        asked: &Asked,
        changed: impl Future<Output = C>,
        until: Instant,
    ) -> Woken<Result<Absent, AskError>> {
        let question = self.about(session.req_header(), ctx, asked);
        let told = self.told(asked, question);
        let stopping = self.leaves(session.req_header());
        wait_for(session.as_downstream_mut(), changed, told, stopping, until).await
    }

    /// How things stand with one whose pods are going, or that has one.
    async fn status(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        asked: &Asked,
        opened: &Opened,
    ) -> pingora::Result<bool> {
        let route = opened.workspace.route();
        if route.status != Status::Away {
            let reply = Reply::status(&stands(opened, &route).await);
            return self.reply(session, ctx, &reply).await;
        }
        let changed = opened.workspace.changed_from(&route);
        let until = Instant::now() + PAGE_AFTER;
        let reply = match self.told_or(session, ctx, asked, changed, until).await {
            Woken::Told(Ok(told)) => Reply::status(&(&told).into()),
            Woken::Told(Err(AskError::NotTheirs)) => {
                self.not_told(&AskError::NotTheirs, session.req_header(), ctx, asked)
            }
            Woken::ClientGone => return Ok(gone(session, ctx)),
            Woken::Told(Err(_)) | Woken::Changed | Woken::Stopping | Woken::TimedOut => {
                opened.status()
            }
        };
        self.reply(session, ctx, &reply).await
    }

    /// Holds a request whose workspace is there, and has no pod but what is going; control is asked
    /// meanwhile, and its silence holds up nothing.
    async fn leave(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        asked: &Asked,
        mut opened: Opened,
    ) -> pingora::Result<bool> {
        let bytes = weight(session.req_header());
        let Ok(place) = self.holds.take(&opened.workspace, bytes) else {
            self.held(HoldEnd::Full);
            let reply = Failure::Full.reply(&opened, &self.gate);
            return self.reply(session, ctx, &reply).await;
        };
        place.word.asked(Instant::now());
        let route = opened.workspace.route();
        let changed = opened.workspace.changed_from(&route);
        let until = Patience::new(ctx.started, &self.holds.bounds, asked.html.may_reload()).next();
        let (end, reply) = match self.told_or(session, ctx, asked, changed, until).await {
            Woken::Told(Ok(told)) if ends_waiting(told.status) => {
                place.word.heard(&told);
                (HoldEnd::Told, Reply::absent(asked, &told))
            }
            Woken::Told(Err(error @ AskError::NotTheirs)) => {
                let reply = self.not_told(&error, session.req_header(), ctx, asked);
                (HoldEnd::NotTheirs, reply)
            }
            Woken::ClientGone => {
                self.held(HoldEnd::ClientGone);
                return Ok(gone(session, ctx));
            }
            Woken::Told(Ok(told)) => {
                opened.said = Some((&told).into());
                return self.open(session, ctx, opened, Some(place)).await;
            }
            // What it comes to is seen there.
            Woken::Told(Err(_)) | Woken::Changed | Woken::Stopping | Woken::TimedOut => {
                return self.open(session, ctx, opened, Some(place)).await;
            }
        };
        drop(place);
        self.held(end);
        self.reply(session, ctx, &reply).await
    }

    /// Answers for a workspace that the table does not know, or holds a request until it does, where
    /// holding goes on. There is no place before control has said that it is theirs: others have none
    /// among those of a workspace, and could tell by it that it is there. How many ask is bounded.
    async fn arrive(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        asked: &Asked,
    ) -> pingora::Result<bool> {
        let arrival = async {
            // One that is there, and not theirs, does not arrive.
            if !asked.theirs {
                std::future::pending::<()>().await;
            }
            self.gate.table.arrival(&asked.id).await;
        };
        let until = Instant::now() + ANSWER;
        let told = match self.told_or(session, ctx, asked, arrival, until).await {
            Woken::Told(Ok(told)) => told,
            Woken::Told(Err(error)) => {
                let reply = self.not_told(&error, session.req_header(), ctx, asked);
                return self.reply(session, ctx, &reply).await;
            }
            Woken::Changed => return self.came(session, ctx, asked, None).await,
            Woken::ClientGone => return Ok(gone(session, ctx)),
            Woken::Stopping | Woken::TimedOut => {
                let reply = Reply::unavailable(asked.html, NOBODY_KNOWS);
                return self.reply(session, ctx, &reply).await;
            }
        };
        if asked.wants == Wants::Status {
            return self
                .reply(session, ctx, &Reply::status(&(&told).into()))
                .await;
        }
        if ends_waiting(told.status) {
            return self.reply(session, ctx, &Reply::absent(asked, &told)).await;
        }
        let bytes = weight(session.req_header());
        let Ok(place) = self.holds.take_absent(&Arc::from(&*asked.id), bytes) else {
            self.held(HoldEnd::Full);
            let full = "Too many requests wait for this workspace already.";
            let reply = Reply::unavailable(asked.html, full);
            return self.reply(session, ctx, &reply).await;
        };
        let patience = Patience::new(ctx.started, &self.holds.bounds, asked.html.may_reload());
        let arrival = async { drop(self.gate.table.arrival(&asked.id).await) };
        let mut asks = Asks::new(&asked.id, &asked.host, ctx.client);
        let client = session.as_downstream_mut();
        let woken = self
            .listen(client, &place, Some(&mut asks), arrival, patience.next())
            .await;
        let (end, reply) = match woken {
            Woken::Changed => return self.came(session, ctx, asked, Some(place)).await,
            Woken::ClientGone => {
                self.held(HoldEnd::ClientGone);
                return Ok(gone(session, ctx));
            }
            Woken::Told(Heard::Away(told)) => (HoldEnd::Told, Reply::absent(asked, &told)),
            Woken::Told(Heard::NotTheirs) => {
                let reply = self.not_told(&AskError::NotTheirs, session.req_header(), ctx, asked);
                (HoldEnd::NotTheirs, reply)
            }
            Woken::Stopping if !asked.html.may_reload() => {
                (HoldEnd::Stopping, Reply::stopping(asked.html))
            }
            Woken::Stopping => (HoldEnd::Stopping, Reply::absent(asked, &told)),
            Woken::TimedOut if patience.wants_page(Instant::now()) => {
                (HoldEnd::Page, Reply::absent(asked, &told))
            }
            Woken::TimedOut => (HoldEnd::TimedOut, Reply::absent(asked, &told)),
        };
        drop(place);
        self.held(end);
        self.reply(session, ctx, &reply).await
    }

    /// Goes on with a request whose workspace has come to the table: with its place, so that it keeps
    /// its turn.
    async fn came(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        asked: &Asked,
        place: Option<Place>,
    ) -> pingora::Result<bool> {
        let Some(opened) = self.gate.admit(asked) else {
            if place.is_some() {
                self.held(HoldEnd::NotTheirs);
            }
            let reply = self.not_told(&AskError::NotTheirs, session.req_header(), ctx, asked);
            return self.reply(session, ctx, &reply).await;
        };
        if asked.wants == Wants::Status {
            let told = stands(&opened, &opened.workspace.route()).await;
            return self.reply(session, ctx, &Reply::status(&told)).await;
        }
        let place = place.map(|mut place| {
            place.arrived(&opened.workspace);
            place
        });
        self.open(session, ctx, opened, place).await
    }

    /// The answer where control has told nothing that helps, and its record.
    pub(super) fn not_told(
        &self,
        error: &AskError,
        request: &RequestHeader,
        ctx: &Context,
        asked: &Asked,
    ) -> Reply {
        match error {
            AskError::NotTheirs => {
                self.not_theirs(request, ctx.client, &asked.caller, &asked.id);
                self.gate.not_found(asked.html)
            }
            AskError::Refused(refusal) => Reply::refused(asked.html, refusal),
            AskError::Unreachable(_) => {
                let message = match asked.wants {
                    Wants::Start => "The workspace cannot be started at the moment.",
                    Wants::Page | Wants::Status | Wants::Events => NOBODY_KNOWS,
                };
                Reply::unavailable(asked.html, message)
            }
        }
    }
}

/// Ends a request whose client has gone.
pub(super) fn gone(session: &mut Session, ctx: &mut Context) -> bool {
    ctx.failure = Some(Failure::ClientGone);
    session.set_keepalive(None);
    true
}
