//! Whose tokens count, and what their roles mean.

use std::path::{Path, PathBuf};

use clap::Args;
use nogoo9_model::access::Role;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use url::Url;

use crate::config::Problems;
use crate::secret::Secret;

/// Least length of a shared secret, in bytes (RFC 7518, section 3.2, for HS256).
const MIN_SHARED_SECRET: usize = 32;

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
    /// Another issuer whose bearer tokens count, for the same audiences; may be repeated.
    /// A subject must be the same person there: people still sign in at --issuer.
    #[arg(
        long,
        env = "NOGOO9_EXTRA_ISSUER",
        value_name = "URL",
        value_delimiter = ','
    )]
    pub extra_issuer: Vec<String>,
    /// Another issuer, one that signs its bearer tokens with a shared secret (HS256, HS384,
    /// HS512); needs --shared-secret-file. Tokens signed so count for no other issuer.
    #[arg(long, env = "NOGOO9_SHARED_SECRET_ISSUER", value_name = "ISSUER")]
    pub shared_secret_issuer: Option<String>,
    /// File with the secret of --shared-secret-issuer, of 32 characters or more. Whoever
    /// reads it can be anybody.
    #[arg(long, env = "NOGOO9_SHARED_SECRET_FILE", value_name = "FILE")]
    pub shared_secret_file: Option<String>,
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
    /// Whether a provider's bearer token must have the scope nogoo9:read, nogoo9:write or
    /// nogoo9:admin for what it does. Off: scopes mean nothing. [default: off]
    #[arg(long, env = "NOGOO9_SCOPES", value_name = "on|off")]
    pub scopes: Option<String>,
    /// Claim that holds the scopes, if they count. [default: scope]
    #[arg(long, env = "NOGOO9_SCOPES_CLAIM", value_name = "PATH")]
    pub scopes_claim: Option<String>,
}

/// Checked settings of the group.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Issuer, compared byte by byte with the token's `iss`; hence the text as given.
    pub issuer: String,
    /// Certificate authorities for it beside the public ones, as PEM.
    pub issuer_ca: Option<Vec<u8>>,
    /// Accepted audiences, one at least.
    pub audiences: Vec<String>,
    /// Further issuers of bearer tokens, none of them twice.
    pub extra_issuers: Vec<String>,
    /// An issuer that signs with a shared secret.
    pub shared_secret: Option<SharedSecret>,
    /// Steps to the roles claim, one at least.
    pub roles_claim: Vec<String>,
    /// Role that makes an admin.
    pub admin_role: String,
    /// Subjects that are admins.
    pub admin_subs: Vec<String>,
    /// Role without a role claim.
    pub default_role: Role,
    /// Where the scopes of bearer tokens are, if they count.
    pub scopes_claim: Option<String>,
}

/// An issuer and the secret that it signs with.
#[derive(Clone, Debug)]
pub struct SharedSecret {
    /// Issuer, compared byte by byte with the token's `iss`.
    pub issuer: String,
    /// The secret.
    pub secret: Secret,
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
        let extra_issuers = self.extra_issuers(issuer.as_deref(), problems);
        let shared_secret = self.shared_secret(issuer.as_deref(), problems);
        let scopes_claim = self.scopes_claim(problems);
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
        let default_role = default_role(self.default_role.as_deref(), problems);
        Some(Identity {
            issuer: issuer?,
            issuer_ca: issuer_ca?,
            audiences: audiences?,
            extra_issuers: extra_issuers?,
            shared_secret: shared_secret?,
            roles_claim: roles_claim?,
            admin_role: admin_role?,
            admin_subs: admin_subs?,
            default_role: default_role?,
            scopes_claim: scopes_claim?,
        })
    }

    fn extra_issuers(&self, main: Option<&str>, problems: &mut Problems) -> Option<Vec<String>> {
        problems.urls("extra-issuer", &self.extra_issuer)?;
        let all = non_empty("extra-issuer", &self.extra_issuer, problems)?;
        for (at, one) in all.iter().enumerate() {
            if Some(one.as_str()) == main || all.iter().take(at).any(|other| other == one) {
                problems.add("extra-issuer", format!("`{one}` is named already"));
                return None;
            }
        }
        Some(all)
    }

    #[allow(
        clippy::option_option,
        reason = "a mistake and an absent flag are two things"
    )]
    fn shared_secret(
        &self,
        main: Option<&str>,
        problems: &mut Problems,
    ) -> Option<Option<SharedSecret>> {
        let secret = problems.secret_file("shared-secret-file", self.shared_secret_file.as_deref());
        let issuer = self.shared_secret_issuer.as_deref().map(str::trim);
        match (issuer, secret?) {
            (None, None) => Some(None),
            (None, Some(_)) => {
                problems.add(
                    "shared-secret-issuer",
                    "is missing; name the issuer whose tokens --shared-secret-file verifies",
                );
                None
            }
            (Some(_), None) => {
                problems.add(
                    "shared-secret-file",
                    "is missing; name the file with the secret of --shared-secret-issuer",
                );
                None
            }
            (Some(issuer), Some(secret)) => {
                let others = self.extra_issuer.iter().map(|one| one.trim());
                if issuer.is_empty() || others.chain(main).any(|other| other == issuer) {
                    problems.add(
                        "shared-secret-issuer",
                        "must be an issuer of its own, named by neither --issuer nor --extra-issuer",
                    );
                    return None;
                }
                if secret.expose().len() < MIN_SHARED_SECRET {
                    problems.add(
                        "shared-secret-file",
                        format!("has less than {MIN_SHARED_SECRET} characters, so it can be guessed; use a longer one"),
                    );
                    return None;
                }
                Some(Some(SharedSecret {
                    issuer: issuer.to_owned(),
                    secret,
                }))
            }
        }
    }

    #[allow(
        clippy::option_option,
        reason = "a mistake and a rule that is off are two things"
    )]
    fn scopes_claim(&self, problems: &mut Problems) -> Option<Option<String>> {
        let on = problems.switch("scopes", self.scopes.as_deref(), false);
        let claim = word(
            "scopes-claim",
            self.scopes_claim.as_deref(),
            "scope",
            problems,
        );
        match (on?, claim?) {
            (true, claim) => Some(Some(claim)),
            (false, _) if self.scopes_claim.is_some() => {
                problems.add("scopes-claim", "means nothing without --scopes on");
                None
            }
            (false, _) => Some(None),
        }
    }
}

fn default_role(value: Option<&str>, problems: &mut Problems) -> Option<Role> {
    match value.map_or("user", str::trim) {
        "viewer" => Some(Role::Viewer),
        "user" => Some(Role::User),
        other => {
            problems.add(
                "default-role",
                format!("`{other}` is neither viewer nor user; nobody is admin by default"),
            );
            None
        }
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
