//! How a schedule has to end.

use crate::api::{Kind, workspace};
use crate::kubelet::{is_probe, uid};
use crate::laws::{Broken, decode_operation, view};
use crate::scenario::{End, operation};
use crate::world::World;
use nogoo9_model::operation::State;
use nogoo9_model::pod::UpgradeState;
use nogoo9_model::record::Desired;
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
        let outcome = self.outcome(id)?;
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
        let version = view.template.version.as_str();
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
        match outcome {
            Some(State::Succeeded) if version != "v2" => {
                Err(format!("upgraded, and runs {version}"))
            }
            Some(State::Failed) if version != "v1" => {
                Err(format!("not upgraded, and runs {version}"))
            }
            Some(State::Failed) if view.last_upgrade_error.is_none() => {
                Err("the pod tells no reason".into())
            }
            Some(State::Succeeded) if view.last_upgrade_error.is_some() => {
                Err("the pod tells of a failure".into())
            }
            _ => Ok(()),
        }
    }

    /// How the workspace's operation ended, if it has one.
    fn outcome(&self, id: &str) -> Result<Option<State>, Broken> {
        let wanted = operation(id);
        let mut all = self
            .server
            .of(Kind::ConfigMap)
            .filter_map(|(_, map)| decode_operation(map));
        let Some(found) = all.find(|found| found.id == wanted) else {
            return if self.scenario.outcomes.is_empty() {
                Ok(None)
            } else {
                Err("its operation is not stored".into())
            };
        };
        let [target] = found.targets.as_slice() else {
            return Err(format!("its operation has {} results", found.targets.len()));
        };
        if !self.scenario.outcomes.contains(&found.state)
            || target.state != found.state
            || found.finished_at.is_none()
        {
            return Err(format!(
                "its operation ended as {:?}, {:?}",
                found.state, target.error
            ));
        }
        Ok(Some(found.state))
    }
}
