//! What each kind adds to the general rules of create and update.

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::claims;
use super::failure::Cause;
use super::object::{self, list, text};
use super::pods;
use super::registry::Resource;
use super::validate;

/// Fills what the server decides for a new object.
pub(crate) fn prepare_create(resource: Resource, object: &mut Value, now: &str) {
    match resource {
        Resource::Pods => pods::prepare_create(object, now),
        Resource::Namespaces => {
            let name = object::name(object).to_owned();
            object::set(
                object,
                &["metadata", "labels", "kubernetes.io/metadata.name"],
                name,
            );
            object::set(object, &["spec", "finalizers"], json!(["kubernetes"]));
            object::set(object, &["status"], json!({"phase": "Active"}));
        }
        Resource::PersistentVolumeClaims => claims::prepare_create(object),
        Resource::Quotas => object::set(object, &["status"], json!({})),
        Resource::Secrets => {
            fold_string_data(object);
            object::default(object, &["type"], "Opaque");
        }
        Resource::Nodes
        | Resource::ConfigMaps
        | Resource::ServiceAccounts
        | Resource::Events
        | Resource::Leases
        | Resource::EndpointSlices => {}
    }
}

/// `stringData` is for writing only: it becomes `data`.
fn fold_string_data(secret: &mut Value) {
    let Some(Value::Object(strings)) = object::remove(secret, &["stringData"]) else {
        return;
    };
    for (key, value) in strings {
        let encoded = BASE64.encode(value.as_str().unwrap_or_default().as_bytes());
        object::set(secret, &["data", key.as_str()], encoded);
    }
}

/// What is wrong with a new object.
pub(crate) fn validate_create(resource: Resource, object: &Value, causes: &mut Vec<Cause>) {
    validate::metadata(object, resource == Resource::Namespaces, causes);
    match resource {
        Resource::Pods => pods::validation::check(object, causes),
        _ => validate_body(resource, object, causes),
    }
}

fn validate_body(resource: Resource, object: &Value, causes: &mut Vec<Cause>) {
    match resource {
        Resource::ConfigMaps => validate::data_keys(object, &["data", "binaryData"], causes),
        Resource::Secrets => validate::data_keys(object, &["data"], causes),
        Resource::PersistentVolumeClaims => {
            let modes = list(object, "/spec/accessModes");
            if modes.is_empty() {
                causes.push(Cause::required(
                    "spec.accessModes",
                    "at least 1 access mode is required",
                ));
            }
            const MODES: &[&str] = &[
                "ReadOnlyMany",
                "ReadWriteMany",
                "ReadWriteOnce",
                "ReadWriteOncePod",
            ];
            for mode in modes {
                if !MODES.contains(&mode.as_str().unwrap_or_default()) {
                    causes.push(Cause::unsupported("spec.accessModes", mode, MODES));
                }
            }
            if text(object, "/spec/resources/requests/storage").is_empty() {
                causes.push(Cause::required("spec.resources[storage]", ""));
            }
        }
        Resource::Quotas => {
            let hard = object.pointer("/spec/hard").and_then(Value::as_object);
            for (name, amount) in hard.into_iter().flatten() {
                let counts = name == "pods" || name.starts_with("count/");
                if counts && object::count(amount).is_none_or(|n| n < 0) {
                    causes.push(Cause::invalid(
                        format!("spec.hard[{name}]"),
                        amount,
                        "must be a whole number greater than or equal to 0",
                    ));
                }
            }
        }
        Resource::Leases => {
            let seconds = object
                .pointer("/spec/leaseDurationSeconds")
                .and_then(Value::as_i64);
            if let Some(seconds) = seconds.filter(|s| *s <= 0) {
                causes.push(Cause::invalid(
                    "spec.leaseDurationSeconds",
                    &seconds.into(),
                    "must be greater than 0",
                ));
            }
        }
        Resource::Namespaces
        | Resource::Nodes
        | Resource::Pods
        | Resource::ServiceAccounts
        | Resource::Events
        | Resource::EndpointSlices => {}
    }
}

/// Which part of an object a write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but `status`.
    Main,
    /// `status`, labels and annotations.
    Status,
}

