//! The signing key (ES256) on disk, and the tokens it signs.

use std::{path::Path, time::Duration};

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header, Validation,
    jwk::{Jwk, PublicKeyUse, ThumbprintHash},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{IdpError, User, file};

/// Name of the key file in the data folder.
const KEY_FILE: &str = "idp/signing-key.pem";
const ALGORITHM: Algorithm = Algorithm::ES256;

/// The key pair. `Debug` is left out on purpose.
pub(super) struct SigningKey {
    private: EncodingKey,
    public: DecodingKey,
    jwk: Jwk,
    kid: String,
}

impl SigningKey {
    /// Reads the key, or makes one.
    pub(super) fn ensure(data_dir: &Path) -> Result<Self, IdpError> {
        let path = data_dir.join(KEY_FILE);
        if path.exists() {
            return Self::read(data_dir);
        }
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
            .map_err(|e| bad_key(&path, e))?;
        let pem = file(
            &path,
            crate::files::create_private(&path, pair.serialize_pem().as_bytes()),
        )?;
        Self::parse(&path, &pem)
    }

    /// Reads the key of an instance that ran before.
    pub(super) fn read(data_dir: &Path) -> Result<Self, IdpError> {
        let path = data_dir.join(KEY_FILE);
        let pem = file(&path, std::fs::read(&path))?;
        Self::parse(&path, &pem)
    }

    fn parse(path: &Path, pem: &[u8]) -> Result<Self, IdpError> {
        let private = EncodingKey::from_ec_pem(pem).map_err(|e| bad_key(path, e))?;
        let mut jwk = Jwk::from_encoding_key(&private, ALGORITHM).map_err(|e| bad_key(path, e))?;
        let kid = jwk
            .thumbprint(ThumbprintHash::SHA256)
            .map_err(|e| bad_key(path, e))?;
        jwk.common.key_id = Some(kid.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        let public = DecodingKey::from_jwk(&jwk).map_err(|e| bad_key(path, e))?;
        Ok(Self {
            private,
            public,
            jwk,
            kid,
        })
    }

    /// The public half, as it stands in the JWKS.
    pub(super) fn jwk(&self) -> &Jwk {
        &self.jwk
    }

    /// A signed token. `typ` keeps the kinds of token apart (RFC 8725, 3.11).
    pub(super) fn sign(&self, typ: &str, claims: &impl Serialize) -> Result<String, IdpError> {
        let mut header = Header::new(ALGORITHM);
        header.typ = Some(typ.to_owned());
        header.kid = Some(self.kid.clone());
        jsonwebtoken::encode(&header, claims, &self.private)
            .map_err(|e| IdpError::Sign(e.to_string()))
    }

    /// The claims of a token of that kind, audience and issuer that has not expired.
    pub(super) fn verify<T: DeserializeOwned>(
        &self,
        typ: &str,
        issuer: &str,
        audience: &str,
        token: &str,
    ) -> Option<T> {
        let header = jsonwebtoken::decode_header(token).ok()?;
        if header.typ.as_deref() != Some(typ) {
            return None;
        }
        let mut rules = Validation::new(ALGORITHM);
        rules.set_issuer(&[issuer]);
        rules.set_audience(&[audience]);
        rules.set_required_spec_claims(&["exp", "iss", "aud"]);
        rules.leeway = 0;
        jsonwebtoken::decode::<T>(token, &self.public, &rules)
            .ok()
            .map(|data| data.claims)
    }
}

fn bad_key(path: &Path, reason: impl std::fmt::Display) -> IdpError {
    IdpError::Key {
        path: path.display().to_string(),
        reason: reason.to_string(),
    }
}

/// Claims of an access token (RFC 9068).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AccessClaims {
    pub(super) iss: String,
    pub(super) sub: String,
    pub(super) aud: String,
    pub(super) exp: i64,
    pub(super) iat: i64,
    pub(super) jti: String,
    pub(super) client_id: String,
    pub(super) scope: String,
    pub(super) roles: Vec<String>,
    pub(super) name: String,
    pub(super) email: String,
}

impl AccessClaims {
    pub(super) fn new(
        user: &User,
        issuer: &str,
        audience: &str,
        client_id: &str,
        scope: &str,
        now: i64,
        life: Duration,
    ) -> Self {
        let life = i64::try_from(life.as_secs()).unwrap_or(i64::MAX);
        Self {
            iss: issuer.to_owned(),
            sub: user.sub.to_owned(),
            aud: audience.to_owned(),
            exp: now.saturating_add(life),
            iat: now,
            // Tells tokens apart in logs; nothing rests on its being unguessable.
            jti: super::random(12).unwrap_or_default(),
            client_id: client_id.to_owned(),
            scope: scope.to_owned(),
            roles: roles(user),
            name: user.name.to_owned(),
            email: user.email.to_owned(),
        }
    }
}

/// Claims of an ID token (OpenID Connect Core, 2).
#[derive(Debug, Serialize)]
pub(super) struct IdClaims<'a> {
    pub(super) iss: &'a str,
    pub(super) sub: &'a str,
    pub(super) aud: &'a str,
    pub(super) exp: i64,
    pub(super) iat: i64,
    pub(super) auth_time: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nonce: Option<&'a str>,
    pub(super) roles: Vec<String>,
    pub(super) name: &'a str,
    pub(super) preferred_username: &'a str,
    pub(super) email: &'a str,
    pub(super) email_verified: bool,
}

pub(super) fn roles(user: &User) -> Vec<String> {
    user.roles.iter().map(|role| (*role).to_owned()).collect()
}

/// base64url(sha256(text)): PKCE's S256, and the hash that refresh tokens are kept by.
pub(super) fn sha256_base64url(text: &str) -> String {
    use sha2::Digest as _;
    BASE64URL_NOPAD.encode(&sha2::Sha256::digest(text.as_bytes()))
}
