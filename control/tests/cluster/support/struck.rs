//! Upgrades that tests strike, and what must become of them.

use super::{BROKEN, Faults, Site, WORKSPACES};
use nogoo9_control::cluster::{Cluster, ClusterError};
use nogoo9_control::upgrade::{Proxies, pass};
use nogoo9_model::mode::Mode;
use nogoo9_model::operation::{Kind, State};
use nogoo9_model::pod::{PodView, TemplateRef, UpgradeState};
use nogoo9_model::record::{Intent, Record, Spawn};
use nogoo9_model::template::Timing;
use nogoo9_model::{keys, label};
use serde_json::{Map, Value, json};

/// Far more passes than any schedule takes.
const PASSES: usize = 60;

/// The upgrades that are struck.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Case {
    SideBySide,
    Recreate,
    /// A recreate whose new image cannot be pulled: the old version comes back.
    Restore,
}

impl Case {
    pub(crate) const ALL: [Self; 3] = [Self::SideBySide, Self::Recreate, Self::Restore];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SideBySide => "beside",
            Self::Recreate => "recreate",
            Self::Restore => "restore",
        }
    }

    /// Writes that such an upgrade takes at least.
    pub(crate) fn writes(self) -> usize {
        match self {
            Self::SideBySide => 9,
            Self::Recreate => 12,
            Self::Restore => 16,
        }
    }

    fn image(self, version: &str) -> String {
        if self == Self::Restore && version == "v2" {
            BROKEN.to_owned()
        } else {
            format!("image:{version}")
        }
    }
}

pub(crate) fn manifest(case: Case, id: &str, version: &str) -> Value {
    json!({
        "metadata": {
            "labels": {
                keys::TYPE: keys::TYPE_WORKSPACE, keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER,
                keys::WORKSPACE_ID: id, keys::USER_SUB: label::owner("alice"),
            },
            "annotations": {keys::USER_SUB: "alice", keys::TEMPLATE_REF: "t", keys::TEMPLATE_VERSION: version},
        },
        "spec": {"containers": [{"name": "main", "image": case.image(version)}]},
    })
}

pub(crate) fn template(version: &str) -> TemplateRef {
    TemplateRef {
        name: "t".into(),
        version: version.into(),
    }
}

pub(crate) async fn proxies() -> Proxies {
    Proxies::new(Vec::new(), None).unwrap()
}

/// A running workspace.
pub(crate) async fn spawned(site: &Site, case: Case, id: &str) {
    let cluster = site.cluster(&Faults::default());
    let spawn = Spawn {
        id: id.into(),
        namespace: WORKSPACES.into(),
        owner: "alice".into(),
        name: id.into(),
        template: template("v1"),
        inputs: Map::new(),
        manifest: manifest(case, id, "v1"),
        exclusive: case != Case::SideBySide,
    };
    cluster
        .create_record(&Record::spawn(spawn, cluster.now()))
        .await
        .unwrap();
    let proxies = proxies().await;
    pass(&cluster, &proxies, id).await.unwrap();
    site.kubelet().await;
    pass(&cluster, &proxies, id).await.unwrap();
}

/// A running workspace with an upgrade just asked for.
pub(crate) async fn asked(site: &Site, case: Case, id: &str) {
    spawned(site, case, id).await;
    let cluster = site.cluster(&Faults::default());
    let stored = cluster.record(id).await.unwrap().unwrap();
    let intent = Intent {
        operation: format!("op-{id}"),
        kind: Kind::Upgrade,
        force: false,
        actor: "root".into(),
        parent: None,
        template: template("v2"),
        manifest: manifest(case, id, "v2"),
        mode: if case == Case::SideBySide {
            Mode::SideBySide
        } else {
            Mode::Recreate
        },
        exclusive: case != Case::SideBySide,
        claims: Vec::new(),
        timing: Timing {
            deadline: 600,
            settle: 0,
            drain_timeout: 600,
        },
    };
    let next = stored.value.begin_upgrade(intent, cluster.now()).unwrap();
    cluster.put_record(&stored, &next).await.unwrap();
}

/// Passes until the record has let go of the upgrade; failed passes are what the faults are for.
pub(crate) async fn to_the_end(site: &Site, clusters: &[Cluster], id: &str) -> Vec<ClusterError> {
    let mut failures = Vec::new();
    let proxies = proxies().await;
    for _ in 0..PASSES {
        let passes = clusters.iter().map(|cluster| pass(cluster, &proxies, id));
        let outcomes = futures::future::join_all(passes).await;
        failures.extend(outcomes.into_iter().filter_map(Result::err));
        site.kubelet().await;
        assert_alone(site, id).await;
        let clean = site.cluster(&Faults::default());
        let record = clean.record(id).await.unwrap().unwrap().value;
        let shown = record.last.is_some_and(|last| last.shown);
        if record.upgrade.is_none() && shown {
            return failures;
        }
    }
    panic!("{id} did not end: {failures:?}");
}

/// Never are there two pods that may hold what only one can.
pub(crate) async fn assert_alone(site: &Site, id: &str) {
    let cluster = site.cluster(&Faults::default());
    let exclusive = cluster.record(id).await.unwrap().unwrap().value.exclusive;
    let pods = cluster.pods(id).await.unwrap();
    let holders = pods.iter().filter(|pod| pod.may_hold()).count();
    assert!(!exclusive || holders <= 1, "{id}: {pods:?}");
}

pub(crate) async fn assert_ended(site: &Site, case: Case, id: &str) {
    let cluster = site.cluster(&Faults::default());
    // The mark of a restored pod is taken off once it serves.
    let proxies = proxies().await;
    while pass(&cluster, &proxies, id).await.is_err() {}
    let record = cluster.record(id).await.unwrap().unwrap().value;
    let (version, state) = match case {
        Case::SideBySide | Case::Recreate => ("v2", State::Succeeded),
        Case::Restore => ("v1", State::Failed),
    };
    assert_eq!(record.template, template(version), "{id}");
    let pods: Vec<PodView> = cluster.pods(id).await.unwrap();
    assert_eq!(pods.len(), 1, "{id}: {pods:?}");
    assert_eq!(record.pod.uid.as_ref(), Some(&pods[0].uid));
    assert_eq!(
        (pods[0].template.version.as_str(), pods[0].owner.as_str()),
        (version, "alice")
    );
    assert_eq!(
        (pods[0].generation, pods[0].state),
        (record.pod.generation, UpgradeState::Committed)
    );
    assert_eq!(
        pods[0].last_upgrade_error.as_deref(),
        (case == Case::Restore).then_some("ImagePullBackOff: no such image"),
        "{id}"
    );
    let operation = cluster.operation(&format!("op-{id}")).await;
    let operation = operation.unwrap().unwrap().value;
    assert_eq!((operation.state, operation.actor.as_str()), (state, "root"));
}
