//! Two installs on one cluster, each with a system and a workspaces namespace of its own: what one has,
//! does or deletes is nothing to the other, however alike the ids are.

use crate::support::install::{Install, admin, caller, until};
use crate::support::{Faults, SYSTEM, Site, WORKSPACES};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use nogoo9_control::bulk::{Memory, Next, pass};
use nogoo9_control::cluster::Cluster;
use nogoo9_control::service::{
    DeleteWorkspace, ListOperations, ListWorkspaces, Service, SpawnWorkspace, Status,
    UpgradeAllWorkspaces,
};
use nogoo9_model::access::Role;
use nogoo9_model::operation::State;
use nogoo9_model::pod::TemplateRef;
use nogoo9_model::record::{PlannedPod, Record};
use serde_json::{Map, json};

/// One install, and what the test sees of it.
struct Seen<'a> {
    site: &'a Site,
    install: Install,
    service: Service,
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

impl<'a> Seen<'a> {
    async fn start(site: &'a Site, cluster: Cluster) -> Self {
        let install = Install::start(cluster).await;
        let service = install.service();
        Self {
            site,
            install,
            service,
        }
    }

    fn cluster(&self) -> &Cluster {
        &self.install.cluster
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.site.admin.clone(), self.cluster().namespace())
    }

    async fn kubelet(&self) {
        self.site.kubelet_in(self.cluster().workspaces()).await;
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
            let listed = self.install.caches.workspace(id);
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
        let pods = self.site.pods_in(self.cluster().workspaces()).await;
        let pods = pods.into_iter().map(|pod| {
            let image = pod.spec.as_ref().unwrap().containers[0].image.clone();
            let going = pod.metadata.deletion_timestamp.is_some();
            (pod.name_any(), pod.uid(), image, going)
        });
        let secrets: Api<Secret> =
            Api::namespaced(self.site.admin.clone(), self.cluster().namespace());
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

#[tokio::test]
async fn installs_on_one_cluster_leave_each_others_alone() {
    let site = Site::start().await;
    let north = Seen::start(&site, site.cluster(&Faults::default())).await;
    let south = site.cluster_in("south-system", "south-workspaces").await;
    let south = Seen::start(&site, south).await;
    assert_eq!(
        (north.cluster().namespace(), north.cluster().workspaces()),
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
    let told = north.cluster().operation(&bulk).await.unwrap().unwrap();
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
        release: false,
    };
    let gone = north.service.delete_workspace(&admin(), &args).await;
    gone.unwrap();
    until("it is gone", async || {
        north.cluster().living("dev").await.unwrap().is_none()
    })
    .await;
    assert_eq!(north.workspaces().await, [of("north-only", "alice")]);
    assert_eq!(south.holdings().await, before);

    // And a start of the other, which looks after everything anew, finds nothing that is not its own.
    let after = north.holdings().await;
    drop(south);
    let south = site.cluster_again("south-system", "south-workspaces");
    let south = Seen::start(&site, south).await;
    south.template("south:2").await;
    let own = south
        .service
        .upgrade_workspace(&caller("bob", Role::User), "dev")
        .await;
    let own = own.unwrap().operation_id.unwrap();
    until("its own upgrade has ended", async || {
        south.kubelet().await;
        let stored = south.cluster().operation(&own).await.unwrap();
        stored.is_some_and(|stored| stored.value.state == State::Succeeded)
    })
    .await;
    assert_eq!(north.holdings().await, after);
}
