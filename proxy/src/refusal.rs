//! Why a request was turned away, for the audit trail and for what limits failures: looked at only
//! once it was. Pure.

use crate::gate::Gate;
use crate::personal::Verdict;
use crate::reply::Reply;
use http::{HeaderMap, StatusCode};
use nogoo9_identity::{Authenticator, TokenError, Verified, Via};
use nogoo9_model::UnixSeconds;
use nogoo9_runtime::audit::How;
use pingora::http::RequestHeader;

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// In a word.
    pub reason: &'static str,
    /// Subject of the caller, if they are known.
    pub who: Option<String>,
    /// What proves them, or should have.
    pub how: How,
    /// What was forged or made up, if something was.
    pub forged: Option<&'static str>,
}

impl Refusal {
    /// Why `request`, for the workspace at `host`, was answered by `reply`; `None`: it is no refusal.
    /// `personal` is what its personal access token comes to, if it has one and that is known.
    #[must_use]
    pub fn of(
        gate: &Gate,
        request: &RequestHeader,
        host: &str,
        reply: &Reply,
        personal: Option<Verdict>,
        now: UnixSeconds,
    ) -> Option<Self> {
        let found = credential(&gate.auth, request, host, personal, now);
        match reply.status {
            StatusCode::UNAUTHORIZED => Some(found),
            StatusCode::FORBIDDEN => Some(Self {
                reason: "insufficient_scope",
                ..found
            }),
            StatusCode::BAD_REQUEST => Some(Self {
                reason: "invalid_request",
                ..found
            }),
            // To sign in is what helps: it is a refusal only of what was forged.
            StatusCode::FOUND => Some(found).filter(|found| found.forged.is_some()),
            _ => None,
        }
    }
}

/// What the request proves its caller by, and why that does not do.
fn credential(
    auth: &Authenticator,
    request: &RequestHeader,
    host: &str,
    personal: Option<Verdict>,
    now: UnixSeconds,
) -> Refusal {
    let headers = &request.headers;
    if auth.personal_token(headers).is_some() {
        return match personal {
            Some(Ok(verified)) => known(&verified, How::PersonalToken),
            Some(Err(error)) => bad(error, How::PersonalToken, "personal_token"),
            None => bad(TokenError::KeysUnavailable, How::PersonalToken, ""),
        };
    }
    match auth.authenticate(&request.method, headers, host, now) {
        Ok(Some(proof)) => known(&proof.verified, how(proof.via)),
        Ok(None) => cookie(auth, headers, host, now),
        Err(error) => bad(error, How::Bearer, "bearer"),
    }
}

fn cookie(auth: &Authenticator, headers: &HeaderMap, host: &str, now: UnixSeconds) -> Refusal {
    let nobody = |reason, how| Refusal {
        reason,
        who: None,
        how,
        forged: None,
    };
    match auth.refused_cookie(headers, host, now) {
        Some(error) => Refusal {
            forged: error.is_forged_cookie().then_some("cookie"),
            ..nobody(error.reason(), How::Session)
        },
        // It verifies, and does not count for where the request comes from.
        None if auth.session_token(headers, host, now).is_some() => {
            nobody("cross_site", How::Session)
        }
        None => nobody("no_credential", How::None),
    }
}

fn known(verified: &Verified, how: How) -> Refusal {
    Refusal {
        reason: "session_over",
        who: Some(verified.caller.sub.clone()),
        how,
        forged: None,
    }
}

fn bad(error: TokenError, how: How, kind: &'static str) -> Refusal {
    Refusal {
        reason: error.reason(),
        who: None,
        how,
        forged: error.is_forged().then_some(kind),
    }
}

/// As the audit trail has it.
#[must_use]
pub fn how(via: Via) -> How {
    match via {
        Via::Cookie => How::Session,
        Via::Bearer => How::Bearer,
    }
}
