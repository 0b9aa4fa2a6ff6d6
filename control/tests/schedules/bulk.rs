//! Upgrading all workspaces of a scenario at once, by the real driver and the real service. Its watches
//! bring nothing, and each of its passes begins with an empty memory: that is what it is like to be
//! killed between any two of them.

use crate::api::{Change, Key, Kind, Server};
use crate::command::early;
use crate::laws::{Broken, decode_operation};
use crate::scenario::{Scenario, Turn};
use crate::wire::{Calls, Clock, SYSTEM, connect_deaf};
use crate::world::Base;
use nogoo9_control::bulk::{Memory, Next as Driven, pass};
use nogoo9_control::cluster::{Caches, Cluster, ClusterError};
use nogoo9_control::config::Args;
use nogoo9_control::service::{Feed, Links, Metrics, Parts, Service};
use nogoo9_control::template::source::Source;
use nogoo9_control::upgrade::{Engine, EngineConfig, Next, Proxies};
use nogoo9_model::bulk::{
    By, Candidate, Chunk, Counts, Head, Scope, TargetState, chunks, consider,
};
use nogoo9_model::operation::Operation;
use nogoo9_model::record::{Phase, Record};
use nogoo9_model::{keys, name};
use nogoo9_runtime::config::{Loaded, load};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Id of the bulk.
pub(crate) const BULK: &str = "op-all";

/// What a service is made with beside a cluster.
pub(crate) struct Desk {
    proxies: Proxies,
    links: Links,
}

impl Desk {
    pub(crate) fn new() -> Self {
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
            proxies: Proxies::new(Vec::new(), None).unwrap(),
            links: Links::new(&settings.common.public),
        }
    }

    /// A control that has just started, as far as bulks need it.
    fn service(&self, cluster: &Cluster) -> Service {
        // Its worker never runs: the actors beside look after the workspaces.
        let (engine, _) = Engine::new(EngineConfig {
            cluster: cluster.clone(),
            proxies: self.proxies.clone(),
        });
        Service::new(Parts {
            cluster: cluster.clone(),
            caches: Arc::new(Caches::start(cluster, |_: &str| {})),
            engine,
            proxies: self.proxies.clone(),
            templates: Source::start(cluster, None).unwrap(),
            links: self.links.clone(),
            metrics: Metrics::default(),
            feed: Feed::default(),
        })
    }
}

/// A control's driver: its service, cluster, clock and calls.
pub(crate) fn driver(base: &Base) -> (Service, Cluster, Clock, Calls) {
    let (cluster, clock, calls) = connect_deaf(&base.connection);
    (base.desk.service(&cluster), cluster, clock, calls)
}

/// Looks at the bulk once.
///
/// # Errors
/// The first call that failed.
pub(crate) async fn look(service: Service) -> Result<Next, ClusterError> {
    let next = pass(&service, &mut Memory::default(), BULK).await?;
    Ok(match next {
        Driven::Ended | Driven::OnEvent => Next::OnEvent,
        Driven::At(at) => Next::At(at),
        Driven::Soon => Next::Soon,
    })
}

/// The template as it is by now.
pub(crate) fn template(scenario: &Scenario) -> Value {
    // The volume of a workspace that has one is its own, and carried over.
    let spec = json!({"containers": [{"name": "main", "image": scenario.new}]});
    json!({
        "metadata": {
            "name": "t", "namespace": SYSTEM, "uid": "template-t",
            "labels": {keys::POD_TEMPLATE: "true"},
        },
        "data": {"spec": spec.to_string()},
    })
}

/// Asks for all to be upgraded, as the service stores it: the chunks first, then the head.
///
/// # Errors
/// The first call that failed.
pub(crate) async fn upgrade_all(
    cluster: &Cluster,
    scenario: &Scenario,
) -> Result<(), ClusterError> {
    if cluster.operation(BULK).await?.is_some() {
        return Ok(());
    }
    let now = cluster.now();
    let mut targets = Vec::new();
    for id in scenario.ids {
        let stored = cluster.record(id).await?;
        targets.extend(stored.and_then(|stored| {
            let candidate = Candidate {
                record: &stored.value,
                version: Ok("the newest"),
            };
            consider(candidate, Scope::Outdated, now)
        }));
    }
    let chunks = chunks(BULK, targets);
    let Some(terms) = scenario.bulk else {
        return Ok(());
    };
    let head = Head {
        canary: terms.canary,
        failure_budget: terms.budget,
        ..Head::new(terms.parallel, &chunks, now)
    };
    let operation = json!({
        "id": BULK, "kind": "upgrade-all", "actor": "root", "state": "running", "startedAt": now,
        "targets": [], "bulk": head,
    });
    let operation: Operation = serde_json::from_value(operation).unwrap();
    for chunk in &chunks {
        there(cluster.create_chunk(chunk).await)?;
    }
    there(cluster.put_operation(None, &operation).await)
}

