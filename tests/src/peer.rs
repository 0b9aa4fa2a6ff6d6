//! More proxies and controls in front of the same workspaces, run by the test itself, and the list by
//! which control finds proxies.

use crate::{Api, Edge, Observation, Process, Site, binary, until};
use anyhow::Context as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api as Objects;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::process::{Child, Command};
use url::Url;

/// Service whose endpoints are the proxies.
pub const SERVICE: &str = "nogoo9-proxy-admin";
/// Longest wait for one to start or end.
const LONG: Duration = Duration::from_secs(120);
/// Ports below those that the system gives out, on an address that nobody else uses.
const PUBLIC: u16 = 19_009;
const ADMIN: u16 = 19_019;

/// Lists a proxy as an endpoint of the Service, as a cluster does when its pod has an address.
///
/// # Errors
/// The API server refuses.
pub async fn list(site: &Site, name: &str, admin: &Url) -> anyhow::Result<()> {
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": SERVICE}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [admin.host_str()], "conditions": {"ready": true}}],
        "ports": [{"name": "admin", "port": admin.port(), "protocol": "TCP"}],
    }))?;
    let create = PostParams::default();
    slices(site).await?.create(&create, &slice).await?;
    Ok(())
}

async fn slices(site: &Site) -> anyhow::Result<Objects<EndpointSlice>> {
    Ok(site.cluster().await?.beside_control())
}

/// A running proxy, or a running control. It ends with this value.
#[derive(Debug)]
pub struct Peer {
    name: String,
    words: Vec<String>,
    log: PathBuf,
    child: Child,
    process: Process,
    public: SocketAddr,
    admin: Url,
}

