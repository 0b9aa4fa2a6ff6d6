//! What an MCP client needs to find its way to a token: the 401 and 403 challenges and the protected
//! resource metadata that they point to (RFC 6750, RFC 9728).

use crate::error::TokenError;
use nogoo9_model::access::{Action, SCOPES};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeSet;
use url::Url;

/// Path at which the metadata of the whole host is served; that of a resource with a path is served
/// below it.
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// Protected resource metadata (RFC 9728, section 2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProtectedResource {
    /// What a client asks its token for (RFC 8707): the audience.
    pub resource: String,
    /// Who issues such tokens.
    pub authorization_servers: Vec<String>,
    /// Always `header`: tokens in URLs end up in logs.
    pub bearer_methods_supported: Vec<&'static str>,
    /// The scopes that a token may need, where they are enforced. Where they mean nothing, none is
    /// named: clients ask for what they read here, and many providers refuse scopes that they do not
    /// know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes_supported: Vec<&'static str>,
    /// Shown to people.
    pub resource_name: &'static str,
}

impl ProtectedResource {
    /// The metadata of a resource whose tokens `issuer` issues.
    #[must_use]
    pub fn new(resource: impl Into<String>, issuer: impl Into<String>) -> Self {
        Self {
            resource: resource.into(),
            authorization_servers: vec![issuer.into()],
            bearer_methods_supported: vec!["header"],
            scopes_supported: Vec::new(),
            resource_name: "nogoo9 workspaces",
        }
    }

    /// Where other issuers' tokens count too. The first named stays first: most clients ask no other.
    #[must_use]
    pub fn and_issuers(mut self, issuers: impl IntoIterator<Item = String>) -> Self {
        self.authorization_servers.extend(issuers);
        self
    }

    /// Where scopes are enforced.
    #[must_use]
    pub fn with_scopes(mut self) -> Self {
        self.scopes_supported = SCOPES.to_vec();
        self
    }
}

/// Where the metadata of the resource at `url` is: `https://host/mcp` has its at
/// `https://host/.well-known/oauth-protected-resource/mcp` (RFC 9728, section 3.1).
#[must_use]
pub fn metadata_url(url: &Url) -> String {
    let mut at = url.clone();
    let path = url.path().trim_end_matches('/');
    at.set_path(&format!("{METADATA_PATH}{path}"));
    at.set_query(None);
    at.set_fragment(None);
    at.to_string()
}

/// A `WWW-Authenticate` value. `refused` is why the token that came did not count, if one came:
/// without a token no error is named (RFC 6750, section 3.1).
#[must_use]
pub fn challenge(metadata_url: &str, refused: Option<TokenError>, scope: Option<&str>) -> String {
    let mut text = format!("Bearer resource_metadata=\"{}\"", quotable(metadata_url));
    if let Some(scope) = scope.filter(|scope| !scope.is_empty()) {
        text.push_str(&format!(", scope=\"{}\"", quotable(scope)));
    }
    if let Some(error) = refused {
        text.push_str(&format!(
            ", error=\"invalid_token\", error_description=\"{error}\""
        ));
    }
    text
}

/// The `WWW-Authenticate` value of a 403: the token counts and lacks the scope `needed` (RFC 6750,
/// section 3.1). It names everything to ask for at once: beside that scope the one for reading, without
/// which little else is of use, and whatever the token has of nogoo9's scopes already. A client that
/// asks for exactly what it reads here must not lose one scope by gaining another, and then ask for
/// each in turn for ever.
#[must_use]
pub fn insufficient_scope(
    metadata_url: &str,
    granted: Option<&BTreeSet<String>>,
    needed: &str,
) -> String {
    let wanted = |scope: &&str| {
        *scope == needed
            || *scope == Action::Read.scope()
            || granted.is_some_and(|granted| granted.contains(*scope))
    };
    let scopes: Vec<&str> = SCOPES.into_iter().filter(wanted).collect();
    let text = challenge(metadata_url, None, Some(&scopes.join(" ")));
    format!("{text}, error=\"insufficient_scope\"")
}

/// The `WWW-Authenticate` value of a 400: a token came in the URL, where logs and histories keep it
/// (RFC 9700, section 4.3.2).
#[must_use]
pub fn token_in_url(metadata_url: &str) -> String {
    let text = challenge(metadata_url, None, None);
    format!("{text}, error=\"invalid_request\", error_description=\"{TOKEN_IN_URL}\"")
}

/// What is said of a token in a URL.
pub const TOKEN_IN_URL: &str =
    "a token belongs into the Authorization header, never into a URL; take this one for exposed";

/// Whether a query carries a bearer token (RFC 6750, section 2.3).
#[must_use]
pub fn has_token(query: Option<&str>) -> bool {
    tokens(query).next().is_some()
}

/// The bearer tokens that a query carries.
pub(crate) fn tokens(query: Option<&str>) -> impl Iterator<Item = Cow<'_, str>> {
    let query = query.unwrap_or_default().as_bytes();
    url::form_urlencoded::parse(query)
        .filter(|(name, _)| name.eq_ignore_ascii_case("access_token"))
        .map(|(_, token)| token)
}

/// Without the characters that a quoted string cannot hold.
fn quotable(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, ' '..='~') && !matches!(c, '"' | '\\'))
        .collect()
}
