//! Requests whose caller a personal access token proves: learnt before they are let in, and looked at
//! again for as long as what they opened stays open.

use super::Edge;
use crate::gate::{Decision, html_for};
use crate::reply::Reply;
use nogoo9_runtime::secret::Secret;
use pingora::http::RequestHeader;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::task::AbortOnDropHandle;

/// Returns once a token counts no more; never, where there is none to look at.
pub(super) type Revoked = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whether a token was revoked. It is looked at for as long as this lives.
#[derive(Debug)]
pub(super) struct Watched {
    revoked: Arc<AtomicBool>,
    _task: AbortOnDropHandle<()>,
}

impl Watched {
    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }
}

impl Edge {
    /// What is done with a request whose personal access token control has to judge.
    pub(super) async fn proven(&self, request: &RequestHeader, client: Option<IpAddr>) -> Decision {
        let Some(token) = self.gate.auth.personal_token(&request.headers) else {
            return Decision::AskPersonal;
        };
        let place = async {
            let failures = self.failures.as_ref()?;
            failures.place(client).await
        };
        let asked = self.personal.ask_from(place, token, self.clock.now());
        match asked.await {
            Ok(verdict) => self.gate.decide_for(request, self.clock.now(), verdict),
            Err(error) => {
                let text = format!("Nobody can be recognised: {error}.");
                Decision::Reply(Reply::unavailable(html_for(request), &text))
            }
        }
    }

    /// Returns once the personal access token of the request counts no more.
    pub(super) fn revoked(&self, request: &RequestHeader) -> Revoked {
        let Some(token) = self.gate.auth.personal_token(&request.headers) else {
            return Box::pin(std::future::pending());
        };
        let (personal, token) = (self.personal.clone(), Secret::new(token));
        let clock = self.clock.clone();
        Box::pin(async move { personal.revoked(token.expose(), || clock.now()).await })
    }

    /// Looks at the personal access token of the request, if that is what proves its caller.
    pub(super) fn watched(&self, request: &RequestHeader) -> Option<Watched> {
        self.gate.auth.personal_token(&request.headers)?;
        let revoked = Arc::new(AtomicBool::new(false));
        let (ended, flag) = (self.revoked(request), Arc::clone(&revoked));
        let task = tokio::spawn(async move {
            ended.await;
            flag.store(true, Ordering::Relaxed);
        });
        Some(Watched {
            revoked,
            _task: AbortOnDropHandle::new(task),
        })
    }
}
