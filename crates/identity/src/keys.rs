//! The Ed25519 key that signs our own tokens, and what is published of it.

use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use jsonwebtoken::EncodingKey;
use sha2::{Digest, Sha256};

/// Why there is no signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not what [`SigningKey::to_pem`] writes.
    #[error("not an Ed25519 private key in PKCS#8 PEM ('-----BEGIN PRIVATE KEY-----')")]
    Pem,
    /// The key cannot be put in the form that is needed.
    #[error("the Ed25519 key cannot be encoded")]
    Encoding,
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes")]
    NoEntropy,
}

/// A private key. Only control has one.
pub struct SigningKey {
    secret: ed25519_dalek::SigningKey,
    encoding: EncodingKey,
    kid: String,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey")
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}

impl SigningKey {
    /// A new key.
    ///
    /// # Errors
    /// No random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|_| KeyError::NoEntropy)?;
        Self::from_secret(ed25519_dalek::SigningKey::from_bytes(&seed))
    }

    /// Reads a key that [`Self::to_pem`] or `openssl genpkey -algorithm ed25519` wrote.
    ///
    /// # Errors
    /// It is no such key. The error holds nothing of it.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let secret = ed25519_dalek::SigningKey::from_pkcs8_pem(pem).map_err(|_| KeyError::Pem)?;
        Self::from_secret(secret)
    }

    /// PKCS#8 PEM, for a Secret.
    ///
    /// # Errors
    /// The key cannot be encoded.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        let pem = self
            .secret
            .to_pkcs8_pem(LineEnding::LF)
            .map_err(|_| KeyError::Encoding)?;
        Ok(pem.as_str().to_owned())
    }

    /// The key's id: its JWK thumbprint (RFC 7638), so the same key has the same id everywhere.
    #[must_use]
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The public half as a JWK.
    #[must_use]
    pub fn public_jwk(&self) -> serde_json::Value {
        serde_json::json!({
            "kty": "OKP",
            "crv": "Ed25519",
            "x": public_x(&self.secret),
            "kid": self.kid,
            "alg": "EdDSA",
            "use": "sig",
        })
    }

    pub(crate) fn encoding(&self) -> &EncodingKey {
        &self.encoding
    }

    fn from_secret(secret: ed25519_dalek::SigningKey) -> Result<Self, KeyError> {
        let der = secret.to_pkcs8_der().map_err(|_| KeyError::Encoding)?;
        let encoding = EncodingKey::from_ed_der(der.as_bytes());
        let canonical = format!(
            r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#,
            public_x(&secret)
        );
        let kid = BASE64URL_NOPAD.encode(&Sha256::digest(canonical.as_bytes()));
        Ok(Self {
            secret,
            encoding,
            kid,
        })
    }
}

fn public_x(secret: &ed25519_dalek::SigningKey) -> String {
    BASE64URL_NOPAD.encode(secret.verifying_key().as_bytes())
}

/// The public halves as a JWKS document: what proxies verify with. Holds no secret.
#[must_use]
pub fn public_jwks<'a>(keys: impl IntoIterator<Item = &'a SigningKey>) -> String {
    let keys: Vec<_> = keys.into_iter().map(SigningKey::public_jwk).collect();
    serde_json::json!({ "keys": keys }).to_string()
}
