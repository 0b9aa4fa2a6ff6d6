//! Kills whoever drives a bulk at every write, in every way: the write lost, its reply lost, an
//! error answered. Whoever goes on afterwards has no memory of it. Each workspace must have one
//! result and be upgraded once, and never more of them at a time than was asked for.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod support;

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use nogoo9_control::bulk::{Memory, Next, pass};
use nogoo9_control::cluster::{Caches, Cluster};
use nogoo9_control::config::{Args, Settings};
use nogoo9_control::lease::Leadership;
use nogoo9_control::service::{
    DeleteWorkspace, Feed, GetOperation, Links, Metrics, Operation, Parts, Service, SpawnWorkspace,
    UpgradeAllWorkspaces,
};
use nogoo9_control::template::source::Source;
use nogoo9_control::upgrade::{Engine, EngineConfig, Proxies};
use nogoo9_model::access::{Caller, Role};
use nogoo9_model::bulk::{CHUNK, Head, Target, TargetState, child, chunks};
use nogoo9_model::operation::{self, Kind, State};
use nogoo9_model::record::Phase;
use nogoo9_runtime::config::{Loaded, load};
use serde_json::{Map, json};
use std::sync::Arc;
use std::time::Duration;
use support::{Fault, Faults, SYSTEM, Site};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Longest wait for anything to come true.
const PATIENCE: Duration = Duration::from_secs(240);
/// The shortest way to the end: three records, two chunks for three targets in two goes, and the head
/// before, between and after.
const FEWEST_WRITES: usize = 8;
/// Upgrades at once.
const PARALLEL: u32 = 2;

fn caller(sub: &str, role: Role) -> Caller {
    Caller {
        sub: sub.into(),
        roles: Vec::new(),
        role,
        scopes: None,
    }
}

fn admin() -> Caller {
    caller("root", Role::Admin)
}

/// All of control but its driver of bulks, whose part the test plays.
struct Replica {
    cluster: Cluster,
    caches: Arc<Caches>,
    templates: Source,
    engine: Engine,
    proxies: Proxies,
    stop: CancellationToken,
    _worker: AbortOnDropHandle<()>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Replica {
    /// One that believes to lead, whoever else does.
    async fn start(site: &Site) -> Self {
        let cluster = site.cluster(&Faults::default());
        let templates = Source::start(&cluster, None).unwrap();
        let proxies = Proxies::new(Vec::new(), None).unwrap();
        let (engine, worker) = Engine::new(EngineConfig {
            cluster: cluster.clone(),
            proxies: proxies.clone(),
        });
        let poke = engine.clone();
        let caches = Arc::new(Caches::start(&cluster, move |id: &str| poke.poke(id)));
        let stop = CancellationToken::new();
        let leadership = Leadership::unopposed();
        let worker = tokio::spawn(worker.run(caches.clone(), leadership, stop.clone()));
        caches.synced().await;
        Self {
            cluster,
            caches,
            templates,
            engine,
            proxies,
            stop,
            _worker: AbortOnDropHandle::new(worker),
        }
    }
}

/// A cluster with a control.
struct World {
    site: Site,
    control: Replica,
    settings: Settings,
}

impl World {
    async fn start() -> Self {
        let site = Site::start().await;
        let control = Replica::start(&site).await;
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
        Self {
            site,
            control,
            settings,
        }
    }

    /// The commands, through these faults.
    fn service(&self, faults: &Faults) -> Service {
        self.service_of(&self.control, faults)
    }

    fn service_of(&self, control: &Replica, faults: &Faults) -> Service {
        Service::new(Parts {
            cluster: self.site.cluster(faults),
            caches: control.caches.clone(),
            engine: control.engine.clone(),
            proxies: control.proxies.clone(),
            templates: control.templates.clone(),
            links: Links::new(&self.settings.common.public),
            metrics: Metrics::default(),
            feed: Feed::default(),
        })
    }

