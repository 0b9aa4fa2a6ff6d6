//! The process: parts put together, listeners, readiness, and an orderly end.

use crate::bulk;
use crate::cluster::{Caches, Cluster, DeletionCap};
use crate::config::Settings;
use crate::http::{App, Auth, Resource, limits, router, watched};
use crate::lease::Election;
use crate::login::keys::{Keyring, keep, load_or_create};
use crate::login::{self, Login, LoginConfig};
use crate::personal::{PersonalTokens, sweep_expired};
use crate::service::{Feed, Links, Metrics, Parts, Service};
use crate::session::sweep;
use crate::template::source::Source;
use crate::upgrade::{Discovery, Engine, EngineConfig, Proxies};
use anyhow::Context as _;
use axum::Router;
use nogoo9_identity::Authenticator;
use nogoo9_identity::bearer::Bearers;
use nogoo9_identity::cookie::CookieNames;
use nogoo9_identity::session::Sessions;
use nogoo9_runtime::kube::{Connection, Retry, connect};
use nogoo9_runtime::limit::{Counted, Failures};
use nogoo9_runtime::shutdown::Shutdown;
use nogoo9_runtime::trust::Trust;
use nogoo9_runtime::{admin, audit, listen};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

/// How long open requests and passes may take to finish once stopping.
const STOP_GRACE: Duration = Duration::from_secs(8);
/// First pause before the session keys are asked for again; doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(500);
/// Longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Runs control until it is told to stop.
///
/// # Errors
/// What keeps it from starting, with the flag or object and what to do.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let shutdown = Shutdown::listen().context("signals cannot be listened for")?;
    // Sockets and cluster first: whatever is wrong with them is said before anything has begun.
    let public = listen::bind("listen", settings.common.public.listen).await?;
    let admin_listener = listen::bind("admin-listen", settings.common.admin.listen).await?;
    let connection = connect(settings.common.kube.kubeconfig.as_deref(), Retry::Off).await?;
    connection
        .check(&settings.common.kube.workspaces_namespace)
        .await?;

    let readiness = admin::Readiness::new();
    let keys_check = readiness.register("session-keys", "waiting for the session key");
    let cache_check = readiness.register(
        "cluster",
        "waiting for the first list of records, pods and operations",
    );
    let template_check = readiness.register("templates", "waiting for the first list of templates");
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let gauges = Gauges::register(&mut registry);
    registry.register_collector(Box::new(admin::Tasks::here()));
    let admin_stop = CancellationToken::new();
    let admin_router = admin::router(readiness, Arc::new(registry));
    let admin_server = tokio::spawn(admin::serve(
        admin_listener,
        admin_router,
        admin_stop.clone(),
    ));

    let Some(keys) = session_keys(&connection, &settings, &shutdown.graceful).await? else {
        return Ok(());
    };
    keys_check.ready();
    let kept = keep(
        keys.clone(),
        connection.client.clone(),
        settings.namespace.clone(),
        settings.rotation,
        connection.clock.clone(),
        shutdown.graceful.clone(),
    );
    tokio::spawn(kept);
    tokio::spawn(audit::tell_what_is_left_out());
    let control = Control::start(
        &settings,
        &connection,
        &keys,
        metrics,
        gauges,
        shutdown.graceful.clone(),
    )?;
    let (caches, templates) = (control.caches.clone(), control.templates.clone());
    tokio::spawn(async move {
        tokio::join!(
            async {
                caches.synced().await;
                cache_check.ready();
            },
            async {
                templates.synced().await;
                template_check.ready();
            }
        )
    });
    tracing::info!(listen = %settings.common.public.listen, url = %settings.common.public.url, "control is listening");
    let graceful = shutdown.graceful.clone();
    let server = axum::serve(public, control.router)
        .with_graceful_shutdown(graceful.clone().cancelled_owned());
    tokio::select! {
        served = server.into_future() => served.context("the listener failed")?,
        () = async { graceful.cancelled().await; tokio::time::sleep(STOP_GRACE).await } => {
            tracing::warn!("requests still open are dropped");
        }
        () = shutdown.force.cancelled() => {}
    }
    // The engine ends between two writes; what it leaves undone, the next start goes on with.
    let _late = tokio::time::timeout(STOP_GRACE, control.engine).await;
    admin_stop.cancel();
    let _late = tokio::time::timeout(STOP_GRACE, admin_server).await;
    Ok(())
}