/// Makes what a client sent the object to store, and says what is wrong with it.
pub(crate) fn prepare_update(
    resource: Resource,
    part: Part,
    old: &Value,
    sent: Value,
    causes: &mut Vec<Cause>,
) -> Value {
    let mut new = match part {
        Part::Main => {
            let mut new = sent;
            if resource.info().status {
                object::copy(old, &mut new, &["status"]);
            }
            new
        }
        Part::Status => {
            let mut new = old.clone();
            for path in [
                &["status"][..],
                &["metadata", "labels"],
                &["metadata", "annotations"],
            ] {
                object::copy(&sent, &mut new, path);
            }
            new
        }
    };
    if object::uid(&new) != object::uid(old) && !object::uid(&new).is_empty() {
        let uid = object::uid(&new).to_owned();
        causes.push(Cause::invalid(
            "metadata.uid",
            &uid.into(),
            "field is immutable",
        ));
    }
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
        "resourceVersion",
    ] {
        object::copy(old, &mut new, &["metadata", field]);
    }
    if object::terminating(old) {
        for finalizer in list(&new, "/metadata/finalizers") {
            if !list(old, "/metadata/finalizers").contains(finalizer) {
                causes.push(Cause::forbidden(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted",
                ));
            }
        }
    }
    validate::metadata(&new, resource == Resource::Namespaces, causes);
    if part == Part::Main {
        kind_update(resource, old, &mut new, causes);
    }
    new
}

fn kind_update(resource: Resource, old: &Value, new: &mut Value, causes: &mut Vec<Cause>) {
    match resource {
        Resource::Pods => {
            pods::defaults::apply(new);
            pods::update::check(old, new, causes);
            let generation = old.pointer("/metadata/generation").and_then(Value::as_i64);
            if let Some(generation) = generation
                && old.get("spec") != new.get("spec")
            {
                object::set(new, &["metadata", "generation"], generation + 1);
            }
        }
        Resource::ConfigMaps | Resource::Secrets => {
            if resource == Resource::Secrets {
                fold_string_data(new);
                object::default(new, &["type"], text(old, "/type"));
                immutable(old, new, "type", causes);
            }
            if old.get("immutable") == Some(&Value::Bool(true)) {
                for field in ["immutable", "data", "binaryData"] {
                    if old.get(field) != new.get(field) {
                        causes.push(Cause::forbidden(
                            field,
                            "field is immutable when `immutable` is set",
                        ));
                    }
                }
            }
        }
        Resource::PersistentVolumeClaims => {
            object::default(new, &["spec", "volumeMode"], "Filesystem");
            // Volume and size may be set; the rest of a claim never changes.
            let mut allowed = old.clone();
            for path in [
                &["spec", "resources"][..],
                &["spec", "volumeName"],
                &["spec", "volumeAttributesClassName"],
            ] {
                object::copy(new, &mut allowed, path);
            }
            let size = |claim: &Value| {
                let asked = claim.pointer("/spec/resources/requests/storage");
                asked.and_then(object::count)
            };
            let shrinks = size(new).zip(size(old)).is_some_and(|(new, old)| new < old);
            if text(old, "/status/phase") == "Bound" && shrinks {
                causes.push(Cause::forbidden(
                    "spec.resources.requests.storage",
                    "field can not be less than status.capacity",
                ));
            }
            let volume = text(old, "/spec/volumeName");
            let moved = !volume.is_empty() && volume != text(new, "/spec/volumeName");
            if allowed.get("spec") != new.get("spec") || moved {
                causes.push(Cause::forbidden(
                    "spec",
                    "spec is immutable after creation except resources.requests and \
                     volumeAttributesClassName for bound claims",
                ));
            }
        }
        Resource::Namespaces => object::copy(old, new, &["spec", "finalizers"]),
        Resource::EndpointSlices => immutable(old, new, "addressType", causes),
        Resource::Nodes
        | Resource::ServiceAccounts
        | Resource::Quotas
        | Resource::Events
        | Resource::Leases => {}
    }
    if resource != Resource::Pods {
        validate_body(resource, new, causes);
    }
}

fn immutable(old: &Value, new: &Value, field: &str, causes: &mut Vec<Cause>) {
    if old.get(field) != new.get(field) {
        let value = new.get(field).cloned().unwrap_or_default();
        causes.push(Cause::invalid(field, &value, "field is immutable"));
    }
}
