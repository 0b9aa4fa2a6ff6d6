//! Where the end-to-end suite runs: on a site of its own, or on a real cluster where the chart is
//! installed. Cases see no difference but what this module tells them.

mod control;
mod forward;
mod real;

pub use real::Real;

use crate::{Api, Cluster, Edge, Generation, Ground, Options, Sdk, Site, Template, ToolResult};
use nogoo9_local::idp;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::Mutex;
use url::Url;

/// Names the file that describes a real cluster; see [`Real`].
const REAL: &str = "NOGOO9_TEST_CLUSTER";

/// Life of a stranger's token: longer than any suite.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);

/// Embedded or real.
#[derive(Debug)]
enum Place {
    Embedded(Box<Site>),
    Real(Box<Real>),
}

/// A running nogoo9, and every way to it.
#[derive(Debug)]
pub struct Target {
    place: Place,
    cluster: Cluster,
    sdk: Sdk,
    tokens: Mutex<HashMap<String, String>>,
}

impl Target {
    /// Name of the ground that [`Self::up`] will find.
    #[must_use]
    pub fn ground() -> &'static str {
        match std::env::var_os(REAL) {
            Some(_) => "real",
            None => "embedded",
        }
    }

    /// The real cluster if the environment names one, else a site of its own.
    ///
    /// # Errors
    /// It does not start, or what describes the cluster is wrong.
    pub async fn up() -> anyhow::Result<Self> {
        let _already = rustls::crypto::ring::default_provider().install_default();
        let place = match std::env::var_os(REAL) {
            Some(file) => Place::Real(Box::new(Real::open(&PathBuf::from(file)).await?)),
            None => Place::Embedded(Box::new(Site::up(Options::default()).await?)),
        };
        let (cluster, mcp) = match &place {
            Place::Embedded(site) => (site.cluster().await?, site.ready().mcp_url.clone()),
            Place::Real(real) => (real.cluster().clone(), real.url().join("mcp")?),
        };
        Ok(Self {
            sdk: Sdk::start(&mcp)?,
            place,
            cluster,
            tokens: Mutex::default(),
        })
    }

    /// Whether containers, scheduler and controllers are real ones.
    #[must_use]
    pub fn is_real(&self) -> bool {
        matches!(self.place, Place::Real(_))
    }

    /// The console's URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        match &self.place {
            Place::Embedded(site) => &site.ready().url,
            Place::Real(real) => real.url(),
        }
    }

    /// The cluster, as its admin sees it.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A bearer token of the user, one for the whole run. Who is no user of the identity provider's
    /// gets one all the same, as an ordinary user: any subject will do.
    ///
    /// # Errors
    /// The provider has no key.
    pub async fn token(&self, user: &str) -> anyhow::Result<String> {
        let mut tokens = self.tokens.lock().await;
        if let Some(token) = tokens.get(user) {
            return Ok(token.clone());
        }
        let token = match &self.place {
            _ if !is_known(user) => self.token_of_stranger(user).await?,
            Place::Embedded(site) => site.token(user).await?,
            Place::Real(real) => real.token(user)?,
        };
        tokens.insert(user.to_owned(), token.clone());
        Ok(token)
    }

    /// As a user's, from the same issuer for the same audience, with another subject.
    async fn token_of_stranger(&self, sub: &str) -> anyhow::Result<String> {
        let (data, users) = match &self.place {
            Place::Embedded(site) => (site.data_dir(), site.token("alice").await?),
            Place::Real(real) => (real.idp_dir().to_owned(), real.token("alice")?),
        };
        let claims = users.split('.').nth(1).unwrap_or_default();
        let claims = data_encoding::BASE64URL_NOPAD.decode(claims.as_bytes())?;
        let claims: Value = serde_json::from_slice(&claims)?;
        let claim = |name: &str| claims[name].as_str().unwrap_or_default().to_owned();
        let (issuer, audience) = (claim("iss"), claim("aud"));
        Ok(idp::mint_for_subject(
            &data, &issuer, sub, &audience, TOKEN_LIFE,
        )?)
    }

    /// The JSON API in the name of a user.
    ///
    /// # Errors
    /// No token.
    pub async fn api(&self, user: &str) -> anyhow::Result<Api> {
        Api::new(self.url(), Some(self.token(user).await?))
    }

    /// The edge in the name of a user.
    ///
    /// # Errors
    /// No token.
    pub async fn edge(&self, user: &str) -> anyhow::Result<Edge> {
        Edge::new(self.url(), Some(self.token(user).await?))
    }

    /// Calls a tool through an official SDK, in the name of a user.
    ///
    /// # Errors
    /// No tool result.
    pub async fn call(
        &self,
        generation: Generation,
        user: &str,
        tool: &str,
        arguments: Value,
    ) -> anyhow::Result<ToolResult> {
        let token = self.token(user).await?;
        self.sdk.call(generation, &token, tool, arguments).await
    }

    /// A template of the sample, as this place can run it.
    #[must_use]
    pub fn template(&self, name: &str, version: &str) -> Template {
        match &self.place {
            Place::Embedded(_) => Template::new(name, version),
            Place::Real(real) => Template::of_image(name, real.sample_image(), version),
        }
    }

    /// A template of the sample with a claim of its own, in which it keeps its files.
    #[must_use]
    pub fn template_with_claim(&self, name: &str, version: &str) -> Template {
        let class = match &self.place {
            Place::Embedded(_) => None,
            Place::Real(real) => real.storage_class(),
        };
        self.template(name, version).files(class)
    }

    /// Waits until every proxy routes the workspace to that pod (any pod if `None`); returns its name.
    ///
    /// # Errors
    /// They do not in time.
    pub async fn routed(&self, id: &str, pod: Option<&str>) -> anyhow::Result<String> {
        match &self.place {
            Place::Embedded(site) => site.routed(id, pod).await,
            Place::Real(real) => real.routed(id, pod).await,
        }
    }
}

fn is_known(user: &str) -> bool {
    idp::USERS.iter().any(|known| known.sub == user)
}

impl Ground for Target {
    async fn dump(&self) -> String {
        match &self.place {
            Place::Embedded(site) => site.dump().await,
            Place::Real(real) => real.dump().await,
        }
    }

    async fn stop(self) -> anyhow::Result<()> {
        match self.place {
            Place::Embedded(site) => site.stop().await,
            Place::Real(real) => {
                // Whoever brought the cluster up takes it down; ours is the forwarder only.
                drop(real);
                Ok(())
            }
        }
    }
}
