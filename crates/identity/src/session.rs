//! Our own session token: what the cookie of a signed-in browser holds.
//!
//! Control signs it, everyone verifies it with public keys. It is bound to the one host it was made
//! for, so a workspace that gets hold of the cookie of its own host can do nothing elsewhere.

use crate::cache::TokenCache;
use crate::error::TokenError;
use crate::jwks::Keys;
use crate::jwt;
use crate::keys::SigningKey;
use crate::keyset::KeySet;
use crate::policy::{ClaimPolicy, valid_sub};
use crate::verified::Verified;
use jsonwebtoken::{Algorithm, Header};
use nogoo9_model::UnixSeconds;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// `typ` of a session token.
const TYP: &str = "ng9-session+jwt";
/// Longest session token, in bytes: it travels with every request.
pub const MAX_LEN: usize = 1024;
/// Control's clock may be ahead of the proxy's by this much, in seconds.
const LEEWAY: UnixSeconds = 60;
/// How long a token counts without control being asked, in seconds: somebody who is signed out, or
/// disabled at the provider, is out after that at the latest.
pub const FRESH_FOR: UnixSeconds = 15 * 60;
/// How long before that control is asked in passing, in seconds.
pub const RENEW_AHEAD: UnixSeconds = 5 * 60;

/// Whether a session token still counts by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// It does.
    Fresh,
    /// It does, and it is time to have it renewed.
    Due,
    /// Only if control says so.
    Stale,
}

/// How fresh a token is at `now` that counts by itself until `fresh_until`.
#[must_use]
pub fn freshness(fresh_until: Option<UnixSeconds>, now: UnixSeconds) -> Freshness {
    match fresh_until {
        // Those of an earlier version, and bearers, count until they end.
        None => Freshness::Fresh,
        Some(until) if now >= until => Freshness::Stale,
        Some(until) if now >= until.saturating_sub(RENEW_AHEAD) => Freshness::Due,
        Some(_) => Freshness::Fresh,
    }
}

/// Somebody who is signed in, as control's login found them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Subject, as the issuer says it.
    pub sub: String,
    /// Roles, as [`ClaimPolicy::roles`] reads them.
    pub roles: Vec<String>,
    /// One id for the session on all hosts.
    pub sid: String,
    /// When it ends, everywhere.
    pub expires: UnixSeconds,
    /// Until when its tokens count without control being asked. `None`: until it ends, as an earlier
    /// version made them.
    #[serde(default)]
    pub fresh_until: Option<UnixSeconds>,
}

/// Claims of a session token.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    sub: String,
    roles: Vec<String>,
    sid: String,
    iat: UnixSeconds,
    /// The session's end.
    exp: UnixSeconds,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fresh_until: Option<UnixSeconds>,
}

/// Why a token could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// Subject and host alone take more room than a cookie may.
    #[error("the session does not fit into {MAX_LEN} bytes: the subject or the host is too long")]
    TooLong,
    /// The signature could not be made.
    #[error("the session could not be signed")]
    Signing,
}

/// Signs our tokens. Control's alone.
#[derive(Debug)]
pub struct SessionSigner {
    key: Arc<SigningKey>,
    issuer: String,
}

impl SessionSigner {
    /// Signs as `issuer`: the public URL, with or without its last slash.
    #[must_use]
    pub fn new(key: impl Into<Arc<SigningKey>>, issuer: &str) -> Self {
        Self {
            key: key.into(),
            issuer: own_issuer(issuer),
        }
    }

    /// The key that it signs with.
    #[must_use]
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// A session token for `host` (with its port, as browsers send it in `Host`). Roles that do not
    /// fit are left off from the end; nogoo9's own come first.
    ///
    /// # Errors
    /// Without any role it still does not fit.
    pub fn sign_session(
        &self,
        session: &Session,
        host: &str,
        now: UnixSeconds,
    ) -> Result<String, SignError> {
        let mut claims = Claims {
            iss: self.issuer.clone(),
            aud: host.to_ascii_lowercase(),
            sub: session.sub.clone(),
            roles: session.roles.clone(),
            sid: session.sid.clone(),
            iat: now,
            exp: session.expires,
            fresh_until: session.fresh_until.map(|at| at.min(session.expires)),
        };
        loop {
            let token = self.sign(TYP, &claims)?;
            if token.len() <= MAX_LEN {
                let left_off = session.roles.len() - claims.roles.len();
                if left_off > 0 {
                    tracing::warn!(
                        left_off,
                        "roles left off the session: too long for a cookie"
                    );
                }
                return Ok(token);
            }
            claims.roles.pop().ok_or(SignError::TooLong)?;
        }
    }

