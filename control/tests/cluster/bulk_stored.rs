//! What is stored of bulks: ten thousand workspaces in one, and chunks that somebody deletes or spoils
//! by hand; and how many upgrades begin before there is a pod. Nobody looks after pods here: the
//! workspaces are records alone.

use crate::support::install::{Install, admin, until};
use crate::support::{Fault, Faults, SYSTEM, Site, WORKSPACES};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use nogoo9_control::bulk::{Memory, Next, pass};
use nogoo9_control::service::{
    GetOperation, Operation, OperationTarget, Service, UpgradeAll, UpgradeAllWorkspaces,
};
use nogoo9_model::bulk::{CHUNK, TargetState};
use nogoo9_model::operation::State;
use nogoo9_model::pod::TemplateRef;
use nogoo9_model::record::{Record, Spawn};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tokio::time::Instant;

/// What an object of a cluster may hold, with some room, in bytes.
const FITS: usize = 900 * 1024;
/// Records made at once.
const CALLS: usize = 64;

/// Control's commands without its engine.
struct Desk {
    site: Site,
    control: Install,
    service: Service,
}

impl Desk {
    async fn start() -> Self {
        Self::through(&Faults::default()).await
    }

    /// The same through these faults.
    async fn through(faults: &Faults) -> Self {
        let site = Site::start().await;
        let control = Install::idle(site.cluster(faults)).await;
        let service = control.service();
        Self {
            site,
            control,
            service,
        }
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.site.admin.clone(), SYSTEM)
    }

    async fn template(&self) {
        let map = json!({
            "metadata": {"name": "t", "labels": {"nogoo9/pod-template": "true"}},
            "data": {"spec": "containers: [{name: main, image: 'image:2'}]"},
        });
        let map = serde_json::from_value(map).unwrap();
        let params = PostParams::default();
        self.config_maps().create(&params, &map).await.unwrap();
    }

    /// The template is gone: whose turn comes fails at once.
    async fn without_template(&self) {
        let params = DeleteParams::default();
        self.config_maps().delete("t", &params).await.unwrap();
    }

    /// Workspaces that run an older version of the template, as their records have it.
    async fn workspaces(&self, count: usize) {
        let creates = (0..count).map(|n| async move {
            let spawn = Spawn {
                id: id(n),
                namespace: WORKSPACES.into(),
                owner: format!("user-{}", n % 500),
                name: format!("Workspace {n}"),
                template: TemplateRef {
                    name: "t".into(),
                    version: "an-older-one".into(),
                },
                inputs: Map::new(),
                manifest: json!({"spec": {"containers": [{"name": "main", "image": "image:1"}]}}),
                exclusive: false,
            };
            let mut record = Record::spawn(spawn, self.control.cluster.now());
            record.pod.uid = Some(format!("uid-{n}"));
            self.control.cluster.create_record(&record).await.unwrap();
        });
        stream::iter(creates)
            .buffer_unordered(CALLS)
            .collect::<Vec<()>>()
            .await;
        until("all are listed", async || {
            self.control.caches.records().len() == count
        })
        .await;
    }

    async fn upgrade_all(&self, args: UpgradeAllWorkspaces) -> UpgradeAll {
        let answer = self.service.upgrade_all_workspaces(&admin(), &args).await;
        answer.unwrap()
    }

    /// Drives the bulk to its end.
    async fn to_the_end(&self, id: &str, memory: &mut Memory) -> Operation {
        until("the end of the bulk", async || {
            pass(&self.service, memory, id).await.unwrap() == Next::Ended
        })
        .await;
        self.look(id).await.0
    }

    /// The operation, with all its targets, page by page.
    async fn look(&self, id: &str) -> (Operation, Vec<OperationTarget>) {
        let mut targets = Vec::new();
        let mut offset = 0;
        loop {
            let args = GetOperation {
                operation_id: id.to_owned(),
                offset,
                limit: 250,
            };
            let mut page = self.service.get_operation(&admin(), &args).await.unwrap();
            targets.append(&mut page.targets);
            match page.next_offset {
                Some(next) => offset = next,
                None => return (page, targets),
            }
        }
    }

    /// How many upgrades are under way.
    async fn under_way(&self, count: usize) -> usize {
        let mut under_way = 0;
        for n in 0..count {
            let stored = self.control.cluster.record(&id(n)).await.unwrap().unwrap();
            under_way += usize::from(stored.value.upgrade.is_some());
        }
        under_way
    }

    /// Sizes of the objects that the bulk is stored in, in bytes: head, and chunks.
    async fn sizes(&self, id: &str) -> (usize, Vec<usize>) {
        let params = ListParams::default().labels(&format!("nogoo9/operation={id}"));
        let chunks = self.config_maps().list(&params).await.unwrap();
        let head = self.config_maps().get(&format!("nogoo9-{id}")).await;
        let size = |map: &ConfigMap| serde_json::to_vec(map).unwrap().len();
        (size(&head.unwrap()), chunks.iter().map(size).collect())
    }
}

