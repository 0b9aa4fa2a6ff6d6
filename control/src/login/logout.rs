//! Signing out: the session ends on all hosts, its cookie goes, the provider takes back what it gave for
//! it, and the browser goes there to be signed out as well.

use super::page::{Trouble, onward};
use super::{Login, reply};
use crate::audit;
use crate::cluster::ClusterError;
use crate::session::{SessionRecord, end};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use nogoo9_identity::cookie;
use nogoo9_identity::origin::cookie_counts;
use nogoo9_model::name::session_id;
use nogoo9_runtime::audit::{Outcome, What};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Refresh tokens that are given back at once; beyond that they only are forgotten.
const GIVEN_BACK_AT_ONCE: usize = 16;

/// `POST /auth/logout`, from our own pages only: nobody is signed out by somebody else's.
pub(super) async fn logout(State(login): State<Arc<Login>>, headers: HeaderMap) -> Response {
    if !cookie_counts(&Method::POST, &headers, login.config.console_host()) {
        return Trouble {
            title: "You are still signed in",
            what: "The request to sign out came from another site.",
            todo: "Sign out on the console itself.",
            detail: None,
            again: "/",
        }
        .answer(StatusCode::FORBIDDEN, &[]);
    }
    let names = login.config.cookies();
    let gone = [names.delete(names.session())];
    if let Err(error) = end_all_here(&login, &headers).await {
        tracing::error!(%error, "a session could not be ended");
        audit::write(What::SignOut, None, None, Outcome::Failed("not_stored"));
        return Trouble {
            title: "You are signed out of the console only",
            what: "Workspaces that are open in this browser may stay open, since the end of your \
                   session could not be written down.",
            todo: "Sign in and out again in a moment, or close the workspaces.",
            detail: None,
            again: "/auth/login",
        }
        .answer(StatusCode::SERVICE_UNAVAILABLE, &gone);
    }
    match login.provider.leave(&login.config.public_url).await {
        Some(there) if login.config.is_at_issuer(&there) => reply::redirect(there.as_str(), &gone),
        Some(there) => onward(there.as_str(), &gone),
        None => reply::redirect("/", &gone),
    }
}

/// Ends every session that the request has a cookie of: more than one only where somebody planted
/// another.
async fn end_all_here(login: &Arc<Login>, headers: &HeaderMap) -> Result<(), ClusterError> {
    let host = login.config.console_host();
    for token in cookie::values(headers, login.config.cookies().session()) {
        let Ok(found) = login.verify(token, host) else {
            continue;
        };
        let Some(sid) = &found.sid else { continue };
        let id = session_id(sid);
        let ended = end(&login.cluster, &id, login.now()).await?;
        if let Some(record) = ended {
            login.give_back(&record);
        }
        let sub = Some(found.caller.sub.as_str());
        audit::write(What::SignOut, sub, Some(&id), Outcome::Ok);
    }
    Ok(())
}

/// Places for refresh tokens that are being given back.
#[derive(Debug)]
pub(super) struct GivingBack(Arc<Semaphore>);

impl Default for GivingBack {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(GIVEN_BACK_AT_ONCE)))
    }
}

impl Login {
    /// Has the provider take back the refresh token of a session that was ended. Nobody waits for that:
    /// here it is forgotten already, and what the provider makes of it changes nothing here.
    fn give_back(self: &Arc<Self>, ended: &SessionRecord) {
        let Some(sealed) = &ended.refresh else { return };
        let id = ended.id();
        let Ok(token) = self.keys.seal().open(sealed, &ended.sid) else {
            tracing::warn!(session = id, "a refresh token cannot be opened");
            return;
        };
        let Ok(place) = Arc::clone(&self.giving_back.0).try_acquire_owned() else {
            tracing::warn!(
                session = id,
                "a refresh token is not given back: too many are"
            );
            return;
        };
        let login = Arc::clone(self);
        tokio::spawn(async move {
            // Bounded by the time-outs of calls to the provider.
            if let Err(error) = login.provider.take_back(&token).await {
                tracing::warn!(%error, session = id, "the provider does not take back a refresh token");
            }
            drop(place);
        });
    }
}
