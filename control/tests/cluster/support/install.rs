//! A control without listeners and without its driver of bulks, whose part the tests play.

use nogoo9_control::cluster::{Caches, Cluster};
use nogoo9_control::config::Args;
use nogoo9_control::lease::Leadership;
use nogoo9_control::service::{Feed, Links, Metrics, Parts, Service};
use nogoo9_control::template::source::Source;
use nogoo9_control::upgrade::{Engine, EngineConfig, Proxies};
use nogoo9_model::access::{Caller, Role};
use nogoo9_runtime::config::{Loaded, load};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Longest wait for anything to come true.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

pub(crate) fn caller(sub: &str, role: Role) -> Caller {
    Caller {
        sub: sub.into(),
        roles: Vec::new(),
        role,
        scopes: None,
    }
}

pub(crate) fn admin() -> Caller {
    caller("root", Role::Admin)
}

pub(crate) async fn until(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !check().await {
        assert!(Instant::now() < end, "{what}: it did not come true");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Ends when dropped.
pub(crate) struct Install {
    pub(crate) cluster: Cluster,
    pub(crate) caches: Arc<Caches>,
    templates: Source,
    engine: Engine,
    proxies: Proxies,
    links: Links,
    stop: CancellationToken,
    _worker: Option<AbortOnDropHandle<()>>,
}

impl Drop for Install {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Install {
    /// One that believes to lead, whoever else does.
    pub(crate) async fn start(cluster: Cluster) -> Self {
        Self::with_engine(cluster, true).await
    }

    /// One whose engine never runs: nobody looks after pods.
    pub(crate) async fn idle(cluster: Cluster) -> Self {
        Self::with_engine(cluster, false).await
    }

    async fn with_engine(cluster: Cluster, runs: bool) -> Self {
        let flags = [
            "nogoo9-control",
            "--public-url=http://localhost:9009",
            "--issuer=http://localhost:9011",
            "--client-id=nogoo9",
        ];
        let settings = match load::<Args>(flags.into_iter().map(Into::into)) {
            Ok(Loaded::Run(settings)) => settings,
            other => panic!("{:?}", other.err().map(|error| error.to_string())),
        };
        let templates = Source::start(&cluster, None).unwrap();
        let proxies = Proxies::new(Vec::new(), None).unwrap();
        let (engine, worker) = Engine::new(EngineConfig {
            cluster: cluster.clone(),
            proxies: proxies.clone(),
        });
        let poke = engine.clone();
        let caches = Arc::new(Caches::start(&cluster, move |id: &str| poke.poke(id)));
        let stop = CancellationToken::new();
        let worker = runs.then(|| {
            let run = worker.run(caches.clone(), Leadership::unopposed(), stop.clone());
            AbortOnDropHandle::new(tokio::spawn(run))
        });
        tokio::join!(caches.synced(), templates.synced());
        Self {
            cluster,
            caches,
            templates,
            engine,
            proxies,
            links: Links::new(&settings.common.public),
            stop,
            _worker: worker,
        }
    }

    /// Its commands.
    pub(crate) fn service(&self) -> Service {
        self.service_through(self.cluster.clone())
    }

    /// Its commands, by other calls.
    pub(crate) fn service_through(&self, cluster: Cluster) -> Service {
        Service::new(Parts {
            cluster,
            caches: self.caches.clone(),
            engine: self.engine.clone(),
            proxies: self.proxies.clone(),
            templates: self.templates.clone(),
            links: self.links.clone(),
            metrics: Metrics::default(),
            feed: Feed::default(),
        })
    }
}
