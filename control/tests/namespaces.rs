//! Two installs on one cluster, each with a system and a workspaces namespace of its own: what one has,
//! does or deletes is nothing to the other, however alike the ids are.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod support;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use nogoo9_control::bulk::{Memory, Next, pass};
use nogoo9_control::cluster::{Caches, Cluster};
use nogoo9_control::config::Args;
use nogoo9_control::lease::Leadership;
use nogoo9_control::service::{
    DeleteWorkspace, Feed, Links, ListOperations, ListWorkspaces, Metrics, Parts, Service,
    SpawnWorkspace, Status, UpgradeAllWorkspaces,
};
use nogoo9_control::template::source::Source;
use nogoo9_control::upgrade::{Engine, EngineConfig, Proxies};
use nogoo9_model::access::{Caller, Role};
use nogoo9_model::operation::State;
use nogoo9_model::pod::TemplateRef;
use nogoo9_model::record::{PlannedPod, Record};
use nogoo9_runtime::config::{Loaded, load};
use serde_json::{Map, json};
use std::sync::Arc;
use std::time::Duration;
use support::{Faults, SYSTEM, Site, WORKSPACES};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Longest wait for anything to come true.
const PATIENCE: Duration = Duration::from_secs(240);

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

/// One install: all of control but its driver of bulks, whose part the test plays.
struct Install<'a> {
    site: &'a Site,
    cluster: Cluster,
    caches: Arc<Caches>,
    service: Service,
    stop: CancellationToken,
    _worker: AbortOnDropHandle<()>,
}

impl Drop for Install<'_> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What the other install has to leave as it is.
#[derive(Debug, PartialEq)]
struct Holdings {
    /// Name, uid, image and fate of each pod.
    pods: Vec<(String, Option<String>, Option<String>, bool)>,
    /// Id, owner, version and pod of each workspace.
    records: Vec<(String, String, TemplateRef, PlannedPod)>,
    template: String,
}

impl<'a> Install<'a> {
    async fn start(site: &'a Site, cluster: Cluster) -> Self {
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
        let worker = worker.run(caches.clone(), Leadership::unopposed(), stop.clone());
        let worker = AbortOnDropHandle::new(tokio::spawn(worker));
        let service = Service::new(Parts {
            cluster: cluster.clone(),
            caches: caches.clone(),
            engine,
            proxies,
            templates: templates.clone(),
            links: Links::new(&settings.common.public),
            metrics: Metrics::default(),
            feed: Feed::default(),
        });
        tokio::join!(caches.synced(), templates.synced());
        Self {
            site,
            cluster,
            caches,
            service,
            stop,
            _worker: worker,
        }
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.site.admin.clone(), self.cluster.namespace())
    }

    async fn kubelet(&self) {
        self.site.kubelet_in(self.cluster.workspaces()).await;
    }

    async fn template(&self, image: &str) {
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": "t", "labels": {"nogoo9/pod-template": "true"}, "annotations": {"nogoo9/settle": "0"}},
            "data": {"spec": format!("containers: [{{name: main, image: '{image}'}}]")},
        }))
        .unwrap();
        let (api, params) = (self.config_maps(), PostParams::default());
        match api.get_opt("t").await.unwrap() {
            None => api.create(&params, &map).await,
            Some(_) => api.replace("t", &params, &map).await,
        }
        .unwrap();
    }

    /// Spawns a workspace and brings it to life.
    async fn running(&self, owner: &str, id: &str) {
        let args = SpawnWorkspace {
            template: "t".into(),
            id: Some(id.into()),
            name: None,
            port: None,
            inputs: Map::new(),
            user_sub: None,
        };
        let owner = caller(owner, Role::User);
        self.service.spawn_workspace(&owner, args).await.unwrap();
        until("it runs", async || {
            self.kubelet().await;
            let listed = self.caches.workspace(id);
            let uid = listed.and_then(|listed| listed.record.value.pod.uid.clone());
            let seen = self.service.get_workspace(&admin(), id).await.unwrap();
            uid.is_some() && seen.status == Status::Running
        })
        .await;
    }

    /// Ids and owners of its workspaces.
    async fn workspaces(&self) -> Vec<(String, String)> {
        let args = ListWorkspaces::default();
        let listed = self.service.list_workspaces(&admin(), &args).await.unwrap();
        let mut all: Vec<_> = listed
            .workspaces
            .into_iter()
            .map(|workspace| (workspace.id, workspace.owner))
            .collect();
        all.sort();
        all
    }

    async fn holdings(&self) -> Holdings {
        let pods = self.site.pods_in(self.cluster.workspaces()).await;
        let pods = pods.into_iter().map(|pod| {
            let image = pod.spec.as_ref().unwrap().containers[0].image.clone();
            let going = pod.metadata.deletion_timestamp.is_some();
            (pod.name_any(), pod.uid(), image, going)
        });
        let secrets: Api<Secret> =
            Api::namespaced(self.site.admin.clone(), self.cluster.namespace());
        let secrets = secrets.list(&ListParams::default()).await.unwrap();
        let records = secrets.items.iter().filter_map(|secret| {
            let data = secret.data.as_ref()?.get("record.json")?;
            let record: Record = serde_json::from_slice(&data.0).unwrap();
            // What is remembered of one that was deleted goes in its own time.
            (!record.is_gone()).then_some((record.id, record.owner, record.template, record.pod))
        });
        let template = self.config_maps().get("t").await.unwrap();
        Holdings {
            pods: pods.collect(),
            records: records.collect(),
            template: format!(
                "{:?} {:?}",
                template.metadata.resource_version, template.data
            ),
        }
    }
}

