//! The `eviction` subresource of pods, which `kubectl drain` uses. There are no disruption budgets
//! that could refuse.

use serde_json::Value;

use super::failure::Failure;
use super::object;
use super::pods;
use super::registry::Resource;
use super::removal::{self, DeleteOptions};
use super::store::Key;
use super::tx::Tx;

/// Evicts a pod: deletes it, saying that it was no fault of its own.
pub(crate) fn evict_in(tx: &mut Tx<'_>, key: &Key, options: &DeleteOptions) -> Result<(), Failure> {
    let resource = Resource::Pods;
    let pod = tx
        .get(resource, key)
        .ok_or_else(|| Failure::not_found(resource, &key.name))?;
    removal::preconditions(resource, &pod, options)?;
    disrupt(
        tx,
        key,
        &pod,
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    );
    // What was required of the version has been checked, and the condition has changed it.
    let options = DeleteOptions {
        version: None,
        ..options.clone()
    };
    removal::delete_in(tx, resource, key, &options)?;
    Ok(())
}

/// Notes on a pod that is about to be deleted why.
pub(crate) fn disrupt(tx: &mut Tx<'_>, key: &Key, pod: &Value, reason: &str, message: &str) {
    if object::terminating(pod) || tx.get(Resource::Pods, key).is_none() {
        return;
    }
    let mut marked = pod.clone();
    let now = tx.now_text();
    let (reason, message) = (Some(reason), Some(message));
    if pods::set_condition(
        &mut marked,
        "DisruptionTarget",
        "True",
        reason,
        message,
        &now,
    ) {
        tx.put(Resource::Pods, marked);
    }
}
