//! What control is asked by the proxy itself: what a workspace without pods is doing, and to start it.
//!
//! The caller's own credential goes along and control verifies it anew, bound to the host that the
//! request came for. So nothing rests on control believing the proxy, and whoever reaches control
//! past the proxy learns nothing that their own session does not entitle them to.

use crate::control::{self, Control};
use http::header::{AUTHORIZATION, COOKIE, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use nogoo9_identity::cookie::{self, CookieNames};
use nogoo9_model::absent::{self, Absent};
use nogoo9_model::ports::MAX_PATH;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Longest wait for what control knows from memory: far more than it takes, since an answer that comes
/// late is better than none.
pub const ANSWER: Duration = Duration::from_secs(10);
/// Longest wait for a start: control writes, and waits a moment for the pod.
const START: Duration = Duration::from_secs(15);
/// Most questions at once: a flood of unknown ids must not become a flood at control.
const MOST: usize = 256;
/// Longest answer, in bytes.
const MAX_ANSWER: usize = 16 * 1024;
/// What the rule for cookies looks at ([`nogoo9_identity::origin`]).
const VOUCHERS: [HeaderName; 4] = [
    ORIGIN,
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("sec-fetch-mode"),
    HeaderName::from_static("sec-fetch-dest"),
];

/// Asks control. Clones share the connections and the bound.
#[derive(Debug, Clone)]
pub struct Asker {
    control: Control,
    client: reqwest::Client,
    names: CookieNames,
    scheme: HeaderValue,
    places: Arc<Semaphore>,
}

/// Why there is no answer of use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Not there, or not theirs.
    #[error("there is no such workspace, or it is not the caller's")]
    NotTheirs,
    /// Control refuses, and says why.
    #[error("control refuses: {}", .0.message)]
    Refused(Refusal),
    /// Control did not answer, or not in words that are understood.
    #[error("control does not answer: {0}")]
    Unreachable(&'static str),
}

/// A refusal in control's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Status code, 4xx or 503.
    pub status: StatusCode,
    /// Short word for programs.
    pub code: String,
    /// For people.
    pub message: String,
}

#[derive(Deserialize)]
struct ErrorBody {
    code: String,
    message: String,
}

/// What is asked about, by whom.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The workspace's id.
    pub id: &'a str,
    /// The host that the request came for, as sessions are bound to it.
    pub host: &'a str,
    /// The path inside the workspace, which may be that of an extra port; where that is not asked for, `/`.
    pub path: &'a str,
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The request's headers; only credentials, and what vouches for a cookie, are passed on.
    pub headers: &'a HeaderMap,
}

/// A question with all that goes along, which needs the request no longer.
#[derive(Debug)]
pub struct Prepared {
    id: String,
    headers: Result<HeaderMap, AskError>,
}

impl Asker {
    /// An asker of `control`. `scheme` is that of the public URL.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn new(
        control: Control,
        names: CookieNames,
        scheme: &'static str,
    ) -> Result<Self, reqwest::Error> {
        let client = Control::client().build()?;
        Ok(Self {
            control,
            client,
            names,
            scheme: HeaderValue::from_static(scheme),
            places: Arc::new(Semaphore::new(MOST)),
        })
    }

    /// Gets a question ready.
    #[must_use]
    pub fn prepare(&self, question: Question<'_>) -> Prepared {
        Prepared {
            id: utf8_percent_encode(question.id, NON_ALPHANUMERIC).to_string(),
            headers: self.headers(question),
        }
    }

    /// What the workspace is doing.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn absent(&self, question: Prepared) -> Result<Absent, AskError> {
        self.ask(Method::GET, absent::PATH, question, ANSWER).await
    }

    /// Starts the workspace, and says what it is doing then.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn start(&self, question: Prepared) -> Result<Absent, AskError> {
        self.ask(Method::POST, absent::START_PATH, question, START)
            .await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        question: Prepared,
        patience: Duration,
    ) -> Result<Absent, AskError> {
        let Ok(_place) = self.places.try_acquire() else {
            return Err(AskError::Unreachable("too many questions at once"));
        };
        let asking = async {
            let address = self
                .control
                .address()
                .ok_or(AskError::Unreachable("its address is not known"))?;
            let id = question.id;
            let request = self
                .client
                .request(method, format!("http://{address}{path}{id}"))
                .headers(question.headers?);
            let response = request
                .send()
                .await
                .map_err(|_| AskError::Unreachable("no answer came"))?;
            read(response).await
        };
        match tokio::time::timeout(patience, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(AskError::Unreachable("it took too long")),
        }
    }

    fn headers(&self, question: Question<'_>) -> Result<HeaderMap, AskError> {
        let bad = |_| AskError::Unreachable("the host cannot be told");
        let mut headers = HeaderMap::new();
        let host = HeaderValue::from_str(question.host).map_err(bad)?;
        headers.insert("x-forwarded-host", host);
        headers.insert("x-forwarded-proto", self.scheme.clone());
        let client = question.client.map(|client| client.to_string());
        if let Some(Ok(client)) = client.as_deref().map(HeaderValue::from_str) {
            headers.insert("x-forwarded-for", client);
        }
        let session = self.names.session();
        let at = utf8_percent_encode(beginning(question.path), NON_ALPHANUMERIC).to_string();
        if let Ok(at) = HeaderValue::from_str(&at) {
            headers.insert(absent::AT, at);
        }
        for token in cookie::values(question.headers, session) {
            if let Ok(mut value) = HeaderValue::from_str(&format!("{session}={token}")) {
                value.set_sensitive(true);
                headers.append(COOKIE, value);
            }
        }
        for name in [AUTHORIZATION].iter().chain(&VOUCHERS) {
            for value in question.headers.get_all(name) {
                headers.append(name.clone(), value.clone());
            }
        }
        Ok(headers)
    }
}

/// As much of a path as tells whose it is: longer than the path of any extra port, and no more.
fn beginning(path: &str) -> &str {
    path.char_indices()
        .nth(MAX_PATH + 2)
        .and_then(|(end, _)| path.get(..end))
        .unwrap_or(path)
}

async fn read(response: reqwest::Response) -> Result<Absent, AskError> {
    let status = response.status();
    if status == StatusCode::NOT_FOUND {
        return Err(AskError::NotTheirs);
    }
    let body = control::body(response, MAX_ANSWER).await;
    let body = body.map_err(|spoilt| AskError::Unreachable(spoilt.as_str()))?;
    if status == StatusCode::OK {
        return serde_json::from_slice(&body)
            .map_err(|_| AskError::Unreachable("its answer cannot be read"));
    }
    let refuses = status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE;
    match serde_json::from_slice::<ErrorBody>(&body) {
        Ok(ErrorBody { code, message }) if refuses => Err(AskError::Refused(Refusal {
            status,
            code,
            message,
        })),
        _ => Err(AskError::Unreachable("its answer cannot be read")),
    }
}