    async fn template(&self, image: &str) {
        let api: Api<ConfigMap> = Api::namespaced(self.site.admin.clone(), SYSTEM);
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": "t", "labels": {"nogoo9/pod-template": "true"}, "annotations": {"nogoo9/settle": "0"}},
            "data": {"spec": format!("containers: [{{name: main, image: '{image}'}}]")},
        }))
        .unwrap();
        match api.get_opt("t").await.unwrap() {
            None => api.create(&PostParams::default(), &map).await,
            Some(_) => api.replace("t", &PostParams::default(), &map).await,
        }
        .unwrap();
    }

    /// Spawns workspaces of these owners, named after them and these letters, and brings them to life.
    async fn spawn(&self, owners: &[String], letters: &[&str]) {
        let service = self.service(&Faults::default());
        let ids: Vec<(String, String)> = owners
            .iter()
            .flat_map(|owner| {
                letters
                    .iter()
                    .map(move |letter| (owner.clone(), format!("{owner}-{letter}")))
            })
            .collect();
        join_all(ids.iter().map(|(owner, id)| {
            let args = SpawnWorkspace {
                template: "t".into(),
                id: Some(id.clone()),
                name: None,
                port: None,
                inputs: Map::new(),
                user_sub: None,
            };
            let service = service.clone();
            async move {
                service
                    .spawn_workspace(&caller(owner, Role::User), args)
                    .await
                    .unwrap()
            }
        }))
        .await;
        self.until("all run", async || {
            self.site.kubelet().await;
            let mut seen = ids.iter().map(|(_, id)| self.control.caches.workspace(id));
            seen.all(|listed| {
                listed.is_some_and(|listed| {
                    listed.record.value.pod.uid.is_some()
                        && listed.pods.iter().any(|pod| pod.ready.is)
                })
            })
        })
        .await;
    }

    async fn until(&self, what: &str, mut check: impl AsyncFnMut() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !check().await {
            assert!(Instant::now() < end, "{what}: it did not come true");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// One who drives a bulk, and loses all memory with every failure.
struct Driver {
    service: Service,
    memory: Memory,
    failures: usize,
}

impl Driver {
    fn new(world: &World, faults: &Faults) -> Self {
        Self::over(world.service(faults))
    }

    fn over(service: Service) -> Self {
        Self {
            service,
            memory: Memory::default(),
            failures: 0,
        }
    }

    /// One pass; `true`: the bulk has ended.
    async fn pass(&mut self, id: &str) -> bool {
        match pass(&self.service, &mut self.memory, id).await {
            Ok(next) => next == Next::Ended,
            Err(_) => {
                self.failures += 1;
                self.memory = Memory::default();
                false
            }
        }
    }
}

/// A bulk over one owner's workspaces, and those who drive it.
struct Scenario {
    owner: String,
    bulk: String,
    faults: Faults,
    drivers: Vec<Driver>,
    ended: bool,
}

impl Scenario {
    async fn begin(world: &World, owner: &str, faults: &[Faults]) -> Self {
        let drivers = faults.iter().map(|faults| Driver::new(world, faults));
        Self {
            faults: faults[0].clone(),
            ..Self::driven(world, owner, drivers.collect()).await
        }
    }

    async fn driven(world: &World, owner: &str, drivers: Vec<Driver>) -> Self {
        let args = UpgradeAllWorkspaces {
            max_parallel: Some(PARALLEL),
            user_sub: Some(owner.into()),
            ..UpgradeAllWorkspaces::default()
        };
        let service = world.service(&Faults::default());
        let begun = service
            .upgrade_all_workspaces(&admin(), &args)
            .await
            .unwrap();
        assert_eq!((begun.total, begun.upgraded), (4, 4), "{begun:?}");
        Self {
            owner: owner.into(),
            bulk: begun.operation_id.unwrap(),
            faults: Faults::default(),
            drivers,
            ended: false,
        }
    }

    async fn step(&mut self, world: &World) {
        let passes = self
            .drivers
            .iter_mut()
            .map(|driver| driver.pass(&self.bulk));
        self.ended = join_all(passes).await.into_iter().all(|ended| ended);
        let mut under_way = 0;
        for letter in ["a", "b", "c"] {
            let id = format!("{}-{letter}", self.owner);
            let record = world
                .control
                .cluster
                .record(&id)
                .await
                .unwrap()
                .unwrap()
                .value;
            let upgrade = record.upgrade.as_ref();
            under_way += u32::from(upgrade.is_some_and(|upgrade| upgrade.phase == Phase::Starting));
        }
        assert!(under_way <= PARALLEL, "{}: {under_way} at once", self.owner);
    }

    async fn check(&self, world: &World) {
        let service = world.service(&Faults::default());
        let args = GetOperation::first(self.bulk.clone());
        let seen: Operation = service.get_operation(&admin(), &args).await.unwrap();
        let counts = seen.counts.unwrap();
        assert_eq!(
            (seen.state, counts.total, counts.succeeded, counts.skipped),
            (State::Succeeded, 4, 3, 1),
            "{}: {seen:#?}",
            self.owner
        );
        for target in &seen.targets {
            let record = world.control.cluster.living(&target.id).await.unwrap();
            let part = child(&self.bulk, &target.id);
            let part = world.control.cluster.operation(&part).await.unwrap();
            if target.id.ends_with("-d") {
                assert_eq!(target.state, TargetState::Skipped);
                assert_eq!(target.error.as_ref().unwrap().reason, "Gone");
                assert!(record.is_none() && part.is_none());
                continue;
            }
            let (record, part) = (record.unwrap().value, part.unwrap().value);
            assert_eq!(target.state, TargetState::Succeeded, "{}", target.id);
            assert_eq!(
                record.generation, 2,
                "{} was upgraded more than once",
                target.id
            );
            assert_eq!(Some(&record.template.version), target.to_version.as_ref());
            assert_eq!(Some(&record.pod.name), target.pod_name.as_ref());
            assert_eq!(record.owner, self.owner);
            assert_eq!(
                (part.state, part.actor.as_str(), part.parent.as_ref()),
                (State::Succeeded, "root", Some(&self.bulk))
            );
        }
    }
}

async fn run(world: &World, scenarios: &mut [Scenario]) {
    // Of each, one goes before its turn.
    let service = world.service(&Faults::default());
    for scenario in &*scenarios {
        let args = DeleteWorkspace {
            id: format!("{}-d", scenario.owner),
            delete_data: false,
        };
        service.delete_workspace(&admin(), &args).await.unwrap();
    }
    world
        .until("those that are deleted are gone", async || {
            let mut gone = scenarios
                .iter()
                .map(|scenario| format!("{}-d", scenario.owner));
            gone.all(|id| world.control.caches.record(&id).is_none())
        })
        .await;
    let end = Instant::now() + PATIENCE;
    while scenarios.iter().any(|scenario| !scenario.ended) {
        assert!(Instant::now() < end, "the bulks did not end");
        join_all(
            scenarios
                .iter_mut()
                .filter(|scenario| !scenario.ended)
                .map(|s| s.step(world)),
        )
        .await;
        world.site.kubelet().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for scenario in &*scenarios {
        scenario.check(world).await;
    }
}

fn owners(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

#[tokio::test]
async fn every_write_may_be_the_last() {
    let world = World::start().await;
    let kinds = [
        Fault::Lost,
        Fault::ReplyLost,
        Fault::Status(500),
        Fault::Status(409),
    ];
    // Ten bulks at once are what is let in.
    for (round, kind) in kinds.into_iter().enumerate() {
        let owners = owners(&format!("r{round}u"), 10);
        world.template(&format!("image:{round}")).await;
        world.spawn(&owners, &["a", "b", "c", "d"]).await;
        world.template(&format!("image:{}", round + 1)).await;
        let mut scenarios = Vec::new();
        for (n, owner) in owners.iter().enumerate() {
            let faults = Faults::at(n + 1, kind);
            scenarios.push(Scenario::begin(&world, owner, &[faults]).await);
        }
        run(&world, &mut scenarios).await;
        for (n, scenario) in scenarios.iter().enumerate() {
            assert!(
                scenario.faults.struck() || n >= FEWEST_WRITES,
                "{}: {:#?}",
                scenario.owner,
                scenario.faults.made()
            );
            let failures: usize = scenario.drivers.iter().map(|driver| driver.failures).sum();
            assert!(failures <= 1, "one fault, one failed pass: {failures}");
        }
    }
}

#[tokio::test]
async fn two_drivers_at_once_do_it_once() {
    let world = World::start().await;
    let owners = owners("u", 6);
    world.template("image:1").await;
    world.spawn(&owners, &["a", "b", "c", "d"]).await;
    world.template("image:2").await;
    let mut scenarios = Vec::new();
    for owner in &owners {
        let faults = [Faults::default(), Faults::default()];
        scenarios.push(Scenario::begin(&world, owner, &faults).await);
    }
    run(&world, &mut scenarios).await;
    for scenario in &scenarios {
        for driver in &scenario.drivers {
            assert_eq!(driver.failures, 0, "lost races are no failures");
        }
    }
}

/// Two whole controls, each of which believes to lead: their engines work on the same pods, their
/// drivers on the same bulks.
#[tokio::test]
async fn two_controls_that_both_lead_do_it_once() {
    let world = World::start().await;
    let other = Replica::start(&world.site).await;
    let owners = owners("u", 6);
    world.template("image:1").await;
    world.spawn(&owners, &["a", "b", "c", "d"]).await;
    world.template("image:2").await;
    let mut scenarios = Vec::new();
    for owner in &owners {
        let services =
            [&world.control, &other].map(|control| world.service_of(control, &Faults::default()));
        let drivers = services.map(Driver::over).into();
        scenarios.push(Scenario::driven(&world, owner, drivers).await);
    }
    run(&world, &mut scenarios).await;
    for scenario in &scenarios {
        for driver in &scenario.drivers {
            assert_eq!(driver.failures, 0, "lost races are no failures");
        }
        // Both controls tell the same, each by its own client.
        let args = GetOperation::first(scenario.bulk.clone());
        let mut told = Vec::new();
        for driver in &scenario.drivers {
            let seen = driver.service.get_operation(&admin(), &args).await.unwrap();
            let results: Vec<_> = seen
                .targets
                .into_iter()
                .map(|target| (target.id, target.state, target.pod_name))
                .collect();
            told.push((seen.state, seen.counts, results));
        }
        assert_eq!(told[0], told[1]);
    }
    // One upgrade each, and nothing is left of the pods before.
    let maps: Api<ConfigMap> = Api::namespaced(world.site.admin.clone(), SYSTEM);
    let stored = maps.list(&ListParams::default()).await.unwrap();
    let parts: Vec<operation::Operation> = stored
        .items
        .iter()
        .filter_map(|map| map.data.as_ref()?.get("operation.json"))
        .map(|json| serde_json::from_str(json).unwrap())
        .filter(|operation: &operation::Operation| operation.parent.is_some())
        .collect();
    assert_eq!(parts.len(), 3 * owners.len());
    let pods = world.site.pods().await;
    assert_eq!(pods.len(), 3 * owners.len(), "{pods:#?}");
    for pod in pods {
        let spec = pod.spec.unwrap();
        assert_eq!(spec.containers[0].image.as_deref(), Some("image:2"));
    }
}

/// Pages reach over chunks, and end where the targets do.
#[tokio::test]
async fn results_are_read_page_by_page() {
    const TOTAL: usize = 2 * CHUNK + 7;
    let world = World::start().await;
    let targets = (0..TOTAL).map(|n| Target {
        workspace: format!("w{n}"),
        owner: "alice".into(),
        template: "t".into(),
        from_version: "v1".into(),
        to_version: None,
        state: TargetState::Skipped,
        phase: None,
        mode: None,
        pod_name: None,
        previous_pod_name: None,
        error: None,
        under_way: None,
    });
    let id = format!("op-{}", "a".repeat(26));
    let chunks = chunks(&id, targets.collect());
    assert_eq!(chunks.len(), 3);
    for chunk in &chunks {
        world.control.cluster.create_chunk(chunk).await.unwrap();
    }
    let operation = operation::Operation {
        id: id.clone(),
        kind: Kind::UpgradeAll,
        actor: "root".into(),
        parent: None,
        retry_of: None,
        state: State::Running,
        started_at: world.control.cluster.now(),
        finished_at: None,
        targets: Vec::new(),
        bulk: Some(Head::new(5, &chunks, world.control.cluster.now())),
    };
    world
        .control
        .cluster
        .put_operation(None, &operation)
        .await
        .unwrap();
    let mut driver = Driver::new(&world, &Faults::default());
    world
        .until("the end", async || driver.pass(&id).await)
        .await;
    let page = async |offset: u32, limit: u32| {
        let args = GetOperation {
            operation_id: id.clone(),
            offset,
            limit,
        };
        let seen = driver.service.get_operation(&admin(), &args).await.unwrap();
        assert_eq!(
            (seen.state, seen.counts.unwrap().total as usize),
            (State::Succeeded, TOTAL)
        );
        let ids: Vec<String> = seen.targets.into_iter().map(|target| target.id).collect();
        (ids, seen.next_offset)
    };
    let (ids, next) = page(240, 20).await;
    assert_eq!(ids, (240..260).map(|n| format!("w{n}")).collect::<Vec<_>>());
    assert_eq!(next, Some(260));
    let (ids, next) = page(500, 250).await;
    assert_eq!((ids.len(), next), (7, None));
    assert_eq!(page(5000, 10).await, (Vec::new(), None));
    let mut all = Vec::new();
    let mut offset = Some(0);
    while let Some(at) = offset {
        let (ids, next) = page(at, 100).await;
        all.extend(ids);
        offset = next;
    }
    assert_eq!(all, (0..TOTAL).map(|n| format!("w{n}")).collect::<Vec<_>>());
}
