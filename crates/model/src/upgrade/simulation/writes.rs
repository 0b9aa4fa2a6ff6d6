//! What becomes of the planner's writes, and what each of them must keep to.

use super::*;

impl Cluster {
    /// A pod without a gate comes to be: nothing else may hold what only one can.
    fn assert_alone(&self, uid: &str) {
        let exclusive = self.record.as_ref().is_some_and(|record| record.exclusive);
        // Who is late cannot know of what somebody else did meanwhile.
        let counts = |pod: &&PodView| !self.late || !self.strange.contains(&pod.uid);
        let others = self.pods.iter().filter(|pod| pod.uid != uid);
        assert!(
            !exclusive || !others.filter(counts).any(PodView::may_hold),
            "two pods may hold the volume: {:#?}",
            self.pods
        );
    }

    pub(in crate::upgrade) fn apply(&mut self, write: &Write) {
        match write {
            Write::CreatePod { object } => self.create(object),
            Write::CreateProbe { object, successor } => self.create_probe(object, successor),
            Write::DeletePod {
                uid,
                why: DeleteReason::Probe,
                ..
            } => {
                let mut probes = self.probes.iter_mut();
                let probe = probes.find(|probe| probe.uid == *uid);
                probe.expect("a probe is no workspace's pod").deleting = true;
            }
            Write::PatchPod {
                uid,
                labels,
                annotations,
                ..
            } => {
                let pod = self.pod(uid);
                for (key, value) in labels {
                    assert_eq!(*key, keys::UPGRADE_STATE);
                    pod.state = match value.as_str() {
                        "committed" => UpgradeState::Committed,
                        "aborted" => UpgradeState::Aborted,
                        "quiesced" => UpgradeState::Quiesced,
                        other => panic!("{other}"),
                    };
                }
                for (key, value) in annotations {
                    match *key {
                        keys::LAST_UPGRADE_ERROR => pod.last_upgrade_error = Some(value.clone()),
                        keys::LAST_UPGRADE => pod.last_upgrade = Some(value.clone()),
                        other => panic!("{other}"),
                    }
                }
            }
            Write::Release { uid, .. } => {
                let pod = self.pod(uid);
                assert!(pod.gated && !pod.deleting, "released what is not held back");
                pod.gated = false;
                self.assert_alone(uid);
            }
            Write::DeletePod { uid, why, .. } => {
                let others = self
                    .pods
                    .iter()
                    .filter(|pod| pod.uid != *uid && pod.is_live())
                    .count();
                match why {
                    _ if self.late => {}
                    DeleteReason::Superseded | DeleteReason::Aborted | DeleteReason::Duplicate => {
                        let active = select::active(&self.pods).map(|pod| pod.uid.as_str());
                        assert_ne!(
                            active,
                            Some(uid.as_str()),
                            "deleted a pod that is routed to"
                        );
                        assert!(others > 0, "deleted the last pod");
                    }
                    DeleteReason::Blocking => {
                        let active = select::active(&self.pods).map(|pod| pod.uid.as_str());
                        assert_ne!(active, Some(uid.as_str()), "deleted what serves");
                    }
                    DeleteReason::Ended => assert!(!self.pod(uid).is_live()),
                    DeleteReason::Stopped | DeleteReason::Deleted => {}
                    DeleteReason::Probe => panic!("a workspace's pod is no probe"),
                }
                self.pod(uid).deleting = true;
            }
            Write::PutRecord(record) | Write::DropClaims(record) | Write::Bury(record) => {
                let before = self.record.as_ref().expect("a record");
                assert_eq!(
                    (&record.owner, &record.id, record.since),
                    (&before.owner, &before.id, before.since)
                );
                assert!(
                    record.generation >= before.generation,
                    "generations only grow"
                );
                assert_ne!(**record, *before, "a write that changes nothing");
                self.record = Some((**record).clone());
                self.refused = None;
            }
            Write::DeleteRecord => {
                let record = self.record.take().expect("a record");
                assert!(
                    record.gone_at.is_some_and(|at| at + 120 <= self.now),
                    "forgot too early"
                );
            }
            Write::PutOperation(operation) => {
                let stored = self.operations.get(&operation.id);
                assert!(
                    stored.is_none_or(|stored| !stored.state.is_terminal()),
                    "an ended operation was changed"
                );
                let upgrade = self
                    .record
                    .as_ref()
                    .and_then(|record| record.upgrade.as_ref());
                let under_way = upgrade.is_some_and(|upgrade| upgrade.operation == operation.id);
                assert!(
                    self.late || under_way != operation.state.is_terminal(),
                    "ended means that the next one can begin"
                );
                self.operations
                    .insert(operation.id.clone(), operation.clone());
            }
        }
    }

