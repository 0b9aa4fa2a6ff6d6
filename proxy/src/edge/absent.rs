//! Requests for a workspace without pods: what control says of it decides.

use super::Edge;
use super::context::{Context, Failure};
use crate::ask::{AskError, Question};
use crate::gate::{Asked, Wants};
use crate::hold::{Patience, Woken, wait_for, weight};
use crate::metrics::{HoldEnd, Told, ToldLabels};
use crate::reply::Reply;
use nogoo9_model::absent::{Absent, Status};
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
        ctx.wants_html = asked.html;
        if asked.wants == Wants::Events {
            return self.progress(session, ctx, &asked).await;
        }
        let opened = asked.opened.take();
        let reply = match (asked.wants, self.told(session, ctx, &asked).await) {
            (_, Err(AskError::NotTheirs)) => {
                self.not_theirs(session.req_header(), ctx, &asked);
                self.gate.not_found(asked.html)
            }
            (_, Err(AskError::Refused(refusal))) => Reply::refused(asked.html, &refusal),
            (Wants::Start, Ok(told)) => Reply::started(&asked, &told),
            (Wants::Start, Err(AskError::Unreachable(_))) => {
                Reply::unavailable(asked.html, "The workspace cannot be started at the moment.")
            }
            (Wants::Status | Wants::Events, Err(AskError::Unreachable(_))) => match opened {
                Some(opened) => opened.status(),
                None => Reply::unavailable(asked.html, NOBODY_KNOWS),
            },
            (Wants::Status | Wants::Events, Ok(told)) => Reply::status(&(&told).into()),
            (Wants::Page, Err(AskError::Unreachable(_))) => match opened {
                Some(opened) => return self.open(session, ctx, opened).await,
                None => Reply::unavailable(asked.html, NOBODY_KNOWS),
            },
            (Wants::Page, Ok(told)) => match (told.status, opened) {
                (Status::Stopped | Status::Stopping | Status::Deleting, _) => {
                    Reply::absent(&asked, &told)
                }
                (_, Some(opened)) => return self.open(session, ctx, opened).await,
                (_, None) => return self.arrive(session, ctx, &asked, &told).await,
            },
        };
        self.reply(session, ctx, &reply).await
    }

    /// What control says, as far as it is the caller's business.
    pub(super) async fn told(
        &self,
        session: &Session,
        ctx: &Context,
        asked: &Asked,
    ) -> Result<Absent, AskError> {
        let question = Question {
            id: &asked.id,
            host: &asked.host,
            path: &asked.path,
            client: ctx.client,
            headers: &session.req_header().headers,
        };
        let told = match asked.wants {
            Wants::Start => self.asker.start(question).await,
            Wants::Page | Wants::Status | Wants::Events => self.asker.absent(question).await,
        };
        let answer = match &told {
            Ok(_) => Told::Known,
            Err(AskError::NotTheirs) => Told::NotTheirs,
            Err(AskError::Refused(_)) => Told::Refused,
            Err(AskError::Unreachable(reason)) => {
                tracing::warn!(reason, "control cannot be asked about a workspace");
                Told::Unreachable
            }
        };
        self.metrics
            .asked
            .get_or_create(&ToldLabels { answer })
            .inc();
        match told {
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

    /// Holds a request until its workspace has come to the table, where holding goes on.
    async fn arrive(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        asked: &Asked,
        told: &Absent,
    ) -> pingora::Result<bool> {
        let bytes = weight(session.req_header());
        let Ok(place) = self.holds.take_absent(&Arc::from(&*asked.id), bytes) else {
            self.held(HoldEnd::Full);
            let full = "Too many requests wait for this workspace already.";
            let reply = Reply::unavailable(asked.html, full);
            return self.reply(session, ctx, &reply).await;
        };
        let patience = Patience::new(ctx.started, &self.holds.bounds, asked.html);
        let arrival = self.gate.table.arrival(&asked.id);
        let stopping = self.stopping.cancelled();
        let client = session.as_downstream_mut();
        let woken = wait_for(client, arrival, stopping, patience.next()).await;
        drop(place);
        match woken {
            Woken::Changed => match self.gate.admit(asked) {
                Some(opened) => self.open(session, ctx, opened).await,
                None => {
                    let reply = self.gate.not_found(asked.html);
                    self.reply(session, ctx, &reply).await
                }
            },
            Woken::ClientGone => {
                self.held(HoldEnd::ClientGone);
                ctx.failure = Some(Failure::ClientGone);
                session.set_keepalive(None);
                Ok(true)
            }
            Woken::Stopping => {
                self.held(HoldEnd::Stopping);
                let reply = if asked.html {
                    Reply::absent(asked, told)
                } else {
                    Reply::stopping()
                };
                self.reply(session, ctx, &reply).await
            }
            Woken::TimedOut => {
                let page = patience.wants_page(Instant::now());
                self.held(if page {
                    HoldEnd::Page
                } else {
                    HoldEnd::TimedOut
                });
                let reply = Reply::absent(asked, told);
                self.reply(session, ctx, &reply).await
            }
        }
    }
}
