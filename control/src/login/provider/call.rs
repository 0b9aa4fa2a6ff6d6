//! Calls to the provider: with timeouts, without redirects, and of bounded length, which the client
//! that `openidconnect` brings along is not.

use super::ProviderError;
use nogoo9_identity::{Roots, http_client};
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
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
    let mut built = openidconnect::http::Response::builder().status(answer.status());
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
    built.body(body).map_err(CallError::Broken)
}
