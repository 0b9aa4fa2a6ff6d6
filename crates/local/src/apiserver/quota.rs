//! ResourceQuota: counts of objects, enforced on create and kept in `status`.
//!
//! Known names are `pods` (those not ended), `count/<plural>[.<group>]` and the short names of
//! configmaps, secrets and claims. Limits on cpu, memory and storage are stored, not enforced.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::failure::Failure;
use super::object;
use super::pods;
use super::registry::Resource;
use super::tx::Tx;

/// The kind that a quota name counts.
fn counted(name: &str) -> Option<Resource> {
    if let Some(qualified) = name.strip_prefix("count/") {
        return Resource::ALL
            .into_iter()
            .find(|r| r.info().qualified() == qualified);
    }
    match name {
        "pods" => Some(Resource::Pods),
        "configmaps" => Some(Resource::ConfigMaps),
        "secrets" => Some(Resource::Secrets),
        "persistentvolumeclaims" => Some(Resource::PersistentVolumeClaims),
        "resourcequotas" => Some(Resource::Quotas),
        _ => None,
    }
}

fn usage(tx: &Tx<'_>, namespace: &str, name: &str) -> Option<i64> {
    let resource = counted(name)?;
    let objects = tx.list(resource, Some(namespace));
    let live = objects
        .iter()
        .filter(|o| name != "pods" || !pods::terminal(o))
        .count();
    i64::try_from(live).ok()
}

fn limits(quota: &Value) -> BTreeMap<String, i64> {
    let hard = quota.pointer("/spec/hard").and_then(Value::as_object);
    hard.into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.clone(), object::count(amount)?)))
        .collect()
}

/// Refuses one more object of a kind where a quota of the namespace is full.
pub(crate) fn admit(
    tx: &Tx<'_>,
    resource: Resource,
    namespace: &str,
    object_name: &str,
) -> Result<(), Failure> {
    for quota in tx.list(Resource::Quotas, Some(namespace)) {
        let (mut requested, mut used, mut limited) = (Vec::new(), Vec::new(), Vec::new());
        for (name, hard) in limits(&quota) {
            if counted(&name) != Some(resource) {
                continue;
            }
            let current = usage(tx, namespace, &name).unwrap_or(0);
            if current + 1 > hard {
                requested.push(format!("{name}=1"));
                used.push(format!("{name}={current}"));
                limited.push(format!("{name}={hard}"));
            }
        }
        if !requested.is_empty() {
            return Err(Failure::forbidden(
                resource,
                object_name,
                &format!(
                    "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                    object::name(&quota),
                    requested.join(","),
                    used.join(","),
                    limited.join(",")
                ),
            ));
        }
    }
    Ok(())
}

/// Brings `status` of the namespace's quotas up to date.
pub(crate) fn refresh(tx: &mut Tx<'_>, namespace: &str) {
    for quota in tx.list(Resource::Quotas, Some(namespace)) {
        let mut used = Map::new();
        for name in limits(&quota).into_keys() {
            if let Some(count) = usage(tx, namespace, &name) {
                used.insert(name, count.to_string().into());
            }
        }
        let mut fresh = quota.as_ref().clone();
        let hard = quota.pointer("/spec/hard").cloned().unwrap_or_default();
        object::set(&mut fresh, &["status", "hard"], hard);
        object::set(&mut fresh, &["status", "used"], Value::Object(used));
        if fresh != *quota {
            tx.put(Resource::Quotas, fresh);
        }
    }
}
