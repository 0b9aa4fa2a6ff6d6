//! What control adds to the audit trail ([`nogoo9_runtime::audit`]): from where and by what a request
//! came, known to all that is done for it.
//!
//! That is ambient, on purpose, and it is no identity: nothing is decided by it. Whom a record names
//! is an argument, as everywhere.

use crate::personal::Credential;
use axum::http::{HeaderMap, HeaderName};
use nogoo9_identity::TokenError;
use nogoo9_model::access::Caller;
use nogoo9_runtime::audit::{self, How, Outcome, Record, What};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

tokio::task_local! {
    static SEEN: Arc<Seen>;
}

/// What is known of a request beside what it asks for.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    from: Option<IpAddr>,
    request: Option<Box<str>>,
    proof: OnceLock<Noted>,
    /// A failed sign-in, by what kind.
    failed: OnceLock<&'static str>,
    /// Whether there is a record of its refusal.
    told: AtomicBool,
}

/// What was made of the credential.
#[derive(Debug)]
pub(crate) struct Noted {
    /// Subject, if it proves one.
    pub(crate) who: Option<Box<str>>,
    /// What it is.
    pub(crate) how: How,
    /// Why it proves nobody.
    pub(crate) reason: &'static str,
    /// What was forged or made up, if something was.
    pub(crate) forged: Option<&'static str>,
}

impl Seen {
    /// Of a request with these headers. Nothing but proxies reaches control, and a proxy says by one
    /// address whom it serves, whatever the client itself has claimed.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let one = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let last = headers.get_all(FORWARDED_FOR).iter().next_back();
        let last = last.and_then(|value| value.to_str().ok()?.rsplit(',').next());
        Self {
            from: last.and_then(|address| address.trim().parse().ok()),
            request: one(&REQUEST_ID).map(Box::from),
            ..Self::default()
        }
    }

    /// The client's address.
    pub(crate) fn from(&self) -> Option<IpAddr> {
        self.from
    }

    /// What was made of its credential, if it was looked at.
    pub(crate) fn proof(&self) -> Option<&Noted> {
        self.proof.get()
    }

    /// A failed sign-in, by what kind.
    pub(crate) fn failed(&self) -> Option<&'static str> {
        self.failed.get().copied()
    }

    /// Whether there is a record of its refusal already.
    pub(crate) fn is_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Writes a record about it.
    pub(crate) fn write(
        &self,
        what: What,
        who: Option<&str>,
        object: Option<&str>,
        outcome: Outcome<'_>,
    ) {
        if outcome != Outcome::Ok {
            self.told.store(true, Ordering::Relaxed);
        }
        audit::write(&Record {
            what,
            who,
            from: self.from,
            how: self.proof().map_or(How::None, |noted| noted.how),
            object,
            outcome,
            request: self.request.as_deref(),
        });
    }
}

/// What is done for a request that was seen so.
pub(crate) async fn within<F: Future>(seen: Arc<Seen>, work: F) -> F::Output {
    SEEN.scope(seen, work).await
}

/// The request that this is done for, if it is for one.
pub(crate) fn seen() -> Option<Arc<Seen>> {
    SEEN.try_with(Arc::clone).ok()
}

/// Writes a record about the request that this is done for.
pub(crate) fn write(what: What, who: Option<&str>, object: Option<&str>, outcome: Outcome<'_>) {
    match seen() {
        Some(seen) => seen.write(what, who, object, outcome),
        None => Seen::default().write(what, who, object, outcome),
    }
}

/// Notes that the request's credential proves this caller.
pub(crate) fn proven(caller: &Caller, by: Credential) {
    note(Noted {
        who: Some(Box::from(caller.sub.as_str())),
        how: match by {
            Credential::Session => How::Session,
            Credential::Provider => How::Bearer,
            Credential::Personal => How::PersonalToken,
        },
        reason: "forbidden",
        forged: None,
    });
}

/// Notes that the request's bearer token proves nobody.
pub(crate) fn refused(error: TokenError, personal: bool) {
    let (how, kind) = if personal {
        (How::PersonalToken, "personal_token")
    } else {
        (How::Bearer, "bearer")
    };
    note(Noted {
        who: None,
        how,
        reason: error.reason(),
        forged: error.is_forged().then_some(kind),
    });
}

/// Notes that the request proves nobody; `cookie` is why its cookie does not count, if it has one.
pub(crate) fn nobody(cookie: Option<TokenError>) {
    note(Noted {
        who: None,
        how: cookie.map_or(How::None, |_| How::Session),
        reason: cookie.map_or("no_credential", TokenError::reason),
        forged: cookie
            .filter(|error| error.is_forged_cookie())
            .map(|_| "cookie"),
    });
}

/// Writes that a sign-in failed. One that was refused counts against the address that it came from.
pub(crate) fn not_signed_in(outcome: Outcome<'_>) {
    let seen = seen().unwrap_or_default();
    if let Outcome::Refused(_) = outcome {
        let _first = seen.failed.set("sign_in");
    }
    seen.write(What::SignIn, None, None, outcome);
}

fn note(noted: Noted) {
    if let Some(seen) = seen() {
        let _first = seen.proof.set(noted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_the_one_that_the_proxy_wrote() {
        for (lines, from) in [
            (&[][..], None),
            (&["203.0.113.9"][..], Some("203.0.113.9")),
            (&["2001:db8::1"][..], Some("2001:db8::1")),
            (&["1.2.3.4, 203.0.113.9"][..], Some("203.0.113.9")),
            (&["1.2.3.4", "203.0.113.9"][..], Some("203.0.113.9")),
            (&["junk"][..], None),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED_FOR, line.parse().unwrap());
            }
            let from = from.map(|text| text.parse().unwrap());
            assert_eq!(Seen::of(&headers).from(), from, "{lines:?}");
        }
    }

    #[tokio::test]
    async fn the_first_proof_counts_and_a_refusal_is_told_once() {
        let seen = Arc::new(Seen::default());
        within(Arc::clone(&seen), async {
            refused(TokenError::Signature, false);
            nobody(None);
            write(What::Read, None, None, Outcome::Ok);
        })
        .await;
        let noted = seen.proof().unwrap();
        assert_eq!(
            (noted.how, noted.reason, noted.forged),
            (How::Bearer, "signature", Some("bearer"))
        );
        assert!(!seen.is_told());
        let away = async { not_signed_in(Outcome::Failed("provider_unreachable")) };
        within(Arc::clone(&seen), away).await;
        assert_eq!((seen.is_told(), seen.failed()), (true, None));
        let refused = async { not_signed_in(Outcome::Refused("state")) };
        within(Arc::clone(&seen), refused).await;
        assert_eq!(seen.failed(), Some("sign_in"));
    }

    #[test]
    fn what_has_merely_expired_is_not_forged() {
        for error in [
            TokenError::Expired,
            TokenError::NotYetValid,
            TokenError::KeysUnavailable,
            TokenError::WrongAudience,
        ] {
            assert!(!error.is_forged() && !error.is_forged_cookie(), "{error}");
        }
        let deleted = TokenError::UnknownKey;
        assert!(deleted.is_forged() && !deleted.is_forged_cookie());
    }
}
