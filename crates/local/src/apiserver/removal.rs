//! Deletion: preconditions, grace, finalizers, and namespaces that empty themselves.

use serde_json::{Value, json};

use super::failure::Failure;
use super::object;
use super::pods::graceful::{self, Deletion};
use super::quota;
use super::registry::Resource;
use super::service::{Target, transact};
use super::store::{Key, Object, Store};
use super::tx::Tx;

/// Options of a DELETE.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) dry_run: bool,
}

/// What a DELETE left.
#[derive(Debug)]
pub(crate) struct Deleted {
    pub(crate) object: Object,
    /// False: it is marked, and goes later.
    pub(crate) gone: bool,
}

/// Deletes an object.
pub(crate) async fn delete(
    store: &Store,
    target: Target,
    options: DeleteOptions,
) -> Result<Deleted, Failure> {
    let dry_run = options.dry_run;
    transact(store, dry_run, move |tx| {
        delete_in(tx, target.resource(), &target.key(), &options)
    })
    .await
}

pub(crate) fn delete_in(
    tx: &mut Tx<'_>,
    resource: Resource,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Deleted, Failure> {
    let object = tx
        .get(resource, key)
        .ok_or_else(|| Failure::not_found(resource, &key.name))?;
    preconditions(resource, &object, options)?;
    match resource {
        Resource::Pods => match graceful::decide(&object, options.grace, tx.now()) {
            Deletion::Pending => Ok(Deleted {
                object,
                gone: false,
            }),
            Deletion::Graceful(marked) => {
                let object = tx.put(resource, marked);
                Ok(Deleted {
                    object,
                    gone: false,
                })
            }
            Deletion::Immediate => Ok(release(tx, resource, &object)),
        },
        Resource::Namespaces => delete_namespace(tx, &object),
        _ => Ok(release(tx, resource, &object)),
    }
}

pub(crate) fn preconditions(
    resource: Resource,
    object: &Value,
    options: &DeleteOptions,
) -> Result<(), Failure> {
    let name = object::name(object);
    if let Some(uid) = &options.uid
        && uid != object::uid(object)
    {
        return Err(Failure::conflict(
            resource,
            name,
            &format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The \
                 object might have been deleted and then recreated",
                object::uid(object)
            ),
        ));
    }
    let stored = object::text(object, "/metadata/resourceVersion");
    if let Some(version) = &options.version
        && version != stored
    {
        return Err(Failure::conflict(
            resource,
            name,
            &format!(
                "the ResourceVersion in the precondition ({version}) does not match the \
                 ResourceVersion in record ({stored}). The object might have been modified"
            ),
        ));
    }
    Ok(())
}

/// Removes an object, or marks it while finalizers hold it.
fn release(tx: &mut Tx<'_>, resource: Resource, object: &Object) -> Deleted {
    let mut last = object.as_ref().clone();
    if !object::terminating(&last) {
        let now = tx.now_text();
        object::set(&mut last, &["metadata", "deletionTimestamp"], now);
    }
    object::set(&mut last, &["metadata", "deletionGracePeriodSeconds"], 0);
    if object::list(&last, "/metadata/finalizers").is_empty() {
        return Deleted {
            object: remove(tx, resource, last),
            gone: true,
        };
    }
    let object = if last == **object {
        Object::clone(object)
    } else {
        let namespace = object::namespace(&last).to_owned();
        let marked = tx.put(resource, last);
        after_change(tx, resource, &namespace);
        marked
    };
    Deleted {
        object,
        gone: false,
    }
}

/// Whether an object was only waiting for its finalizers, and they are gone.
pub(crate) fn finished(object: &Value) -> bool {
    let grace = object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64);
    object::terminating(object)
        && grace.unwrap_or(0) == 0
        && object::list(object, "/metadata/finalizers").is_empty()
        && object::list(object, "/spec/finalizers").is_empty()
}

/// Removes an object for good, and what follows from that.
pub(crate) fn remove(tx: &mut Tx<'_>, resource: Resource, last: Value) -> Object {
    let namespace = object::namespace(&last).to_owned();
    let object = tx.delete(resource, last);
    after_change(tx, resource, &namespace);
    finish_namespace(tx, &namespace);
    object
}

/// Keeps the quotas of a namespace in step with its objects.
pub(crate) fn after_change(tx: &mut Tx<'_>, resource: Resource, namespace: &str) {
    // Events and leases change often and are counted by no quota that anyone sets.
    let counted = !matches!(resource, Resource::Events | Resource::Leases);
    if counted && !namespace.is_empty() {
        quota::refresh(tx, namespace);
    }
}

fn delete_namespace(tx: &mut Tx<'_>, object: &Object) -> Result<Deleted, Failure> {
    let name = object::name(object).to_owned();
    if super::BUILT_IN_NAMESPACES.contains(&name.as_str()) {
        return Err(Failure::forbidden(
            Resource::Namespaces,
            &name,
            "this namespace may not be deleted",
        ));
    }
    let mut marked = object.as_ref().clone();
    if !object::terminating(&marked) {
        let now = tx.now_text();
        object::set(&mut marked, &["metadata", "deletionTimestamp"], now);
        object::set(&mut marked, &["status", "phase"], "Terminating");
        tx.put(Resource::Namespaces, marked.clone());
    }
    let contents = DeleteOptions::default();
    for resource in Resource::ALL.into_iter().filter(|r| r.info().namespaced) {
        for inner in tx.list(resource, Some(&name)) {
            let key = Key::new(&name, object::name(&inner));
            // An earlier removal may have taken it along.
            if tx.get(resource, &key).is_some() {
                delete_in(tx, resource, &key, &contents)?;
            }
        }
    }
    finish_namespace(tx, &name);
    match tx.get(Resource::Namespaces, &Key::new("", &name)) {
        Some(object) => Ok(Deleted {
            object,
            gone: false,
        }),
        None => Ok(Deleted {
            object: Object::new(marked),
            gone: true,
        }),
    }
}

/// Removes a namespace that is being deleted once it is empty.
fn finish_namespace(tx: &mut Tx<'_>, namespace: &str) {
    if namespace.is_empty() || !tx.namespace_empty(namespace) {
        return;
    }
    let found = tx.get(Resource::Namespaces, &Key::new("", namespace));
    if let Some(object) = found
        && object::terminating(&object)
        && object::list(&object, "/metadata/finalizers").is_empty()
    {
        tx.delete(Resource::Namespaces, object.as_ref().clone());
    }
}

/// Reads the body and the parameters of a DELETE.
pub(crate) fn options(
    body: Option<&Value>,
    grace: Option<&str>,
    dry_run: bool,
) -> Result<DeleteOptions, Failure> {
    let from_query = match grace {
        None => None,
        Some(text) => Some(text.parse::<i64>().map_err(|_| {
            Failure::bad_request(format!(
                "gracePeriodSeconds: {text:?} is not a whole number"
            ))
        })?),
    };
    let empty = json!({});
    let body = body.unwrap_or(&empty);
    let text = |pointer: &str| match object::text(body, pointer) {
        "" => None,
        text => Some(text.to_owned()),
    };
    let all = !object::list(body, "/dryRun").is_empty();
    Ok(DeleteOptions {
        grace: body
            .get("gracePeriodSeconds")
            .and_then(Value::as_i64)
            .or(from_query),
        uid: text("/preconditions/uid"),
        version: text("/preconditions/resourceVersion"),
        dry_run: dry_run || all,
    })
}