/// The session keys, from the cluster, as soon as it answers. `None`: stopped meanwhile.
async fn session_keys(
    connection: &Connection,
    settings: &Settings,
    stop: &CancellationToken,
) -> anyhow::Result<Option<Keyring>> {
    let mut pause = MIN_PAUSE;
    loop {
        let client = connection.client.clone();
        let now = connection.clock.now();
        match load_or_create(client, &settings.namespace, &settings.rotation, now).await {
            Ok(keys) => return Ok(Some(keys)),
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "no session keys yet; trying again");
            }
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = pause.saturating_mul(2).min(MAX_PAUSE),
            () = stop.cancelled() => return Ok(None),
        }
    }
}

/// Gauges of the parts that are put together here.
#[derive(Debug, Clone, Default)]
pub struct Gauges {
    leader: Gauge,
    capped: Gauge,
    failures: Counted,
}

impl Gauges {
    /// Gauges that `registry` shows.
    pub fn register(registry: &mut Registry) -> Self {
        let gauges = Self {
            failures: Counted::register(registry),
            ..Self::default()
        };
        registry.register(
            "nogoo9_leader",
            "Whether this control reconciles: 1 in one of several, else 0",
            gauges.leader.clone(),
        );
        registry.register(
            "nogoo9_deletions_capped",
            "Workspaces whose pods wait to be deleted since more are to be deleted than is plausible",
            gauges.capped.clone(),
        );
        gauges
    }
}

/// Control without its listeners: what a test can put on a listener of its own.
pub struct Control {
    /// All routes.
    pub router: Router,
    /// What the watches know.
    pub caches: Arc<Caches>,
    /// Templates.
    pub templates: Source,
    /// Ends after the engine was told to stop and has finished its passes.
    pub engine: JoinHandle<()>,
}

