//! The two short-lived tokens of a login: the hand-over code and the login state.
//!
//! A **code** carries a session from the console's host to a workspace's, in a redirect. It is good
//! for 60 s, for one host, and only in the browser that has the nonce whose hash it names; so a
//! code that leaks, or that an attacker plants in somebody else's browser, is worth nothing.
//!
//! A **login state** sits in an HttpOnly cookie while the browser is at the identity provider. Its
//! signature only proves that it is ours; what it holds is no secret from its own browser.

use crate::error::TokenError;
use crate::jwks::Keys;
use crate::session::{Session, SessionSigner, SignError, open, own_issuer};
use data_encoding::BASE64URL_NOPAD;
use nogoo9_model::UnixSeconds;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const CODE_TYP: &str = "ng9-code+jwt";
const LOGIN_TYP: &str = "ng9-login+jwt";
/// How long a hand-over may take, in seconds.
pub const CODE_TTL: UnixSeconds = 60;
/// How long somebody may take at the identity provider, in seconds.
pub const LOGIN_TTL: UnixSeconds = 600;
/// Longest token looked at, in bytes: a return path may have 2 KiB, and percent-encoding grows it.
const MAX_LEN: usize = 8 * 1024;
/// Length of a nonce, in characters: 32 bytes in base64url.
const NONCE_LEN: usize = 43;

/// A hand-over: this session, to that host, in the browser with that nonce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// The workspace's host with its port.
    pub host: String,
    /// [`nonce_hash`] of the browser's nonce cookie on that host.
    pub nonce_hash: String,
    /// What is handed over.
    pub session: Session,
}

/// What must be remembered between sending a browser to the provider and its return.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginState {
    /// OAuth `state`.
    pub state: String,
    /// OpenID Connect `nonce`.
    pub nonce: String,
    /// PKCE verifier.
    pub verifier: String,
    /// Where on our own host the browser goes afterwards.
    pub return_to: String,
}

impl std::fmt::Debug for LoginState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginState")
            .field("return_to", &self.return_to)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims<T> {
    iss: String,
    iat: UnixSeconds,
    exp: UnixSeconds,
    #[serde(rename = "ng9")]
    content: T,
}

impl SessionSigner {
    /// Signs a hand-over code, good for [`CODE_TTL`].
    ///
    /// # Errors
    /// It could not be signed, or would be longer than a verifier reads.
    pub fn sign_code(&self, code: &Code, now: UnixSeconds) -> Result<String, SignError> {
        self.sign_for(CODE_TYP, code, now, CODE_TTL)
    }

    /// Signs a login state, good for [`LOGIN_TTL`].
    ///
    /// # Errors
    /// It could not be signed, or would be longer than a verifier reads.
    pub fn sign_login(&self, login: &LoginState, now: UnixSeconds) -> Result<String, SignError> {
        self.sign_for(LOGIN_TYP, login, now, LOGIN_TTL)
    }

    fn sign_for<T: Serialize>(
        &self,
        typ: &str,
        content: T,
        now: UnixSeconds,
        ttl: UnixSeconds,
    ) -> Result<String, SignError> {
        let iss = self.issuer().to_owned();
        let token = self.sign(
            typ,
            &Claims {
                iss,
                iat: now,
                exp: now.saturating_add(ttl),
                content,
            },
        )?;
        if token.len() > MAX_LEN {
            Err(SignError::TooLong)
        } else {
            Ok(token)
        }
    }
}

/// Verifies codes and login states. Control's alone.
#[derive(Debug, Clone)]
pub struct Codes {
    issuer: String,
    keys: Keys,
}

impl Codes {
    /// A verifier of what `issuer` (the public URL, with or without its last slash) signs, with its
    /// keys.
    #[must_use]
    pub fn new(issuer: &str, keys: Keys) -> Self {
        Self {
            issuer: own_issuer(issuer),
            keys,
        }
    }

    /// The session that a code hands over to `host`, in the browser that holds `nonce`.
    ///
    /// # Errors
    /// Why it does not: forged, too late, for another host, or for another browser.
    pub fn redeem(
        &self,
        token: &str,
        host: &str,
        nonce: &str,
        now: UnixSeconds,
    ) -> Result<Session, TokenError> {
        let code: Code = self.read(CODE_TYP, token, now)?;
        if !code.host.eq_ignore_ascii_case(host) {
            return Err(TokenError::WrongAudience);
        }
        let hash = nonce_hash(nonce);
        if !is_nonce(nonce) || !bool::from(hash.as_bytes().ct_eq(code.nonce_hash.as_bytes())) {
            return Err(TokenError::WrongNonce);
        }
        if code.session.expires <= now {
            return Err(TokenError::Expired);
        }
        Ok(code.session)
    }

    /// The login state that a cookie holds.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn login(&self, token: &str, now: UnixSeconds) -> Result<LoginState, TokenError> {
        self.read(LOGIN_TYP, token, now)
    }

    fn read<T: DeserializeOwned>(
        &self,
        typ: &str,
        token: &str,
        now: UnixSeconds,
    ) -> Result<T, TokenError> {
        if token.len() > MAX_LEN {
            return Err(TokenError::TooLong);
        }
        let claims: Claims<T> = open(typ, token, &self.keys.current().set)?;
        if claims.iss != self.issuer {
            return Err(TokenError::WrongIssuer);
        }
        if claims.exp <= now {
            return Err(TokenError::Expired);
        }
        Ok(claims.content)
    }
}

/// A new nonce: 32 random bytes in base64url.
///
/// # Errors
/// The operating system gave no random bytes.
pub fn new_nonce() -> Result<String, crate::keys::KeyError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| crate::keys::KeyError::NoEntropy)?;
    Ok(BASE64URL_NOPAD.encode(&bytes))
}

/// Whether a cookie's value can be one of [`new_nonce`].
#[must_use]
pub fn is_nonce(text: &str) -> bool {
    text.len() == NONCE_LEN && BASE64URL_NOPAD.decode(text.as_bytes()).is_ok()
}

/// The hash by which a nonce is named in URLs and codes: base64url of its SHA-256.
#[must_use]
pub fn nonce_hash(nonce: &str) -> String {
    BASE64URL_NOPAD.encode(&Sha256::digest(nonce.as_bytes()))
}
