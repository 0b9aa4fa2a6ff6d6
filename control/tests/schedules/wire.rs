//! Between a client and the simulated API server: each call waits until the schedule lets it pass.

use crate::api::Kind;
use crate::request::target;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use nogoo9_control::cluster::Cluster;
use nogoo9_runtime::kube::{Connection, ServerClock};
use serde_json::Value;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tower::Service;

/// Where control's own objects are.
pub(crate) const SYSTEM: &str = "nogoo9-system";
/// Where workspaces are.
pub(crate) const WORKSPACES: &str = "nogoo9-workspaces";

/// A call, as it reaches the API server.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    query: Vec<(String, String)>,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

impl Call {
    pub(crate) fn query(&self, key: &str) -> Option<String> {
        let mut pairs = self.query.iter();
        pairs
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.clone())
    }

    pub(crate) fn is_write(&self) -> bool {
        self.method != Method::GET && self.query("dryRun").is_none()
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = self
            .path
            .rsplit("/namespaces/")
            .next()
            .unwrap_or(&self.path);
        write!(f, "{} {short}", self.method)
    }
}

/// An answer of the API server.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    /// The body as it is sent, where it is not to be made from that.
    text: Option<Bytes>,
}

impl Answer {
    pub(crate) fn ok(body: Value) -> Self {
        Self::of(200, body)
    }

    pub(crate) fn of(code: u16, body: Value) -> Self {
        let text = None;
        Self { code, body, text }
    }

    pub(crate) fn text(text: Bytes) -> Self {
        Self {
            text: Some(text),
            ..Self::ok(Value::Null)
        }
    }
}

/// A call that waits for its answer; without one, the connection breaks.
pub(crate) struct Waiting {
    pub(crate) call: Call,
    pub(crate) reply: oneshot::Sender<Answer>,
}

pub(crate) type Calls = mpsc::UnboundedReceiver<Waiting>;

#[derive(Clone)]
struct Wire {
    calls: mpsc::UnboundedSender<Waiting>,
    /// Whether lists and watches never get an answer.
    deaf: bool,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Service<Request<Body>> for Wire {
    type Response = Response<Body>;
    type Error = Failure;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (calls, deaf) = (self.calls.clone(), self.deaf);
        Box::pin(async move {
            let watched = match target(request.uri().path()) {
                Some((kind, _, None)) => kind != Kind::Quota,
                _ => false,
            };
            if deaf && request.method() == Method::GET && watched {
                std::future::pending::<()>().await;
            }
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let query = head.uri.query().unwrap_or_default();
            let content_type = head.headers.get(http::header::CONTENT_TYPE);
            let call = Call {
                method: head.method,
                path: head.uri.path().to_owned(),
                query: url::form_urlencoded::parse(query.as_bytes())
                    .into_owned()
                    .collect(),
                content_type: content_type.map_or_else(String::new, |t| t.to_str().unwrap().into()),
                body: if body.is_empty() {
                    Value::Null
                } else {
                    serde_json::from_slice(&body)?
                },
            };
            let (reply, answer) = oneshot::channel();
            calls
                .send(Waiting { call, reply })
                .map_err(|_| "nobody listens")?;
            let answer = answer.await.map_err(|_| "the connection broke")?;
            let text = match answer.text {
                Some(text) => text,
                None => serde_json::to_vec(&answer.body)?.into(),
            };
            let mut response = Response::new(Body::from(text));
            *response.status_mut() = http::StatusCode::from_u16(answer.code)?;
            Ok(response)
        })
    }
}

/// A clock that stands still at what it was set to.
#[derive(Clone)]
pub(crate) struct Clock(ServerClock);

impl Clock {
    /// From here on it is `now`: whatever was known before is forgotten.
    pub(crate) fn set(&self, now: i64) {
        let at = Instant::now();
        self.0.observe(0, at, at);
        self.0.observe(now, at, at);
    }
}

/// A cluster of its own, as a process that has just started has it.
pub(crate) fn connect(base: &Connection) -> (Cluster, Clock, Calls) {
    connection(base, false)
}

/// The same of a process whose watches bring nothing.
pub(crate) fn connect_deaf(base: &Connection) -> (Cluster, Clock, Calls) {
    connection(base, true)
}

fn connection(base: &Connection, deaf: bool) -> (Cluster, Clock, Calls) {
    let (calls, waiting) = mpsc::unbounded_channel();
    let mut connection = base.clone();
    connection.clock = ServerClock::new();
    connection.client = Client::new(Wire { calls, deaf }, WORKSPACES);
    let clock = Clock(connection.clock.clone());
    (
        Cluster::new(&connection, SYSTEM.into(), WORKSPACES.into()),
        clock,
        waiting,
    )
}

/// What every connection is made from. It reaches nobody.
pub(crate) async fn base() -> Connection {
    static PROVIDER: std::sync::Once = std::sync::Once::new();
    PROVIDER.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
        clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n\
        users: [{name: u, user: {}}]\n\
        contexts: [{name: c, context: {cluster: c, user: u}}]\n";
    std::fs::write(&file, text).unwrap();
    let retry = nogoo9_runtime::kube::Retry::Off;
    nogoo9_runtime::kube::connect(Some(&file), retry)
        .await
        .unwrap()
}
