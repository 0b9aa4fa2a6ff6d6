//! An edge: two proxies, control's sign-in, a provider, a workspace, and time.

use crate::PATIENCE;
use crate::page::Page;
use crate::provider::{self, Provider};
use crate::server::Server;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use nogoo9_control::login::keys::Keyring;
use nogoo9_control::login::{self, Login, LoginConfig};
use nogoo9_control::session::Limits;
use nogoo9_identity::Roots;
use nogoo9_identity::keys::SigningKey;
use nogoo9_identity::policy::{ClaimPolicy, SessionRoles};
use nogoo9_model::UnixSeconds;
use nogoo9_model::pod::PodView;
use nogoo9_model::renew;
use nogoo9_proxy::accept::Stops;
use nogoo9_proxy::accept::count::Connections;
use nogoo9_proxy::args::Args;
use nogoo9_proxy::clock::{Clock, Hand};
use nogoo9_proxy::hold::Holds;
use nogoo9_proxy::lines::Lines;
use nogoo9_proxy::metrics::Metrics;
use nogoo9_proxy::server::{Shared, acceptor, edge};
use nogoo9_proxy::sessions::Sessions;
use nogoo9_proxy::table::{Table, Writer};
use nogoo9_runtime::config::{Loaded, load};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) const CONSOLE: &str = "localhost:9009";
pub(crate) const WORKSPACE: &str = "dev.localhost:9009";
pub(crate) const MINUTE: UnixSeconds = 60;
pub(crate) const HALF_A_DAY: UnixSeconds = 12 * 3600;

pub(crate) struct World {
    pub(crate) provider: Arc<Provider>,
    pub(crate) proxies: [SocketAddr; 2],
    /// Questions of proxies about sessions that control has answered.
    answered: watch::Receiver<usize>,
    clock: Clock,
    hand: Hand,
    /// Tells the proxies to stop.
    _stop: watch::Sender<bool>,
    _server: Server,
}

impl World {
    pub(crate) async fn start() -> Self {
        let server = Server::start().await;
        let provider = Provider::start().await;
        provider.whims(|whims| whims.refreshes = true);
        let (clock, hand) = Clock::by_hand(provider::now());
        let (answers, answered) = watch::channel(0);
        let control = serve(control(&provider, &server, &clock, answers)).await;
        let app = serve(app()).await;
        let (stop, stopped) = watch::channel(false);
        let mut proxies = Vec::new();
        for _ in 0..2 {
            proxies.push(proxy(&provider.issuer, control, app, &clock, stopped.clone()).await);
        }
        Self {
            provider,
            proxies: proxies.try_into().unwrap(),
            answered,
            clock,
            hand,
            _stop: stop,
            _server: server,
        }
    }

    pub(crate) fn now(&self) -> UnixSeconds {
        self.clock.now()
    }

    /// Lets so many seconds pass, for all of it.
    pub(crate) fn pass(&self, seconds: UnixSeconds) {
        self.hand.pass(seconds);
    }

    /// Somebody's browser, signed in and on the page of the workspace.
    pub(crate) async fn page(&self, proxy: usize) -> Page {
        Page::open(self.proxies[proxy], &self.provider).await
    }

    pub(crate) fn answered(&self) -> usize {
        *self.answered.borrow()
    }

