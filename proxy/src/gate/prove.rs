//! Who is calling, as far as that can be told without waiting.

use super::{Decision, Gate, Session, Stale};
use crate::personal::Verdict;
use crate::reply::{Html, Reply};
use crate::route::Place;
use nogoo9_identity::session::Freshness;
use nogoo9_identity::{TokenError, Verified, Via};
use nogoo9_model::UnixSeconds;
use pingora::http::RequestHeader;
use std::sync::Arc;

/// What proves the caller.
#[derive(Debug)]
pub(super) enum Proof {
    /// What the request carries.
    Headers {
        /// Whether an unknown key is final.
        keys_fetched: bool,
        /// What is known of the session of the cookie.
        session: Session,
    },
    /// What control said of its personal access token.
    Told(Verdict),
}

/// What it comes to.
pub(super) enum Proven {
    /// Somebody.
    By {
        /// Who.
        caller: Arc<Verified>,
        /// Whether their cookie counts only since the workspace names the page's origin.
        named_origin: bool,
    },
    /// Nobody.
    Nobody,
    /// Something else is to be done, before that can be told or instead.
    Otherwise(Decision),
}

impl Gate {
    /// Whom a request to `place`, to whose `host` sessions are bound, speaks for.
    pub(super) fn prove(
        &self,
        request: &RequestHeader,
        place: &Place<'_>,
        host: &str,
        now: UnixSeconds,
        proof: Proof,
    ) -> Proven {
        let (keys_fetched, session) = match proof {
            Proof::Told(Ok(caller)) => {
                return Proven::By {
                    caller,
                    named_origin: false,
                };
            }
            Proof::Told(Err(error)) => return self.refused(error, place, host),
            Proof::Headers {
                keys_fetched,
                session,
            } => (keys_fetched, session),
        };
        if self.auth.personal_token(&request.headers).is_some() {
            return Proven::Otherwise(Decision::AskPersonal);
        }
        let (method, headers) = (&request.method, &request.headers);
        let (found, named_origin) = match self.auth.authenticate(method, headers, host, now) {
            Ok(Some(found)) => (found, false),
            Ok(None) => match self.by_own_origin(request, place, host, now) {
                Some(found) => (found, false),
                None => match self.by_named_origin(request, place, host, now) {
                    Some(found) => (found, true),
                    None => return Proven::Nobody,
                },
            },
            Err(TokenError::UnknownKey | TokenError::KeysUnavailable) if !keys_fetched => {
                return Proven::Otherwise(Decision::FetchKeys);
            }
            Err(error) => return self.refused(error, place, host),
        };
        let caller = match session {
            Session::Over if found.via == Via::Cookie => return Proven::Nobody,
            Session::GoesOn(newest) if found.via == Via::Cookie => newest,
            _ if found.verified.freshness(now) == Freshness::Stale => {
                return Proven::Otherwise(Decision::AskSession(Stale {
                    verified: found.verified,
                    host: host.to_owned(),
                }));
            }
            _ => found.verified,
        };
        Proven::By {
            caller,
            named_origin,
        }
    }

    fn refused(&self, error: TokenError, place: &Place<'_>, host: &str) -> Proven {
        Proven::Otherwise(Decision::Reply(if error == TokenError::KeysUnavailable {
            Reply::unavailable(Html::No, &format!("Nobody can be recognised: {error}."))
        } else {
            self.unauthorized(Some(error), place, host)
        }))
    }
}
