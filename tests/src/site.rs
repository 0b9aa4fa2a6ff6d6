//! One `nogoo9 up` and everything that it starts.

mod faults;
mod launch;

pub use faults::Down;

use crate::{Api, Census, Cluster, Edge, Mcp, Observation, Ready, Template, binary, until};
use anyhow::{Context as _, bail};
use launch::{data_dir, read_ready, ready, ready_file, start, tails};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

/// Longest start of a site. Generous: two cores, debug builds, several sites at once.
const START: Duration = Duration::from_secs(120);

/// How a site is started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// More arguments of `nogoo9 up`.
    pub args: Vec<String>,
}

/// A running site in a folder of its own. Dropping it kills it; [`Self::stop`] ends it in order and
/// asserts that nothing is left.
#[derive(Debug)]
pub struct Site {
    dir: TempDir,
    options: Options,
    up: Mutex<Child>,
    /// Everyone who ever belonged to it, as far as seen.
    seen: Mutex<Census>,
    /// As of the first start: addresses stay the same over restarts, pids do not.
    ready: Ready,
}

impl Site {
    /// Starts a site and waits until it serves.
    ///
    /// # Errors
    /// It does not start: the message has what it printed.
    pub async fn up(options: Options) -> anyhow::Result<Self> {
        let _already = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::Builder::new()
            .prefix("nogoo9-test-")
            .tempdir()
            .context("folder of the site")?;
        let mut up = start(dir.path(), "127.0.0.1:0", &options)?;
        let ready = ready(dir.path(), &mut up).await?;
        let seen = Census::take(Some(ready.pids.up), dir.path())?;
        Ok(Self {
            dir,
            options,
            up: Mutex::new(up),
            seen: Mutex::new(seen),
            ready,
        })
    }

    /// The ready file as it is now: pids change when parts die.
    ///
    /// # Errors
    /// It is away or not what it should be.
    pub fn read_ready(&self) -> anyhow::Result<Ready> {
        read_ready(&ready_file(self.dir.path()))
    }

    /// Where everything is. For pids, which change, see [`Self::pid`].
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Where it keeps its data.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        data_dir(self.dir.path())
    }

    /// A bearer token, as `nogoo9 token USER` prints it.
    ///
    /// # Errors
    /// The command fails.
    pub async fn token(&self, user: &str) -> anyhow::Result<String> {
        self.print_token(user, &[]).await
    }

    /// One with these scopes alone, as `nogoo9 token USER --scope SCOPES` prints it.
    ///
    /// # Errors
    /// The command fails.
    pub async fn scoped_token(&self, user: &str, scopes: &str) -> anyhow::Result<String> {
        self.print_token(user, &["--scope", scopes]).await
    }

    async fn print_token(&self, user: &str, more: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(binary("nogoo9")?)
            .args(["token", user, "--data-dir"])
            .arg(self.data_dir())
            .args(more)
            .output()
            .await
            .context("nogoo9 token")?;
        if !output.status.success() {
            bail!(
                "nogoo9 token {user}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8(output.stdout)
            .context("the token")?
            .trim()
            .to_owned())
    }

    /// The JSON API in the name of a user.
    ///
    /// # Errors
    /// No token.
    pub async fn api(&self, user: &str) -> anyhow::Result<Api> {
        Api::new(&self.ready.url, Some(self.token(user).await?))
    }

    /// The MCP endpoint in the name of a user.
    ///
    /// # Errors
    /// No token.
    pub async fn mcp(&self, user: &str) -> anyhow::Result<Mcp> {
        Mcp::new(&self.ready.mcp_url, Some(self.token(user).await?))
    }

    /// The edge in the name of a user.
    ///
    /// # Errors
    /// No token.
    pub async fn edge(&self, user: &str) -> anyhow::Result<Edge> {
        Edge::new(&self.ready.url, Some(self.token(user).await?))
    }

    /// The edge in nobody's name.
    ///
    /// # Errors
    /// No client can be made.
    pub fn anonymous(&self) -> anyhow::Result<Edge> {
        Edge::new(&self.ready.url, None)
    }

    /// The cluster, as an admin sees it.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn cluster(&self) -> anyhow::Result<Cluster> {
        Cluster::connect(&self.ready.kubeconfig).await
    }

    /// What the proxy's admin listener tells control.
    ///
    /// # Errors
    /// No proper answer.
    pub async fn proxy_admin(&self, path: &str) -> anyhow::Result<Value> {
        let ready = self.read_ready()?;
        let token = std::fs::read_to_string(&ready.admin_token_file).context("admin token")?;
        let reply = Api::new(&ready.admin_proxy, Some(token.trim().to_owned()))?
            .get(path)
            .await?;
        reply.expect(200)
    }

    /// Applies the template and spawns a workspace of the same name from it; returns once the edge
    /// routes to it.
    ///
    /// # Errors
    /// It does not run in time.
    pub async fn spawn(
        &self,
        api: &Api,
        template: &Template,
        body: Value,
    ) -> anyhow::Result<String> {
        let id = template.name().to_owned();
        self.cluster().await?.apply(template).await?;
        let mut spawn = json!({"template": id, "id": id});
        if let (Some(spawn), Value::Object(more)) = (spawn.as_object_mut(), body) {
            spawn.extend(more);
        }
        until("the template to be known", START, || async {
            let reply = api.get(&format!("/api/v1/templates/{id}")).await?;
            Ok(Observation::when(reply.body["usable"] == true, (), reply))
        })
        .await?;
        api.post("/api/v1/workspaces", &spawn).await?.expect(201)?;
        self.routed(&id, None).await?;
        Ok(id)
    }

    /// Waits until the proxy routes the workspace to that pod (any pod if `None`); returns its name.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn routed(&self, id: &str, pod: Option<&str>) -> anyhow::Result<String> {
        until(
            &format!("the edge to route {id} to {}", pod.unwrap_or("a pod")),
            START,
            || async {
                // While the proxy restarts its admin listener is away.
                let Ok(routes) = self.proxy_admin("/routes").await else {
                    return Ok(Observation::NotYet("no answer from the proxy".into()));
                };
                let route = routes["routes"][id]["pod"].as_str().map(ToOwned::to_owned);
                Ok(match route {
                    Some(name) if pod.is_none_or(|pod| pod == name) => Observation::Holds(name),
                    other => Observation::NotYet(format!("{other:?}")),
                })
            },
        )
        .await
    }

    /// What is known of its state, for failure messages: the last lines of every log, and pods.
    pub async fn dump(&self) -> String {
        let mut text = tails(self.dir.path());
        let pods = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&self.ready.kubeconfig)
            .args([
                "get",
                "pods,events,configmaps",
                "--all-namespaces",
                "--request-timeout=5s",
            ])
            .output()
            .await;
        if let Ok(pods) = pods {
            text += &String::from_utf8_lossy(&pods.stdout);
        }
        text
    }
}