fn id(n: usize) -> String {
    format!("w{n:05}")
}

#[tokio::test]
async fn ten_thousand_workspaces_are_one_operation_in_which_each_has_its_result() {
    const TOTAL: usize = 10_000;
    const PARALLEL: u32 = 20;
    let desk = Desk::start().await;
    desk.template().await;
    let clock = Instant::now();
    desk.workspaces(TOTAL).await;
    println!("{TOTAL} records made in {:?}", clock.elapsed());

    let clock = Instant::now();
    let begun = desk
        .upgrade_all(UpgradeAllWorkspaces {
            max_parallel: Some(PARALLEL),
            failure_budget: Some(0),
            ..UpgradeAllWorkspaces::default()
        })
        .await;
    println!("the bulk was stored in {:?}", clock.elapsed());
    assert_eq!((begun.total, begun.upgraded), (TOTAL, TOTAL));
    assert_eq!(begun.upgraded_pods.len(), 50);
    let bulk = begun.operation_id.unwrap();
    let (head, chunks) = desk.sizes(&bulk).await;
    assert_eq!(chunks.len(), TOTAL.div_ceil(CHUNK));
    let largest = chunks.iter().max().copied().unwrap();
    println!("its head takes {head} bytes, its largest chunk {largest}");
    assert!(head < FITS && largest < FITS);

    desk.without_template().await;
    let clock = Instant::now();
    let ended = desk.to_the_end(&bulk, &mut Memory::default()).await;
    println!("it was driven to its end in {:?}", clock.elapsed());
    let counts = ended.counts.unwrap();
    assert_eq!(
        (ended.state, counts.failed, counts.total as usize),
        (State::Failed, PARALLEL, TOTAL),
        "{ended:#?}"
    );
    let (_, targets) = desk.look(&bulk).await;
    let ids: BTreeSet<&str> = targets.iter().map(|target| target.id.as_str()).collect();
    assert_eq!((targets.len(), ids.len()), (TOTAL, TOTAL));
    for (n, target) in targets.iter().enumerate() {
        assert_eq!(target.id, id(n));
        let why = target.error.as_ref().unwrap();
        if n < PARALLEL as usize {
            assert_eq!(target.state, TargetState::Failed);
            assert_eq!(why.reason, "TemplateNotFound");
        } else {
            assert_eq!(target.state, TargetState::Cancelled);
            assert_eq!(why.message, "stopped: 20 failed, 0 were allowed to");
        }
    }
    let (head, chunks) = desk.sizes(&bulk).await;
    let largest = chunks.iter().max().copied().unwrap();
    println!("ended, its head takes {head} bytes, its largest chunk {largest}");
    assert!(head < FITS && largest < FITS);
}

