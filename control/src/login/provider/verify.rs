//! Whether an ID token proves who signed in.

use super::{Client, explain};
use openidconnect::core::{CoreIdToken, CoreIdTokenVerifier, CoreJwsSigningAlgorithm};
use openidconnect::{AccessToken, AccessTokenHash, NonceVerifier};
use serde_json::{Map, Value};

/// What an ID token may be signed with.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Why an ID token does not count.
pub(super) enum Refusal {
    /// Its key is not among those known.
    UnknownKey(String),
    /// Any other reason.
    Other(String),
}

impl Refusal {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::UnknownKey(text) | Self::Other(text) => text,
        }
    }
}

/// The subject of an ID token, if signature, issuer, audience, authorized party, expiry, nonce and
/// the hash of the access token are as they must be.
pub(super) fn verify(
    client: &Client,
    token: &CoreIdToken,
    access: &AccessToken,
    nonce: impl NonceVerifier,
) -> Result<String, Refusal> {
    use openidconnect::{
        ClaimsVerificationError as Claims, SignatureVerificationError as Signature,
    };
    // Some providers name their projects and APIs beside us. See below for whom it was then made for.
    let verifier: CoreIdTokenVerifier<'_> = client
        .id_token_verifier()
        .set_allowed_algs(ALGORITHMS)
        .set_other_audience_verifier_fn(|_| true);
    let claims = token
        .claims(&verifier, nonce)
        .map_err(|error| match &error {
            Claims::SignatureVerification(Signature::NoMatchingKey) => {
                Refusal::UnknownKey(explain(&error))
            }
            _ => Refusal::Other(explain(&error)),
        })?;
    // OpenID Connect Core, section 3.1.3.7, steps 3 to 5.
    if claims.audiences().len() > 1 && claims.authorized_party() != Some(client.client_id()) {
        return Err(Refusal::Other(
            "it is for others too, and 'azp' does not name this client".to_owned(),
        ));
    }
    if let Some(wanted) = claims.access_token_hash() {
        let other = |error: &dyn std::error::Error| Refusal::Other(explain(error));
        let algorithm = token.signing_alg().map_err(|error| other(&error))?;
        let key = token
            .signing_key(&verifier)
            .map_err(|error| other(&error))?;
        let found = AccessTokenHash::from_token(access, algorithm, key).map_err(|e| other(&e))?;
        if found != *wanted {
            return Err(Refusal::Other(
                "the access token is not the ID token's".to_owned(),
            ));
        }
    }
    Ok(claims.subject().to_string())
}

/// All claims of a token that was verified. The library's typed claims leave out what it does not
/// know, and the roles may be anywhere.
pub(super) fn payload(token: &CoreIdToken) -> Option<Map<String, Value>> {
    let text = token.to_string();
    let part = text.split('.').nth(1)?;
    let json = data_encoding::BASE64URL_NOPAD
        .decode(part.as_bytes())
        .ok()?;
    serde_json::from_slice(&json).ok()
}
