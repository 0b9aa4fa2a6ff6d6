//! A workspace with a claim, as a spawn leaves it in its record.

use super::WORKSPACES;
use nogoo9_model::claim::PlannedClaim;
use nogoo9_model::pod::TemplateRef;
use nogoo9_model::record::{Record, Spawn};
use nogoo9_model::{keys, label};
use serde_json::{Map, json};

pub(crate) fn claim(id: &str) -> PlannedClaim {
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    PlannedClaim::new("alice", id, WORKSPACES, "data", spec)
}

pub(crate) fn record(id: &str, now: i64) -> Record {
    let claim = claim(id);
    let manifest = json!({
        "metadata": {
            "labels": {
                keys::TYPE: keys::TYPE_WORKSPACE, keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER,
                keys::WORKSPACE_ID: id, keys::USER_SUB: label::owner("alice"),
            },
            "annotations": {keys::USER_SUB: "alice"},
        },
        "spec": {
            // None that exists: nobody but the executor writes to the pod, and no write of it is late.
            "schedulerName": "nobody",
            "containers": [{"name": "main", "image": "image:1"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim.object}}],
        },
    });
    let spawn = Spawn {
        id: id.into(),
        namespace: WORKSPACES.into(),
        owner: "alice".into(),
        name: id.into(),
        template: TemplateRef {
            name: "t".into(),
            version: "v1".into(),
        },
        inputs: Map::new(),
        manifest,
        exclusive: true,
    };
    let mut record = Record::spawn(spawn, now);
    record.add_claims(vec![claim]);
    record
}