impl Control {
    /// Puts the parts together and starts the watches and the engine; `stop` ends them.
    ///
    /// # Errors
    /// A part that cannot be made.
    pub fn start(
        settings: &Settings,
        connection: &Connection,
        keys: &Keyring,
        metrics: Metrics,
        gauges: Gauges,
        stop: CancellationToken,
    ) -> anyhow::Result<Self> {
        let common = &settings.common;
        let cluster = Cluster::new(
            connection,
            settings.namespace.clone(),
            common.kube.workspaces_namespace.clone(),
        )
        .with_cap(DeletionCap::new(gauges.capped))
        .with_events(&settings.instance);
        let templates = Source::start(&cluster, settings.templates_dir.clone())
            .context("--templates-dir cannot be read")?;
        let mut proxies = Proxies::new(settings.proxies.clone(), common.admin.token.clone())
            .context("no HTTP client can be made")?;
        if let Some(service) = &settings.proxy_service {
            let discovery = Discovery::start(&cluster, service);
            proxies = proxies.discovered_by(Arc::new(discovery));
        } else if settings.proxies.is_empty() {
            tracing::warn!(
                "no proxy is named (--proxy-service, --proxy-admin): upgrades end old pods without asking"
            );
        }
        let (engine, worker) = Engine::new(EngineConfig {
            cluster: cluster.clone(),
            proxies: proxies.clone(),
        });
        let poke = engine.clone();
        let caches = Arc::new(Caches::start(&cluster, move |id: &str| poke.poke(id)));
        let instance = settings.instance.clone();
        let (election, leadership) = Election::start(cluster.clone(), instance, gauges.leader);
        let worker = worker.run(caches.clone(), leadership.clone(), stop.clone());
        let worker = tokio::spawn(worker);
        let swept = cluster.clone();
        let sessions = leadership
            .clone()
            .while_leading(stop.clone(), move |stop| sweep(swept.clone(), stop));
        let sessions = tokio::spawn(sessions);
        let trust = Trust::new(&common.identity);
        let login = login(settings, &trust, keys.clone(), &cluster, connection);
        let login = Arc::new(login);
        let most = common.auth_failures;
        let failures = most.map(|most| Arc::new(Failures::per_minute(most, gauges.failures)));
        let personal =
            PersonalTokens::new(cluster.clone(), trust.policy.clone()).limited_by(failures.clone());
        let swept = cluster.clone();
        let tokens = leadership
            .clone()
            .while_leading(stop.clone(), move |stop| sweep_expired(swept.clone(), stop));
        let tokens = tokio::spawn(tokens);
        let service = Service::new(Parts {
            cluster,
            caches: caches.clone(),
            engine,
            proxies,
            templates: templates.clone(),
            links: Links::new(&common.public),
            metrics,
            feed: Feed::default(),
        })
        .with_max_workspaces(settings.max_workspaces)
        .with_template_authors(settings.template_authors.clone());
        let driven = service.clone();
        let bulks =
            leadership.while_leading(stop.clone(), move |stop| bulk::run(driven.clone(), stop));
        let bulks = tokio::spawn(bulks);

        let (bearers, refreshers) = trust.bearers()?;
        let authenticator = authenticator(settings, keys, bearers, &trust);
        let refreshers = refreshers.spawn();
        let app = App {
            service,
            auth: Auth::new(
                Arc::new(authenticator),
                login.clone(),
                personal,
                &common.public.url,
                Resource::new(&common.public.url, &common.identity, &settings.login_scopes),
                connection.clock.clone(),
            ),
            public: common.public.url.clone(),
            issuer: Url::parse(&common.identity.issuer).context("--issuer is no URL")?,
            stop: stop.clone(),
        };
        let router = limits(router(app).merge(login::router(login)));
        let router = watched(router, failures);
        let engine = tokio::spawn(async move {
            // Keys are refreshed for as long as the engine runs.
            let _refreshers = refreshers;
            if let Err(error) = tokio::try_join!(worker, bulks, sessions, tokens) {
                tracing::error!(%error, "the engine ended by itself");
                stop.cancel();
            }
            // Only now: whoever leads next shall find nobody at work.
            election.resign().await;
        });
        Ok(Self {
            router,
            caches,
            templates,
            engine,
        })
    }
}

/// What tells who calls: bearer tokens as the proxy checks them, sessions by our own keys.
fn authenticator(
    settings: &Settings,
    keys: &Keyring,
    bearers: Bearers,
    trust: &Trust,
) -> Authenticator {
    let public = &settings.common.public.url;
    let sessions = Sessions::new(public.as_str(), trust.policy.clone(), keys.public().clone());
    Authenticator::new(
        bearers,
        sessions,
        CookieNames::new(public.scheme() == "https"),
    )
}

fn login(
    settings: &Settings,
    trust: &Trust,
    keys: Keyring,
    cluster: &Cluster,
    connection: &Connection,
) -> Login {
    let (public, identity) = (&settings.common.public, &settings.common.identity);
    let config = LoginConfig {
        public_url: public.url.clone(),
        workspace_domain: public.workspace_domain.to_string(),
        path_host: public.path_host.as_ref().map(ToString::to_string),
        issuer: identity.issuer.clone(),
        issuer_roots: trust.roots.clone(),
        client_id: settings.client_id.clone(),
        client_secret: settings
            .client_secret
            .as_ref()
            .map(|secret| secret.expose().to_owned()),
        // The browser's session rests on the ID token; no access token of its own is needed.
        resource: None,
        scopes: settings.login_scopes.clone(),
        limits: settings.sessions,
        session_roles: settings.session_roles.clone(),
    };
    let clock = connection.clock.clone();
    let clock = Arc::new(move || clock.now());
    Login::new(config, trust.policy.clone(), keys, cluster.clone(), clock)
}
