//! Bulks over workspaces of several owners, and those who drive them, each of whom loses all memory
//! with every failure.

use crate::support::install::{Install, PATIENCE, admin, caller, until};
use crate::support::{Faults, SYSTEM, Site};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use nogoo9_control::bulk::{Memory, Next, pass};
use nogoo9_control::service::{
    DeleteWorkspace, GetOperation, Operation, Service, SpawnWorkspace, UpgradeAllWorkspaces,
};
use nogoo9_model::access::Role;
use nogoo9_model::bulk::{TargetState, child};
use nogoo9_model::operation::State;
use nogoo9_model::record::Phase;
use serde_json::{Map, json};
use std::time::Duration;
use tokio::time::Instant;

/// Upgrades at once.
const PARALLEL: u32 = 2;

/// A cluster with a control.
pub(crate) struct World {
    pub(crate) site: Site,
    pub(crate) control: Install,
}

impl World {
    pub(crate) async fn start() -> Self {
        let site = Site::start().await;
        let control = Install::start(site.cluster(&Faults::default())).await;
        Self { site, control }
    }

    /// The commands, through these faults.
    pub(crate) fn service(&self, faults: &Faults) -> Service {
        self.control.service_through(self.site.cluster(faults))
    }

    pub(crate) async fn template(&self, image: &str) {
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
    pub(crate) async fn spawn(&self, owners: &[String], letters: &[&str]) {
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
        until("all run", async || {
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
}

/// One who drives a bulk, and loses all memory with every failure.
pub(crate) struct Driver {
    pub(crate) service: Service,
    memory: Memory,
    pub(crate) failures: usize,
}

impl Driver {
    pub(crate) fn new(world: &World, faults: &Faults) -> Self {
        Self::over(world.service(faults))
    }

    pub(crate) fn over(service: Service) -> Self {
        Self {
            service,
            memory: Memory::default(),
            failures: 0,
        }
    }

    /// One pass; `true`: the bulk has ended.
    pub(crate) async fn pass(&mut self, id: &str) -> bool {
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
pub(crate) struct Scenario {
    pub(crate) owner: String,
    pub(crate) bulk: String,
    pub(crate) faults: Faults,
    pub(crate) drivers: Vec<Driver>,
    ended: bool,
}

impl Scenario {
    pub(crate) async fn begin(world: &World, owner: &str, faults: &[Faults]) -> Self {
        let drivers = faults.iter().map(|faults| Driver::new(world, faults));
        Self {
            faults: faults[0].clone(),
            ..Self::driven(world, owner, drivers.collect()).await
        }
    }

    pub(crate) async fn driven(world: &World, owner: &str, drivers: Vec<Driver>) -> Self {
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

    pub(crate) async fn step(&mut self, world: &World) {
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

    pub(crate) async fn check(&self, world: &World) {
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

pub(crate) async fn run(world: &World, scenarios: &mut [Scenario]) {
    // Of each, one goes before its turn.
    let service = world.service(&Faults::default());
    for scenario in &*scenarios {
        let args = DeleteWorkspace {
            id: format!("{}-d", scenario.owner),
            delete_data: false,
            release: false,
        };
        service.delete_workspace(&admin(), &args).await.unwrap();
    }
    until("those that are deleted are gone", async || {
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
