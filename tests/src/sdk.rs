//! `/mcp` through the official SDKs: one Node process that calls tools for a whole suite.

use crate::mcp::tool_result;
use crate::{ToolResult, ensure_modules};
use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use url::Url;

/// Longest call. Tools answer at once or, when they wait, within 25 s.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Generation of the official SDK: which protocol is spoken follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// `@modelcontextprotocol/sdk`, which greets with `initialize`.
    First,
    /// `@modelcontextprotocol/client`, which finds the newest protocol.
    Second,
}

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// The running clients. Ends with this value.
#[derive(Debug)]
pub struct Sdk {
    _node: Child,
    input: tokio::sync::Mutex<ChildStdin>,
    waiting: Waiting,
    calls: AtomicU64,
}

impl Sdk {
    /// Starts Node for the endpoint at `url`.
    ///
    /// # Errors
    /// The SDKs are not installed, or Node is not.
    pub fn start(url: &Url) -> anyhow::Result<Self> {
        let mut node = Command::new("node")
            .arg("session.mjs")
            .current_dir(ensure_modules("clients")?)
            .env("MCP_URL", url.as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .context("node")?;
        let input = node.stdin.take().context("input of node")?;
        let output = node.stdout.take().context("output of node")?;
        let waiting = Waiting::default();
        tokio::spawn(deliver(output, Arc::clone(&waiting)));
        Ok(Self {
            _node: node,
            input: tokio::sync::Mutex::new(input),
            waiting,
            calls: AtomicU64::new(0),
        })
    }

    /// Calls a tool in the name of the token's user.
    ///
    /// # Errors
    /// No tool result: the client threw, or Node ended.
    pub async fn call(
        &self,
        generation: Generation,
        token: &str,
        tool: &str,
        arguments: Value,
    ) -> anyhow::Result<ToolResult> {
        let n = self.calls.fetch_add(1, Ordering::Relaxed);
        let generation = match generation {
            Generation::First => "v1",
            Generation::Second => "v2",
        };
        let call = json!({"n": n, "generation": generation, "token": token, "tool": tool,
            "arguments": arguments});
        let (answered, answer) = oneshot::channel();
        lock(&self.waiting).insert(n, answered);
        let line = format!("{call}\n");
        let written = self.input.lock().await.write_all(line.as_bytes()).await;
        written.context("node has ended")?;
        let answer = tokio::time::timeout(TIMEOUT, answer)
            .await
            .with_context(|| format!("{tool} took longer than {TIMEOUT:?}"))?
            .with_context(|| format!("node ended during {tool}"))?;
        if answer["result"].is_null() {
            bail!("{tool} ({generation}): {}", answer["error"]);
        }
        tool_result(&answer["result"]).with_context(|| format!("{tool} ({generation})"))
    }
}

async fn deliver(output: ChildStdout, waiting: Waiting) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let answer: anyhow::Result<Value> =
            serde_json::from_str(&line).map_err(|error| anyhow!("{error}: {line}"));
        let Ok(answer) = answer else { continue };
        let waiter = answer["n"].as_u64().and_then(|n| lock(&waiting).remove(&n));
        if let Some(waiter) = waiter {
            // Whoever asked may have given up.
            let _given_up = waiter.send(answer);
        }
    }
    // Node has ended: whoever still waits learns it from this.
    lock(&waiting).clear();
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Value>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
