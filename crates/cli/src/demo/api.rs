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
/// How often a request that may be repeated is.
const TRIES: u32 = 5;

/// A signed-in client.
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
}

/// An operation.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Operation {
    pub(super) state: String,
    pub(super) done: bool,
    pub(super) message: String,
    revision: String,
    targets: Vec<Target>,
}

#[derive(Debug, Clone, Deserialize)]
struct Target {
    phase: String,
}

impl Operation {
    /// The new pod has taken over, for better or worse: nothing is starting any more.
    pub(super) fn started(&self) -> bool {
        self.done || self.targets.iter().all(|target| target.phase != "starting")
    }

    /// It ended well, or is about to.
    pub(super) fn well(&self) -> bool {
        match self.state.as_str() {
            "succeeded" => true,
            "running" => self.targets.iter().all(|target| target.phase != "aborting"),
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

    /// Deletes a workspace and returns once it is gone; one that does not exist is gone.
    pub(super) async fn delete(&self, id: &str) -> anyhow::Result<()> {
        let path = format!("workspaces/{id}");
        let deadline = Instant::now() + WORKSPACE_BOUND;
        let mut method = Method::DELETE;
        loop {
            let (status, body) = self.send(method, &path, None).await?;
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
            method = Method::GET;
        }
    }

    pub(super) async fn upgrade(&self, id: &str) -> anyhow::Result<Upgrade> {
        self.call(Method::POST, &format!("workspaces/{id}/upgrade"), None)
            .await
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
