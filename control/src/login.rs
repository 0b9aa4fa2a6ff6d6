//! Signing in with a browser: OpenID Connect on the console's host, then hand-over to each
//! workspace's host.
//!
//! | route | does |
//! |---|---|
//! | `GET /auth/login?return=/path` | sends the browser to the identity provider |
//! | `GET /auth/callback` | the provider sends it back; the session begins |
//! | `POST /auth/logout` | the session ends, here and at the provider |
//! | `GET /auth/open?host=&return=&n=` | signs a hand-over code for a workspace's host |
//! | `GET /.nogoo9/login?code=&return=` | on the workspace's host: code for cookie |
//! | `GET /.well-known/nogoo9-session-keys.json` | public keys for proxies |
//! | `GET /.well-known/oauth-protected-resource[/mcp]` | where MCP clients get tokens |
//!
//! Nothing is stored: what must be remembered between two requests is in a signed cookie or code
//! ([`nogoo9_identity::code`]).

mod callback;
mod config;
mod handover;
pub mod keys;
mod logout;
mod page;
mod params;
mod provider;
mod reply;
mod return_path;
mod start;
mod well_known;

pub use config::{LoginConfig, SESSION_TTL};
pub use provider::ProviderError;
pub use return_path::{safe_return, safe_workspace_return};

use axum::Router;
use axum::routing::{get, post};
use nogoo9_identity::code::Codes;
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::keys::public_jwks;
use nogoo9_identity::keyset::{KeySet, KeySetError};
use nogoo9_identity::policy::ClaimPolicy;
use nogoo9_identity::session::{SessionSigner, Sessions};
use nogoo9_model::UnixSeconds;
use provider::Provider;
use std::sync::Arc;
use std::time::Duration;

/// Tells the time, in Unix seconds.
pub type Clock = Arc<dyn Fn() -> UnixSeconds + Send + Sync>;

/// Everything that login needs; one per process.
pub struct Login {
    config: LoginConfig,
    policy: Arc<ClaimPolicy>,
    signer: SessionSigner,
    sessions: Sessions,
    codes: Codes,
    provider: Provider,
    /// What is served to proxies.
    jwks: String,
    clock: Clock,
}

impl Login {
    /// Puts login together. Calls nobody: the provider is asked when the first person signs in.
    ///
    /// # Errors
    /// The public half of the signer's key cannot be read back, which would be a fault of ours.
    pub fn new(
        config: LoginConfig,
        policy: Arc<ClaimPolicy>,
        signer: SessionSigner,
        clock: Clock,
    ) -> Result<Self, KeySetError> {
        let jwks = public_jwks([signer.key()]);
        let keys = Keys::fixed(KeySet::parse(jwks.as_bytes())?);
        Ok(Self {
            sessions: Sessions::new(config.token_issuer(), Arc::clone(&policy), keys.clone()),
            codes: Codes::new(config.token_issuer(), keys),
            provider: Provider::new(&config),
            config,
            policy,
            signer,
            jwks,
            clock,
        })
    }

    /// The public keys of its signer, for control's own [`Sessions`] verifier.
    #[must_use]
    pub fn session_keys(&self) -> Keys {
        self.sessions.keys().clone()
    }

    /// Sets the least time between two discoveries that an unknown key of the provider causes; ten
    /// seconds unless set.
    #[must_use]
    pub fn with_discovery_gap(mut self, gap: Duration) -> Self {
        self.provider.set_min_gap(gap);
        self
    }

    fn now(&self) -> UnixSeconds {
        (self.clock)()
    }
}

/// The routes of the table above.
pub fn router(login: Arc<Login>) -> Router {
    Router::new()
        .route("/auth/login", get(start::login))
        .route("/auth/callback", get(callback::callback))
        .route("/auth/logout", post(logout::logout))
        .route("/auth/open", get(handover::open))
        .route("/.nogoo9/login", get(handover::redeem))
        .route(well_known::SESSION_KEYS, get(well_known::session_keys))
        .route(
            nogoo9_identity::challenge::METADATA_PATH,
            get(well_known::protected_resource),
        )
        .route(
            well_known::RESOURCE_MCP,
            get(well_known::protected_resource),
        )
        .with_state(login)
}
