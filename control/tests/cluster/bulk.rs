//! Kills whoever drives a bulk at every write, in every way: the write lost, its reply lost, an
//! error answered. Whoever goes on afterwards has no memory of it. Each workspace must have one
//! result and be upgraded once, and never more of them at a time than was asked for.

mod world;

use crate::support::install::{Install, admin, until};
use crate::support::{Fault, Faults, SYSTEM};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use nogoo9_control::service::GetOperation;
use nogoo9_model::bulk::{CHUNK, Head, Target, TargetState, chunks};
use nogoo9_model::operation::{self, Kind, State};
use world::{Driver, Scenario, World, run};

/// The shortest way to the end: three records, two chunks for three targets in two goes, and the head
/// before, between and after.
const FEWEST_WRITES: usize = 8;

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
    let other = Install::start(world.site.cluster(&Faults::default())).await;
    let owners = owners("u", 6);
    world.template("image:1").await;
    world.spawn(&owners, &["a", "b", "c", "d"]).await;
    world.template("image:2").await;
    let mut scenarios = Vec::new();
    for owner in &owners {
        let services = [&world.control, &other].map(Install::service);
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
    until("the end", async || driver.pass(&id).await).await;
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
