//! The HTTP load: what to ask, how often, and the run that does it.

mod client;
mod run;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::Full;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::dial::Endpoint;
use crate::{HttpReport, LoadError, Phases, Schedule};

pub use run::HttpRun;

/// The most connections of one load: each is a task and a socket.
const MAX_CONNECTIONS: usize = 10_000;

/// A whole answer, as checks and labels see it.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// The start of its body: 64 KiB at most.
    pub body: Bytes,
    /// The length of the whole body, in bytes.
    pub body_bytes: u64,
}

type Check = Arc<dyn Fn(&Answer) -> Result<(), String> + Send + Sync>;
type Label = Arc<dyn Fn(&Answer) -> Option<String> + Send + Sync>;

/// What one load asks, and how. Built step by step, then [started](Self::start).
#[derive(Clone)]
pub struct HttpLoad {
    endpoint: Endpoint,
    path: String,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    connections: usize,
    schedule: Schedule,
    limit: Option<u64>,
    connect_timeout: Duration,
    request_timeout: Duration,
    stale_window: Duration,
    max_samples: usize,
    status: StatusCode,
    check: Option<Check>,
    label: Option<Label>,
}

impl HttpLoad {
    /// `GET target` on 64 connections in a closed loop, expecting 200, with 5 s to connect
    /// and 30 s for a whole request.
    ///
    /// # Errors
    /// [`LoadError::Target`] unless `target` is a plain `http` URL with a host.
    pub fn new(target: &Url) -> Result<Self, LoadError> {
        let endpoint = Endpoint::of(target)?;
        let path = target.query().map_or_else(
            || target.path().to_owned(),
            |query| format!("{}?{query}", target.path()),
        );
        Ok(Self {
            endpoint,
            path,
            method: Method::GET,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            connections: 64,
            schedule: Schedule::closed(),
            limit: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            stale_window: Duration::from_millis(100),
            max_samples: 20,
            status: StatusCode::OK,
            check: None,
            label: None,
        })
    }

    /// Connections, each with one request at a time; so also the most requests in flight.
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Open loop: `per_second` requests a second over all connections.
    ///
    /// # Errors
    /// [`LoadError::Rate`] if that is no usable rate.
    pub fn rate(mut self, per_second: f64) -> Result<Self, LoadError> {
        self.schedule = Schedule::open(per_second)?;
        Ok(self)
    }

    /// Sends this method and body instead of an empty `GET`.
    #[must_use]
    pub fn request(mut self, method: Method, body: Bytes) -> Self {
        self.method = method;
        self.body = body;
        self
    }

    /// Sends this header; `Host` replaces the one taken from the target.
    ///
    /// # Errors
    /// [`LoadError::Header`] if HTTP does not allow the name or the value.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, LoadError> {
        let (name, value) = header(name, value)?;
        self.headers.append(name, value);
        Ok(self)
    }

    /// Ends the run after this many requests; without it, it runs until stopped.
    #[must_use]
    pub const fn stop_after(mut self, requests: u64) -> Self {
        self.limit = Some(requests);
        self
    }

    /// How long connecting may take, and a whole request from sending to the body's end.
    #[must_use]
    pub const fn timeouts(mut self, connect: Duration, request: Duration) -> Self {
        self.connect_timeout = connect;
        self.request_timeout = request;
        self
    }

    /// How soon after an idempotent request was sent its reused connection must end,
    /// without a byte of an answer, for that to count as [`crate::Stale`] (100 ms).
    #[must_use]
    pub const fn stale_window(mut self, window: Duration) -> Self {
        self.stale_window = window;
        self
    }

    /// How many failures are kept in full (20).
    #[must_use]
    pub const fn failure_samples(mut self, samples: usize) -> Self {
        self.max_samples = samples;
        self
    }

    /// The status that an answer must have (200).
    #[must_use]
    pub const fn expect_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// What else must hold of an answer; the `Err` text goes into the failure's sample.
    #[must_use]
    pub fn check(
        mut self,
        check: impl Fn(&Answer) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Takes the label that answers are counted by out of an answer: the pod, the version.
    #[must_use]
    pub fn label(
        mut self,
        label: impl Fn(&Answer) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.label = Some(Arc::new(label));
        self
    }

    /// Starts the run on the current tokio runtime.
    ///
    /// # Errors
    /// [`LoadError`] if the load cannot be run as described; nothing was sent then.
    pub fn start(self, phases: &Phases) -> Result<HttpRun, LoadError> {
        Self::start_all([self], phases)
    }

    /// Starts several loads as one run: each keeps its own schedule, connections and checks, so
    /// that one which has to wait takes nothing from the others, and one report is made of all.
    /// Of failures, as many are kept in full as the most patient load wants.
    ///
    /// # Errors
    /// As [`start`](Self::start), for any of them.
    pub fn start_all(
        loads: impl IntoIterator<Item = Self>,
        phases: &Phases,
    ) -> Result<HttpRun, LoadError> {
        let checked = loads.into_iter().map(|load| {
            if !(1..=MAX_CONNECTIONS).contains(&load.connections) {
                return Err(LoadError::Connections {
                    connections: load.connections,
                    max: MAX_CONNECTIONS,
                });
            }
            let request = load.build()?;
            Ok((load, request))
        });
        HttpRun::start(checked.collect::<Result<_, _>>()?, phases)
    }

    /// Runs until `cancel`, or until the count of [`stop_after`](Self::stop_after).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn run(
        self,
        phases: &Phases,
        cancel: &CancellationToken,
    ) -> Result<HttpReport, LoadError> {
        let mut run = self.start(phases)?;
        tokio::select! {
            () = run.ended() => {}
            () = cancel.cancelled() => {}
        }
        Ok(run.finish().await)
    }

    fn build(&self) -> Result<Request<Full<Bytes>>, LoadError> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.path.as_str())
            .body(Full::new(self.body.clone()))?;
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        if !headers.contains_key(header::HOST) {
            let (name, value) = header("host", self.endpoint.authority())?;
            headers.insert(name, value);
        }
        Ok(request)
    }
}

impl std::fmt::Debug for HttpLoad {
    /// Without header values: they carry credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpLoad")
            .field("endpoint", &self.endpoint.to_string())
            .field("method", &self.method)
            .field("connections", &self.connections)
            .field("schedule", &self.schedule)
            .finish_non_exhaustive()
    }
}

/// Parses a header; its value is marked sensitive, and never part of an error.
pub(crate) fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), LoadError> {
    let error = || LoadError::Header {
        name: name.to_owned(),
    };
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| error())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| error())?;
    value.set_sensitive(parsed == header::AUTHORIZATION || parsed == header::COOKIE);
    Ok((parsed, value))
}