    pub(crate) fn sign<T: Serialize>(&self, typ: &str, claims: &T) -> Result<String, SignError> {
        let mut header = Header::new(Algorithm::EdDSA);
        header.typ = Some(typ.to_owned());
        header.kid = Some(self.key.kid().to_owned());
        jsonwebtoken::encode(&header, claims, self.key.encoding()).map_err(|_| SignError::Signing)
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }
}

/// Verifies session tokens, with public keys alone.
#[derive(Debug)]
pub struct Sessions {
    issuer: String,
    policy: Arc<ClaimPolicy>,
    keys: Keys,
    cache: TokenCache<Bound>,
}

#[derive(Debug)]
struct Bound {
    host: String,
    issued: UnixSeconds,
    verified: Arc<Verified>,
}

impl Sessions {
    /// A verifier of what `issuer` (the public URL, with or without its last slash) signs, with the
    /// keys it publishes.
    #[must_use]
    pub fn new(issuer: &str, policy: Arc<ClaimPolicy>, keys: Keys) -> Self {
        Self {
            issuer: own_issuer(issuer),
            policy,
            keys,
            cache: TokenCache::new(),
        }
    }

    /// Whose session `token` is, on `host`. Never waits; an unknown key id asks for newer keys.
    ///
    /// # Errors
    /// Why the token does not count.
    pub fn verify(
        &self,
        token: &str,
        host: &str,
        now: UnixSeconds,
    ) -> Result<Arc<Verified>, TokenError> {
        if token.len() > MAX_LEN {
            return Err(TokenError::TooLong);
        }
        let keys = self.keys.current();
        let bound = self
            .cache
            .get_or_verify(token, keys.generation, || self.check(token, &keys.set))
            .inspect_err(|error| {
                if error.wants_keys() {
                    self.keys.want_newer();
                }
            })?;
        if bound.verified.expires <= now {
            self.cache.forget(token);
            return Err(TokenError::Expired);
        }
        if bound.issued > now.saturating_add(LEEWAY) {
            return Err(TokenError::NotYetValid);
        }
        if !bound.host.eq_ignore_ascii_case(host) {
            return Err(TokenError::WrongAudience);
        }
        Ok(Arc::clone(&bound.verified))
    }

    /// The keys that it verifies with.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    fn check(&self, token: &str, keys: &KeySet) -> Result<Bound, TokenError> {
        let claims: Claims = open(TYP, token, keys)?;
        if claims.iss != self.issuer {
            return Err(TokenError::WrongIssuer);
        }
        if !valid_sub(&claims.sub) {
            return Err(TokenError::Malformed);
        }
        let verified = Verified {
            caller: self.policy.caller(&claims.sub, claims.roles),
            expires: claims.exp,
            sid: Some(claims.sid),
            fresh_until: claims.fresh_until,
        };
        Ok(Bound {
            host: claims.aud,
            issued: claims.iat,
            verified: Arc::new(verified),
        })
    }
}

/// `iss` of our own tokens. The last slash of the public URL, which a URL parser adds and people
/// leave out, must not decide whether proxy and control understand each other.
pub(crate) fn own_issuer(public_url: &str) -> String {
    public_url.trim_end_matches('/').to_owned()
}

/// Verifies type and signature of one of our own tokens.
pub(crate) fn open<T: DeserializeOwned>(
    typ: &str,
    token: &str,
    keys: &KeySet,
) -> Result<T, TokenError> {
    let header = jwt::header(token)?;
    if header.typ.as_deref() != Some(typ) {
        return Err(TokenError::WrongType);
    }
    jwt::verify(token, &header, keys, &[Algorithm::EdDSA])
}
