//! A real cluster with the chart installed, as whoever installed it describes it.

use super::forward::{Endpoints, Forwarder};
use crate::{Api, Cluster, Observation, until};
use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Secret;
use nogoo9_local::idp;
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;
use url::Url;

/// Life of a token: longer than any run.
const TOKEN_LIFE: Duration = Duration::from_secs(3 * 3600);
/// Longest wait for the proxies to learn something.
const LONG: Duration = Duration::from_secs(90);

/// The file that `NOGOO9_TEST_CLUSTER` names: JSON, paths absolute.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Description {
    /// Kubeconfig of a cluster admin. nogoo9 itself gets what the chart gives it.
    kubeconfig: PathBuf,
    /// Where the chart is installed.
    system_namespace: String,
    /// Where its workspaces are.
    workspaces_namespace: String,
    /// `http://localhost:PORT`: the suite listens there and forwards to the proxy's pods.
    #[serde(deserialize_with = "crate::ready::url")]
    public_url: Url,
    /// The public Service, whose port is called `http`.
    #[serde(default = "proxy_service")]
    proxy_service: String,
    /// The headless Service of admin listeners, whose port is called `admin`.
    #[serde(default = "proxy_admin_service")]
    proxy_admin_service: String,
    /// Secret in the system namespace with the token of admin listeners, under `token`.
    #[serde(default = "admin_token_secret")]
    admin_token_secret: String,
    /// Deployment of control.
    #[serde(default = "control_deployment")]
    control_deployment: String,
    /// Issuer, as `nogoo9 idp` printed it.
    issuer: String,
    /// `--data-dir` of that `nogoo9 idp`: tokens are signed with its key.
    idp_dir: PathBuf,
    /// Image of the sample on every node.
    sample_image: String,
    /// Storage class of claims; none: the default one.
    storage_class: Option<String>,
}

fn proxy_service() -> String {
    "nogoo9-proxy".to_owned()
}

fn proxy_admin_service() -> String {
    "nogoo9-proxy-admin".to_owned()
}

fn admin_token_secret() -> String {
    "nogoo9-admin-token".to_owned()
}

fn control_deployment() -> String {
    "nogoo9-control".to_owned()
}

/// A real cluster, and the way to nogoo9 on it.
#[derive(Debug)]
pub struct Real {
    about: Description,
    cluster: Cluster,
    admin_token: String,
    admin: Endpoints,
    _forwarder: Forwarder,
}

impl Real {
    /// Reads the description, and opens the public URL.
    ///
    /// # Errors
    /// It is wrong, or the cluster does not answer.
    pub(super) async fn open(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read(file).with_context(|| file.display().to_string())?;
        let about: Description =
            serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
        let cluster = Cluster::within(
            &about.kubeconfig,
            &about.system_namespace,
            &about.workspaces_namespace,
        )
        .await?;
        let secrets = cluster.beside_control::<Secret>();
        let secret = secrets.get(&about.admin_token_secret).await;
        let secret = secret.with_context(|| about.admin_token_secret.clone())?;
        let token = secret.data.unwrap_or_default().remove("token");
        let token = token.context("the admin token's Secret has no `token`")?;
        let public = &about.public_url;
        let (Some("localhost"), Some(port)) = (public.host_str(), public.port()) else {
            bail!("publicUrl {public}: not of the form http://localhost:PORT");
        };
        let listen = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        let public = Endpoints::new(cluster.beside_control(), &about.proxy_service, "http");
        let admin = Endpoints::new(
            cluster.beside_control(),
            &about.proxy_admin_service,
            "admin",
        );
        Ok(Self {
            _forwarder: Forwarder::start(listen, public).await?,
            admin_token: String::from_utf8(token.0).context("admin token")?,
            about,
            cluster,
            admin,
        })
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(super) fn url(&self) -> &Url {
        &self.about.public_url
    }

    pub(super) fn sample_image(&self) -> &str {
        &self.about.sample_image
    }

    pub(super) fn storage_class(&self) -> Option<&str> {
        self.about.storage_class.as_deref()
    }

    pub(super) fn control(&self) -> &str {
        &self.about.control_deployment
    }

    pub(super) fn idp_dir(&self) -> &Path {
        &self.about.idp_dir
    }

    pub(super) fn token(&self, user: &str) -> anyhow::Result<String> {
        let audience = self.about.public_url.join("mcp")?;
        let (dir, issuer) = (&self.about.idp_dir, &self.about.issuer);
        Ok(idp::mint(dir, issuer, user, audience.as_str(), TOKEN_LIFE)?)
    }

    pub(super) async fn routed(&self, id: &str, pod: Option<&str>) -> anyhow::Result<String> {
        let what = format!("every proxy to route {id} to {}", pod.unwrap_or("a pod"));
        until(&what, LONG, || async {
            let mut routes = Vec::new();
            for proxy in self.admin.ready().await? {
                // One that is going away says nothing any more.
                let url = Url::parse(&format!("http://{proxy}/"))?;
                let api = Api::at(&url, Some(self.admin_token.trim().to_owned()))?;
                let route = match api.get("/routes").await {
                    Ok(reply) => reply.body["routes"][id]["pod"].as_str().map(str::to_owned),
                    Err(_) => None,
                };
                routes.push(route);
            }
            let first = routes.first().cloned().flatten();
            let same = routes.iter().all(|route| *route == first);
            Ok(match first {
                Some(name) if same && pod.is_none_or(|pod| pod == name) => Observation::Holds(name),
                _ => Observation::NotYet(format!("{routes:?}")),
            })
        })
        .await
    }

    pub(super) async fn dump(&self) -> String {
        let (system, workspaces) = (
            self.about.system_namespace.as_str(),
            self.about.workspaces_namespace.as_str(),
        );
        let part = "app.kubernetes.io/name=nogoo9";
        let mut text = String::new();
        for args in [
            vec!["get", "pods,configmaps", "-n", system, "-o", "wide"],
            vec!["get", "pods,pvc,events", "-n", workspaces, "-o", "wide"],
            vec!["logs", "-n", system, "-l", part, "--tail=60", "--prefix"],
        ] {
            let output = Command::new("kubectl")
                .arg("--kubeconfig")
                .arg(&self.about.kubeconfig)
                .arg("--request-timeout=10s")
                .args(&args)
                .output()
                .await;
            if let Ok(output) = output {
                text += &format!("--- kubectl {}\n", args.join(" "));
                text += &String::from_utf8_lossy(&output.stdout);
                text += &String::from_utf8_lossy(&output.stderr);
            }
        }
        text
    }
}
