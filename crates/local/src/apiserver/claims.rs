//! What the controllers of volumes do to claims: bind those of the one storage class there is, and
//! let those that are being deleted go once no pod uses them.
//!
//! A claim without a class gets the class [`DEFAULT_CLASS`], as by a cluster's default; its volume
//! is a folder of the node that first runs a pod with it. No other class exists: a claim that names
//! another one stays Pending, with the event that a real cluster gives. There are no
//! PersistentVolume or StorageClass objects to look at; `status` and `spec.volumeName` of the claim
//! tell what there is to know. Sizes are not enforced, so a claim that grows is granted at once.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::involved;
use super::object::{self, list, text};
use super::pods;
use super::registry::Resource;
use super::removal;
use super::store::{Key, Object, Store};
use super::tx::Tx;

/// The class of claims that name none.
pub(crate) const DEFAULT_CLASS: &str = "standard";
/// Keeps a claim from going while a pod uses it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Annotation: the node that has the claim's folder.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const PROVISIONER: &str = "nogoo9.dev/local-folder";

/// Fills what admission fills when a claim is made.
pub(crate) fn prepare_create(claim: &mut Value) {
    object::default(claim, &["spec", "volumeMode"], "Filesystem");
    // An empty class is a class: it asks for no provisioning.
    if claim
        .pointer("/spec/storageClassName")
        .is_none_or(Value::is_null)
    {
        object::set(claim, &["spec", "storageClassName"], DEFAULT_CLASS);
    }
    let finalizers = object::child(object::child(claim, "metadata"), "finalizers");
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    if let Some(finalizers) = finalizers.as_array_mut()
        && !finalizers.iter().any(|finalizer| finalizer == PROTECTION)
    {
        finalizers.push(PROTECTION.into());
    }
    object::set(claim, &["status"], json!({"phase": "Pending"}));
}

/// Looks after claims until told to stop.
pub(crate) async fn run(store: Arc<Store>, shutdown: CancellationToken) {
    let mut changed = store.changed();
    loop {
        changed.borrow_and_update();
        let (claims, _) = store.list(Resource::PersistentVolumeClaims, None);
        let open = |claim: &&Object| {
            object::terminating(claim) || pending(claim).is_some() || grown(claim)
        };
        for claim in claims.iter().filter(open) {
            let key = Key::new(object::namespace(claim), object::name(claim));
            let done = store.write(move |tx| settle(tx, &key)).await;
            if let Err(failure) = done {
                tracing::debug!(status = %failure.status(), "claim not settled");
            }
        }
        tokio::select! {
            changed = changed.changed() => if changed.is_err() { return },
            () = shutdown.cancelled() => return,
        }
    }
}

/// What is to be done about a claim that is not bound.
#[derive(Debug, PartialEq, Eq)]
enum Pending {
    /// It gets a folder.
    Bind,
    /// Nobody can make a volume for it; the event that says so.
    Refuse(&'static str, &'static str, String),
}

fn pending(claim: &Value) -> Option<Pending> {
    if object::terminating(claim) || text(claim, "/status/phase") != "Pending" {
        return None;
    }
    let class = claim
        .pointer("/spec/storageClassName")
        .and_then(Value::as_str);
    match class {
        None | Some(DEFAULT_CLASS) => Some(Pending::Bind),
        Some("") => Some(Pending::Refuse(
            "Normal",
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set".into(),
        )),
        Some(class) => Some(Pending::Refuse(
            "Warning",
            "ProvisioningFailed",
            format!("storageclass.storage.k8s.io {class:?} not found"),
        )),
    }
}

fn settle(tx: &mut Tx<'_>, key: &Key) -> Result<(), Failure> {
    let resource = Resource::PersistentVolumeClaims;
    let Some(claim) = tx.get(resource, key) else {
        return Ok(());
    };
    if object::terminating(&claim) {
        if !in_use(tx, key) {
            unprotect(tx, &claim);
        }
        return Ok(());
    }
    match pending(&claim) {
        Some(Pending::Bind) => {
            let bound = bound(&claim);
            tx.put(resource, bound);
            let message = format!("Successfully provisioned volume {}", volume(&claim));
            involved::event(
                tx,
                &claim,
                PROVISIONER,
                "Normal",
                "ProvisioningSucceeded",
                &message,
            )
        }
        Some(Pending::Refuse(kind, reason, message)) => {
            involved::event_once(tx, &claim, PROVISIONER, kind, reason, &message)
        }
        None if grown(&claim) => {
            let mut larger = claim.as_ref().clone();
            object::set(
                &mut larger,
                &["status", "capacity", "storage"],
                size(&claim),
            );
            tx.put(resource, larger);
            Ok(())
        }
        None => Ok(()),
    }
}

