//! The JSON API, as a client sees it.

use anyhow::{Context as _, bail};
use reqwest::Method;
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// A client of the JSON API (or of an admin listener) with one bearer token, or none.
#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its body; a string where it is no JSON.
    pub body: Value,
}

impl Reply {
    /// The body, if the status is that.
    ///
    /// # Errors
    /// It is another: says which, with the body.
    pub fn expect(self, status: u16) -> anyhow::Result<Value> {
        if self.status != status {
            bail!(
                "answered {} instead of {status}: {}",
                self.status,
                self.body
            );
        }
        Ok(self.body)
    }
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api")
            .field("base", &self.base.as_str())
            .finish_non_exhaustive()
    }
}

impl Api {
    /// For `base`, with this bearer token.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn new(base: &Url, token: Option<String>) -> anyhow::Result<Self> {
        // `localhost` may resolve to ::1 first, where nobody listens.
        let mut base = base.clone();
        base.set_host(Some("127.0.0.1")).context("base address")?;
        Self::at(&base, token)
    }

    /// For `base` wherever it is, as a pod of a real cluster.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn at(base: &Url, token: Option<String>) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(120))
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self {
            http,
            base: base.clone(),
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

    /// Asks.
    ///
    /// # Errors
    /// No answer.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        let mut request = self.http.request(method, self.base.join(path)?);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.with_context(|| path.to_owned())?;
        let status = response.status().as_u16();
        let text = response.text().await.with_context(|| path.to_owned())?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Reply { status, body })
    }

    /// `GET`.
    ///
    /// # Errors
    /// No answer.
    pub async fn get(&self, path: &str) -> anyhow::Result<Reply> {
        self.ask(Method::GET, path, None).await
    }

    /// `POST`.
    ///
    /// # Errors
    /// No answer.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Reply> {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// `POST` without a body.
    ///
    /// # Errors
    /// No answer.
    pub async fn act(&self, id: &str, action: &str) -> anyhow::Result<Reply> {
        self.ask(
            Method::POST,
            &format!("/api/v1/workspaces/{id}/{action}"),
            None,
        )
        .await
    }

    /// A workspace as the API shows it.
    ///
    /// # Errors
    /// Not 200.
    pub async fn workspace(&self, id: &str) -> anyhow::Result<Value> {
        self.get(&format!("/api/v1/workspaces/{id}"))
            .await?
            .expect(200)
    }

    /// An operation as the API shows it.
    ///
    /// # Errors
    /// Not 200.
    pub async fn operation(&self, id: &str) -> anyhow::Result<Value> {
        self.get(&format!("/api/v1/operations/{id}"))
            .await?
            .expect(200)
    }

    /// Begins an upgrade.
    ///
    /// # Errors
    /// Not 200.
    pub async fn upgrade(&self, id: &str) -> anyhow::Result<Value> {
        self.act(id, "upgrade").await?.expect(200)
    }
}