    fn create_probe(&mut self, object: &serde_json::Value, successor: &serde_json::Value) {
        assert!(
            self.late || self.pods.iter().any(select::is_routable),
            "there is something to lose"
        );
        let name = |object: &serde_json::Value| {
            object["metadata"]["name"]
                .as_str()
                .expect("a name")
                .to_owned()
        };
        if self.refuse(&name(successor)) || self.refuse(&name(object)) {
            return;
        }
        self.uids += 1;
        let taken = self.probes.iter().any(|probe| probe.name == name(object));
        if taken {
            self.refused = Some(Refused {
                pod: name(object),
                why: Refusal::NameTaken,
            });
            return;
        }
        self.probes.push(Probe {
            uid: format!("p{}", self.uids),
            name: name(object),
            workspace: "dev".into(),
            resource_version: "1".into(),
            deleting: false,
            finding: Finding::Nothing(None),
        });
    }

    /// Whether the API server refuses a pod of that name.
    fn refuse(&mut self, name: &str) -> bool {
        let living = |pod: &&PodView| !matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded);
        let full = self
            .quota
            .is_some_and(|most| self.pods.iter().filter(living).count() >= most);
        let quota = full.then(|| Trouble::new("Forbidden", "exceeded quota: pods"));
        let why = self.rejects.clone().or(quota).map(Refusal::Rejected);
        let refused = why.is_some();
        self.refused = why
            .map(|why| Refused {
                pod: name.to_owned(),
                why,
            })
            .or(self.refused.take());
        refused
    }

    fn create(&mut self, object: &serde_json::Value) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        if self.refuse(name) {
            return;
        }
        if self.pods.iter().any(|pod| pod.name == name) {
            self.refused = Some(Refused {
                pod: name.to_owned(),
                why: Refusal::NameTaken,
            });
            return;
        }
        self.uids += 1;
        let generation = object["metadata"]["labels"][keys::GENERATION]
            .as_str()
            .expect("a generation");
        let mut new = pod(
            &format!("n{}", self.uids),
            generation.parse().expect("a number"),
        );
        new.name = name.to_owned();
        new.created = self.now;
        new.node = Some("node-1".into());
        new.phase = PodPhase::Pending;
        new.ready = Ready {
            is: false,
            since: self.now,
        };
        if let Some(of) = object["metadata"]["annotations"][keys::UPGRADE_OF].as_str() {
            new.upgrade_of = Some(serde_json::from_str::<UpgradeOf>(of).expect("upgrade-of"));
            new.state = UpgradeState::Candidate;
        }
        new.gated = object.pointer("/spec/schedulingGates").is_some();
        let record = self.record.as_ref().expect("a record");
        let upgrade = record.upgrade.as_ref();
        new.template = upgrade
            .filter(|upgrade| upgrade.successor.name == new.name)
            .map_or(&record.template, |upgrade| &upgrade.template)
            .clone();
        let (uid, free) = (new.uid.clone(), !new.gated);
        self.pods.push(new);
        if free {
            self.assert_alone(&uid);
        }
    }
}
