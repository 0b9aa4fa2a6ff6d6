//! Puts the parts together, runs them, and stops them in order.

use crate::accept::count::Connections;
use crate::accept::{self, Acceptor, Parts, Stops};
use crate::admin;
use crate::args::Settings;
use crate::ask::Asker;
use crate::busy::TowardsControl;
use crate::clock::Clock;
use crate::control::Control;
use crate::edge::Edge;
use crate::follow;
use crate::gate::Gate;
use crate::hold::{Bounds, Holds};
use crate::http2::Http2;
use crate::lines::Lines;
use crate::metrics::{Gauges, Metrics};
use crate::peers::Peers;
use crate::personal::Personal;
use crate::renew::Renewals;
use crate::retry::{Budget, Rate};
use crate::route::Router;
use crate::sessions::Sessions;
use crate::table::Table;
use crate::tls::{Store, Tls};
use crate::tunnel::closing::{close_now, close_over};
use anyhow::Context as _;
use nogoo9_identity::Authenticator;
use nogoo9_identity::cookie::CookieNames;
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::session::Sessions as SessionTokens;
use nogoo9_runtime::admin::Readiness;
use nogoo9_runtime::limit::Failures;
use nogoo9_runtime::trust::Trust;
use nogoo9_runtime::{admin as listener, audit, listen, shutdown::Shutdown};
use pingora::proxy::http_proxy;
use pingora::server::configuration::ServerConf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often slow conditions (keys, requests in flight) are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest wait for the first list of pods before requests are taken all the same: the console must
/// be reachable while the API server is not.
const FIRST_LIST: Duration = Duration::from_secs(10);
/// Unused connections to pods kept, in all.
const POOL: usize = 2048;

