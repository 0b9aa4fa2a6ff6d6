//! The JSON API, as far as the demo needs it.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// Longest wait for one answer; over the longest `wait` of the API.
const TIMEOUT: Duration = Duration::from_secs(45);
/// Longest wait for a workspace to run, or to be gone.
const WORKSPACE_BOUND: Duration = Duration::from_secs(90);
/// Between two looks at something that has no `wait`.
const LOOK: Duration = Duration::from_millis(200);
/// Most workspaces of one look at an operation, and so of one act.
const PAGE: u16 = 250;
/// How often a request that may be repeated is.
const TRIES: u32 = 5;

/// A signed-in client.
#[derive(Clone)]
pub(super) struct Api {
    http: reqwest::Client,
    base: String,
    token: String,
}

/// A workspace.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Workspace {
    pub(super) id: String,
    status: String,
    message: String,
    url: Option<String>,
    path_url: Option<String>,
    pod_name: Option<String>,
}

impl Workspace {
    /// Where its pages are.
    pub(super) fn address(&self) -> anyhow::Result<&str> {
        let address = self.url.as_deref().or(self.path_url.as_deref());
        address.with_context(|| format!("workspace {} has no address", self.id))
    }

    /// The pod that serves it.
    pub(super) fn pod(&self) -> anyhow::Result<&str> {
        self.pod_name
            .as_deref()
            .with_context(|| format!("workspace {} has no pod", self.id))
    }
}

/// The answer to an upgrade that was asked for.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Upgrade {
    pub(super) status: String,
    pub(super) pod_name: String,
    pub(super) previous_pod_name: Option<String>,
    pub(super) operation_id: Option<String>,
    #[serde(default)]
    pub(super) mode: String,
}

/// The answer to an upgrade of all.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpgradeAll {
    pub(super) status: String,
    pub(super) operation_id: Option<String>,
    pub(super) total: u64,
}

/// An operation.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Operation {
    state: String,
    pub(super) done: bool,
    pub(super) message: String,
    revision: String,
    pub(super) targets: Vec<Target>,
}

/// One workspace of an operation.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Target {
    #[serde(rename = "id")]
    pub(super) workspace: String,
    /// The new pod; none before its turn has come.
    pub(super) pod_name: Option<String>,
    state: String,
    #[serde(default)]
    phase: Option<String>,
}

impl Target {
    /// The new pod has taken over.
    pub(super) fn switched(&self) -> bool {
        self.state == "succeeded"
            || (self.state == "running" && self.phase.as_deref() == Some("draining"))
    }

    /// Nothing more will happen to it.
    pub(super) fn ended(&self) -> bool {
        !matches!(self.state.as_str(), "pending" | "running")
    }

    fn in_phase(&self, phase: &str) -> bool {
        self.phase.as_deref() == Some(phase)
    }
}

impl Operation {
    /// The new pod has taken over, for better or worse: nothing is starting any more.
    pub(super) fn started(&self) -> bool {
        self.done
            || !self
                .targets
                .iter()
                .any(|target| target.in_phase("starting"))
    }

    /// It ended well, or is about to.
    pub(super) fn well(&self) -> bool {
        let astray = |target: &Target| target.in_phase("aborting") || target.in_phase("restoring");
        match self.state.as_str() {
            "succeeded" => true,
            "running" => !self.targets.iter().any(astray),
            _ => false,
        }
    }
}

/// A template.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Template {
    pub(super) version: Option<String>,
    pub(super) spec: Option<Value>,
    problem: Option<String>,
}

#[derive(Deserialize)]
struct Problem {
    code: String,
    message: String,
    #[serde(default)]
    retryable: bool,
}

