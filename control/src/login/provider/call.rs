//! Calls to the provider: with timeouts, without redirects, and of bounded length, which the client
//! that `openidconnect` brings along is not.

use super::{NO, ProviderError};
use nogoo9_identity::{Roots, http_client};
use openidconnect::http::StatusCode;
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use serde_json::Value;
use std::pin::Pin;
use url::Url;

/// Longest answer read, in bytes.
const MAX_ANSWER: usize = 512 * 1024;

/// The client that `openidconnect` calls with.
pub(super) struct Caller(reqwest::Client);

/// Why a call to the provider has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("no answer in time, or none at all")]
    Http(#[source] reqwest::Error),
    #[error("the answer is longer than {MAX_ANSWER} bytes")]
    TooLong,
    #[error("the answer is {0}")]
    Trouble(StatusCode),
    #[error("the answer cannot be read")]
    Broken(#[source] openidconnect::http::Error),
}

impl Caller {
    /// A client for an issuer.
    pub(super) fn new(issuer: &str, roots: &Roots) -> Result<Self, ProviderError> {
        let issuer = Url::parse(issuer)
            .map_err(|_| ProviderError::Setup("the issuer is not a URL".to_owned()))?;
        http_client(&issuer, roots)
            .map(Self)
            .map_err(|error| ProviderError::Setup(error.without_url().to_string()))
    }
}

impl<'c> AsyncHttpClient<'c> for Caller {
    type Error = CallError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, CallError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(call(&self.0, request))
    }
}

async fn call(client: &reqwest::Client, request: HttpRequest) -> Result<HttpResponse, CallError> {
    let failed = |error: reqwest::Error| CallError::Http(error.without_url());
    let request = request.try_into().map_err(failed)?;
    let mut answer = client.execute(request).await.map_err(failed)?;
    let status = answer.status();
    let mut built = openidconnect::http::Response::builder().status(status);
    for (name, value) in answer.headers() {
        built = built.header(name, value);
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ANSWER {
            return Err(CallError::TooLong);
        }
    }
    if is_trouble(status) && !says_no(&body) {
        return Err(CallError::Trouble(status));
    }
    built.body(body).map_err(CallError::Broken)
}

/// Whether a status tells of the provider's own trouble, whatever else the answer says.
fn is_trouble(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// Whether an answer says no of the person all the same.
fn says_no(body: &[u8]) -> bool {
    let answer = serde_json::from_slice::<Value>(body).ok();
    answer.is_some_and(|answer| {
        answer
            .get("error")
            .and_then(Value::as_str)
            .is_some_and(|code| NO.contains(&code))
    })
}
