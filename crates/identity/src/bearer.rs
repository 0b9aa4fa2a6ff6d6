//! Access tokens of the identity providers, as bearers carry them.

use crate::cache::TokenCache;
use crate::error::TokenError;
use crate::issuer::{Issuer, Peek};
use crate::jwks::Keys;
use crate::jwt;
use crate::keyset::SecretError;
use crate::policy::{ClaimPolicy, valid_sub};
use crate::verified::Verified;
use nogoo9_model::UnixSeconds;
use nogoo9_model::access::Caller;
use serde_json::Value;
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
    /// `iss`, exactly.
    pub issuer: String,
    /// `aud` must contain one of these (`--audience`).
    pub audiences: Vec<String>,
}

/// Verifies access tokens.
#[derive(Debug)]
pub struct Bearers {
    /// Where people sign in.
    main: Issuer,
    others: Vec<Issuer>,
    policy: Arc<ClaimPolicy>,
    cache: TokenCache<Accepted>,
}

/// What verified, with what must be checked again on every use.
#[derive(Debug)]
struct Accepted {
    verified: Arc<Verified>,
    not_before: Option<UnixSeconds>,
}

impl Bearers {
    /// A verifier with the issuer's keys.
    #[must_use]
    pub fn new(config: BearerConfig, policy: Arc<ClaimPolicy>, keys: Keys) -> Self {
        Self {
            main: Issuer::with_keys(config, keys),
            others: Vec::new(),
            policy,
            cache: TokenCache::new(),
        }
    }

    /// Another issuer whose tokens count as well, verified with its own keys and no others. A
    /// subject is the same person whichever of them names it, so they must mean the same by it.
    #[must_use]
    pub fn and_issuer(mut self, config: BearerConfig, keys: Keys) -> Self {
        self.others.push(Issuer::with_keys(config, keys));
        self
    }

    /// Another issuer, which signs with a secret that it shares with us (HS256, HS384, HS512), and
    /// whose tokens count with no other algorithm. Without this, no token signed so ever counts.
    ///
    /// # Errors
    /// The secret is too short to be one.
    pub fn and_shared_secret(
        mut self,
        config: BearerConfig,
        secret: &[u8],
    ) -> Result<Self, SecretError> {
        self.others.push(Issuer::with_secret(config, secret)?);
        Ok(self)
    }

    /// Who the bearer of `token` is. Never waits; an unknown key id asks for newer keys.
    ///
    /// # Errors
    /// Why the token does not count.
    pub fn verify(&self, token: &str, now: UnixSeconds) -> Result<Arc<Verified>, TokenError> {
        if token.len() > MAX_LEN {
            return Err(TokenError::TooLong);
        }
        let accepted = self
            .cache
            .get_or_verify(token, self.generation(), || self.check(token))
            .inspect_err(|error| {
                if error.wants_keys()
                    && let Ok(issuer) = self.issuer_of(token)
                {
                    issuer.keys().want_newer();
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
                if let Ok(issuer) = self.issuer_of(token) {
                    issuer.keys().refetch().await;
                }
                self.verify(token, now)
            }
            verdict => verdict,
        }
    }

    /// Whether a bearer token is meant for us, going by what it says unverified: a personal access
    /// token, or one that names an issuer of ours and one of its audiences. Such a token is stripped
    /// from what a pod sees, and refused if it does not verify; any other is the application's own.
    #[must_use]
    pub fn claims_to_us(&self, token: &str) -> bool {
        if token.starts_with(PERSONAL_PREFIX) {
            return true;
        }
        // No length limit: a token too long to verify must not be passed on either.
        let Some(peek) = jwt::peek::<Peek>(token) else {
            return false;
        };
        self.issuers().any(|issuer| issuer.is_named_by(&peek))
    }

    /// The issuer where people sign in.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.main.config().issuer
    }

    /// The keys of [`Self::issuer`].
    #[must_use]
    pub fn keys(&self) -> &Keys {
        self.main.keys()
    }

    /// Asks every issuer for newer keys, and waits as [`Keys::refetch`] does.
    pub async fn refetch(&self) {
        for issuer in self.issuers().filter(|issuer| issuer.publishes()) {
            issuer.keys().refetch().await;
        }
    }

    fn issuers(&self) -> impl Iterator<Item = &Issuer> {
        std::iter::once(&self.main).chain(&self.others)
    }

    /// Changes with every change of any issuer's keys: each only ever grows.
    fn generation(&self) -> u64 {
        self.issuers().fold(0, |sum, issuer| {
            sum.wrapping_add(issuer.keys().current().generation)
        })
    }

    /// The issuer that a token names, unverified: it decides whose keys have to verify it.
    fn issuer_of(&self, token: &str) -> Result<&Issuer, TokenError> {
        let peek = jwt::peek::<Peek>(token).ok_or(TokenError::Malformed)?;
        let named = match peek.issuers.as_slice() {
            [] => return Err(TokenError::MissingClaim),
            [one] => one,
            _ => return Err(TokenError::Malformed),
        };
        self.issuers()
            .find(|issuer| *named == *issuer.config().issuer)
            .ok_or(TokenError::WrongIssuer)
    }

    /// Everything about a token that time does not change.
    fn check(&self, token: &str) -> Result<Accepted, TokenError> {
        let header = jwt::header(token)?;
        if !is_access_token(header.typ.as_deref()) {
            return Err(TokenError::WrongType);
        }
        let issuer = self.issuer_of(token)?;
        let keys = issuer.keys().current();
        let claims = issuer.verify(token, &header, &keys.set)?;
        // Once more, of what is verified: the issuer was chosen by what was not.
        if claims.get("iss").ok_or(TokenError::MissingClaim)? != issuer.config().issuer.as_str() {
            return Err(TokenError::WrongIssuer);
        }
        if !issuer.is_audience(claims.get("aud").ok_or(TokenError::MissingClaim)?) {
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
        let caller = Caller {
            scopes: self.policy.scopes(&claims),
            ..self.policy.caller(sub, self.policy.roles(&claims))
        };
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