/// The size that a claim asks for.
fn size(claim: &Value) -> &str {
    text(claim, "/spec/resources/requests/storage")
}

/// Whether a bound claim asks for more than it has.
fn grown(claim: &Value) -> bool {
    text(claim, "/status/phase") == "Bound"
        && size(claim) != text(claim, "/status/capacity/storage")
}

/// Name of a claim's volume.
fn volume(claim: &Value) -> String {
    format!("pvc-{}", object::uid(claim))
}

fn bound(claim: &Value) -> Value {
    let mut bound = claim.clone();
    object::set(&mut bound, &["spec", "volumeName"], volume(claim));
    for (key, value) in [
        ("pv.kubernetes.io/bind-completed", "yes"),
        ("pv.kubernetes.io/bound-by-controller", "yes"),
        ("volume.kubernetes.io/storage-provisioner", PROVISIONER),
    ] {
        object::set(&mut bound, &["metadata", "annotations", key], value);
    }
    let size = size(claim).to_owned();
    let modes = list(claim, "/spec/accessModes").to_vec();
    object::set(
        &mut bound,
        &["status"],
        json!({"phase": "Bound", "accessModes": modes, "capacity": {"storage": size}}),
    );
    bound
}

/// Whether a pod that is placed mounts the claim.
fn in_use(tx: &Tx<'_>, key: &Key) -> bool {
    let pods = tx.list(Resource::Pods, Some(&key.namespace));
    pods.iter().any(|pod| {
        !text(pod, "/spec/nodeName").is_empty() && pods::claims(pod).any(|name| name == key.name)
    })
}

fn unprotect(tx: &mut Tx<'_>, claim: &Object) {
    let mut freed = claim.as_ref().clone();
    let Some(finalizers) = object::list_mut(&mut freed, &["metadata", "finalizers"]) else {
        return;
    };
    let before = finalizers.len();
    finalizers.retain(|finalizer| finalizer != PROTECTION);
    if finalizers.len() == before {
        return;
    }
    if removal::finished(&freed) {
        removal::remove(tx, Resource::PersistentVolumeClaims, freed);
    } else {
        tx.put(Resource::PersistentVolumeClaims, freed);
    }
}

/// Notes on the claims of a pod that is placed which node has their folders from now on.
pub(crate) fn place(tx: &mut Tx<'_>, pod: &Value, node: &str) {
    let resource = Resource::PersistentVolumeClaims;
    let namespace = object::namespace(pod).to_owned();
    for name in pods::claims(pod) {
        let Some(claim) = tx.get(resource, &Key::new(&namespace, name)) else {
            continue;
        };
        if object::annotation(&claim, SELECTED_NODE).is_empty() {
            let mut placed = claim.as_ref().clone();
            object::set(
                &mut placed,
                &["metadata", "annotations", SELECTED_NODE],
                node,
            );
            tx.put(resource, placed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(class: &Value) -> Value {
        let mut claim = json!({
            "metadata": {"name": "c", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        if !class.is_null() {
            claim["spec"]["storageClassName"] = class.clone();
        }
        prepare_create(&mut claim);
        claim
    }

    #[test]
    fn only_the_one_class_is_bound() {
        for class in [Value::Null, json!("standard")] {
            let claim = claim(&class);
            assert_eq!(pending(&claim), Some(Pending::Bind));
            let bound = bound(&claim);
            assert_eq!(pending(&bound), None);
            assert_eq!(bound["spec"]["volumeName"], "pvc-u");
            assert_eq!(
                bound["status"],
                json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}})
            );
        }
        for (class, reason) in [("", "FailedBinding"), ("missing", "ProvisioningFailed")] {
            let pending = pending(&claim(&json!(class)));
            assert!(
                matches!(pending, Some(Pending::Refuse(_, r, _)) if r == reason),
                "{class}"
            );
        }
    }
}
