//! What an MCP client needs to find its way to a token: the 401 challenge and the protected
//! resource metadata it points to (RFC 6750, RFC 9728).

use crate::error::TokenError;
use serde::Serialize;
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
            resource_name: "nogoo9 workspaces",
        }
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

/// Without the characters that a quoted string cannot hold.
fn quotable(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, ' '..='~') && !matches!(c, '"' | '\\'))
        .collect()
}
