//! Login's settings, as the flags give them.

use crate::session::Limits;
use nogoo9_identity::Roots;
use nogoo9_identity::cookie::CookieNames;
use nogoo9_identity::policy::SessionRoles;
use url::{Position, Url};

/// Login's settings.
#[derive(Clone)]
pub struct LoginConfig {
    /// Where people reach the console (`--public-url`).
    pub public_url: Url,
    /// Workspaces are at `{id}.` this, with the public port (`--workspace-domain`).
    pub workspace_domain: String,
    /// Host of path mode, with its port, where it has one of its own (`--path-host`).
    pub path_host: Option<String>,
    /// The identity provider (`--issuer`), to the last slash.
    pub issuer: String,
    /// Who may vouch for the provider (`--issuer-ca-file`).
    pub issuer_roots: Roots,
    /// Our name there (`--client-id`).
    pub client_id: String,
    /// Our secret there, unless we are a public client (`--client-secret-file`).
    pub client_secret: Option<String>,
    /// Asked for as `resource` (RFC 8707), if the provider knows that.
    pub resource: Option<String>,
    /// Scopes asked for beside `openid` (`--login-scopes`).
    pub scopes: Vec<String>,
    /// How long sessions last.
    pub limits: Limits,
    /// Which roles a session carries beside nogoo9's own (`--session-roles`).
    pub session_roles: SessionRoles,
}

impl std::fmt::Debug for LoginConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginConfig")
            .field("public_url", &self.public_url.as_str())
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

impl LoginConfig {
    /// The console's host with its port, as browsers send it in `Host`.
    #[must_use]
    pub fn console_host(&self) -> &str {
        &self.public_url[Position::BeforeHost..Position::AfterPort]
    }

    /// `iss` of our own tokens: the public URL.
    #[must_use]
    pub fn token_issuer(&self) -> &str {
        self.public_url.as_str()
    }

    /// Names of our cookies.
    #[must_use]
    pub fn cookies(&self) -> CookieNames {
        CookieNames::new(self.public_url.scheme() == "https")
    }

    /// Whether an address is of the issuer's own origin. A provider may have its pages elsewhere.
    #[must_use]
    pub fn is_at_issuer(&self, url: &Url) -> bool {
        Url::parse(&self.issuer).is_ok_and(|issuer| issuer.origin() == url.origin())
    }

    /// Where the provider sends browsers back to; must be registered there.
    #[must_use]
    pub fn redirect_uri(&self) -> String {
        self.at("/auth/callback")
    }

    /// A place on the console's host.
    #[must_use]
    pub fn at(&self, path_and_query: &str) -> String {
        format!(
            "{}{path_and_query}",
            &self.public_url[..Position::BeforePath]
        )
    }

    /// Whether a host, with its port, is one that sessions are handed over to: that of path mode, or
    /// one that a workspace or one of its extra ports can have, directly under the workspace domain. In
    /// the lower case that browsers send.
    #[must_use]
    pub fn is_workspace_host(&self, host: &str) -> bool {
        if self.path_host.as_deref() == Some(host) {
            return true;
        }
        host.strip_suffix(self.workspace_domain.as_str())
            .and_then(|rest| rest.strip_suffix('.'))
            .is_some_and(|label| nogoo9_model::id::split_host(label).is_some())
    }
}
