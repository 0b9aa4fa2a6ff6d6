//! What must hold after every step, whoever crashed when.

use crate::api::{By, Change, Key, Kind, Server, claims, workspace};
use crate::bulk;
use crate::kubelet::{is_probe, uid};
use crate::scenario::SECRET;
use data_encoding::BASE64;
use nogoo9_model::mode::Mode;
use nogoo9_model::operation::Operation;
use nogoo9_model::pod::PodView;
use nogoo9_model::record::{Desired, Phase, Record, Upgrade};
use nogoo9_model::upgrade::ProxyReport;
use nogoo9_model::wire::Sessions;
use nogoo9_model::{keys, select};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// How long requests under way may keep the original of a recreate, in seconds.
const IN_FLIGHT: i64 = 10;

/// What an actor has read, as it truly was when it was read. Decisions rest on this.
#[derive(Default, Clone)]
pub(crate) struct Seen {
    pub(crate) record: Option<Rc<Value>>,
    pub(crate) pods: Vec<Rc<Value>>,
    /// When the pods were listed.
    pub(crate) at: i64,
    /// What the proxies said when they were asked last.
    pub(crate) reports: Vec<ProxyReport>,
}

#[derive(Default)]
pub(crate) struct Laws {
    /// Workspaces that exist or existed, and whether their owner has asked for their end.
    workspaces: BTreeMap<String, bool>,
    /// Records as they are now.
    pub(crate) records: BTreeMap<String, Record>,
    /// Pods that others than control have made.
    strange: BTreeSet<String>,
    /// How many upgrades of a bulk may be under way, where there is one.
    pub(crate) parallel: Option<u32>,
    /// Operations that were called off before any harm was done.
    pub(crate) called_off: BTreeSet<String>,
}

/// A law that was broken, in words.
pub(crate) type Broken = String;

impl Laws {
    /// Takes in changes and checks them, then what there is in all.
    pub(crate) fn check(
        &mut self,
        changes: &[Change],
        server: &Server,
        seen: impl Fn(usize) -> Seen,
    ) -> Result<(), Broken> {
        for change in changes {
            match change.key.0 {
                Kind::Secret => self.record(change, &seen)?,
                Kind::ConfigMap => {
                    operation(change)?;
                    bulk::written(change)?;
                }
                Kind::Pod => self.pod(change, &seen)?,
                Kind::Claim | Kind::Event | Kind::Lease | Kind::Quota => {}
            }
            if let Some(object) = &change.after {
                secretless(&change.key, object)?;
            }
        }
        if let Some(most) = self.parallel {
            bulk::parallel(&self.records, most)?;
        }
        self.somewhere(server)?;
        self.alone(server)
    }

    /// Every workspace that is not to go has a pod or a record.
    fn somewhere(&self, server: &Server) -> Result<(), Broken> {
        for id in self
            .workspaces
            .iter()
            .filter(|(_, ends)| !**ends)
            .map(|(id, _)| id)
        {
            let mut pods = server.of(Kind::Pod);
            if !self.records.contains_key(id) && !pods.any(|(_, pod)| workspace(pod) == Some(id)) {
                return Err(format!("{id} has neither pod nor record"));
            }
        }
        Ok(())
    }