/// What the last socket that a stopping proxy closes may take to end, once it is told to.
const LAST_SOCKET: Duration = Duration::from_secs(5);
/// What a proxy that is to stop at once waits for sockets to take their Close, and what is left to one that
/// is held when it is told that no pod has come.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Runs the proxy until it is told to stop.
///
/// # Errors
/// It cannot start, by what and which flag.
pub fn run(settings: Settings) -> anyhow::Result<()> {
    settings.common.telemetry.install()?;
    // Refused if one is installed already; either will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("nogoo9-proxy")
        .build()
        .context("the runtime cannot be started")?;
    let result = runtime.block_on(serve(settings));
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

async fn serve(settings: Settings) -> anyhow::Result<()> {
    // Each request holds two sockets, and each WebSocket for days.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let shutdown = Shutdown::listen().context("signals cannot be received")?;
    let public = accept::bind(settings.common.public.listen, settings.accept.reuse_port)?;
    let admin_listener = listen::bind("admin-listen", settings.common.admin.listen).await?;
    let address = public.address;
    let readiness = Readiness::new();
    let pods_check = readiness.register("pods", "waiting for the first list of pods");
    let keys_check = readiness.register("session-keys", "waiting for control's public keys");

    let table = Table::new();
    let sessions = Sessions::new();
    let lines = Lines::default();
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = Metrics::new(&mut registry);
    registry.register_collector(Box::new(listener::Tasks::here()));
    let tls = secured(&settings, &metrics)?;
    let watch = follow::pods(&settings, &table, &sessions, &lines, &metrics).await?;
    // It decides nothing: a proxy that hears nothing of the API server serves on, and all would turn
    // red at once.
    let age = watch.status();
    readiness.show("table-age-seconds", move || age.age().as_secs().to_string());
    let holds = Holds::new(settings.hold);
    let connections = Connections::new(
        settings.accept.connections,
        settings.accept.connections_each,
    );
    registry.register_collector(Box::new(Gauges {
        table: table.clone(),
        sessions: sessions.clone(),
        holds: holds.clone(),
        connections: connections.clone(),
        watch: watch.status(),
    }));

    let shared = Shared {
        table: table.clone(),
        sessions: sessions.clone(),
        lines,
        holds,
        metrics,
        clock: Clock::system(),
    };
    let edge = edge(&settings, shared)?;
    let session_keys = edge.gate.auth.sessions().keys().clone();
    tokio::spawn({
        let session_keys = session_keys.clone();
        async move {
            ready(&session_keys).await;
            keys_check.ready();
        }
    });
    tokio::spawn(audit::tell_what_is_left_out());

    let admin_routes =
        listener::router(readiness.clone(), Arc::new(registry)).merge(admin::router(
            table.clone(),
            sessions.clone(),
            settings.common.admin.token.clone(),
        ));
    let admin_stop = CancellationToken::new();
    let admin_task = tokio::spawn(listener::serve(
        admin_listener,
        admin_routes,
        admin_stop.clone(),
    ));

    let listed = async {
        watch.synced().await;
        if settings.accept.reuse_port {
            // Others may serve on the same address, who have what this one still waits for.
            ready(&session_keys).await;
        }
    };
    tokio::select! {
        () = listed => {}
        () = tokio::time::sleep(FIRST_LIST) => tracing::warn!(
            "no list of pods, or no session keys, yet: serving what can be served; check --kubeconfig and that its API server answers, and --session-keys"
        ),
        () = shutdown.graceful.cancelled() => return Ok(()),
    }
    let public = public.listen()?;
    tokio::spawn({
        let status = watch.status();
        async move {
            status.synced().await;
            pods_check.ready();
        }
    });

    let sockets = edge.sockets.clone();
    let (leave, leaving) = tokio::sync::watch::channel(false);
    let (closing, last_call) = (edge.stopping.clone(), edge.last_call.clone());
    let stops = Stops {
        leaving,
        closing: closing.clone(),
    };
    let serving = tokio::spawn(acceptor(&settings, edge, tls, connections, stops).run(public));
    tracing::info!(%address, url = %settings.common.public.url, "serving");

    shutdown.graceful.cancelled().await;
    let stopping = readiness.register("stopping", "this proxy stops");
    stopping.not_ready("this proxy stops");
    // Clients are told with each answer, so that few are left when the listener closes.
    let _ = leave.send(true);
    until(&shutdown, tokio::time::sleep(settings.drain)).await;
    // The listener closes, unused connections close, requests in flight go on, held ones too.
    closing.cancel();
    let open = sessions.stop();
    sockets.close();
    tracing::info!(sockets = open.len(), "the listener is closed");
    let window = settings.sockets.close_window;
    let most = settings.stop_timeout.max(window + LAST_SOCKET);
    tokio::spawn(async move {
        tokio::time::sleep(most.saturating_sub(LAST_WORD)).await;
        last_call.cancel();
    });
    let finishing = tokio::time::timeout(most, async {
        close_over(&open, window).await;
        let _ = serving.await;
        sockets.wait().await;
        idle(&sessions).await;
    });
    until(&shutdown, async {
        if finishing.await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
    })
    .await;
    // Told to stop at once, it still says goodbye.
    close_now(&open);
    let _ = tokio::time::timeout(LAST_WORD, sockets.wait()).await;
    admin_stop.cancel();
    let _ = admin_task.await;
    Ok(())
}

/// Waits for `what`, or for the second signal.
async fn until(shutdown: &Shutdown, what: impl Future<Output = ()>) {
    tokio::select! {
        () = what => {}
        () = shutdown.force.cancelled() => {}
    }
}

async fn idle(sessions: &Sessions) {
    while sessions.count(crate::sessions::Kind::Request) > 0 {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What the edge shares with what goes on beside it.
#[derive(Debug)]
pub struct Shared {
    /// Which workspaces there are, and where.
    pub table: Table,
    /// What is open.
    pub sessions: Sessions,
    /// Connections to pods.
    pub lines: Lines,
    /// What is held.
    pub holds: Holds,
    /// What is counted.
    pub metrics: Metrics,
    /// What tokens and sessions are judged by.
    pub clock: Clock,
}

/// The edge by these settings, with the tasks that it rests on; for [`acceptor`].
///
/// # Errors
/// A part that cannot be made, by its flag.
pub fn edge(settings: &Settings, shared: Shared) -> anyhow::Result<Edge> {
    let Shared {
        table,
        sessions,
        lines,
        holds,
        metrics,
        clock,
    } = shared;
    let auth = authenticator(settings)?;
    let control = Control::new(&settings.control);
    let scheme = match settings.common.public.url.scheme() {
        "https" => "https",
        _ => "http",
    };
    let asker =
        Asker::new(control.clone(), auth.names(), scheme).context("no HTTP client can be made")?;
    let renewals = Renewals::start(
        control.clone(),
        settings.session_grace,
        metrics.clone(),
        clock.clone(),
    )
    .context("no HTTP client can be made")?;
    let personal = Personal::new(control.clone()).context("no HTTP client can be made")?;
    tokio::spawn(control.clone().follow());
    let peers = Peers::new(
        settings.peers.clone(),
        &settings.common.admin,
        metrics.peers_asked.clone(),
    )
    .context("no HTTP client can be made")?;
    let router = Router::new(&settings.common.public);
    let failures = settings.common.auth_failures;
    let failures = failures.map(|most| Failures::per_minute(most, metrics.failures.clone()));
    Ok(Edge {
        gate: Gate::new(router, table, auth, settings.common.public.url.clone())
            .with_scopes(settings.common.identity.scopes_claim.is_some()),
        control,
        asker,
        personal,
        renewals,
        clock,
        busy: settings.accept.busy,
        towards_control: TowardsControl::new(&settings.accept.busy),
        max_body: settings.accept.max_body,
        max_bearer_age: settings.max_bearer_age,
        socket_idle: settings.sockets.idle,
        trusted: settings.trusted.clone(),
        failures,
        sessions,
        peers,
        lines,
        holds,
        streams: Holds::new(Bounds::of_streams(settings.hold)),
        metrics,
        repeats: Budget::new(Rate::OF_PROXY),
        sockets: TaskTracker::new(),
        stopping: CancellationToken::new(),
        last_call: CancellationToken::new(),
    })
}

/// What takes connections in front of `edge`, until `stops` say otherwise.
#[must_use]
pub fn acceptor(
    settings: &Settings,
    edge: Edge,
    tls: Option<Tls>,
    connections: Connections,
    stops: Stops,
) -> Acceptor {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let conf = Arc::new(ServerConf {
        threads,
        // Ours is the smaller bound, with back-off and a deadline.
        max_retries: 2 * crate::dial::MAX_ATTEMPTS as usize,
        upstream_keepalive_pool_size: POOL,
        ..ServerConf::default()
    });
    let metrics = edge.metrics.accept.clone();
    let http2 = Http2 {
        clear: settings.h2c,
        limits: settings.http2.clone(),
        shared: settings.http2.shared(),
        metrics: edge.metrics.http2.clone(),
    };
    Acceptor::new(Parts {
        app: Arc::new(http_proxy(&conf, edge)),
        limits: settings.accept.clone(),
        trusted: settings.trusted.clone(),
        http2,
        tls,
        connections,
        metrics,
        stops,
    })
}

/// TLS, with its certificates, which are looked at from now on; `None`: it ends in front of us.
fn secured(settings: &Settings, metrics: &Metrics) -> anyhow::Result<Option<Tls>> {
    let Some(source) = &settings.tls else {
        return Ok(None);
    };
    let store = Store::open(source.clone(), metrics.tls.clone());
    let store = Arc::new(store.context("--tls-cert, --tls-key, --tls-dir")?);
    tokio::spawn(store.clone().follow());
    let tls = Tls::new(store, metrics.tls.clone());
    Ok(Some(tls.context("TLS cannot be set up")?))
}

/// What tells who calls: bearer tokens as control checks them, sessions by control's public keys.
fn authenticator(settings: &Settings) -> anyhow::Result<Arc<Authenticator>> {
    let trust = Trust::new(&settings.common.identity);
    let (bearers, refreshers) = trust.bearers()?;
    // For as long as the process lives.
    refreshers.spawn().detach_all();
    let (session, refresh_session) = Keys::new(settings.session_keys.clone());
    tokio::spawn(refresh_session.run());
    let url = &settings.common.public.url;
    let tokens = SessionTokens::new(url.as_str(), trust.policy, session);
    Ok(Arc::new(Authenticator::new(
        bearers,
        tokens,
        CookieNames::new(url.scheme() == "https"),
    )))
}

/// Waits for control's public keys. Once read they stay in use for longer than any session lives, should
/// control be away.
async fn ready(keys: &Keys) {
    while !keys.is_ready() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