    /// Waits until control has answered more questions than that.
    pub(crate) async fn answered_more(&self, than: usize) {
        let mut answered = self.answered.clone();
        let more = answered.wait_for(|count| *count > than);
        let more = tokio::time::timeout(PATIENCE, more).await;
        more.expect("a question of the proxy").expect("it is there");
    }
}

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// Signing in, as control has it, and what it says of sessions.
fn control(
    provider: &Provider,
    server: &Server,
    clock: &Clock,
    answers: watch::Sender<usize>,
) -> Router {
    let config = LoginConfig {
        public_url: format!("http://{CONSOLE}/").parse().unwrap(),
        workspace_domain: CONSOLE.to_owned(),
        path_host: None,
        issuer: provider.issuer.clone(),
        issuer_roots: Roots::default(),
        client_id: "nogoo9".to_owned(),
        client_secret: None,
        resource: None,
        scopes: vec!["profile".to_owned()],
        limits: Limits::default(),
        session_roles: SessionRoles::all(),
    };
    let policy = ClaimPolicy {
        roles_claim: "realm_access.roles".to_owned(),
        ..ClaimPolicy::default()
    };
    let keys = Keyring::alone(SigningKey::generate().unwrap()).unwrap();
    let clock = clock.clone();
    let now = Arc::new(move || clock.now());
    let login = Login::new(config, Arc::new(policy), keys, server.cluster.clone(), now);
    login::router(Arc::new(login)).layer(from_fn_with_state(answers, count))
}

async fn count(
    State(answers): State<watch::Sender<usize>>,
    request: Request,
    next: Next,
) -> Response {
    let asks = request.uri().path() == renew::PATH;
    let answer = next.run(request).await;
    if asks {
        answers.send_modify(|count| *count += 1);
    }
    answer
}

/// What runs in the workspace: says something when asked, once and then no more, and what it hears.
fn app() -> Router {
    let once = async || {
        let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from("data: one\n\n"))]);
        let stream = first.chain(futures::stream::pending());
        let kind = [("content-type", "text/event-stream")];
        (kind, Body::from_stream(stream)).into_response()
    };
    let echo = async |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |mut socket| {
            while let Some(Ok(message)) = socket.recv().await {
                if matches!(message, Message::Text(_)) && socket.send(message).await.is_err() {
                    return;
                }
            }
        })
    };
    Router::new()
        .route("/", get(async || "hello"))
        .route("/events", get(once))
        .route("/socket", get(echo))
}

/// A proxy that routes to that one workspace, of alice's.
async fn proxy(
    issuer: &str,
    control: SocketAddr,
    app: SocketAddr,
    clock: &Clock,
    stopped: watch::Receiver<bool>,
) -> SocketAddr {
    let flags = [
        "nogoo9-proxy".to_owned(),
        format!("--public-url=http://{CONSOLE}"),
        format!("--workspace-domain={CONSOLE}"),
        format!("--issuer={issuer}"),
        format!("--control-url=http://{control}"),
    ];
    let settings = match load::<Args>(flags.map(Into::into)) {
        Ok(Loaded::Run(settings)) => settings,
        other => panic!("{other:?}"),
    };
    let table = Table::new();
    let pod = serde_json::from_value::<Pod>(json!({
        "metadata": {
            "name": "dev", "namespace": "workspaces", "uid": "dev-1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "nogoo9/type": "workspace", "nogoo9/managed-by": "nogoo9-spawner",
                "nogoo9/workspace-id": "dev", "nogoo9/generation": "1",
            },
            "annotations": {
                "nogoo9/user-sub": "alice", "nogoo9/workspace-port": app.port().to_string(),
            },
        },
        "spec": {"containers": [{"name": "main", "image": "sample:1"}]},
        "status": {
            "phase": "Running", "podIP": app.ip().to_string(),
            "conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    }));
    let pod = Arc::new(PodView::from_pod(&pod.unwrap()).unwrap());
    Writer::new(table.clone(), settings.hold.timeout).applied(pod, Instant::now());
    table.complete();
    let shared = Shared {
        table,
        sessions: Sessions::new(),
        lines: Lines::default(),
        holds: Holds::new(settings.hold),
        metrics: Metrics::new(&mut prometheus_client::registry::Registry::default()),
        clock: clock.clone(),
    };
    let edge = edge(&settings, shared).unwrap();
    let keys = edge.gate.auth.sessions().keys().clone();
    let ready = async {
        while !keys.is_ready() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ready).await.expect("keys");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stops = Stops {
        leaving: stopped,
        closing: CancellationToken::new(),
    };
    let connections = Connections::new(None, None);
    tokio::spawn(acceptor(&settings, edge, None, connections, stops).run(listener));
    address
}
