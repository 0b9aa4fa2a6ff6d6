//! One issuer of access tokens: whose tokens it may vouch for, and what verifies them.

use crate::bearer::BearerConfig;
use crate::error::TokenError;
use crate::jwks::Keys;
use crate::jwt::{self, Header};
use crate::keyset::{ALGORITHMS, KeySet, SHARED_SECRET_ALGORITHMS, SecretError};
use jsonwebtoken::Algorithm;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// An issuer with its own keys; those of another never verify its tokens, whatever their key ids.
#[derive(Debug)]
pub(crate) struct Issuer {
    config: BearerConfig,
    keys: Keys,
    proof: Proof,
}

/// What signs its tokens. Never both: a public key must not pass for a shared secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    Published,
    SharedSecret,
}

impl Issuer {
    pub(crate) fn with_keys(config: BearerConfig, keys: Keys) -> Self {
        let proof = Proof::Published;
        Self {
            config,
            keys,
            proof,
        }
    }

    pub(crate) fn with_secret(config: BearerConfig, secret: &[u8]) -> Result<Self, SecretError> {
        Ok(Self {
            config,
            keys: Keys::fixed(KeySet::shared_secret(secret)?),
            proof: Proof::SharedSecret,
        })
    }

    pub(crate) fn config(&self) -> &BearerConfig {
        &self.config
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Whether it has keys that can be read anew.
    pub(crate) fn publishes(&self) -> bool {
        self.proof == Proof::Published
    }

    /// Verifies a token's signature with `keys`, this issuer's own.
    pub(crate) fn verify(
        &self,
        token: &str,
        header: &Header,
        keys: &KeySet,
    ) -> Result<Map<String, Value>, TokenError> {
        jwt::verify(token, header, keys, self.accepted())
    }

    pub(crate) fn is_audience(&self, aud: &Value) -> bool {
        let ours = |one: &Value| self.config.audiences.iter().any(|wanted| *one == **wanted);
        match aud {
            Value::Array(list) => list.iter().any(ours),
            one => ours(one),
        }
    }

    pub(crate) fn is_named_by(&self, peek: &Peek) -> bool {
        peek.issuers.iter().any(|iss| *iss == *self.config.issuer)
            && peek.audiences.iter().any(|aud| self.is_audience(aud))
    }

    fn accepted(&self) -> &'static [Algorithm] {
        match self.proof {
            Proof::Published => ALGORITHMS,
            Proof::SharedSecret => SHARED_SECRET_ALGORITHMS,
        }
    }
}

/// What a token says about whom it is from and for, before anything is verified. All of it, if it
/// says so twice: such a token is refused, and must not be passed on as the application's either.
#[derive(Debug, Default)]
pub(crate) struct Peek {
    pub(crate) issuers: Vec<Value>,
    pub(crate) audiences: Vec<Value>,
}

impl<'de> Deserialize<'de> for Peek {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Claims)
    }
}

struct Claims;

impl<'de> Visitor<'de> for Claims {
    type Value = Peek;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("claims")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut claims: A) -> Result<Peek, A::Error> {
        let mut peek = Peek::default();
        while let Some(name) = claims.next_key::<String>()? {
            match name.as_str() {
                "iss" => peek.issuers.push(claims.next_value()?),
                "aud" => peek.audiences.push(claims.next_value()?),
                _ => {
                    claims.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(peek)
    }
}
