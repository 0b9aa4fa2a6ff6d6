//! What people and their programs ask of control, and its answers.

use super::World;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// What a caller could tell answers apart by.
    pub(crate) fn without_date(mut self) -> Self {
        self.headers.remove("date");
        self
    }
}

impl World {
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        Answer {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.text().await.unwrap(),
        }
    }

    /// Calls the JSON API.
    pub(crate) async fn api(
        &self,
        user: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        let mut request = self
            .http
            .request(method, format!("{}/api/v1{path}", self.url))
            .bearer_auth(self.token(user));
        if let Some(body) = body {
            request = request.json(&body);
        }
        self.send(request).await
    }

    pub(crate) async fn get(&self, user: &str, path: &str) -> Value {
        let answer = self.api(user, Method::GET, path, None).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }

    pub(crate) async fn post(&self, user: &str, path: &str) -> Answer {
        self.api(user, Method::POST, path, None).await
    }

    pub(crate) async fn spawn(&self, user: &str, body: Value) -> Value {
        let answer = self
            .api(user, Method::POST, "/workspaces", Some(body))
            .await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()
    }

    /// Calls an MCP tool, the legacy way, and returns the JSON-RPC answer.
    pub(crate) async fn tool(&self, user: &str, name: &str, arguments: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": arguments}});
        let answer = self
            .mcp(
                &self.token(user),
                &[("mcp-protocol-version", "2025-11-25")],
                &call,
            )
            .await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }

    pub(crate) async fn mcp(&self, token: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut request = self
            .http
            .post(format!("{}/mcp", self.url))
            .bearer_auth(token)
            .header("accept", "application/json, text/event-stream")
            .json(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request).await
    }
}
