//! One `nogoo9 up` and everything that it starts.

use crate::{
    Api, Census, Cluster, Edge, Mcp, Observation, Process, Ready, Template, binary, until,
};
use anyhow::{Context as _, bail};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Longest start of a site. Generous: two cores, debug builds, several sites at once.
const START: Duration = Duration::from_secs(60);
/// Longest orderly stop.
const STOP: Duration = Duration::from_secs(30);
/// How long after the end of `up` the last of its processes may need to go.
const GONE: Duration = Duration::from_secs(10);

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
    up: Child,
    /// Everyone who ever belonged to it, as far as seen.
    seen: Census,
    /// Address of the first start, kept by later ones.
    listen: String,
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
        let listen = format!(
            "127.0.0.1:{}",
            ready.url.port().context("the public URL names no port")?
        );
        let seen = Census::take(Some(ready.pids.up), dir.path())?;
        Ok(Self {
            dir,
            options,
            up,
            seen,
            listen,
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

    /// The ready file of the newest start.
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
        let output = Command::new(binary("nogoo9")?)
            .args(["token", user, "--data-dir"])
            .arg(self.data_dir())
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

    /// Kills a part (`apiserver`, `control`, `proxy`) as no part can prevent, and waits until the
    /// supervisor has put another in its place.
    ///
    /// # Errors
    /// No successor comes.
    pub async fn kill(&mut self, part: &str) -> anyhow::Result<()> {
        let old = self.pid(part)?;
        self.seen
            .extend(Census::take(Some(self.ready.pids.up), self.dir.path())?);
        let process = Process::of(old).with_context(|| format!("{part} does not run"))?;
        process.signal(Signal::SIGKILL)?;
        until(&format!("a new {part}"), START, || async {
            let pid = self.pid(part)?;
            Ok(Observation::when(
                pid != old && Process::of(pid).is_some(),
                (),
                pid,
            ))
        })
        .await?;
        self.ready = self.read_ready()?;
        Ok(())
    }

    /// Pid of a part, as the ready file names it now.
    ///
    /// # Errors
    /// No ready file, or no such part.
    pub fn pid(&self, part: &str) -> anyhow::Result<i32> {
        let pids = self.read_ready()?.pids;
        Ok(match part {
            "apiserver" => pids.apiserver,
            "control" => pids.control,
            "proxy" => pids.proxy,
            other => bail!("no part is called {other}"),
        })
    }

    /// Kills `nogoo9 up` itself, asserts that every process of the site goes with it, and starts it
    /// again on the same data.
    ///
    /// # Errors
    /// A process is left, or it does not start again.
    pub async fn kill_all_and_restart(&mut self) -> anyhow::Result<()> {
        let census = Census::take(Some(self.ready.pids.up), self.dir.path())?;
        self.up.start_kill().context("kill nogoo9 up")?;
        self.up.wait().await.context("nogoo9 up")?;
        self.assert_gone(census).await?;
        // A killed supervisor could not remove it.
        let _stale = std::fs::remove_file(ready_file(self.dir.path()));
        self.up = start(self.dir.path(), &self.listen, &self.options)?;
        self.ready = ready(self.dir.path(), &mut self.up).await?;
        Ok(())
    }

    /// Ends the site as Ctrl-C does.
    ///
    /// # Errors
    /// It does not end in order, or leaves a process behind.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let mut census = Census::take(Some(self.ready.pids.up), self.dir.path())?;
        census.extend(self.seen.clone());
        let up = Process::of(self.ready.pids.up).context("nogoo9 up has ended before its time")?;
        up.signal(Signal::SIGTERM)?;
        let status = tokio::time::timeout(STOP, self.up.wait())
            .await
            .with_context(|| format!("nogoo9 up did not end within {STOP:?} of SIGTERM"))??;
        if !status.success() {
            bail!("nogoo9 up ended with {status}\n{}", self.dump().await);
        }
        self.assert_gone(census).await?;
        if ready_file(self.dir.path()).exists() {
            bail!("nogoo9 up left its ready file behind");
        }
        Ok(())
    }

    async fn assert_gone(&self, before: Census) -> anyhow::Result<()> {
        until("every process of the site to end", GONE, || async {
            let mut census = Census::take(None, self.dir.path())?;
            census.extend(before.clone());
            let running = census.running();
            Ok(Observation::when(running.is_empty(), (), running))
        })
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

fn data_dir(dir: &Path) -> PathBuf {
    dir.join("data")
}

fn ready_file(dir: &Path) -> PathBuf {
    dir.join("ready.json")
}

fn read_ready(file: &Path) -> anyhow::Result<Ready> {
    let text = std::fs::read(file).with_context(|| file.display().to_string())?;
    serde_json::from_slice(&text).with_context(|| String::from_utf8_lossy(&text).into_owned())
}

/// Under `nogoo9 guard`, so that a site does not outlive a test that is killed.
fn start(dir: &Path, listen: &str, options: &Options) -> anyhow::Result<Child> {
    let nogoo9 = binary("nogoo9")?;
    for part in ["nogoo9-proxy", "nogoo9-control", "nogoo9-sample"] {
        binary(part)?;
    }
    let output = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("up.log"))
        .context("log of nogoo9 up")?;
    let mut command = Command::new(&nogoo9);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("NOGOO9_") {
            command.env_remove(name);
        }
    }
    command
        .args(["guard", "--"])
        .arg(&nogoo9)
        .args(["up", "--listen", listen, "--data-dir"])
        .arg(data_dir(dir))
        .arg("--ready-file")
        .arg(ready_file(dir))
        .args(&options.args)
        .stdin(Stdio::null())
        .stdout(output.try_clone().context("log of nogoo9 up")?)
        .stderr(output)
        .kill_on_drop(true)
        .spawn()
        .context("nogoo9 up")
}

async fn ready(dir: &Path, up: &mut Child) -> anyhow::Result<Ready> {
    let file = ready_file(dir);
    let deadline = tokio::time::Instant::now() + START;
    loop {
        if let Some(status) = up.try_wait().context("nogoo9 up")? {
            bail!("nogoo9 up ended with {status}\n{}", tails(dir));
        }
        if file.exists() {
            return read_ready(&file);
        }
        if tokio::time::Instant::now() >= deadline {
            bail!("nogoo9 up was not ready within {START:?}\n{}", tails(dir));
        }
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

/// The end of every log.
fn tails(dir: &Path) -> String {
    let mut files = vec![dir.join("up.log")];
    if let Ok(logs) = std::fs::read_dir(data_dir(dir).join("logs")) {
        files.extend(logs.flatten().map(|entry| entry.path()));
    }
    let mut text = String::new();
    for file in files {
        text += &format!(
            "--- {}\n{}\n",
            file.display(),
            tail(&file).unwrap_or_default()
        );
    }
    text
}

fn tail(file: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(6_000)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