    /// No claim can be held by two pods: one without our gate may be given to a node any moment.
    fn alone(&self, server: &Server) -> Result<(), Broken> {
        let mut holders: BTreeMap<&str, &str> = BTreeMap::new();
        for (key, pod) in server.of(Kind::Pod) {
            let gated = pod["spec"]["schedulingGates"]
                .as_array()
                .is_some_and(|all| !all.is_empty());
            if gated || self.strange.contains(uid(pod)) {
                continue;
            }
            for claim in claims(pod) {
                if let Some(other) = holders.insert(claim, &key.2) {
                    return Err(format!("{other} and {} may both hold claim {claim}", key.2));
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, change: &Change, seen: &impl Fn(usize) -> Seen) -> Result<(), Broken> {
        let object = change.after.as_ref().or(change.before.as_ref());
        let id = object.and_then(|object| workspace(object));
        // It was taken in when it was written.
        let before = change.before.as_ref();
        let before = before.and_then(|_| self.records.get(id?).cloned());
        let after = change.after.as_deref().and_then(decode);
        let by = match change.by {
            By::Actor(actor) => Some(seen(actor)),
            By::Cluster | By::World => None,
        };
        if let (Some(seen), Some(old)) = (&by, &change.before) {
            let read = seen
                .record
                .as_ref()
                .map(|read| &read["metadata"]["resourceVersion"]);
            if read != Some(&old["metadata"]["resourceVersion"]) {
                return Err("a record was written that is not the one that was read".into());
            }
        }
        match (before, after) {
            (Some(old), None) => {
                if old.desired != Desired::Deleted {
                    return Err(format!(
                        "the record of {} was deleted, which nobody asked for",
                        old.id
                    ));
                }
                self.records.remove(&old.id);
            }
            (old, Some(new)) => {
                if let Some(old) = &old {
                    constant(old, &new)?;
                    if let Some(seen) = &by {
                        settled(old, &new, seen)?;
                        quiesced(old, &new, seen)?;
                    }
                }
                if let Some(upgrade) = &new.upgrade
                    && upgrade.cancelled.is_some()
                    && !matches!(upgrade.phase, Phase::Committed { .. })
                {
                    self.called_off.insert(upgrade.operation.clone());
                }
                self.workspaces
                    .insert(new.id.clone(), new.desired == Desired::Deleted);
                self.records.insert(new.id.clone(), new);
            }
            (None, None) => {}
        }
        Ok(())
    }

    fn pod(&mut self, change: &Change, seen: &impl Fn(usize) -> Seen) -> Result<(), Broken> {
        let deleting = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
        match (&change.before, &change.after, change.by) {
            (None, Some(new), By::World) => {
                self.strange.insert(uid(new).to_owned());
                self.workspaces
                    .entry(workspace(new).unwrap_or_default().into())
                    .or_insert(false);
            }
            (Some(old), new, By::Actor(actor))
                if !deleting(old) && new.as_deref().is_none_or(deleting) =>
            {
                return self.deletion(old, &seen(actor));
            }
            _ => {}
        }
        Ok(())
    }

    /// Only what is provably the workspace's, as it was read, and never what is routed to.
    fn deletion(&self, pod: &Value, seen: &Seen) -> Result<(), Broken> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let labels = &pod["metadata"]["labels"];
        if labels[keys::MANAGED_BY] != keys::MANAGED_BY_SPAWNER {
            return Err(format!(
                "{name} was deleted, which is not managed by nogoo9"
            ));
        }
        let id = workspace(pod).unwrap_or_default();
        let Some(record) = seen
            .record
            .as_deref()
            .and_then(decode)
            .filter(|record| record.id == id)
        else {
            return Err(format!(
                "{name} was deleted without looking at the record of '{id}'"
            ));
        };
        if is_probe(pod) {
            return Ok(());
        }
        let views: Vec<PodView> = seen.pods.iter().filter_map(|pod| view(pod)).collect();
        let Some(read) = views.iter().find(|view| view.uid == uid(pod)) else {
            return Err(format!("{name} was deleted unseen"));
        };
        if pod["metadata"]["resourceVersion"] != read.resource_version.as_str() {
            return Err(format!(
                "{name} was deleted, though it had changed since it was read"
            ));
        }
        if !record.holds(read) {
            return Err(format!(
                "{name} was deleted, which belongs to somebody else"
            ));
        }
        if record.desired != Desired::Running {
            return Ok(());
        }
        let mine = || views.iter().filter(|pod| record.holds(pod));
        if select::active(mine()).is_some_and(|active| active.uid == read.uid) {
            return Err(format!("{name} was deleted, which traffic was routed to"));
        }
        if let Some(upgrade) = &record.upgrade
            && read.is_live()
        {
            if upgrade.cancelled.is_some() && upgrade.source.uid.as_deref() == Some(uid(pod)) {
                return Err(format!(
                    "{name}, the original, was deleted though the upgrade was called off"
                ));
            }
            drained(upgrade, uid(pod), seen)
                .map_err(|why| format!("{name} was deleted though {why}"))?;
        }
        if let Some(upgrade) = &record.upgrade
            && upgrade.mode == Mode::SideBySide
            && upgrade.source.uid.as_deref() == Some(uid(pod))
            && read.is_live()
            && !matches!(upgrade.phase, Phase::Committed { .. })
        {
            return Err(format!(
                "{name}, the original, was deleted in phase {:?}",
                upgrade.phase
            ));
        }
        Ok(())
    }
}

fn constant(old: &Record, new: &Record) -> Result<(), Broken> {
    let facts = |record: &Record| {
        (
            record.id.clone(),
            record.owner.clone(),
            record.namespace.clone(),
        )
    };
    // Whoever spawns the id of a tombstone anew begins a new workspace.
    let anew = old.desired == Desired::Deleted && new.desired == Desired::Running;
    if facts(old) != facts(new) || (old.since != new.since && !anew) {
        return Err(format!("{:?} became {:?}", facts(old), facts(new)));
    }
    if new.generation < old.generation {
        return Err(format!(
            "generation {} became {}",
            old.generation, new.generation
        ));
    }
    if old.desired == Desired::Deleted && new.desired != Desired::Deleted && !anew {
        return Err(format!("{} is not deleted any more", old.id));
    }
    Ok(())
}

/// A successor takes over only after it was Ready for the settle time.
fn settled(old: &Record, new: &Record, seen: &Seen) -> Result<(), Broken> {
    let (Some(before), Some(after)) = (&old.upgrade, &new.upgrade) else {
        return Ok(());
    };
    let commits =
        matches!(before.phase, Phase::Starting) && matches!(after.phase, Phase::Committed { .. });
    if !commits {
        return Ok(());
    }
    let views: Vec<PodView> = seen.pods.iter().filter_map(|pod| view(pod)).collect();
    let successor = views
        .iter()
        .find(|pod| Some(&pod.uid) == after.successor.uid.as_ref());
    let Some(pod) = successor.filter(|pod| select::is_routable(pod)) else {
        return Err("committed to a successor that was not ready".into());
    };
    // Times are whole seconds.
    let settle = i64::from(after.timing.settle) - 1;
    if seen.at - pod.ready.since < settle {
        return Err(format!(
            "committed {} s after ready",
            seen.at - pod.ready.since
        ));
    }
    Ok(())
}

/// The pod of an upgrade side by side that traffic was taken from goes when the proxies say that nobody
/// uses it any more, or at the bound.
fn drained(upgrade: &Upgrade, pod: &str, seen: &Seen) -> Result<(), Broken> {
    let since = match &upgrade.phase {
        Phase::Committed { at } if upgrade.source.uid.as_deref() == Some(pod) => *at,
        Phase::Aborting { at, .. } if upgrade.successor.uid.as_deref() == Some(pod) => *at,
        _ => return Ok(()),
    };
    // Times are whole seconds.
    let bound = since + i64::from(upgrade.timing.drain_timeout) - 1;
    if upgrade.mode != Mode::SideBySide || seen.at >= bound {
        return Ok(());
    }
    unused(pod, &seen.reports, |said| &said.sessions)
}

/// The original of a recreate ends when no request is under way on it any more, or after a moment.
fn quiesced(old: &Record, new: &Record, seen: &Seen) -> Result<(), Broken> {
    let (Some(before), Some(after)) = (&old.upgrade, &new.upgrade) else {
        return Ok(());
    };
    let (Phase::Quiescing { at }, Phase::Replacing) = (&before.phase, &after.phase) else {
        return Ok(());
    };
    let uid = before.source.uid.as_deref().unwrap_or_default();
    let mut views = seen.pods.iter().filter_map(|pod| view(pod));
    let there = views.any(|pod| pod.uid == uid && pod.is_live());
    if !there || seen.at >= at + IN_FLIGHT - 1 {
        return Ok(());
    }
    unused(uid, &seen.reports, |said| &said.requests)
        .map_err(|why| format!("the original ends though {why}"))
}

/// All proxies say that they route past the pod and that nothing is open on it.
fn unused(
    pod: &str,
    reports: &[ProxyReport],
    open: fn(&Sessions) -> &BTreeMap<String, u32>,
) -> Result<(), Broken> {
    for ProxyReport { proxy, answer } in reports {
        let Some(said) = answer else {
            return Err(format!("{proxy} gave no answer"));
        };
        if said.active.iter().chain(&said.spare).any(|uid| uid == pod) {
            return Err(format!("{proxy} routes to it, or may"));
        }
        if open(said).get(pod).is_some_and(|count| *count > 0) {
            return Err(format!("something is open on it through {proxy}"));
        }
    }
    Ok(())
}

/// An operation ends once, and stays as it ended.
fn operation(change: &Change) -> Result<(), Broken> {
    let Some(old) = change.before.as_deref().and_then(decode_operation) else {
        return Ok(());
    };
    if !old.state.is_terminal() {
        return Ok(());
    }
    match change.after.as_deref().and_then(decode_operation) {
        Some(new) if new == old => Ok(()),
        new => Err(format!(
            "{} had ended and was changed: {:?}",
            old.id,
            new.map(|new| new.state)
        )),
    }
}

/// What the manifest keeps secret is in manifests and nowhere else.
fn secretless(key: &Key, object: &Value) -> Result<(), Broken> {
    let shown = match key.0 {
        Kind::Pod => object["metadata"].to_string(),
        Kind::ConfigMap | Kind::Event => object.to_string(),
        Kind::Secret | Kind::Claim | Kind::Lease | Kind::Quota => return Ok(()),
    };
    if shown.contains(SECRET) {
        return Err(format!("a secret is shown in {:?} {}", key.0, key.2));
    }
    Ok(())
}

pub(crate) fn view(pod: &Value) -> Option<PodView> {
    let pod = serde_json::from_value(pod.clone()).ok()?;
    PodView::from_pod(&pod).ok()
}

pub(crate) fn decode(secret: &Value) -> Option<Record> {
    let data = secret["data"]["record.json"].as_str()?;
    serde_json::from_slice(&BASE64.decode(data.as_bytes()).ok()?).ok()
}

pub(crate) fn decode_operation(map: &Value) -> Option<Operation> {
    serde_json::from_str(map["data"]["operation.json"].as_str()?).ok()
}
