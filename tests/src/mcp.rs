//! `/mcp` without an SDK: one stateless call, to the byte. The suite `clients` uses the official SDKs.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::time::Duration;
use url::Url;

/// A caller of tools.
#[derive(Clone)]
pub struct Mcp {
    http: reqwest::Client,
    url: Url,
    host: String,
    token: Option<String>,
}

/// What a tool returned.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Whether the tool failed.
    pub is_error: bool,
    /// The only text of the result, as JSON.
    pub text: Value,
    /// The structured content.
    pub structured: Option<Value>,
}

impl std::fmt::Debug for Mcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mcp")
            .field("url", &self.url.as_str())
            .finish_non_exhaustive()
    }
}

impl ToolResult {
    /// What a tool that did not fail returned.
    ///
    /// # Errors
    /// It failed.
    pub fn ok(self) -> anyhow::Result<Value> {
        match self.structured {
            Some(value) if !self.is_error => Ok(value),
            _ => bail!("the tool failed: {}", self.text),
        }
    }
}

impl Mcp {
    /// For the endpoint at `url`.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn new(url: &Url, token: Option<String>) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(120))
            .build()?;
        let port = url.port().context("the MCP URL names no port")?;
        let host = format!("localhost:{port}");
        let mut url = url.clone();
        url.set_host(Some("127.0.0.1"))
            .context("address of the MCP endpoint")?;
        Ok(Self {
            http,
            url,
            host,
            token,
        })
    }

    /// The same with another token.
    #[must_use]
    pub fn with_token(&self, token: Option<String>) -> Self {
        Self {
            token,
            ..self.clone()
        }
    }

    /// Sends one message; returns status, headers and body as they came.
    ///
    /// # Errors
    /// No answer.
    pub async fn post(&self, message: &Value) -> anyhow::Result<(u16, http::HeaderMap, String)> {
        let mut request = self
            .http
            .post(self.url.clone())
            .header("host", &self.host)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25")
            .json(message);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.context("/mcp")?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok((status, headers, response.text().await?))
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// No tool result.
    pub async fn call(&self, tool: &str, arguments: Value) -> anyhow::Result<ToolResult> {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}});
        let (status, _, body) = self.post(&message).await?;
        // A stream of one event, where progress could have been told.
        let mut data = body
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(str::trim);
        let answer = data.rfind(|data| data.starts_with('{')).unwrap_or(&body);
        let answer: Value =
            serde_json::from_str(answer).with_context(|| format!("{status}: {body}"))?;
        tool_result(&answer["result"]).with_context(|| format!("{tool}: {status}: {body}"))
    }
}

/// A tool's result as clients get it: one piece of content, a text that is JSON.
pub(crate) fn tool_result(result: &Value) -> anyhow::Result<ToolResult> {
    let content = result["content"].as_array().context("no content")?;
    let [only] = content.as_slice() else {
        bail!("{} pieces of content: {result}", content.len());
    };
    let text = only["text"].as_str().context("no text")?;
    Ok(ToolResult {
        is_error: result["isError"] == true,
        text: serde_json::from_str(text).with_context(|| format!("not JSON: {text}"))?,
        structured: result.get("structuredContent").cloned(),
    })
}