impl Peer {
    /// Starts a proxy as the site's own was started, but with these flags and this kubeconfig, waits
    /// until it is ready, and lists it.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(
        site: &Site,
        name: &str,
        flags: &[&str],
        kubeconfig: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let peer = Self::beside(site, "proxy", name, flags, kubeconfig).await?;
        list(site, name, &peer.admin).await?;
        Ok(peer)
    }

    /// Starts a control as the site's own was started, at an address of its own, and waits until it
    /// is ready. It reconciles beside the site's own.
    ///
    /// # Errors
    /// It does not start.
    pub async fn control(site: &Site, name: &str) -> anyhow::Result<Self> {
        Self::beside(site, "control", name, &[], None).await
    }

    async fn beside(
        site: &Site,
        part: &str,
        name: &str,
        flags: &[&str],
        kubeconfig: Option<&Path>,
    ) -> anyhow::Result<Self> {
        static NEXT: AtomicU8 = AtomicU8::new(200);
        let [.., high, low] = std::process::id().to_be_bytes();
        let ip = Ipv4Addr::new(127, NEXT.fetch_add(1, Ordering::Relaxed), high, low);
        let at = |port| SocketAddr::new(IpAddr::V4(ip), port);
        let (public, admin) = (at(PUBLIC), at(ADMIN));
        let own = site.process(part)?.command;
        let mut words: Vec<String> = own.split_whitespace().map(ToOwned::to_owned).collect();
        set(&mut words, "--listen", public.to_string());
        set(&mut words, "--admin-listen", admin.to_string());
        if let Some(kubeconfig) = kubeconfig {
            set(&mut words, "--kubeconfig", kubeconfig.display().to_string());
        }
        for flag in flags {
            let (name, value) = flag.split_once('=').context("flag=value")?;
            set(&mut words, name, value.to_owned());
        }
        let log = site.data_dir().join(format!("logs/{name}.log"));
        let (child, process) = spawn(&words, &log)?;
        let peer = Self {
            name: name.to_owned(),
            words,
            log,
            child,
            process,
            public,
            admin: format!("http://{admin}").parse()?,
        };
        peer.ready(site).await?;
        Ok(peer)
    }

    async fn ready(&self, site: &Site) -> anyhow::Result<()> {
        until(&format!("{} to be ready", self.name), LONG, || async {
            let ready = self.ask(site, "/readyz").await;
            Ok(Observation::when(
                ready.as_ref().is_ok_and(|(status, _)| *status == 200),
                (),
                ready,
            ))
        })
        .await
    }

    /// Starts it again where it was, once it has ended, and waits until it is ready.
    ///
    /// # Errors
    /// It does not start.
    pub async fn again(&mut self, site: &Site) -> anyhow::Result<()> {
        (self.child, self.process) = spawn(&self.words, &self.log)?;
        self.ready(site).await
    }

    /// The kubeconfig of the site's own proxy.
    ///
    /// # Errors
    /// It does not run.
    pub fn own_kubeconfig(site: &Site) -> anyhow::Result<PathBuf> {
        let own = site.process("proxy")?.command;
        let mut words = own.split_whitespace();
        words.find(|word| *word == "--kubeconfig");
        words.next().map(PathBuf::from).context("--kubeconfig")
    }

    /// Where it takes requests.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.public
    }

    /// Its admin listener.
    #[must_use]
    pub fn admin(&self) -> &Url {
        &self.admin
    }

    /// Its process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The edge by way of this proxy.
    #[must_use]
    pub fn edge(&self, edge: &Edge) -> Edge {
        edge.through(self.public)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// The system refuses.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.process.signal(signal)
    }

    /// Waits until its process has ended.
    ///
    /// # Errors
    /// It does not.
    pub async fn gone(&mut self) -> anyhow::Result<()> {
        let ended = tokio::time::timeout(LONG, self.child.wait()).await;
        ended.context("a peer does not end")??;
        Ok(())
    }

    /// What its admin listener says.
    ///
    /// # Errors
    /// No answer.
    pub async fn ask(&self, site: &Site, path: &str) -> anyhow::Result<(u16, Value)> {
        let token = std::fs::read_to_string(&site.ready().admin_token_file)?;
        let api = Api::at(&self.admin, Some(token.trim().to_owned()))?;
        let reply = api.get(path).await?;
        Ok((reply.status, reply.body))
    }

    /// Waits until it routes the workspace to that pod.
    ///
    /// # Errors
    /// It does not.
    pub async fn routed(&self, site: &Site, id: &str, pod: &str) -> anyhow::Result<()> {
        let what = format!("another proxy to route {id} to {pod}");
        until(&what, LONG, || async {
            let (_, routes) = self.ask(site, "/routes").await?;
            let route = routes["routes"][id]["pod"].clone();
            Ok(Observation::when(route == pod, (), route))
        })
        .await
    }

    /// Notes in the list that it stops, as a cluster does when its pod is deleted.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn listed_as_stopping(&self, site: &Site) -> anyhow::Result<()> {
        let conditions = json!({"ready": false, "serving": true, "terminating": true});
        let endpoints = json!([{"addresses": [self.admin.host_str()], "conditions": conditions}]);
        let patch = Patch::Merge(json!({"endpoints": endpoints}));
        let params = PatchParams::default();
        slices(site)
            .await?
            .patch(&self.name, &params, &patch)
            .await?;
        Ok(())
    }

    /// Takes it off the list, as a cluster does once its pod is gone.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn unlist(&self, site: &Site) -> anyhow::Result<()> {
        let params = DeleteParams::default();
        slices(site).await?.delete(&self.name, &params).await?;
        Ok(())
    }
}

/// Under `nogoo9 guard`, so that it does not outlive a test that is killed.
fn spawn(words: &[String], log: &Path) -> anyhow::Result<(Child, Process)> {
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .context("log of a peer")?;
    let mut command = Command::new(binary("nogoo9")?);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("NOGOO9_") {
            command.env_remove(name);
        }
    }
    let child = command
        .args(["guard", "--"])
        .args(words)
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("log of a peer")?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .context("a peer")?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let process = pid.and_then(Process::of).context("a peer")?;
    Ok((child, process))
}

/// Sets a flag's value.
fn set(words: &mut Vec<String>, flag: &str, value: String) {
    let at = words.iter().position(|word| word == flag);
    match at.and_then(|at| words.get_mut(at + 1)) {
        Some(old) => *old = value,
        None => words.extend([flag.to_owned(), value]),
    }
}
