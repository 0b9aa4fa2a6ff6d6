//! Compact signed JWTs: header first, then key, then signature; claims are read last.
//!
//! `jsonwebtoken` checks the signature and nothing else here: its claim rules read the clock, and
//! ours take `now` as an argument.

use crate::error::TokenError;
use crate::keyset::KeySet;
use crate::unambiguous::is_unambiguous;
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation};
use nogoo9_model::UnixSeconds;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::str::FromStr;

/// The part of a header that decides anything.
#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    pub(crate) alg: String,
    pub(crate) typ: Option<String>,
    pub(crate) kid: Option<String>,
}

/// Splits off and reads the header, unverified.
pub(crate) fn header(token: &str) -> Result<Header, TokenError> {
    let (head, _) = head_and_claims(token).ok_or(TokenError::Malformed)?;
    let json = decoded(head).ok_or(TokenError::Malformed)?;
    if !is_unambiguous(&json) {
        return Err(TokenError::Malformed);
    }
    serde_json::from_slice(&json).map_err(|_| TokenError::Malformed)
}

/// Reads the claims, unverified: good for asking whose a token claims to be, for nothing else. What
/// the header says does not matter here.
pub(crate) fn peek<T: DeserializeOwned>(token: &str) -> Option<T> {
    let (_, claims) = head_and_claims(token)?;
    serde_json::from_slice(&decoded(claims)?).ok()
}

/// The first two of exactly three parts.
fn head_and_claims(token: &str) -> Option<(&str, &str)> {
    let mut parts = token.split('.');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(head), Some(claims), Some(_), None) => Some((head, claims)),
        _ => None,
    }
}

fn decoded(part: &str) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(part.as_bytes()).ok()
}

/// Verifies the signature of a token whose header was read and found to be of the right type.
/// Claims that name anything twice are refused, signed or not (RFC 7519, section 4): which of the
/// two counts would depend on who reads.
pub(crate) fn verify<T: DeserializeOwned>(
    token: &str,
    header: &Header,
    keys: &KeySet,
    accepted: &[Algorithm],
) -> Result<T, TokenError> {
    let algorithm = Algorithm::from_str(&header.alg).map_err(|_| TokenError::Algorithm)?;
    if !accepted.contains(&algorithm) {
        return Err(TokenError::Algorithm);
    }
    if keys.is_empty() {
        return Err(TokenError::KeysUnavailable);
    }
    let (_, claims) = head_and_claims(token).ok_or(TokenError::Malformed)?;
    if !decoded(claims).is_some_and(|json| is_unambiguous(&json)) {
        return Err(TokenError::Malformed);
    }
    let mut verdict = if keys.knows(header.kid.as_deref()) {
        TokenError::Algorithm
    } else {
        TokenError::UnknownKey
    };
    for key in keys.matching(header.kid.as_deref(), algorithm) {
        match jsonwebtoken::decode::<T>(token, key, &signature_only(algorithm)) {
            Ok(data) => return Ok(data.claims),
            Err(error) => verdict = refusal(error.kind()),
        }
    }
    Err(verdict)
}

fn signature_only(algorithm: Algorithm) -> Validation {
    let mut rules = Validation::new(algorithm);
    rules.required_spec_claims.clear();
    rules.validate_exp = false;
    rules.validate_nbf = false;
    rules.validate_aud = false;
    rules
}

fn refusal(kind: &ErrorKind) -> TokenError {
    match kind {
        ErrorKind::InvalidSignature
        | ErrorKind::InvalidRsaKey(_)
        | ErrorKind::InvalidEcdsaKey
        | ErrorKind::InvalidEddsaKey
        | ErrorKind::InvalidKeyFormat => TokenError::Signature,
        ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => TokenError::Algorithm,
        _ => TokenError::Malformed,
    }
}

/// A `NumericDate` (RFC 7519): whole seconds, though some providers write fractions.
pub(crate) fn numeric_date(value: &serde_json::Value) -> Option<UnixSeconds> {
    if let Some(whole) = value.as_i64() {
        return Some(whole);
    }
    let seconds = value.as_f64()?;
    // Beyond 2^53 a float is no date, and the cast below would be inexact.
    #[allow(clippy::cast_possible_truncation, reason = "the range was checked")]
    (seconds.is_finite() && seconds.abs() < 9e15).then_some(seconds.floor() as UnixSeconds)
}
