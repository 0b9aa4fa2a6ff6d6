//! The front door: from a request's headers to who is calling.

use crate::bearer::{Bearers, PERSONAL_PREFIX};
use crate::challenge::tokens;
use crate::cookie::{self, CookieNames, Stripped};
use crate::error::TokenError;
use crate::origin::{allowed_origin, cookie_counts};
use crate::session::Sessions;
use crate::verified::Verified;
use data_encoding::BASE64_NOPAD;
use http::header::{AUTHORIZATION, COOKIE, Entry};
use http::{HeaderMap, HeaderValue, Method};
use nogoo9_model::UnixSeconds;
use nogoo9_model::access::Caller;
use nogoo9_model::origins::AllowedOrigins;
use std::sync::Arc;

/// How a caller proved who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Via {
    /// Session cookie.
    Cookie,
    /// `Authorization: Bearer`.
    Bearer,
}

/// A caller, verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// What the token says.
    pub verified: Arc<Verified>,
    /// Where it was.
    pub via: Via,
}

impl Authenticated {
    /// Who is calling.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.verified.caller
    }

    /// When the token ends; no socket or stream opened by it may outlive this.
    #[must_use]
    pub fn expires(&self) -> UnixSeconds {
        self.verified.expires
    }
}

/// Verifies requests. One per process.
#[derive(Debug)]
pub struct Authenticator {
    bearers: Bearers,
    sessions: Sessions,
    names: CookieNames,
}

impl Authenticator {
    /// Puts the verifiers together.
    #[must_use]
    pub fn new(bearers: Bearers, sessions: Sessions, names: CookieNames) -> Self {
        Self {
            bearers,
            sessions,
            names,
        }
    }

    /// Who sent the request to `host` (as in its `Host` header, port included). `None`: nobody that
    /// says so. Never waits and never calls.
    ///
    /// A bearer token that is meant for us comes before a cookie, and is refused if it does not
    /// verify; any other `Authorization` header is the application's and does not count here. A
    /// cookie that does not verify, or that [`cookie_counts`] rules out, is as good as absent.
    ///
    /// # Errors
    /// A bearer token is ours and does not verify.
    pub fn authenticate(
        &self,
        method: &Method,
        headers: &HeaderMap,
        host: &str,
        now: UnixSeconds,
    ) -> Result<Option<Authenticated>, TokenError> {
        self.authenticate_for(method, headers, host, &AllowedOrigins::NONE, now)
    }

    /// As [`Self::authenticate`], on a host whose sessions pages of `allowed` origins may use too.
    ///
    /// # Errors
    /// A bearer token is ours and does not verify.
    pub fn authenticate_for(
        &self,
        method: &Method,
        headers: &HeaderMap,
        host: &str,
        allowed: &AllowedOrigins,
        now: UnixSeconds,
    ) -> Result<Option<Authenticated>, TokenError> {
        match self.our_bearer(headers)? {
            Some(token) => self.bearers.verify(token, now).map(by_bearer),
            None if allowed_origin(headers, allowed).is_some() => {
                Ok(self.verified_cookie(headers, host, now))
            }
            None => Ok(self.session(method, headers, host, now)),
        }
    }

    /// As [`Self::authenticate`], but a bearer token whose key is unknown waits, once and briefly,
    /// for newer keys.
    ///
    /// # Errors
    /// A bearer token is ours and does not verify.
    pub async fn authenticate_async(
        &self,
        method: &Method,
        headers: &HeaderMap,
        host: &str,
        now: UnixSeconds,
    ) -> Result<Option<Authenticated>, TokenError> {
        match self.our_bearer(headers)? {
            Some(token) => self.bearers.verify_async(token, now).await.map(by_bearer),
            None => Ok(self.session(method, headers, host, now)),
        }
    }

