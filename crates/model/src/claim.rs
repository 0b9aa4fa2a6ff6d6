//! A workspace's claims: the volumes that outlive its pods.
//!
//! The record lists every claim that any version of the workspace's template asked for. They are
//! made before the pod that mounts them, kept by stops and upgrades, also by an upgrade to a
//! template that does not name them any more, and go only when the workspace is deleted with its
//! data. The spec of a claim that exists never changes; so a larger size in a template counts for
//! workspaces that are spawned from then on.

use crate::record::{Desired, Record};
use crate::{keys, label, name};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A claim that should exist while the workspace does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedClaim {
    /// What the template calls it.
    pub name: String,
    /// Name of the PersistentVolumeClaim, a function of workspace, owner and [`Self::name`].
    pub object: String,
    /// Spec of the PersistentVolumeClaim.
    pub spec: Value,
}

impl PlannedClaim {
    /// The claim that a template calls `name`, for a workspace.
    #[must_use]
    pub fn new(owner: &str, id: &str, namespace: &str, name: &str, spec: Value) -> Self {
        Self {
            name: name.to_owned(),
            object: name::claim(owner, id, namespace, name),
            spec,
        }
    }
}

/// The PersistentVolumeClaim to create, labelled like the workspace's pods.
#[must_use]
pub fn object(record: &Record, claim: &PlannedClaim) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim.object,
            "namespace": record.namespace,
            "labels": {
                keys::TYPE: keys::TYPE_WORKSPACE,
                keys::WORKSPACE_ID: record.id,
                keys::USER_SUB: label::owner(&record.owner),
                keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER,
            },
            "annotations": {
                keys::USER_SUB: record.owner,
                keys::CLAIM: claim.name,
                keys::TEMPLATE_REF: record.template.name,
            },
        },
        "spec": claim.spec,
    })
}

impl Record {
    /// Takes in the claims of a template's version. Those of a name that is known stay as they are:
    /// data is never replaced by an upgrade.
    pub fn add_claims(&mut self, claims: Vec<PlannedClaim>) {
        let new = self.new_claims(claims);
        self.unused_claims
            .retain(|claim| !new.iter().any(|new| new.object == claim.object));
        self.claims.extend(new);
    }

    /// Those of the claims that the workspace does not have yet.
    pub(crate) fn new_claims(&self, claims: Vec<PlannedClaim>) -> Vec<PlannedClaim> {
        let known = |claim: &PlannedClaim| self.claims.iter().any(|own| own.name == claim.name);
        claims.into_iter().filter(|claim| !known(claim)).collect()
    }

    /// Takes in the claims of an upgrade that has failed: they are unused, but for those that the
    /// workspace's pod mounts, which are its own though the record did not know it: that of an
    /// adopted pod for one.
    pub(crate) fn give_up_claims(&mut self, claims: Vec<PlannedClaim>) {
        for claim in claims {
            if mounts(&self.manifest, &claim) {
                self.add_claims(vec![claim]);
            } else if !self.unused_claims.contains(&claim) {
                self.unused_claims.push(claim);
            }
        }
    }

    /// The claims that a pod with this manifest mounts, which must exist before it.
    pub fn claims_of<'a>(&'a self, pod: &'a Value) -> impl Iterator<Item = &'a PlannedClaim> {
        let mounted = move |claim: &&PlannedClaim| mounts(pod, claim);
        let new = self.upgrade.iter().flat_map(|upgrade| &upgrade.claims);
        self.claims.iter().chain(new).filter(mounted)
    }

    /// The record of the same workspace, wanted gone together with its claims. `None`: it is
    /// already. Whoever deletes twice, once with and once without data, means with.
    #[must_use]
    pub fn delete_with_data(&self) -> Option<Self> {
        (self.desired != Desired::Deleted || !self.delete_data).then(|| Self {
            desired: Desired::Deleted,
            delete_data: true,
            ..self.clone()
        })
    }
}

/// Whether a pod with this manifest mounts the claim.
fn mounts(pod: &Value, claim: &PlannedClaim) -> bool {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    volumes.into_iter().flatten().any(|volume| {
        let name = volume.pointer("/persistentVolumeClaim/claimName");
        name.and_then(Value::as_str) == Some(claim.object.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::running;

    fn claim(name: &str, size: &str) -> PlannedClaim {
        let spec = json!({"resources": {"requests": {"storage": size}}});
        PlannedClaim::new("alice", "dev", "ws", name, spec)
    }

    #[test]
    fn a_known_claim_never_changes_and_a_dropped_one_stays() {
        let mut record = running();
        record.add_claims(vec![claim("home", "1Gi")]);
        record.add_claims(vec![claim("home", "9Gi"), claim("cache", "2Gi")]);
        record.add_claims(vec![claim("cache", "3Gi")]);
        assert_eq!(record.claims, [claim("home", "1Gi"), claim("cache", "2Gi")]);
    }

    #[test]
    fn only_what_a_pod_mounts_must_exist_before_it() {
        let mut record = running();
        record.add_claims(vec![claim("home", "1Gi"), claim("cache", "1Gi")]);
        let volume =
            json!({"name": "v", "persistentVolumeClaim": {"claimName": claim("cache", "").object}});
        let shared = json!({"name": "s", "persistentVolumeClaim": {"claimName": "datasets"}});
        let pod = json!({"spec": {"volumes": [shared, volume, {"name": "e", "emptyDir": {}}]}});
        let names: Vec<&str> = record.claims_of(&pod).map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["cache"]);
        assert_eq!(record.claims_of(&json!({"spec": {}})).count(), 0);
    }

    #[test]
    fn the_object_tells_whose_it_is() {
        let record = running();
        let made = object(&record, &claim("home", "1Gi"));
        assert_eq!(made["metadata"]["name"], claim("home", "1Gi").object);
        assert_eq!(made["metadata"]["labels"][keys::WORKSPACE_ID], record.id);
        assert_eq!(
            made["metadata"]["annotations"][keys::USER_SUB],
            record.owner
        );
        assert_eq!(made["metadata"]["annotations"][keys::CLAIM], "home");
    }

    #[test]
    fn deleting_with_data_wins_over_deleting_without() {
        let record = running();
        let kept = record.delete().unwrap();
        assert!(!kept.delete_data);
        let taken = kept.delete_with_data().unwrap();
        assert!(taken.delete_data && taken.desired == Desired::Deleted);
        assert!(taken.delete_with_data().is_none() && taken.delete().is_none());
    }

    #[test]
    fn a_record_of_an_earlier_version_has_no_claims() {
        let mut stored = serde_json::to_value(running()).unwrap();
        let fields = stored.as_object_mut().unwrap();
        assert!(!fields.contains_key("claims") && !fields.contains_key("deleteData"));
        assert_eq!(serde_json::from_value::<Record>(stored).unwrap(), running());
    }
}
