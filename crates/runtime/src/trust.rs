//! From the flags of group "Identity" to what verifies tokens: the same in proxy and control, so
//! that a token counts in both or in neither.

use crate::args::Identity;
use nogoo9_identity::Roots;
use nogoo9_identity::bearer::{BearerConfig, Bearers};
use nogoo9_identity::jwks::{Keys, Refresher};
use nogoo9_identity::policy::ClaimPolicy;
use nogoo9_identity::source::KeySource;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Whose tokens count, and what their claims mean.
#[derive(Debug, Clone)]
pub struct Trust {
    /// How claims become roles and scopes.
    pub policy: Arc<ClaimPolicy>,
    /// Who may vouch for the provider's connection.
    pub roots: Roots,
    identity: Identity,
}

impl Trust {
    /// As the flags say.
    #[must_use]
    pub fn new(identity: &Identity) -> Self {
        let policy = ClaimPolicy {
            roles_claim: identity.roles_claim.join("."),
            admin_role: identity.admin_role.clone(),
            admin_subs: identity.admin_subs.clone(),
            default_role: identity.default_role,
            scopes_claim: identity.scopes_claim.clone(),
        };
        let pem = identity.issuer_ca.as_deref();
        Self {
            policy: Arc::new(policy),
            roots: pem.map(Roots::and_pem).unwrap_or_default(),
            identity: identity.clone(),
        }
    }

    /// What verifies bearer tokens of every issuer, and what fetches these issuers' keys.
    ///
    /// # Errors
    /// The shared secret cannot be one; `--shared-secret-file` is named.
    pub fn bearers(&self) -> anyhow::Result<(Bearers, Refreshers)> {
        let identity = &self.identity;
        let mut refreshers = Vec::new();
        let mut keys_of = |issuer: &str| {
            let (keys, refresher) = Keys::new(KeySource::Issuer {
                issuer: issuer.to_owned(),
                roots: self.roots.clone(),
            });
            refreshers.push(refresher);
            keys
        };
        let config_of = |issuer: &str| BearerConfig {
            issuer: issuer.to_owned(),
            audiences: identity.audiences.clone(),
        };
        let main = &identity.issuer;
        let mut bearers = Bearers::new(config_of(main), self.policy.clone(), keys_of(main));
        for issuer in &identity.extra_issuers {
            bearers = bearers.and_issuer(config_of(issuer), keys_of(issuer));
        }
        if let Some(shared) = &identity.shared_secret {
            let secret = shared.secret.expose().as_bytes();
            bearers = bearers
                .and_shared_secret(config_of(&shared.issuer), secret)
                .map_err(|error| anyhow::Error::new(error).context("--shared-secret-file"))?;
        }
        Ok((bearers, Refreshers(refreshers)))
    }
}

/// What fetches the issuers' keys, one task each.
#[derive(Debug)]
#[must_use = "no key is fetched until they run"]
pub struct Refreshers(Vec<Refresher>);

impl Refreshers {
    /// Starts them; they end when what is returned is dropped.
    pub fn spawn(self) -> JoinSet<()> {
        self.0.into_iter().map(Refresher::run).collect()
    }
}
