//! The scripts of scenarios: what may come next, and what happens then.

use crate::api::{By, Kind, workspace};
use crate::bulk;
use crate::kubelet::{is_ready, uid};
use crate::laws::Broken;
use crate::scenario::{Act, OWNER, When, Which};
use crate::wire::WORKSPACES;
use crate::world::World;
use nogoo9_model::record::{Phase, Record};
use nogoo9_model::{keys, label};
use serde_json::{Value, json};

/// How long a node stays away, in seconds.
const AWAY: i64 = 200;

impl World<'_> {
    /// Whether the next act of the workspace's script may come.
    pub(crate) fn may_act(&self, id: &str) -> bool {
        let Some((when, _)) = self.scenario.script.get(self.progress[id]) else {
            return false;
        };
        let busy = self
            .actors
            .iter()
            .any(|actor| actor.controller.is_none() && actor.id == id && actor.work.is_some());
        let early = self
            .again_at
            .get(id)
            .is_some_and(|at| *at > self.server.now);
        !busy && !early && self.holds(*when, id)
    }

    fn holds(&self, when: When, id: &str) -> bool {
        let record = self.laws.records.get(id);
        let pod = |uid_: Option<&String>| {
            let mut pods = self.server.of(Kind::Pod).map(|(_, pod)| pod);
            pods.find(|pod| uid_.is_some_and(|wanted| wanted == uid(pod)))
        };
        let over = |record: &Record| {
            record.upgrade.is_none() && record.last.as_ref().is_some_and(|last| last.shown)
        };
        match (when, record) {
            (When::Now, _) => true,
            (When::AllReady, _) => {
                let ids = self.scenario.ids;
                let all = || ids.iter().all(|id| self.holds(When::Ready, id));
                self.server.objects.contains_key(&bulk::key()) || all()
            }
            (When::Gone, record) => record.is_none_or(Record::is_gone),
            // It was deleted, and whoever asked for it had no answer: then it is asked for again.
            (When::Ready, None) => self.progress.get(id).is_some_and(|done| *done > 0),
            (_, None) => false,
            (When::Ready, Some(record)) => {
                record.upgrade.is_none()
                    && pod(record.pod.uid.as_ref()).is_some_and(|pod| is_ready(pod))
            }
            (When::Upgrading, Some(record)) => record.upgrade.is_some() || over(record),
            (When::Committed, Some(record)) => {
                let phase = record.upgrade.as_ref().map(|upgrade| &upgrade.phase);
                matches!(phase, Some(Phase::Committed { .. })) || over(record)
            }
            (When::Beside, Some(record)) => {
                let upgrade = record.upgrade.as_ref();
                let successor = upgrade.map(|upgrade| upgrade.successor.uid.as_ref());
                successor.is_some_and(|uid| pod(uid).is_some()) || over(record)
            }
        }
    }

    /// The workspace's script goes on.
    pub(crate) fn next_act(&mut self, id: &str) {
        if let Some(progress) = self.progress.get_mut(id) {
            *progress += 1;
        }
        self.patience.remove(id);
        self.again_at.remove(id);
    }

    /// The next act of the workspace's script comes.
    pub(crate) async fn script(&mut self, id: &'static str) -> Result<(), Broken> {
        let Some((_, act)) = self.scenario.script.get(self.progress[id]) else {
            return Ok(());
        };
        self.note(|| format!("{id}: {act:?}"));
        match *act {
            Act::Spawn
            | Act::Upgrade
            | Act::Again(_)
            | Act::UpgradeAll
            | Act::All(_)
            | Act::Cancel
            | Act::Rollback
            | Act::Stop
            | Act::Start
            | Act::Delete => {
                return self.command(id, *act).await;
            }
            Act::Evict(which) => {
                if let Some(pod) = self.which(id, which) {
                    let mut failed = (*pod).clone();
                    failed["status"]["phase"] = json!("Failed");
                    failed["status"]["reason"] = json!("Evicted");
                    failed["status"]["conditions"] = json!([]);
                    self.kubelet.let_go(uid(&pod));
                    self.put(&failed);
                }
            }
            Act::Kill(which) => self.kill(id, which),
            Act::Lose(which) => {
                if let Some(pod) = self.which(id, which) {
                    self.kubelet
                        .lost
                        .insert(uid(&pod).to_owned(), self.server.now + AWAY);
                    self.kill(id, which);
                }
            }
            Act::Stray(version, generation) => {
                let name = format!("stray-{id}-{generation}");
                let mut pod = self.foreign(id, &name, version);
                pod["metadata"]["labels"][keys::GENERATION] = json!(generation);
                self.put(&pod);
            }
            Act::Pair => {
                let old = self.foreign(id, &format!("ws-{OWNER}-{id}"), "v1");
                self.put(&old);
                let new = self.foreign(id, &format!("ws-{OWNER}-{id}-up-x1y2z"), "v2");
                self.put(&new);
            }
            Act::Quota(most) => self.server.quota = Some(most),
        }
        self.next_act(id);
        Ok(())
    }

    fn kill(&mut self, id: &str, which: Which) {
        if let Some(pod) = self.which(id, which) {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            self.server
                .end(&(Kind::Pod, WORKSPACES.into(), name.into()), By::World);
        }
    }

    fn which(&self, id: &str, which: Which) -> Option<std::rc::Rc<Value>> {
        let record = self.laws.records.get(id)?;
        let wanted = match which {
            Which::Own => record.pod.uid.as_ref(),
            Which::Successor => record.upgrade.as_ref()?.successor.uid.as_ref(),
        }?;
        let mut pods = self.server.of(Kind::Pod);
        pods.find(|(_, pod)| uid(pod) == wanted && workspace(pod) == Some(id))
            .map(|(_, pod)| pod.clone())
    }

    /// A pod as another spawner makes it: without generation.
    fn foreign(&mut self, id: &str, name: &str, version: &str) -> Value {
        let mut pod = self.scenario.manifest(id, version);
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["namespace"] = json!(WORKSPACES);
        pod["metadata"]["labels"][keys::USER_SUB] = json!(label::owner(OWNER));
        pod["metadata"]["uid"] = json!(format!("foreign-{name}"));
        pod["metadata"]["creationTimestamp"] = json!(self.server.stamp());
        pod["status"] = json!({"phase": "Pending"});
        pod
    }

    fn put(&mut self, pod: &Value) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        self.server.store(
            (Kind::Pod, WORKSPACES.into(), name.into()),
            pod.clone(),
            By::World,
        );
    }
}
