//! Whose tokens count, and what their roles mean.

use std::path::{Path, PathBuf};

use clap::Args;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use url::Url;

use crate::config::Problems;

/// Identity provider and roles.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Identity")]
pub struct IdentityArgs {
    /// Issuer URL of the OpenID Connect provider, exactly as its tokens have it.
    #[arg(long, env = "NOGOO9_ISSUER", value_name = "URL")]
    pub issuer: Option<String>,
    /// PEM file with certificate authorities that may vouch for the provider, beside the public
    /// ones. Read once, at the start.
    #[arg(long, env = "NOGOO9_ISSUER_CA_FILE", value_name = "FILE")]
    pub issuer_ca_file: Option<PathBuf>,
    /// Audience that a bearer token must name; may be repeated.
    /// [default: the public URL + /mcp]
    #[arg(
        long,
        env = "NOGOO9_AUDIENCE",
        value_name = "AUDIENCE",
        value_delimiter = ','
    )]
    pub audience: Vec<String>,
    /// Claim that holds the roles; dots step into objects, as in `realm_access.roles`.
    /// [default: roles]
    #[arg(long, env = "NOGOO9_ROLES_CLAIM", value_name = "PATH")]
    pub roles_claim: Option<String>,
    /// Role of the provider that makes an admin. [default: admin]
    #[arg(long, env = "NOGOO9_ADMIN_ROLE", value_name = "ROLE")]
    pub admin_role: Option<String>,
    /// Subject that is an admin whatever its roles; may be repeated.
    #[arg(
        long,
        env = "NOGOO9_ADMIN_SUB",
        value_name = "SUB",
        value_delimiter = ','
    )]
    pub admin_sub: Vec<String>,
    /// Role of a caller whose token has no role claim: `viewer` or `user`. [default: user]
    #[arg(long, env = "NOGOO9_DEFAULT_ROLE", value_name = "ROLE")]
    pub default_role: Option<String>,
}

/// Checked settings of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Issuer, compared byte by byte with the token's `iss`; hence the text as given.
    pub issuer: String,
    /// Certificate authorities for it beside the public ones, as PEM.
    pub issuer_ca: Option<Vec<u8>>,
    /// Accepted audiences, one at least.
    pub audiences: Vec<String>,
    /// Steps to the roles claim, one at least.
    pub roles_claim: Vec<String>,
    /// Role that makes an admin.
    pub admin_role: String,
    /// Subjects that are admins.
    pub admin_subs: Vec<String>,
    /// Role without a role claim.
    pub default_role: String,
}

impl IdentityArgs {
    /// Checks the group; `public_url` gives the default audience.
    pub fn resolve(&self, public_url: Option<&Url>, problems: &mut Problems) -> Option<Identity> {
        let issuer = problems
            .required_url(
                "issuer",
                self.issuer.as_deref(),
                "https://login.example.org/realms/main",
            )
            .and(self.issuer.as_deref().map(|text| text.trim().to_owned()));
        let issuer_ca = authorities("issuer-ca-file", self.issuer_ca_file.as_deref(), problems);
        let audiences = if self.audience.is_empty() {
            // `join` on a URL with path `/` cannot fail; no public URL is a mistake of its own.
            public_url
                .and_then(|url| url.join("/mcp").ok())
                .map(|url| vec![url.to_string()])
        } else {
            non_empty("audience", &self.audience, problems)
        };
        let admin_subs = non_empty("admin-sub", &self.admin_sub, problems);
        let claim = word(
            "roles-claim",
            self.roles_claim.as_deref(),
            "roles",
            problems,
        );
        let roles_claim = claim.and_then(|path| {
            let steps: Vec<String> = path.split('.').map(ToOwned::to_owned).collect();
            if steps.iter().any(String::is_empty) {
                problems.add(
                    "roles-claim",
                    format!("`{path}` has an empty step; write it as realm_access.roles"),
                );
                return None;
            }
            Some(steps)
        });
        let admin_role = word("admin-role", self.admin_role.as_deref(), "admin", problems);
        let default_role = self.default_role.as_deref().unwrap_or("user").trim();
        if !matches!(default_role, "viewer" | "user") {
            problems.add(
                "default-role",
                format!("`{default_role}` is neither viewer nor user; nobody is admin by default"),
            );
        }
        Some(Identity {
            issuer: issuer?,
            issuer_ca: issuer_ca?,
            audiences: audiences?,
            roles_claim: roles_claim?,
            admin_role: admin_role?,
            admin_subs: admin_subs?,
            default_role: default_role.to_owned(),
        })
    }
}

/// The file's text, if each certificate in it can end a chain and there is one at least.
#[allow(
    clippy::option_option,
    reason = "a mistake and an absent flag are two things"
)]
fn authorities(
    flag: &str,
    path: Option<&Path>,
    problems: &mut Problems,
) -> Option<Option<Vec<u8>>> {
    let Some(path) = path else {
        return Some(None);
    };
    let shown = path.display();
    let pem = std::fs::read(path)
        .map_err(|e| problems.add(flag, format!("{shown} cannot be read: {e}")))
        .ok()?;
    let mut store = RootCertStore::empty();
    for found in CertificateDer::pem_slice_iter(&pem) {
        let added = found
            .map_err(|e| e.to_string())
            .and_then(|der| store.add(der).map_err(|e| e.to_string()));
        if let Err(reason) = added {
            let number = store.len() + 1;
            problems.add(
                flag,
                format!("certificate {number} of {shown} cannot be used: {reason}"),
            );
            return None;
        }
    }
    if store.is_empty() {
        problems.add(
            flag,
            format!("{shown} holds no certificate; it must have one at least, as PEM"),
        );
        return None;
    }
    Some(Some(pem))
}

fn word(flag: &str, value: Option<&str>, default: &str, problems: &mut Problems) -> Option<String> {
    match value.map(str::trim) {
        None => Some(default.to_owned()),
        Some("") => {
            problems.add(flag, format!("is empty; leave it out for `{default}`"));
            None
        }
        Some(text) => Some(text.to_owned()),
    }
}

fn non_empty(flag: &str, values: &[String], problems: &mut Problems) -> Option<Vec<String>> {
    if values.iter().any(|v| v.trim().is_empty()) {
        problems.add(flag, "has an empty value; leave the flag out instead");
        return None;
    }
    Some(values.iter().map(|v| v.trim().to_owned()).collect())
}