/// Somebody deletes a chunk of a bulk: it comes to an end all the same, and says so.
#[tokio::test]
async fn a_bulk_that_was_robbed_of_a_chunk_ends() {
    const TOTAL: usize = CHUNK + 3;
    let desk = Desk::start().await;
    desk.template().await;
    desk.workspaces(TOTAL).await;
    let begun = desk.upgrade_all(UpgradeAllWorkspaces::default()).await;
    let bulk = begun.operation_id.unwrap();
    let lost = format!("nogoo9-{bulk}-1");
    let params = DeleteParams::default();
    desk.config_maps().delete(&lost, &params).await.unwrap();

    // What is left can be looked at, and what it claimed is nobody's.
    let (_, targets) = desk.look(&bulk).await;
    assert_eq!(targets.len(), TOTAL);
    let shown = &targets[CHUNK];
    assert_eq!(
        (shown.id.as_str(), shown.state),
        ("?250", TargetState::Failed)
    );
    until("the bulk is listed", async || {
        desk.control.caches.operation(&bulk).is_some()
    })
    .await;
    let plan = desk
        .upgrade_all(UpgradeAllWorkspaces {
            dry_run: true,
            ..UpgradeAllWorkspaces::default()
        })
        .await;
    assert_eq!((plan.total, plan.upgraded), (TOTAL, 3));

    desk.service
        .cancel_operation(&admin(), &bulk)
        .await
        .unwrap();
    let ended = desk.to_the_end(&bulk, &mut Memory::default()).await;
    let counts = ended.counts.unwrap();
    assert_eq!(
        (ended.state, counts.cancelled as usize, counts.failed),
        (State::Cancelled, CHUNK, 3)
    );
    let (_, targets) = desk.look(&bulk).await;
    for target in &targets[CHUNK..] {
        let why = target.error.as_ref().unwrap();
        assert_eq!(why.reason, "ResultLost");
        assert!(why.message.contains(&lost), "{}", why.message);
    }
}

/// The same under the hands of one who has read it before.
#[tokio::test]
async fn a_chunk_that_is_lost_under_the_hands_of_its_driver_is_missed() {
    let desk = Desk::start().await;
    desk.workspaces(2).await;
    for deleted in [true, false] {
        desk.template().await;
        let begun = desk
            .upgrade_all(UpgradeAllWorkspaces {
                max_parallel: Some(1),
                ..UpgradeAllWorkspaces::default()
            })
            .await;
        let bulk = begun.operation_id.unwrap();
        let mut memory = Memory::default();
        // The first is taken up and fails; that is yet to be written.
        desk.without_template().await;
        pass(&desk.service, &mut memory, &bulk).await.unwrap();
        let lost = format!("nogoo9-{bulk}-0");
        if deleted {
            let params = DeleteParams::default();
            desk.config_maps().delete(&lost, &params).await.unwrap();
        } else {
            let patch = json!({"data": {"chunk.json": "[]"}});
            let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
            let patched = desk.config_maps().patch(&lost, &params, &patch).await;
            patched.unwrap();
        }
        let ended = desk.to_the_end(&bulk, &mut memory).await;
        assert_eq!(
            (ended.state, ended.counts.unwrap().failed),
            (State::Failed, 2)
        );
    }
}

