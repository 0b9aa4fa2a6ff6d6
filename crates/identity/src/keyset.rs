//! A published set of public keys (JWKS, RFC 7517), reduced to those that may verify our tokens.
//!
//! Shared-secret keys are dropped, since what is published is no secret, as are keys for encryption,
//! unknown kinds, and keys of a shape that no honest provider publishes. One odd key must not cost
//! the rest, so each is read alone.

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse, RSAKeyParameters};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Keys read from one set; providers publish two or three.
const MAX_KEYS: usize = 64;
/// RSA modulus sizes accepted, in bytes: 2048 to 8192 bits. Below is breakable, above is slow.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// Every algorithm that may sign a provider's token: asymmetric ones only.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Every algorithm that may sign with a shared secret.
pub(crate) const SHARED_SECRET_ALGORITHMS: &[Algorithm] =
    &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];
/// Least length of a shared secret, in bytes (RFC 7518, section 3.2, for HS256).
const MIN_SECRET: usize = 32;

/// Why a shared secret is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Guessable by anybody who has one token.
    #[error("the shared secret must have {MIN_SECRET} bytes or more")]
    TooShort,
}

/// Why a document is no key set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// Not JSON of the form `{"keys": [...]}`.
    #[error("not a JSON Web Key Set")]
    Malformed,
    /// A set without a single key that could verify a token.
    #[error(
        "the key set has no usable key (RSA of 2048 to 8192 bits, P-256, P-384 or Ed25519, for signing)"
    )]
    NoUsableKey,
}

/// Public keys, ready to verify.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: Vec<Key>,
    fingerprint: [u8; 32],
}

#[derive(Debug, Clone)]
struct Key {
    kid: Option<String>,
    /// Counts whatever key id a token names.
    only: bool,
    algorithms: Vec<Algorithm>,
    decoding: DecodingKey,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    /// Reads a JWKS document.
    ///
    /// # Errors
    /// It is no key set, or has no key that could be used.
    pub fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        let document: Document =
            serde_json::from_slice(json).map_err(|_| KeySetError::Malformed)?;
        let keys: Vec<Key> = document
            .keys
            .into_iter()
            .take(MAX_KEYS)
            .filter_map(Key::from_json)
            .collect();
        if keys.is_empty() {
            return Err(KeySetError::NoUsableKey);
        }
        Ok(Self {
            keys,
            fingerprint: Sha256::digest(json).into(),
        })
    }

    /// The set whose one key is a secret shared with the issuer.
    ///
    /// # Errors
    /// It is too short.
    pub(crate) fn shared_secret(secret: &[u8]) -> Result<Self, SecretError> {
        if secret.len() < MIN_SECRET {
            return Err(SecretError::TooShort);
        }
        let decoding = DecodingKey::from_secret(secret).map_err(|_| SecretError::TooShort)?;
        let key = Key {
            kid: None,
            only: true,
            algorithms: SHARED_SECRET_ALGORITHMS.to_vec(),
            decoding,
        };
        Ok(Self {
            keys: vec![key],
            fingerprint: Sha256::digest(secret).into(),
        })
    }

    /// Whether the two were read from the same bytes.
    #[must_use]
    pub fn same_document(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }

    /// Key ids, for logs. Keys without one are not listed.
    pub fn kids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter_map(|key| key.kid.as_deref())
    }

    /// Whether there is no key at all: nothing was read yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Keys that may have signed a token with this header. A token without a key id is matched only
    /// where there is no choice: trying all keys would let one token cost many verifications.
    pub(crate) fn matching(&self, kid: Option<&str>, algorithm: Algorithm) -> Vec<&DecodingKey> {
        let fits = |key: &&Key| key.algorithms.contains(&algorithm);
        let found: Vec<_> = match kid {
            Some(kid) => self
                .keys
                .iter()
                .filter(|key| key.only || key.kid.as_deref() == Some(kid))
                .filter(fits)
                .collect(),
            None => self.keys.iter().filter(fits).collect(),
        };
        if kid.is_none() && found.len() > 1 {
            return Vec::new();
        }
        found.into_iter().map(|key| &key.decoding).collect()
    }

    /// Whether the key id is known, be it for another algorithm.
    pub(crate) fn knows(&self, kid: Option<&str>) -> bool {
        let named = |key: &Key| key.only || (kid.is_some() && key.kid.as_deref() == kid);
        self.keys.iter().any(named)
    }
}

impl Key {
    fn from_json(value: serde_json::Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        if !matches!(
            jwk.common.public_key_use,
            None | Some(PublicKeyUse::Signature)
        ) {
            return None;
        }
        let possible = algorithms_of(&jwk.algorithm)?;
        let algorithms: Vec<Algorithm> = match jwk.common.key_algorithm {
            None => possible.to_vec(),
            Some(named) => {
                let named: Algorithm = named.to_string().parse().ok()?;
                possible
                    .iter()
                    .copied()
                    .filter(|one| *one == named)
                    .collect()
            }
        };
        if algorithms.is_empty() {
            return None;
        }
        let decoding = DecodingKey::from_jwk(&jwk).ok()?;
        Some(Self {
            kid: jwk.common.key_id,
            only: false,
            algorithms,
            decoding,
        })
    }
}

/// What a key of this kind can verify; `None` for kinds and sizes that are refused.
fn algorithms_of(parameters: &AlgorithmParameters) -> Option<&'static [Algorithm]> {
    match parameters {
        AlgorithmParameters::RSA(RSAKeyParameters { n, e, .. }) => {
            let modulus = byte_len(n)?;
            let exponent = byte_len(e)?;
            (RSA_BYTES.contains(&modulus) && exponent <= 8).then_some(RSA)
        }
        AlgorithmParameters::EllipticCurve(key) => {
            let (len, algorithms): (usize, &'static [Algorithm]) = match key.curve {
                EllipticCurve::P256 => (32, &[Algorithm::ES256]),
                EllipticCurve::P384 => (48, &[Algorithm::ES384]),
                _ => return None,
            };
            (byte_len(&key.x)? == len && byte_len(&key.y)? == len).then_some(algorithms)
        }
        // The length matters: the verifier slices the first 32 bytes unasked.
        AlgorithmParameters::OctetKeyPair(key) => (key.curve == EllipticCurve::Ed25519
            && byte_len(&key.x)? == 32)
            .then_some(&[Algorithm::EdDSA]),
        _ => None,
    }
}

fn byte_len(base64url: &str) -> Option<usize> {
    BASE64URL_NOPAD
        .decode(base64url.as_bytes())
        .ok()
        .map(|bytes| bytes.len())
}
