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
//! | `POST /.nogoo9/renew` | for proxies: do these sessions go on, and by which tokens |
//! | `GET /.well-known/nogoo9-session-keys.json` | public keys for proxies |
//!
//! What must be remembered between two requests of a login or a hand-over is in a signed cookie or
//! code ([`nogoo9_identity::code`]). A session has a record ([`crate::session`]), which decides every
//! quarter of an hour whether it goes on.

mod callback;
mod config;
mod handover;
pub mod keys;
mod limited;
mod logout;
mod page;
mod params;
mod provider;
mod renew;
mod renewals;
mod reply;
mod return_path;
mod start;
mod well_known;

pub use config::LoginConfig;
pub(crate) use limited::too_many;
pub use provider::ProviderError;
pub use renew::{Kept, Renewal};
pub use return_path::{safe_return, safe_workspace_return};

use crate::cluster::Cluster;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use keys::Keyring;
use nogoo9_identity::code::Codes;
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
    keys: Keyring,
    cluster: Cluster,
    sessions: Sessions,
    codes: Codes,
    provider: Provider,
    turns: renew::Turns,
    giving_back: logout::GivingBack,
    clock: Clock,
}

impl Login {
    /// Puts login together. Calls nobody: the provider is asked when the first person signs in.
    /// Records of sessions are kept in `cluster`.
    #[must_use]
    pub fn new(
        config: LoginConfig,
        policy: Arc<ClaimPolicy>,
        keys: Keyring,
        cluster: Cluster,
        clock: Clock,
    ) -> Self {
        let (issuer, public) = (config.token_issuer(), keys.public());
        Self {
            sessions: Sessions::new(issuer, Arc::clone(&policy), public.clone()),
            codes: Codes::new(issuer, public.clone()),
            provider: Provider::new(&config),
            turns: renew::Turns::default(),
            giving_back: logout::GivingBack::default(),
            config,
            policy,
            keys,
            cluster,
            clock,
        }
    }

    /// Sets the least time between two discoveries that an unknown key of the provider causes; ten
    /// seconds unless set.
    #[must_use]
    pub fn with_discovery_gap(mut self, gap: Duration) -> Self {
        self.provider.set_min_gap(gap);
        self
    }

    /// Sets for how long what the provider says of itself is used before it is asked again; five
    /// minutes unless set.
    #[must_use]
    pub fn with_discovery_age(mut self, age: Duration) -> Self {
        self.provider.set_fresh(age);
        self
    }

    /// Signs with the key of this moment.
    fn signer(&self) -> SessionSigner {
        let key = self.keys.signing(self.now());
        SessionSigner::new(key, self.config.token_issuer())
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
        .route(
            nogoo9_model::renew::PATH,
            post(renewals::renew).layer(DefaultBodyLimit::max(renewals::MAX_BODY)),
        )
        .route(well_known::SESSION_KEYS, get(well_known::session_keys))
        .with_state(login)
}
