//! ResourceQuota: counts of objects and the storage that claims ask for, enforced on create and
//! kept in `status`.
//!
//! Known names are `pods` (those not ended), `count/<plural>[.<group>]`, the short names of
//! configmaps, secrets and claims, and `requests.storage`. Limits on cpu and memory are stored, not
//! enforced.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::failure::Failure;
use super::object;
use super::pods;
use super::registry::Resource;
use super::tx::Tx;

/// The quota name of what claims ask for.
const STORAGE: &str = "requests.storage";

/// The kind that a quota name is about.
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
        STORAGE => Some(Resource::PersistentVolumeClaims),
        _ => None,
    }
}

fn usage(tx: &Tx<'_>, namespace: &str, name: &str) -> Option<i64> {
    let resource = counted(name)?;
    let objects = tx.list(resource, Some(namespace));
    if name == STORAGE {
        return Some(objects.iter().map(|claim| amount(STORAGE, claim)).sum());
    }
    let live = objects
        .iter()
        .filter(|o| name != "pods" || !pods::terminal(o))
        .count();
    i64::try_from(live).ok()
}

/// How much of a quota one object takes.
fn amount(name: &str, object: &Value) -> i64 {
    if name != STORAGE {
        return 1;
    }
    let asked = object.pointer("/spec/resources/requests/storage");
    asked.and_then(object::count).unwrap_or(0)
}

fn written(name: &str, amount: i64) -> String {
    if name == STORAGE {
        object::bytes(amount)
    } else {
        amount.to_string()
    }
}

fn limits(quota: &Value) -> BTreeMap<String, i64> {
    let hard = quota.pointer("/spec/hard").and_then(Value::as_object);
    hard.into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.clone(), object::count(amount)?)))
        .collect()
}

/// Refuses one more object of a kind where a quota of the namespace has no room for it.
pub(crate) fn admit(
    tx: &Tx<'_>,
    resource: Resource,
    namespace: &str,
    object: &Value,
) -> Result<(), Failure> {
    for quota in tx.list(Resource::Quotas, Some(namespace)) {
        let (mut requested, mut used, mut limited) = (Vec::new(), Vec::new(), Vec::new());
        for (name, hard) in limits(&quota) {
            if counted(&name) != Some(resource) {
                continue;
            }
            let current = usage(tx, namespace, &name).unwrap_or(0);
            let more = amount(&name, object);
            if current.saturating_add(more) > hard {
                requested.push(format!("{name}={}", written(&name, more)));
                used.push(format!("{name}={}", written(&name, current)));
                limited.push(format!("{name}={}", written(&name, hard)));
            }
        }
        if !requested.is_empty() {
            return Err(Failure::forbidden(
                resource,
                object::name(object),
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
                let text = written(&name, count);
                used.insert(name, text.into());
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
