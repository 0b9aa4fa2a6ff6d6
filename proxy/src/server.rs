//! Puts the parts together, runs them, and stops them in order.

use crate::admin;
use crate::args::Settings;
use crate::ask::Asker;
use crate::clock::Clock;
use crate::control::Control;
use crate::edge::Edge;
use crate::follow;
use crate::gate::Gate;
use crate::hold::Holds;
use crate::metrics::{Gauges, Metrics};
use crate::personal::Personal;
use crate::renew::Renewals;
use crate::route::Router;
use crate::sessions::{End, Sessions};
use crate::table::Table;
use anyhow::Context as _;
use nogoo9_identity::Authenticator;
use nogoo9_identity::cookie::CookieNames;
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::session::Sessions as SessionTokens;
use nogoo9_runtime::admin::{Check, Readiness};
use nogoo9_runtime::limit::Failures;
use nogoo9_runtime::trust::Trust;
use nogoo9_runtime::{admin as listener, audit, listen, shutdown::Shutdown};
use pingora::apps::HttpServerOptions;
use pingora::listeners::ListenerConfig;
use pingora::listeners::TcpSocketOptions;
use pingora::protocols::TcpKeepalive;
use pingora::protocols::l4::stream::L4BufferSettings;
use pingora::proxy::ProxyServiceBuilder;
use pingora::server::configuration::ServerConf;
use pingora::server::{Fds, ListenFds};
use pingora::services::Service as _;
use std::os::fd::IntoRawFd as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// How often slow conditions (keys, requests in flight) are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest wait for the first list of pods before requests are taken all the same: the console must
/// be reachable while the API server is not.
const FIRST_LIST: Duration = Duration::from_secs(10);
/// Read buffer of a connection, in bytes: an idle socket keeps it.
const READ_BUFFER: usize = 4096;
/// Write buffer of a connection, in bytes: one packet.
const WRITE_BUFFER: usize = 1460;
/// Unused connections to pods kept, in all.
const POOL: usize = 2048;

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
    let shutdown = Shutdown::listen().context("signals cannot be received")?;
    let public = listen::bind("listen", settings.common.public.listen).await?;
    let admin_listener = listen::bind("admin-listen", settings.common.admin.listen).await?;
    let address = public.local_addr().context("--listen")?;
    let readiness = Readiness::new();
    let pods_check = readiness.register("pods", "waiting for the first list of pods");
    let keys_check = readiness.register("session-keys", "waiting for control's public keys");

    let table = Table::new();
    let sessions = Sessions::new();
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = Metrics::new(&mut registry);
    let watch = follow::pods(&settings, &table, &sessions, &metrics).await?;
    let holds = Holds::new(settings.hold);
    registry.register_collector(Box::new(Gauges {
        table: table.clone(),
        sessions: sessions.clone(),
        holds: holds.clone(),
        watch: watch.status(),
    }));

    let shared = Shared {
        table: table.clone(),
        sessions: sessions.clone(),
        holds,
        metrics,
        clock: Clock::system(),
    };
    let edge = edge(&settings, shared)?;
    let session_keys = edge.gate.auth.sessions().keys().clone();
    tokio::spawn(ready_when_keys(session_keys, keys_check));
    tokio::spawn(audit::tell_what_is_left_out());

    let admin_routes =
        listener::router(readiness.clone(), Arc::new(registry)).merge(admin::router(
            table.clone(),
            sessions.clone(),
            settings.common.admin.token.clone(),
        ));
    let admin_stop = tokio_util::sync::CancellationToken::new();
    let admin_task = tokio::spawn(listener::serve(
        admin_listener,
        admin_routes,
        admin_stop.clone(),
    ));

    tokio::select! {
        () = watch.synced() => {}
        () = tokio::time::sleep(FIRST_LIST) => tracing::warn!(
            "no list of pods yet, serving the console alone; check --kubeconfig and that its API server answers"
        ),
        () = shutdown.graceful.cancelled() => return Ok(()),
    }
    tokio::spawn({
        let status = watch.status();
        async move {
            status.synced().await;
            pods_check.ready();
        }
    });

    let sockets = edge.sockets.clone();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let serving = start(&settings, edge, public, stopped)?;
    tracing::info!(%address, url = %settings.common.public.url, "serving");

    shutdown.graceful.cancelled().await;
    let stopping = readiness.register("stopping", "this proxy stops");
    stopping.not_ready("this proxy stops");
    until(&shutdown, tokio::time::sleep(settings.drain)).await;
    // The listener closes, unused connections close, requests in flight go on.
    let _ = stop.send(true);
    let ended = sessions.end_all(End::Restart);
    sockets.close();
    tracing::info!(sockets = ended, "the listener is closed");
    let finishing = tokio::time::timeout(settings.stop_timeout, async {
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
    /// What is held.
    pub holds: Holds,
    /// What is counted.
    pub metrics: Metrics,
    /// What tokens and sessions are judged by.
    pub clock: Clock,
}

/// The edge by these settings, with the tasks that it rests on; for [`start`].
///
/// # Errors
/// A part that cannot be made, by its flag.
pub fn edge(settings: &Settings, shared: Shared) -> anyhow::Result<Edge> {
    let Shared {
        table,
        sessions,
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
        max_bearer_age: settings.max_bearer_age,
        trusted: settings.trusted.clone(),
        failures,
        sessions,
        holds,
        metrics,
        sockets: TaskTracker::new(),
    })
}

/// Starts Pingora's listener on a socket that is bound already; it ends in order once `stopped` says
/// so.
///
/// # Errors
/// The socket cannot be used.
pub fn start(
    settings: &Settings,
    edge: Edge,
    public: TcpListener,
    stopped: pingora::server::ShutdownWatch,
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let conf = Arc::new(ServerConf {
        threads,
        // Ours is the smaller bound, with back-off and a deadline.
        max_retries: 2 * crate::dial::MAX_ATTEMPTS as usize,
        upstream_keepalive_pool_size: POOL,
        ..ServerConf::default()
    });
    let mut options = HttpServerOptions::default();
    options.h2c = settings.h2c;
    let mut service = ProxyServiceBuilder::new(&conf, edge)
        .name("edge")
        .server_options(options)
        .build();
    let mut socket = TcpSocketOptions::default();
    // A client that is gone without a word keeps its socket no longer than this.
    socket.tcp_keepalive = Some(TcpKeepalive {
        idle: Duration::from_secs(60),
        interval: Duration::from_secs(10),
        count: 6,
        user_timeout: Duration::from_secs(120),
    });
    let name = public.local_addr().context("--listen")?.to_string();
    service.add_listener(
        ListenerConfig::tcp(name.clone())
            .tcp_socket_options(socket)
            .l4_buffer(L4BufferSettings::new(READ_BUFFER, WRITE_BUFFER)),
    );
    // Bound by us, so that a port in use is an error with the flag's name and not a panic.
    let mut fds = Fds::new();
    fds.add(name, public.into_std().context("--listen")?.into_raw_fd());
    let fds: ListenFds = Arc::new(fds.into());
    Ok(tokio::spawn(async move {
        service.start_service(Some(fds), stopped, 1).await;
    }))
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

async fn ready_when_keys(keys: Keys, check: Check) {
    // Once read they stay in use for longer than any session lives, should control be away.
    while !keys.is_ready() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    check.ready();
}
