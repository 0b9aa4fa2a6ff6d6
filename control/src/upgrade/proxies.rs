//! Asking the proxies what they route and what is open. One that gives no answer is reported as
//! silent, and silence counts as "not yet".

use futures::future::join_all;
use nogoo9_model::upgrade::ProxyReport;
use nogoo9_model::wire::Sessions;
use nogoo9_runtime::secret::Secret;
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
        Ok(Self { http, urls, token })
    }

    /// What every proxy says of a workspace.
    pub async fn reports(&self, workspace: &str) -> Vec<ProxyReport> {
        join_all(self.urls.iter().map(|url| async move {
            let answer = self.ask(url, workspace).await;
            if let Err(error) = &answer {
                tracing::warn!(proxy = %url, %error, "a proxy gave no answer");
            }
            ProxyReport {
                proxy: url.to_string(),
                answer: answer.ok(),
            }
        }))
        .await
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
