//! Asking the proxies what they route and what is open. One that gives no answer is reported as
//! silent, and silence counts as "not yet".

use super::discovery::{Discovery, Found};
use futures::future::join_all;
use nogoo9_model::upgrade::ProxyReport;
use nogoo9_model::wire::Sessions;
use nogoo9_runtime::secret::Secret;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use url::Url;

/// Longest wait for a proxy's answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How long one that gave no answer is not asked again, for whatever workspace: many may drain at
/// once, and none of them shall wait for it by itself.
const PAUSE: Duration = Duration::from_secs(1);
/// Largest answer, in bytes.
const LIMIT: usize = 1024 * 1024;

/// Whoever knows what the proxies say.
pub trait Reports: Sync {
    /// What every proxy says of a workspace.
    fn reports(&self, workspace: &str) -> impl Future<Output = Vec<ProxyReport>> + Send;
}

impl Reports for Proxies {
    fn reports(&self, workspace: &str) -> impl Future<Output = Vec<ProxyReport>> + Send {
        // The method below, which does not need this trait in scope.
        Self::reports(self, workspace)
    }
}

/// The proxies' admin listeners.
#[derive(Clone)]
pub struct Proxies {
    http: reqwest::Client,
    urls: Vec<Url>,
    discovery: Option<Arc<Discovery>>,
    token: Option<Secret>,
    /// Those that gave no answer, and when they are asked again.
    silent: Arc<Mutex<HashMap<Url, Instant>>>,
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
            silent: Arc::default(),
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
        self.silent().retain(|url, _| urls.contains(url));
        let mut reports = join_all(urls.iter().map(|url| async move {
            ProxyReport {
                proxy: url.to_string(),
                answer: self.answer(url, workspace).await,
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

    /// What the proxy says; `None`: nothing, or nothing a moment ago.
    async fn answer(&self, url: &Url, workspace: &str) -> Option<Sessions> {
        if let Some(again) = self.silent().get_mut(url) {
            let now = Instant::now();
            if now < *again {
                return None;
            }
            // One asks, the others do not wait for it.
            *again = now + ANSWER + PAUSE;
        }
        let answer = self.ask(url, workspace).await;
        let mut silent = self.silent();
        match answer {
            Ok(answer) => {
                if silent.remove(url).is_some() {
                    tracing::info!(proxy = %url, "a proxy answers again");
                }
                Some(answer)
            }
            Err(error) => {
                if silent.insert(url.clone(), Instant::now() + PAUSE).is_none() {
                    tracing::warn!(proxy = %url, %error, "a proxy gives no answer; what it may have open keeps pods up to their drain bound");
                }
                None
            }
        }
    }

    fn silent(&self) -> MutexGuard<'_, HashMap<Url, Instant>> {
        // Whoever panicked left whole entries behind.
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
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
