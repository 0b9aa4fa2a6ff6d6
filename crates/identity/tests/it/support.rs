//! A provider's keys, and tokens signed with them.

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use nogoo9_identity::Authenticator;
use nogoo9_identity::bearer::{BearerConfig, Bearers};
use nogoo9_identity::cookie::CookieNames;
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::keys::{SigningKey, public_jwks};
use nogoo9_identity::keyset::KeySet;
use nogoo9_identity::policy::ClaimPolicy;
use nogoo9_identity::session::{Session, SessionSigner, Sessions};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const NOW: i64 = 1_800_000_000;
pub(crate) const ISSUER: &str = "https://login.example.org/realms/main";
pub(crate) const AUDIENCE: &str = "https://ws.example.org/mcp";
pub(crate) const PUBLIC_URL: &str = "https://ws.example.org/";
pub(crate) const HOST: &str = "dev.ws.example.org";

/// One signing key of a provider.
pub(crate) struct Signer {
    key: EncodingKey,
    pub(crate) algorithm: Algorithm,
    kid: String,
    jwk: Value,
}

impl Signer {
    pub(crate) fn ed25519(kid: &str) -> Self {
        let made = SigningKey::generate().expect("a key");
        let pem = made.to_pem().expect("PEM");
        let key = EncodingKey::from_ed_pem(pem.as_bytes()).expect("a key");
        Self::new(key, Algorithm::EdDSA, kid, made.public_jwk())
    }

    pub(crate) fn p256(kid: &str) -> Self {
        let der = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
            .expect("a key")
            .serialize_der();
        Self::published(EncodingKey::from_ec_der(&der), Algorithm::ES256, kid)
    }

    /// The key in `rsa-test-only.pem`: made for these tests, used nowhere.
    pub(crate) fn rsa(kid: &str, algorithm: Algorithm) -> Self {
        let key = EncodingKey::from_rsa_pem(include_bytes!("rsa-test-only.pem")).expect("a key");
        Self::published(key, algorithm, kid)
    }

    fn published(key: EncodingKey, algorithm: Algorithm, kid: &str) -> Self {
        let jwk = Jwk::from_encoding_key(&key, algorithm).expect("a JWK");
        Self::new(
            key,
            algorithm,
            kid,
            serde_json::to_value(jwk).expect("JSON"),
        )
    }

    fn new(key: EncodingKey, algorithm: Algorithm, kid: &str, mut jwk: Value) -> Self {
        jwk["kid"] = json!(kid);
        jwk["use"] = json!("sig");
        Self {
            key,
            algorithm,
            kid: kid.to_owned(),
            jwk,
        }
    }

    pub(crate) fn jwk(&self) -> Value {
        self.jwk.clone()
    }

    pub(crate) fn header(&self) -> Header {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.kid.clone());
        header
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with(&self.header(), claims)
    }

    pub(crate) fn sign_with(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.key).expect("a token")
    }

    /// Signs header and claims as they are, be they JSON or not.
    pub(crate) fn sign_text(&self, header: &str, claims: &str) -> String {
        let part = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        let message = format!("{}.{}", part(header), part(claims));
        format!("{message}.{}", self.signature(&message))
    }

    pub(crate) fn signature(&self, message: &str) -> String {
        jsonwebtoken::crypto::sign(message.as_bytes(), &self.key, self.algorithm)
            .expect("a signature")
    }
}

pub(crate) fn jwks(signers: &[&Signer]) -> Vec<u8> {
    let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({ "keys": keys }).to_string().into_bytes()
}

pub(crate) fn key_set(signers: &[&Signer]) -> KeySet {
    KeySet::parse(&jwks(signers)).expect("a key set")
}

/// Claims of a good access token of alice.
pub(crate) fn claims() -> Value {
    json!({
        "iss": ISSUER,
        "aud": [AUDIENCE, "account"],
        "sub": "alice",
        "roles": ["user", "dev"],
        "iat": NOW - 10,
        "exp": NOW + 3600,
    })
}

/// [`claims`] with some changed, or removed where the change is null.
pub(crate) fn claims_but(changes: &Value) -> Value {
    let mut all = claims();
    for (name, value) in changes.as_object().expect("an object") {
        if value.is_null() {
            all.as_object_mut().expect("an object").remove(name);
        } else {
            all[name] = value.clone();
        }
    }
    all
}

pub(crate) fn bearers(keys: Keys) -> Bearers {
    let config = BearerConfig {
        issuer: ISSUER.to_owned(),
        audiences: vec!["other".to_owned(), AUDIENCE.to_owned()],
    };
    Bearers::new(config, Arc::new(ClaimPolicy::default()), keys)
}

pub(crate) fn session() -> Session {
    Session {
        sub: "alice".to_owned(),
        roles: vec!["user".to_owned(), "dev".to_owned()],
        sid: "s-1".to_owned(),
        expires: NOW + 3600,
        fresh_until: None,
    }
}

pub(crate) fn session_signer() -> SessionSigner {
    SessionSigner::new(SigningKey::generate().expect("a key"), PUBLIC_URL)
}

pub(crate) fn public_keys(signers: &[&SessionSigner]) -> KeySet {
    let document = public_jwks(signers.iter().map(|signer| signer.key()));
    KeySet::parse(document.as_bytes()).expect("a key set")
}

pub(crate) fn sessions(signer: &SessionSigner) -> Sessions {
    let keys = Keys::fixed(public_keys(&[signer]));
    Sessions::new(PUBLIC_URL, Arc::new(ClaimPolicy::default()), keys)
}

pub(crate) fn authenticator(provider: &Signer, signer: &SessionSigner) -> Authenticator {
    let bearers = bearers(Keys::fixed(key_set(&[provider])));
    Authenticator::new(bearers, sessions(signer), CookieNames::new(true))
}
