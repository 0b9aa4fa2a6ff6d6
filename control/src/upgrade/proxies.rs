//! Asking the proxies what they route and what is open. One that gives no answer is reported as
//! silent, and silence counts as "not yet".

use super::discovery::{Discovery, Found};
use futures::future::join_all;
use nogoo9_model::upgrade::ProxyReport;
use nogoo9_model::wire::Sessions;
use nogoo9_runtime::secret::Secret;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Longest wait for a proxy's answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Largest answer, in bytes.
const LIMIT: usize = 1024 * 1024;

/// The proxies' admin listeners.
#[derive(Clone)]
pub struct Proxies {
    http: reqwest::Client,
    urls: Vec<Url>,
    discovery: Option<Arc<Discovery>>,
    token: Option<Secret>,
}

impl Proxies {
    /// Proxies at these admin URLs, which take this token.
    ///
    /// # Errors
    /// If no HTTP client can be made.
    pub fn new(urls: Vec<Url>, token: Option<Secret>) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .timeout(ANSWER)
            .no_proxy()
            .build()?;
        Ok(Self {
            http,
            urls,
            discovery: None,
            token,
        })
    }

    /// Also those that a Service has.
    #[must_use]
    pub fn discovered_by(self, discovery: Arc<Discovery>) -> Self {
        Self {
            discovery: Some(discovery),
            ..self
        }
    }

    /// What every proxy says of a workspace.
    pub async fn reports(&self, workspace: &str) -> Vec<ProxyReport> {
        let found = self.discovery.as_ref().map(|discovery| discovery.found());
        let Found { mut urls, silent } = found.unwrap_or_default();
        urls.extend(self.urls.iter().cloned());
        let mut reports = join_all(urls.iter().map(|url| async move {
            let answer = self.ask(url, workspace).await;
            if let Err(error) = &answer {
                tracing::warn!(proxy = %url, %error, "a proxy gave no answer");
            }
            ProxyReport {
                proxy: url.to_string(),
                answer: answer.ok(),
            }
        }))
        .await;
        reports.extend(silent.into_iter().map(|proxy| {
            tracing::warn!(proxy, "a proxy cannot be asked");
            ProxyReport {
                proxy,
                answer: None,
            }
        }));
        reports
    }

    async fn ask(&self, base: &Url, workspace: &str) -> Result<Sessions, String> {
        let mut url = base.join("/sessions").map_err(|error| error.to_string())?;
        url.query_pairs_mut().append_pair("workspace", workspace);
        let mut request = self.http.get(url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        // The URL names the proxy already; `without_url` keeps it out of the message.
        let said = |error: reqwest::Error| error.without_url().to_string();
        let mut response = request
            .send()
            .await
            .and_then(reqwest::Response::error_for_status)
            .map_err(said)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(said)? {
            if body.len().saturating_add(chunk.len()) > LIMIT {
                return Err(format!("its answer is larger than {LIMIT} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map_err(|error| format!("its answer cannot be read: {error}"))
    }
}
