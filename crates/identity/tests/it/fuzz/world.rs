//! Good tokens of every kind, and all that verifies them.

use crate::support::{
    AUDIENCE, HOST, ISSUER, NOW, PUBLIC_URL, Signer, claims, claims_but, jwks, key_set,
    public_keys, session, session_signer, sessions,
};
use jsonwebtoken::Algorithm;
use nogoo9_identity::Authenticator;
use nogoo9_identity::bearer::{BearerConfig, Bearers};
use nogoo9_identity::code::{Code, Codes, LoginState, new_nonce, nonce_hash};
use nogoo9_identity::cookie::CookieNames;
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::policy::ClaimPolicy;
use serde_json::json;
use std::sync::{Arc, LazyLock};

const OTHER: &str = "https://login.other.example";
const SECRET: &[u8] = b"a secret of more than thirty-two bytes";

pub(super) struct World {
    /// Of the provider; its key ids are "k", "ec" and "rs".
    pub(super) access: Vec<String>,
    /// A session on [`HOST`].
    pub(super) session: String,
    pub(super) code: String,
    pub(super) login: String,
    /// Of the browser that the code is for.
    pub(super) nonce: String,
    /// What the provider publishes.
    pub(super) jwks: Vec<u8>,
    /// With key id "k" too, and published by nobody.
    pub(super) attacker: Signer,
    pub(super) door: Authenticator,
    pub(super) codes: Codes,
}

pub(super) static WORLD: LazyLock<World> = LazyLock::new(World::new);

impl World {
    fn new() -> Self {
        let signers = [
            Signer::ed25519("k"),
            Signer::p256("ec"),
            Signer::rsa("rs", Algorithm::RS256),
        ];
        let other = Signer::ed25519("k");
        let mut access: Vec<String> = signers.iter().map(|one| one.sign(&claims())).collect();
        access.push(other.sign(&claims_but(&json!({"iss": OTHER, "aud": "app"}))));
        let config = |issuer: &str, audience: &str| BearerConfig {
            issuer: issuer.to_owned(),
            audiences: vec![audience.to_owned()],
        };
        let bearers = Bearers::new(
            config(ISSUER, AUDIENCE),
            Arc::new(ClaimPolicy::default()),
            Keys::fixed(key_set(&signers.each_ref())),
        )
        .and_issuer(config(OTHER, "app"), Keys::fixed(key_set(&[&other])))
        .and_shared_secret(config("https://secret.example", "app"), SECRET)
        .expect("a secret");

        let signer = session_signer();
        let nonce = new_nonce().expect("a nonce");
        let code = Code {
            host: HOST.to_owned(),
            nonce_hash: nonce_hash(&nonce),
            session: session(),
        };
        let login = LoginState {
            state: "state".to_owned(),
            nonce: "nonce".to_owned(),
            verifier: "verifier".to_owned(),
            return_to: "/".to_owned(),
        };
        Self {
            access,
            session: signer.sign_session(&session(), HOST, NOW).expect("a token"),
            code: signer.sign_code(&code, NOW).expect("a code"),
            login: signer.sign_login(&login, NOW).expect("a login"),
            nonce,
            jwks: jwks(&signers.each_ref()),
            attacker: Signer::ed25519("k"),
            door: Authenticator::new(bearers, sessions(&signer), CookieNames::new(true)),
            codes: Codes::new(PUBLIC_URL, Keys::fixed(public_keys(&[&signer]))),
        }
    }

    /// Every token there is.
    pub(super) fn tokens(&self) -> Vec<&str> {
        let ours = [&self.session, &self.code, &self.login];
        self.access.iter().chain(ours).map(String::as_str).collect()
    }
}