/// Pauses, resumes or cancels the bulk.
///
/// # Errors
/// The first call that failed, or `Conflict` where it is too early.
pub(crate) async fn change(cluster: &Cluster, turn: Turn) -> Result<(), ClusterError> {
    let stored = cluster.operation(BULK).await?;
    let Some(stored) = stored.filter(|stored| !stored.value.state.is_terminal()) else {
        return Ok(());
    };
    let by = By {
        actor: "root".into(),
        at: cluster.now(),
    };
    let head = stored.value.bulk.as_ref();
    let next = match (head, turn) {
        (None, _) => None,
        (Some(head), Turn::Pause) => head.pause(by),
        (Some(head), Turn::Cancel) => head.cancel(by),
        (Some(head), Turn::Resume) => match head.resume(by) {
            Ok(next) => next,
            Err(_) => return Err(early("resume", BULK)),
        },
    };
    let Some(next) = next else {
        return Ok(());
    };
    let next = Operation {
        bulk: Some(next),
        ..stored.value.clone()
    };
    cluster.put_operation(Some(&stored), &next).await?;
    Ok(())
}

/// Made just now, or by an attempt whose answer was lost.
fn there<T>(made: Result<T, ClusterError>) -> Result<(), ClusterError> {
    match made {
        Ok(_) | Err(ClusterError::Exists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn decode_chunk(map: &Value) -> Option<Chunk> {
    serde_json::from_str(map["data"]["chunk.json"].as_str()?).ok()
}

/// A result is final, and no more targets hold a slot than may.
///
/// # Errors
/// The law that was broken.
pub(crate) fn written(change: &Change) -> Result<(), Broken> {
    let head = change.after.as_deref().and_then(decode_operation);
    if let Some(head) = head.and_then(|operation| operation.bulk) {
        if head.slots.len() > usize::try_from(head.max_parallel).unwrap() {
            return Err(format!("{} slots are given out", head.slots.len()));
        }
        let taken_up = head.counts.total - head.counts.pending;
        if head.approved.is_none() && head.canary.is_some_and(|canary| taken_up > canary) {
            return Err(format!(
                "{taken_up} were taken up before the canary was approved"
            ));
        }
    }
    let chunk = |side: &Option<Rc<Value>>| side.as_deref().and_then(decode_chunk);
    let Some(before) = chunk(&change.before) else {
        return Ok(());
    };
    let Some(after) = chunk(&change.after) else {
        return Err("a chunk was lost".into());
    };
    for (old, new) in before.targets.iter().zip(&after.targets) {
        if old.state.is_terminal() && old != new {
            let (id, was, is) = (&old.workspace, old.state, new.state);
            return Err(format!("the result of {id} was {was:?} and is {is:?}"));
        }
    }
    Ok(())
}

/// No more upgrades of a bulk are under way than it may have, counted by what the records say.
///
/// # Errors
/// That there are more.
pub(crate) fn parallel(records: &BTreeMap<String, Record>, most: u32) -> Result<(), Broken> {
    let upgrades = records
        .values()
        .filter_map(|record| record.upgrade.as_ref());
    let under_way = upgrades.filter(|upgrade| {
        let before = !matches!(
            upgrade.phase,
            Phase::Committed { .. } | Phase::Aborting { .. }
        );
        upgrade.parent.as_deref() == Some(BULK) && before
    });
    let count = under_way.count();
    if count > usize::try_from(most).unwrap() {
        return Err(format!("{count} upgrades are under way, of {most} at most"));
    }
    Ok(())
}

/// Every target has one result, which is that of its upgrade, and the head has counted them.
///
/// # Errors
/// What is wrong.
pub(crate) fn ended(server: &Server, scenario: &Scenario) -> Result<(), Broken> {
    let maps = || server.of(Kind::ConfigMap).map(|(_, map)| &**map);
    let operations = || maps().filter_map(decode_operation);
    let Some(operation) = operations().find(|found| found.id == BULK) else {
        return Err("the bulk is not stored".into());
    };
    let (state, Some(head)) = (operation.state, operation.bulk) else {
        return Err("the bulk has no head".into());
    };
    let mut counts = Counts::default();
    for target in maps()
        .filter_map(decode_chunk)
        .flat_map(|chunk| chunk.targets)
    {
        counts.total += 1;
        let name = scenario.operation(&target.workspace);
        let Some(own) = operations().find(|found| found.id == name) else {
            if target.state == TargetState::Cancelled && head.is_closed() {
                counts.cancelled += 1;
                continue;
            }
            return Err(format!("{} has no operation", target.workspace));
        };
        if target.state != TargetState::from(own.state) {
            let (id, state) = (target.workspace, target.state);
            return Err(format!(
                "{id} is {state:?}, and its operation {:?}",
                own.state
            ));
        }
        match target.state {
            TargetState::Succeeded => counts.succeeded += 1,
            TargetState::Failed => counts.failed += 1,
            other => return Err(format!("{} ended as {other:?}", target.workspace)),
        }
    }
    let budget = head
        .failure_budget
        .map_or(u32::MAX, |most| most + head.max_parallel);
    if counts.failed > budget {
        return Err(format!("{} have failed", counts.failed));
    }
    let all = usize::try_from(counts.total).unwrap() == scenario.ids.len();
    if !state.is_terminal() || !head.slots.is_empty() || head.counts != counts || !all {
        return Err(format!(
            "{state:?}, {:?} instead of {counts:?}",
            head.counts
        ));
    }
    Ok(())
}

/// The key of the bulk's head.
pub(crate) fn key() -> Key {
    (Kind::ConfigMap, SYSTEM.into(), name::operation(BULK))
}

/// Where the template is.
pub(crate) fn template_key() -> Key {
    (Kind::ConfigMap, SYSTEM.into(), "t".into())
}