    /// The personal access token that the request proves its caller by, if it does so by one. Only
    /// control knows which of them count: [`Self::authenticate`] refuses them all, so ask this first.
    #[must_use]
    pub fn personal_token<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let is_personal = |token: &&str| token.starts_with(PERSONAL_PREFIX);
        // First what costs nothing: most requests have none.
        let mut all = headers.get_all(AUTHORIZATION).iter().filter_map(bearer);
        all.find(is_personal)?;
        self.our_bearer(headers).ok().flatten().filter(is_personal)
    }

    /// The session of the request's cookie, if it has one that counts. Bearers are not looked at.
    #[must_use]
    pub fn session(
        &self,
        method: &Method,
        headers: &HeaderMap,
        host: &str,
        now: UnixSeconds,
    ) -> Option<Authenticated> {
        if !cookie_counts(method, headers, host) {
            return None;
        }
        self.verified_cookie(headers, host, now)
    }

    /// Whose cookie it is, whoever caused the request.
    fn verified_cookie(
        &self,
        headers: &HeaderMap,
        host: &str,
        now: UnixSeconds,
    ) -> Option<Authenticated> {
        let verified = cookie::values(headers, self.names.session())
            .find_map(|token| self.sessions.verify(token, host, now).ok())?;
        Some(Authenticated {
            verified,
            via: Via::Cookie,
        })
    }

    /// Why the request's session cookies do not count on `host`, of the first that says so; `None`: it
    /// has none, or one that verifies.
    #[must_use]
    pub fn refused_cookie(
        &self,
        headers: &HeaderMap,
        host: &str,
        now: UnixSeconds,
    ) -> Option<TokenError> {
        let mut refused = None;
        for token in cookie::values(headers, self.names.session()) {
            match self.sessions.verify(token, host, now) {
                Ok(_) => return None,
                Err(error) => {
                    refused.get_or_insert(error);
                }
            }
        }
        refused
    }

    /// The token behind [`Self::session`]: the first of the cookies that verifies on `host`.
    #[must_use]
    pub fn session_token<'a>(
        &self,
        headers: &'a HeaderMap,
        host: &str,
        now: UnixSeconds,
    ) -> Option<&'a str> {
        cookie::values(headers, self.names.session())
            .find(|token| self.sessions.verify(token, host, now).is_ok())
    }

    /// Whether a query carries a bearer token that is meant for us (RFC 6750, section 2.3). Others are
    /// the application's own.
    #[must_use]
    pub fn holds_token(&self, query: Option<&str>) -> bool {
        tokens(query).any(|token| self.bearers.claims_to_us(token.trim()))
    }

    /// Takes everything that is ours out of the headers, before they go to a pod: our cookies, and
    /// every `Authorization` that is meant for us, also where it proves nothing since it is a name or
    /// password (`git` and `pip` send tokens so). The rest stays byte for byte.
    pub fn strip(&self, headers: &mut HeaderMap) {
        self.strip_authorization(headers);
        strip_cookies(headers);
    }

    /// The names of our cookies.
    #[must_use]
    pub fn names(&self) -> CookieNames {
        self.names
    }

    /// The verifier of access tokens.
    #[must_use]
    pub fn bearers(&self) -> &Bearers {
        &self.bearers
    }

    /// The verifier of session tokens.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The one bearer token that is meant for us. Two of them are no proof of anything.
    fn our_bearer<'a>(&self, headers: &'a HeaderMap) -> Result<Option<&'a str>, TokenError> {
        let mut ours = headers
            .get_all(AUTHORIZATION)
            .iter()
            .filter(|value| self.is_ours(value));
        let Some(first) = ours.next() else {
            return Ok(None);
        };
        if ours.next().is_some() {
            return Err(TokenError::Malformed);
        }
        bearer(first).map(Some).ok_or(TokenError::Malformed)
    }

    fn is_ours(&self, value: &HeaderValue) -> bool {
        match bearer(value) {
            Some(token) => self.bearers.claims_to_us(token),
            None => false,
        }
    }

    /// Whether anything of a credential is ours.
    fn holds_ours(&self, value: &HeaderValue) -> bool {
        self.is_ours(value)
            || basic(value).is_some_and(|(name, password)| {
                self.bearers.claims_to_us(&name) || self.bearers.claims_to_us(&password)
            })
    }

    fn strip_authorization(&self, headers: &mut HeaderMap) {
        if !headers
            .get_all(AUTHORIZATION)
            .iter()
            .any(|value| self.holds_ours(value))
        {
            return;
        }
        if let Entry::Occupied(entry) = headers.entry(AUTHORIZATION) {
            let (name, all) = entry.remove_entry_mult();
            let rest: Vec<_> = all.filter(|value| !self.holds_ours(value)).collect();
            for value in rest {
                headers.append(name.clone(), value);
            }
        }
    }
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "the shape that authenticate returns"
)]
fn by_bearer(verified: Arc<Verified>) -> Option<Authenticated> {
    Some(Authenticated {
        verified,
        via: Via::Bearer,
    })
}

/// The token of a `Bearer` credential (RFC 6750, section 2.1), the scheme in any case. A personal
/// access token is one under the scheme `token` or none too: stripping must not depend on spelling.
fn bearer(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?.trim_matches([' ', '\t']);
    if text.starts_with(PERSONAL_PREFIX) {
        return Some(text);
    }
    let (scheme, token) = text.split_once([' ', '\t'])?;
    let token = token.trim_matches([' ', '\t']);
    let counts = scheme.eq_ignore_ascii_case("Bearer") || token.starts_with(PERSONAL_PREFIX);
    counts.then_some(token)
}

/// Name and password of a `Basic` credential (RFC 7617), read as leniently as any server might: what
/// is padded wrongly, or in the other alphabet, is not passed on either.
fn basic(value: &HeaderValue) -> Option<(String, String)> {
    let text = value.to_str().ok()?.trim_matches([' ', '\t']);
    let (scheme, credential) = text.split_once([' ', '\t'])?;
    if !scheme.eq_ignore_ascii_case("Basic") {
        return None;
    }
    let plain = credential
        .trim_matches([' ', '\t', '='])
        .replace('-', "+")
        .replace('_', "/");
    // The last bytes, which a group of less than four characters holds, decide nothing.
    let groups = plain.get(..plain.len() - plain.len() % 4)?;
    let decoded = BASE64_NOPAD.decode(groups.as_bytes()).ok()?;
    let text = String::from_utf8_lossy(&decoded);
    let (name, password) = text.split_once(':').unwrap_or((&text, ""));
    Some((name.to_owned(), password.to_owned()))
}

/// Takes our cookies out of every `Cookie` header.
fn strip_cookies(headers: &mut HeaderMap) {
    if !headers
        .get_all(COOKIE)
        .iter()
        .any(|value| cookie::strip(value.as_bytes()) != Stripped::Unchanged)
    {
        return;
    }
    let Entry::Occupied(entry) = headers.entry(COOKIE) else {
        return;
    };
    let (name, all) = entry.remove_entry_mult();
    let rest: Vec<_> = all
        .filter_map(|value| match cookie::strip(value.as_bytes()) {
            Stripped::Unchanged => Some(value),
            Stripped::Nothing => None,
            Stripped::Rest(bytes) => HeaderValue::from_bytes(&bytes).ok(),
        })
        .collect();
    for value in rest {
        headers.append(name.clone(), value);
    }
}
