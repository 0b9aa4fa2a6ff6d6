//! How a schedule has to end.

use crate::api::{Kind, workspace};
use crate::bulk;
use crate::kubelet::{is_probe, uid};
use crate::laws::{Broken, decode_operation, view};
use crate::scenario::{Act, End, Turn, back};
use crate::world::World;
use nogoo9_model::operation::{Kind as Asked, Operation, State};
use nogoo9_model::pod::{PodView, UpgradeState};
use nogoo9_model::record::{Desired, Record};
use nogoo9_model::select;

impl World<'_> {
    /// Whether everything that was to come has come.
    pub(crate) fn is_over(&self) -> bool {
        let all = self.scenario.script.len();
        self.progress.values().all(|done| *done == all)
    }

    /// Nothing is left to do: every workspace must be as it should be.
    pub(crate) fn verdict(&self) -> Result<(), Broken> {
        for id in self.scenario.ids {
            self.workspace(id)
                .map_err(|why| format!("{id} at the end: {why}"))?;
        }
        if self.scenario.bulk.is_some() {
            bulk::ended(&self.server, self.scenario).map_err(|why| format!("at the end: {why}"))?;
        }
        let probes = self
            .server
            .of(Kind::Pod)
            .filter(|(_, pod)| is_probe(pod))
            .count();
        if probes > 0 {
            return Err("a probe was left over".into());
        }
        Ok(())
    }

    fn workspace(&self, id: &str) -> Result<(), Broken> {
        let of = |kind: Kind| {
            self.server
                .of(kind)
                .filter(|(_, object)| workspace(object) == Some(id))
        };
        let pods: Vec<_> = of(Kind::Pod).map(|(_, pod)| pod.clone()).collect();
        let newest = self.newest(id)?;
        let record = self.laws.records.get(id);
        match (self.scenario.end, record) {
            (End::Gone, None) => {
                let left = pods.len() + of(Kind::Claim).count();
                return if left == 0 {
                    Ok(())
                } else {
                    Err(format!("{left} objects are left: {pods:#?}"))
                };
            }
            (End::Gone, Some(_)) => return Err("its record is left".into()),
            (_, None) => return Err("it has no record".into()),
            (End::Stopped, Some(record)) => {
                let stopped = record.desired == Desired::Stopped && pods.is_empty();
                return if stopped {
                    Ok(())
                } else {
                    Err(format!("it is not stopped: {pods:#?}"))
                };
            }
            (End::Running(_), Some(_)) => {}
        }
        let (End::Running(versions), Some(record)) = (self.scenario.end, record) else {
            return Ok(());
        };
        let [pod] = pods.as_slice() else {
            return Err(format!("it has {} pods", pods.len()));
        };
        let Some(view) = view(pod) else {
            return Err("its pod is none".into());
        };
        let version = match view.template.version.as_str() {
            // What the template says is hashed.
            "v1" => "v1",
            _ if self.scenario.bulk.is_some() => "v2",
            other => other,
        };
        if !versions.contains(&version) || view.template != record.template {
            return Err(format!(
                "it runs {version}, and its record says {:?}",
                record.template
            ));
        }
        if record.pod.uid.as_deref() != Some(uid(pod)) || record.pod.generation != view.generation {
            return Err(format!(
                "its record speaks of another pod: {:?}",
                record.pod
            ));
        }
        if !select::is_routable(&view) || view.state != UpgradeState::Committed {
            return Err(format!("its pod does not serve: {view:#?}"));
        }
        if record.desired != Desired::Running || record.upgrade.is_some() {
            return Err("its record speaks of something under way".into());
        }
        if of(Kind::Claim).count() != record.claims.len() {
            return Err("a claim is missing, or left over".into());
        }
        match newest {
            Some(newest) => self.after(&newest, record, &view),
            None => Ok(()),
        }
    }

    /// What the newest operation has made of the workspace.
    fn after(&self, newest: &Operation, record: &Record, pod: &PodView) -> Result<(), Broken> {
        let Some(target) = newest.targets.first() else {
            return Err("its operation has no result".into());
        };
        let succeeded = newest.state == State::Succeeded;
        let version = if succeeded {
            &target.to_version
        } else {
            &target.from_version
        };
        if pod.template.version != *version {
            let (state, runs) = (newest.state, &pod.template.version);
            return Err(format!(
                "{state:?}, and it runs {runs} instead of {version}"
            ));
        }
        if self.scenario.bulk.is_none()
            && record.manifest["spec"] != self.scenario.manifest(&record.id, version)["spec"]
        {
            return Err(format!("it is not what {version} was: {}", record.manifest));
        }
        match newest.state {
            State::Failed if pod.last_upgrade_error.is_none() => {
                return Err("the pod tells no reason".into());
            }
            State::Succeeded if pod.last_upgrade_error.is_some() => {
                return Err("the pod tells of a failure".into());
            }
            _ => {}
        }
        let kept = pod.name == target.previous_pod_name && pod.last_upgrade_error.is_none();
        if newest.state == State::Cancelled && self.asks(Act::Cancel) && !kept {
            return Err(format!("called off, and {} was touched", pod.name));
        }
        // Its first pod, the upgrade's, the rollback's.
        if newest.kind == Asked::Rollback && succeeded && pod.generation < 3 {
            return Err(format!("rolled back as generation {}", pod.generation));
        }
        Ok(())
    }

    fn asks(&self, wanted: Act) -> bool {
        self.scenario.script.iter().any(|(_, act)| *act == wanted)
    }

    /// The workspace's newest operation, if it has one. All that there are have to be over.
    fn newest(&self, id: &str) -> Result<Option<Operation>, Broken> {
        let all: Vec<Operation> = self
            .server
            .of(Kind::ConfigMap)
            .filter_map(|(_, map)| decode_operation(map))
            .filter(|found| {
                let mut targets = found.targets.iter();
                targets.any(|target| target.workspace == id)
            })
            .collect();
        if self.scenario.outcomes.is_empty() {
            return Ok(None);
        }
        for found in &all {
            let states = self.scenario.outcomes(id, &found.id);
            if states.is_empty() {
                return Err(format!("nobody asked for {}", found.id));
            }
            let [target] = found.targets.as_slice() else {
                return Err(format!("{} has {} results", found.id, found.targets.len()));
            };
            if self.laws.called_off.contains(&found.id) && found.state != State::Cancelled {
                return Err(format!(
                    "{} was called off, and {:?}",
                    found.id, found.state
                ));
            }
            let ended = target.state == found.state && found.finished_at.is_some();
            if !ended || !states.contains(&found.state) {
                let (id, state, why) = (&found.id, found.state, &target.error);
                return Err(format!("{id} ended as {state:?}, {why:?}"));
            }
        }
        // The turn of some may never have come.
        let budget = self.scenario.bulk.and_then(|bulk| bulk.budget);
        let closed = budget.is_some() || self.asks(Act::All(Turn::Cancel));
        let asked = [
            (!closed, self.scenario.operation(id)),
            (self.asks(Act::Rollback), back(id)),
        ];
        for (_, name) in asked.iter().filter(|(asked, _)| *asked) {
            if !all.iter().any(|found| found.id == *name) {
                return Err(format!("{name} is not stored"));
            }
        }
        let last = self
            .laws
            .records
            .get(id)
            .and_then(|record| record.last.as_ref());
        let last = last.map(|last| last.operation.id.as_str());
        Ok(all
            .into_iter()
            .find(|found| Some(found.id.as_str()) == last))
    }
}
