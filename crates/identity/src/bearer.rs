//! Access tokens of the identity provider, as bearers carry them.

use crate::cache::TokenCache;
use crate::error::TokenError;
use crate::jwks::Keys;
use crate::jwt;
use crate::keyset::ALGORITHMS;
use crate::policy::{ClaimPolicy, valid_sub};
use crate::verified::Verified;
use nogoo9_model::UnixSeconds;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Clocks may differ by this much, in seconds.
const LEEWAY: UnixSeconds = 30;
/// Longest token looked at, in bytes. Those with many groups in them reach eight thousand.
const MAX_LEN: usize = 16 * 1024;
/// How personal access tokens begin. They are ours, and always stripped.
pub const PERSONAL_PREFIX: &str = "ng9_";

/// Whose tokens count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BearerConfig {
    /// `iss`, exactly (`--issuer`).
    pub issuer: String,
    /// `aud` must contain one of these (`--audience`).
    pub audiences: Vec<String>,
}

/// Verifies access tokens.
#[derive(Debug)]
pub struct Bearers {
    config: BearerConfig,
    policy: Arc<ClaimPolicy>,
    keys: Keys,
    cache: TokenCache<Accepted>,
}

/// What verified, with what must be checked again on every use.
#[derive(Debug)]
struct Accepted {
    verified: Arc<Verified>,
    not_before: Option<UnixSeconds>,
}

/// What a token says about whom it is from and for, before anything is verified.
#[derive(Debug, Deserialize)]
struct Peek {
    iss: Value,
    aud: Value,
}

impl Bearers {
    /// A verifier with the issuer's keys.
    #[must_use]
    pub fn new(config: BearerConfig, policy: Arc<ClaimPolicy>, keys: Keys) -> Self {
        Self {
            config,
            policy,
            keys,
            cache: TokenCache::new(),
        }
    }

    /// Who the bearer of `token` is. Never waits; an unknown key id asks for newer keys.
    ///
    /// # Errors
    /// Why the token does not count.
    pub fn verify(&self, token: &str, now: UnixSeconds) -> Result<Arc<Verified>, TokenError> {
        if token.len() > MAX_LEN {
            return Err(TokenError::TooLong);
        }
        let keys = self.keys.current();
        let accepted = self
            .cache
            .get_or_verify(token, keys.generation, || self.check(token, &keys.set))
            .inspect_err(|error| {
                if error.wants_keys() {
                    self.keys.want_newer();
                }
            })?;
        if accepted.verified.expires <= now {
            self.cache.forget(token);
            return Err(TokenError::Expired);
        }
        if accepted
            .not_before
            .is_some_and(|at| at > now.saturating_add(LEEWAY))
        {
            return Err(TokenError::NotYetValid);
        }
        Ok(Arc::clone(&accepted.verified))
    }

    /// As [`Self::verify`], but a token whose key is unknown waits, once and briefly, for newer
    /// keys. For where waiting is in order: control's own endpoints.
    ///
    /// # Errors
    /// Why the token does not count.
    pub async fn verify_async(
        &self,
        token: &str,
        now: UnixSeconds,
    ) -> Result<Arc<Verified>, TokenError> {
        match self.verify(token, now) {
            Err(error) if error.wants_keys() => {
                self.keys.refetch().await;
                self.verify(token, now)
            }
            verdict => verdict,
        }
    }

    /// Whether a bearer token is meant for us, going by what it says unverified: a personal access
    /// token, or one that names our issuer and one of our audiences. Such a token is stripped from
    /// what a pod sees, and refused if it does not verify; any other is the application's own.
    #[must_use]
    pub fn claims_to_us(&self, token: &str) -> bool {
        if token.starts_with(PERSONAL_PREFIX) {
            return true;
        }
        // No length limit: a token too long to verify must not be passed on either.
        let Some(peek) = jwt::peek::<Peek>(token) else {
            return false;
        };
        peek.iss == *self.config.issuer && self.is_audience(&peek.aud)
    }

    /// The issuer whose tokens count.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.config.issuer
    }

    /// The issuer's keys.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Everything about a token that time does not change.
    fn check(&self, token: &str, keys: &crate::keyset::KeySet) -> Result<Accepted, TokenError> {
        let header = jwt::header(token)?;
        if !is_access_token(header.typ.as_deref()) {
            return Err(TokenError::WrongType);
        }
        let claims: Map<String, Value> = jwt::verify(token, &header, keys, ALGORITHMS)?;
        if claims.get("iss").ok_or(TokenError::MissingClaim)? != self.config.issuer.as_str() {
            return Err(TokenError::WrongIssuer);
        }
        if !self.is_audience(claims.get("aud").ok_or(TokenError::MissingClaim)?) {
            return Err(TokenError::WrongAudience);
        }
        let date = |name| match claims.get(name) {
            None => Ok(None),
            Some(value) => jwt::numeric_date(value)
                .map(Some)
                .ok_or(TokenError::Malformed),
        };
        // Leeway included, so that whoever lets the token in does not cut its answer off at once.
        let expires = date("exp")?
            .ok_or(TokenError::MissingClaim)?
            .saturating_add(LEEWAY);
        let not_before = date("nbf")?;
        let sub = claims
            .get("sub")
            .and_then(Value::as_str)
            .ok_or(TokenError::MissingClaim)?;
        if !valid_sub(sub) {
            return Err(TokenError::Malformed);
        }
        let caller = self.policy.caller(sub, self.policy.roles(&claims));
        Ok(Accepted {
            verified: Arc::new(Verified {
                caller,
                expires,
                sid: None,
                fresh_until: None,
            }),
            not_before,
        })
    }

    fn is_audience(&self, aud: &Value) -> bool {
        let ours = |one: &Value| self.config.audiences.iter().any(|wanted| *one == **wanted);
        match aud {
            Value::Array(list) => list.iter().any(ours),
            one => ours(one),
        }
    }
}

/// RFC 9068 says `at+jwt`; most providers write `JWT` or nothing. Anything else, such as a logout
/// token or one of ours, is no access token.
fn is_access_token(typ: Option<&str>) -> bool {
    let Some(typ) = typ else { return true };
    let bare = typ
        .get(.."application/".len())
        .filter(|head| head.eq_ignore_ascii_case("application/"));
    let typ = bare.and_then(|head| typ.get(head.len()..)).unwrap_or(typ);
    typ.eq_ignore_ascii_case("JWT") || typ.eq_ignore_ascii_case("at+jwt")
}