impl Api {
    pub(super) fn new(base: &str, token: &str) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .build()
            .context("no HTTP client")?;
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self {
            http,
            base,
            token: token.to_owned(),
        })
    }

    /// Spawns a workspace and returns it once it runs.
    pub(super) async fn spawn(&self, id: &str, template: &str) -> anyhow::Result<Workspace> {
        let body = json!({"id": id, "template": template, "name": "Demo"});
        let mut workspace: Workspace = self.call(Method::POST, "workspaces", Some(&body)).await?;
        let deadline = Instant::now() + WORKSPACE_BOUND;
        while workspace.status != "running" {
            if Instant::now() > deadline {
                bail!(
                    "workspace {id} did not start within {WORKSPACE_BOUND:?}: {}",
                    workspace.message
                );
            }
            sleep(LOOK).await;
            workspace = self
                .call(Method::GET, &format!("workspaces/{id}"), None)
                .await?;
        }
        Ok(workspace)
    }

    /// Deletes a workspace with its data and returns once it is gone; one that does not exist is
    /// gone.
    pub(super) async fn delete(&self, id: &str) -> anyhow::Result<()> {
        let path = format!("workspaces/{id}");
        let deadline = Instant::now() + WORKSPACE_BOUND;
        let mut call = (Method::DELETE, format!("{path}?deleteData=true"));
        loop {
            let (status, body) = self.send(call.0, &call.1, None).await?;
            match status {
                // One and the same answer for "not yours" and "not there".
                StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => return Ok(()),
                status if status.is_success() => {}
                status => return Err(problem(status, &body)),
            }
            if Instant::now() > deadline {
                bail!("workspace {id} was not gone within {WORKSPACE_BOUND:?}");
            }
            sleep(LOOK).await;
            call = (Method::GET, path.clone());
        }
    }

    pub(super) async fn upgrade(&self, id: &str) -> anyhow::Result<Upgrade> {
        self.call(Method::POST, &format!("workspaces/{id}/upgrade"), None)
            .await
    }

    /// Upgrades all workspaces of a template. For administrators.
    pub(super) async fn upgrade_all(
        &self,
        template: &str,
        max_parallel: u16,
    ) -> anyhow::Result<UpgradeAll> {
        let body = json!({"template": template, "maxParallel": max_parallel});
        self.call(Method::POST, "upgrade-all", Some(&body)).await
    }

    /// Follows an operation until `until` holds or it is done.
    pub(super) async fn follow(
        &self,
        operation: &str,
        within: Duration,
        until: impl Fn(&Operation) -> bool,
    ) -> anyhow::Result<Operation> {
        let deadline = Instant::now() + within;
        let path = format!("operations/{operation}");
        let mut seen: Operation = self.call(Method::GET, &path, None).await?;
        while !until(&seen) && !seen.done {
            if Instant::now() > deadline {
                bail!(
                    "operation {operation} got no further within {within:?}: {}",
                    seen.message
                );
            }
            let wait = format!("{path}/wait?seconds=20&sinceRevision={}", seen.revision);
            seen = self.call(Method::GET, &wait, None).await?;
        }
        Ok(seen)
    }

    /// Looks at an operation on many workspaces until `until` holds or it is done.
    pub(super) async fn watch(
        &self,
        operation: &str,
        within: Duration,
        until: impl Fn(&Operation) -> bool,
    ) -> anyhow::Result<Operation> {
        let deadline = Instant::now() + within;
        // Its `wait` ends with the whole operation only.
        let path = format!("operations/{operation}?limit={PAGE}");
        loop {
            let seen: Operation = self.call(Method::GET, &path, None).await?;
            if seen.done || until(&seen) {
                return Ok(seen);
            }
            if Instant::now() > deadline {
                bail!(
                    "operation {operation} got no further within {within:?}: {}",
                    seen.message
                );
            }
            sleep(LOOK).await;
        }
    }

    pub(super) async fn template(&self, name: &str) -> anyhow::Result<Template> {
        self.call(Method::GET, &format!("templates/{name}"), None)
            .await
    }

    /// Returns a template's version once that is another than `before`.
    pub(super) async fn template_moved(
        &self,
        name: &str,
        before: Option<&str>,
        within: Duration,
    ) -> anyhow::Result<String> {
        let deadline = Instant::now() + within;
        loop {
            let (status, body) = self
                .send(Method::GET, &format!("templates/{name}"), None)
                .await?;
            // Right after its creation, control may not have seen it yet.
            if status != StatusCode::NOT_FOUND {
                let template: Template = parse(status, &body)?;
                if let Some(problem) = template.problem {
                    bail!("template {name} is not usable: {problem}");
                }
                if let Some(version) = template
                    .version
                    .filter(|version| Some(version.as_str()) != before)
                {
                    return Ok(version);
                }
            }
            if Instant::now() > deadline {
                bail!("control did not see the new version of template {name} within {within:?}");
            }
            sleep(LOOK).await;
        }
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<T> {
        let mut tries = 1;
        loop {
            let (status, answer) = self.send(method.clone(), path, body).await?;
            let again = serde_json::from_slice(&answer).is_ok_and(|p: Problem| p.retryable);
            if status.is_success() || !again || tries == TRIES {
                return parse(status, &answer).with_context(|| format!("{method} /api/v1/{path}"));
            }
            sleep(LOOK * 2_u32.pow(tries)).await;
            tries += 1;
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Vec<u8>)> {
        let url = format!("{}/api/v1/{path}", self.base);
        let mut request = self
            .http
            .request(method.clone(), url)
            .bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let what = || format!("{method} /api/v1/{path}");
        let response = request.send().await.with_context(what)?;
        let status = response.status();
        Ok((status, response.bytes().await.with_context(what)?.to_vec()))
    }
}

fn parse<T: DeserializeOwned>(status: StatusCode, body: &[u8]) -> anyhow::Result<T> {
    if !status.is_success() {
        return Err(problem(status, body));
    }
    serde_json::from_slice(body).context("the answer is not as expected")
}

fn problem(status: StatusCode, body: &[u8]) -> anyhow::Error {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => anyhow!("{}: {}", problem.code, problem.message),
        Err(_) => anyhow!("status {status}"),
    }
}
