//! What a provider publishes about itself, as far as login uses it.

use openidconnect::core::{
    CoreAuthDisplay, CoreClaimName, CoreClaimType, CoreClientAuthMethod, CoreGrantType,
    CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJweKeyManagementAlgorithm,
    CoreResponseMode, CoreResponseType, CoreSubjectIdentifierType,
};
use openidconnect::{AdditionalProviderMetadata, LogoutProviderMetadata, ProviderMetadata, Scope};
use serde::{Deserialize, Serialize};
use url::Url;

/// A discovery document with its keys.
pub(super) type Metadata = ProviderMetadata<
    LogoutProviderMetadata<Revocation>,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

/// Where tokens are taken back (RFC 8414, section 2). As text: one that is no URL shall cost nobody the
/// sign-in.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Revocation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
}

impl AdditionalProviderMetadata for Revocation {}

/// By this one a provider gives refresh tokens that outlive the sign-in (OpenID Connect Core, section
/// 11).
const OFFLINE: &str = "offline_access";

/// The scopes to ask for: those that are wished for, but `offline_access` only of a provider that does
/// not say it has none. Many refuse a sign-in over a scope that they do not know; without it the
/// session is short.
pub(super) fn scopes(wished: &[String], metadata: &Metadata) -> Vec<Scope> {
    let known = metadata.scopes_supported();
    let knows = |scope: &str| known.is_none_or(|known| known.iter().any(|one| **one == *scope));
    wished
        .iter()
        .filter(|scope| *scope != OFFLINE || knows(OFFLINE))
        .cloned()
        .map(Scope::new)
        .collect()
}

/// Where the provider takes back tokens, if it does: over TLS, but for one that is on this machine.
pub(super) fn revocation(metadata: &Metadata) -> Option<Url> {
    let more = &metadata.additional_metadata().additional_metadata;
    let url = Url::parse(more.revocation_endpoint.as_deref()?).ok()?;
    let here = metadata.issuer().url().scheme() == "http";
    (url.scheme() == "https" || (here && url.scheme() == "http")).then_some(url)
}