/// Somebody makes something else of a chunk: as if they had deleted it.
#[tokio::test]
async fn a_bulk_of_which_a_chunk_was_spoilt_ends() {
    const TOTAL: usize = CHUNK + 3;
    let desk = Desk::start().await;
    desk.template().await;
    desk.workspaces(TOTAL).await;
    let maps = desk.config_maps();
    let params = PatchParams::default();
    let spoil = async |name: &str, data: Value| {
        let patch = json!({ "data": data });
        let patched = maps.patch(name, &params, &Patch::Merge(&patch)).await;
        patched.unwrap();
    };
    let read = async |name: &str| -> Value {
        let data = maps.get(name).await.unwrap().data.unwrap();
        serde_json::from_str(&data["chunk.json"]).unwrap()
    };
    for kind in ["no JSON", "no data", "of another place", "too short"] {
        let begun = desk.upgrade_all(UpgradeAllWorkspaces::default()).await;
        let bulk = begun.operation_id.unwrap();
        let spoilt = format!("nogoo9-{bulk}-1");
        let mut chunk = read(&spoilt).await;
        let data = match kind {
            "no JSON" => json!({"chunk.json": "{"}),
            "no data" => json!({"chunk.json": null}),
            "of another place" => {
                let other = read(&format!("nogoo9-{bulk}-0")).await;
                json!({"chunk.json": other.to_string()})
            }
            _ => {
                chunk["targets"].as_array_mut().unwrap().pop();
                json!({"chunk.json": chunk.to_string()})
            }
        };
        spoil(&spoilt, data).await;
        let (_, targets) = desk.look(&bulk).await;
        assert_eq!(targets.len(), TOTAL, "{kind}: it can be looked at");
        desk.service
            .cancel_operation(&admin(), &bulk)
            .await
            .unwrap();
        let ended = desk.to_the_end(&bulk, &mut Memory::default()).await;
        let counts = ended.counts.unwrap();
        assert_eq!(
            (ended.state, counts.cancelled as usize, counts.failed),
            (State::Cancelled, CHUNK, 3),
            "{kind}"
        );
        let (_, targets) = desk.look(&bulk).await;
        for target in &targets[CHUNK..] {
            let why = target.error.as_ref().unwrap();
            assert_eq!(why.reason, "ResultLost");
            let told = format!("somebody changed the ConfigMap {spoilt}, ");
            assert!(why.message.starts_with(&told), "{kind}: {}", why.message);
        }
    }

    // What a later version may have written is not this one's to write over.
    let begun = desk.upgrade_all(UpgradeAllWorkspaces::default()).await;
    let bulk = begun.operation_id.unwrap();
    let later = json!({"version": 1000, "all": "anew"});
    let name = format!("nogoo9-{bulk}-1");
    spoil(&name, json!({"chunk.json": later.to_string()})).await;
    let refused = pass(&desk.service, &mut Memory::default(), &bulk).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(read(&name).await, later);
}

/// As many upgrades begin at once as are asked for. Where a quota may refuse pods, or nobody can tell,
/// each waits for the pod of the one before, of which there is none here.
#[tokio::test]
async fn upgrades_begin_at_once_where_no_quota_limits_pods() {
    const PARALLEL: u32 = 10;
    const TOTAL: usize = PARALLEL as usize;
    let (refused, read) = (Some(Fault::Status(403)), None);
    for (hard, fault, at_once) in [
        (None, read, true),
        (Some(json!({"requests.storage": "10Gi"})), read, true),
        (Some(json!({"pods": "100"})), read, false),
        (Some(json!({"limits.memory": "100Gi"})), read, false),
        (None, refused, false),
    ] {
        let faults = Faults::on("/resourcequotas", fault);
        let desk = Desk::through(&faults).await;
        desk.template().await;
        desk.workspaces(TOTAL).await;
        if let Some(hard) = &hard {
            let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
            let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
            let quotas = Api::namespaced(desk.site.admin.clone(), WORKSPACES);
            quotas.create(&PostParams::default(), &quota).await.unwrap();
        }
        let begun = desk
            .upgrade_all(UpgradeAllWorkspaces {
                max_parallel: Some(PARALLEL),
                ..UpgradeAllWorkspaces::default()
            })
            .await;
        let bulk = begun.operation_id.unwrap();
        let mut memory = Memory::default();
        let next = pass(&desk.service, &mut memory, &bulk).await.unwrap();
        let under_way = desk.under_way(TOTAL).await;
        if at_once {
            assert_eq!(under_way, TOTAL, "{hard:?}");
        } else {
            // However slow the machine is: it was not waited for that long nine times.
            assert!((1..TOTAL).contains(&under_way), "{hard:?}: {under_way}");
            assert!(matches!(next, Next::At(_)), "{hard:?}: {next:?}");
        }
        assert_eq!(faults.seen(), 1, "{hard:?}: quotas were read once");
    }
}