async fn until(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !check().await {
        assert!(Instant::now() < end, "{what}: it did not come true");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn installs_on_one_cluster_leave_each_others_alone() {
    let site = Site::start().await;
    let north = Install::start(&site, site.cluster(&Faults::default())).await;
    let south = site.cluster_in("south-system", "south-workspaces").await;
    let south = Install::start(&site, south).await;
    assert_eq!(
        (north.cluster.namespace(), north.cluster.workspaces()),
        (SYSTEM, WORKSPACES)
    );
    north.template("north:1").await;
    south.template("south:1").await;
    // The same id, of different owners: each install has its own.
    north.running("alice", "dev").await;
    south.running("bob", "dev").await;
    north.running("alice", "north-only").await;
    let of = |id: &str, owner: &str| (id.to_owned(), owner.to_owned());
    assert_eq!(
        north.workspaces().await,
        [of("dev", "alice"), of("north-only", "alice")]
    );
    assert_eq!(south.workspaces().await, [of("dev", "bob")]);
    let before = south.holdings().await;
    assert_eq!((before.pods.len(), before.records.len()), (1, 1));
    assert_eq!(before.pods[0].2.as_deref(), Some("south:1"));

    // All that one upgrades is its own.
    north.template("north:2").await;
    let args = UpgradeAllWorkspaces::default();
    let begun = north.service.upgrade_all_workspaces(&admin(), &args).await;
    let begun = begun.unwrap();
    assert_eq!((begun.total, begun.upgraded), (2, 2), "{begun:?}");
    let bulk = begun.operation_id.unwrap();
    let mut memory = Memory::default();
    until("the end of the bulk", async || {
        north.kubelet().await;
        pass(&north.service, &mut memory, &bulk).await.unwrap() == Next::Ended
    })
    .await;
    let told = north.cluster.operation(&bulk).await.unwrap().unwrap();
    assert_eq!(told.value.state, State::Succeeded);
    let upgraded = north.holdings().await;
    for (_, _, image, _) in &upgraded.pods {
        assert_eq!(image.as_deref(), Some("north:2"));
    }
    assert_eq!(south.holdings().await, before);
    let all = ListOperations::default();
    let listed = south.service.list_operations(&admin(), &all).await.unwrap();
    assert!(listed.operations.is_empty(), "{listed:?}");
    let nothing = south.service.upgrade_all_workspaces(&admin(), &args).await;
    assert_eq!(nothing.unwrap().total, 0, "its template has not moved on");

    // What one deletes stays the other's.
    let args = DeleteWorkspace {
        id: "dev".into(),
        delete_data: true,
    };
    let gone = north.service.delete_workspace(&admin(), &args).await;
    gone.unwrap();
    until("it is gone", async || {
        north.cluster.living("dev").await.unwrap().is_none()
    })
    .await;
    assert_eq!(north.workspaces().await, [of("north-only", "alice")]);
    assert_eq!(south.holdings().await, before);

    // And a start of the other, which looks after everything anew, finds nothing that is not its own.
    let after = north.holdings().await;
    drop(south);
    let south = site.cluster_again("south-system", "south-workspaces");
    let south = Install::start(&site, south).await;
    south.template("south:2").await;
    let own = south
        .service
        .upgrade_workspace(&caller("bob", Role::User), "dev")
        .await;
    let own = own.unwrap().operation_id.unwrap();
    until("its own upgrade has ended", async || {
        south.kubelet().await;
        let stored = south.cluster.operation(&own).await.unwrap();
        stored.is_some_and(|stored| stored.value.state == State::Succeeded)
    })
    .await;
    assert_eq!(north.holdings().await, after);
}
