//! The verbs, each one transaction: admission, validation, conflict rules and storage together.

use std::sync::Arc;

use serde_json::{Value, json};

use super::events;
use super::failure::Failure;
use super::names::{generate_name, new_uid};
use super::object;
use super::patch::{self, PatchType};
use super::pods;
use super::quota;
use super::registry::{Resource, Served};
use super::removal;
use super::store::{Key, Object, Store};
use super::strategy::{self, Part};
use super::tx::Tx;
use super::typed;

/// Objects above this are refused, as etcd refuses them.
const OBJECT_LIMIT: usize = 3 * 1024 * 1024 / 2;
/// What to do about fields that a kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// How a write is meant.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
}

/// The outcome of a write: the object as stored, and warnings for the client.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Object,
    pub(crate) created: bool,
    pub(crate) warnings: Vec<String>,
}

/// Where a write goes.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) served: Served,
    /// Empty for cluster-scoped kinds.
    pub(crate) namespace: String,
    /// Empty for a create.
    pub(crate) name: String,
}

impl Target {
    pub(crate) fn resource(&self) -> Resource {
        self.served.resource
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }
}

/// Runs a job; a dry run is rolled back after it has succeeded.
pub(crate) async fn transact<T, F>(store: &Store, dry_run: bool, job: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce(&mut Tx<'_>) -> Result<T, Failure> + Send + 'static,
{
    store
        .write(move |tx| {
            let result = job(tx)?;
            if dry_run {
                tx.rollback();
            }
            Ok(result)
        })
        .await
}

/// Creates an object.
pub(crate) async fn create(
    store: &Store,
    target: Target,
    body: Value,
    options: WriteOptions,
) -> Result<Written, Failure> {
    let (object, warnings) = decode(&target, body, options.field_validation)?;
    let object = transact(store, options.dry_run, move |tx| {
        create_in(tx, &target, object)
    })
    .await?;
    Ok(Written {
        object,
        created: true,
        warnings,
    })
}

/// Creates an object within a transaction.
pub(crate) fn create_in(
    tx: &mut Tx<'_>,
    target: &Target,
    mut object: Value,
) -> Result<Object, Failure> {
    let resource = target.resource();
    place(target, &mut object)?;
    admit_namespace(tx, resource, &target.namespace, object::name(&object))?;
    if object::name(&object).is_empty() {
        let prefix = object::text(&object, "/metadata/generateName").to_owned();
        if !prefix.is_empty() {
            let name = generate_name(tx, resource, &target.namespace, &prefix)?;
            object::set(&mut object, &["metadata", "name"], name);
        }
    }
    let now = tx.now_text();
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ] {
        object::remove(&mut object, &["metadata", field]);
    }
    object::set(&mut object, &["metadata", "uid"], new_uid()?);
    object::set(
        &mut object,
        &["metadata", "creationTimestamp"],
        now.as_str(),
    );
    if resource == Resource::Pods {
        pods::admit(&object)?;
    }
    strategy::prepare_create(resource, &mut object, &now);
    let name = object::name(&object).to_owned();
    let mut causes = Vec::new();
    strategy::validate_create(resource, &object, &mut causes);
    if !causes.is_empty() {
        return Err(Failure::invalid(resource, &name, &causes));
    }
    within_limit(&object)?;
    if resource.info().namespaced {
        quota::admit(tx, resource, &target.namespace, &object)?;
    }
    if tx
        .get(resource, &Key::new(&target.namespace, &name))
        .is_some()
    {
        return Err(Failure::already_exists(resource, &name));
    }
    let stored = tx.put(resource, object);
    removal::after_change(tx, resource, &target.namespace);
    // A quota's status is filled in the same transaction.
    Ok(tx
        .get(resource, &Key::new(&target.namespace, &name))
        .unwrap_or(stored))
}

/// Replaces an object, or its status.
pub(crate) async fn update(
    store: &Store,
    target: Target,
    part: Part,
    body: Value,
    options: WriteOptions,
) -> Result<Written, Failure> {
    let (sent, warnings) = decode(&target, body, options.field_validation)?;
    // Leases are the kind that may be made by a PUT.
    let upsert = target.resource() == Resource::Leases && part == Part::Main;
    let (object, created) = transact(store, options.dry_run, move |tx| {
        let mut sent = sent;
        place(&target, &mut sent)?;
        if object::name(&sent) != target.name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                object::name(&sent),
                target.name
            )));
        }
        let Some(old) = tx.get(target.resource(), &target.key()) else {
            if upsert && object::version(&sent) == 0 {
                return create_in(tx, &target, sent).map(|object| (object, true));
            }
            return Err(Failure::not_found(target.resource(), &target.name));
        };
        let uid = object::uid(&sent);
        if !uid.is_empty() && uid != object::uid(&old) {
            return Err(Failure::conflict(
                target.resource(),
                &target.name,
                &format!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    object::uid(&old)
                ),
            ));
        }
        replace_in(tx, target.resource(), part, &old, sent).map(|object| (object, false))
    })
    .await?;
    Ok(Written {
        object,
        created,
        warnings,
    })
}

/// Patches an object, or its status.
pub(crate) async fn patch(
    store: &Store,
    target: Target,
    part: Part,
    kind: PatchType,
    patch: Value,
    options: WriteOptions,
) -> Result<Written, Failure> {
    let (object, warnings) = transact(store, options.dry_run, move |tx| {
        let resource = target.resource();
        let old = tx
            .get(resource, &target.key())
            .ok_or_else(|| Failure::not_found(resource, &target.name))?;
        let patched = patch::apply(
            resource,
            kind,
            &patch,
            &events::to_served(target.served, &old),
        )?;
        let (sent, warnings) = decode(&target, patched, options.field_validation)?;
        if object::name(&sent) != target.name || object::namespace(&sent) != target.namespace {
            return Err(Failure::bad_request(
                "the name and namespace of an object cannot be changed by a patch",
            ));
        }
        replace_in(tx, resource, part, &old, sent).map(|object| (object, warnings))
    })
    .await?;
    Ok(Written {
        object,
        created: false,
        warnings,
    })
}

/// Stores what was sent over the old object, if the rules allow it. No change, no new version.
fn replace_in(
    tx: &mut Tx<'_>,
    resource: Resource,
    part: Part,
    old: &Object,
    sent: Value,
) -> Result<Object, Failure> {
    let name = object::name(old).to_owned();
    let asked = object::text(&sent, "/metadata/resourceVersion");
    if !asked.is_empty() && asked != "0" && asked != object::text(old, "/metadata/resourceVersion")
    {
        return Err(Failure::modified(resource, &name));
    }
    let mut causes = Vec::new();
    let new = strategy::prepare_update(resource, part, old, sent, &mut causes);
    if !causes.is_empty() {
        return Err(Failure::invalid(resource, &name, &causes));
    }
    if new == **old {
        return Ok(Arc::clone(old));
    }
    within_limit(&new)?;
    if removal::finished(&new) {
        return Ok(removal::remove(tx, resource, new));
    }
    let namespace = object::namespace(&new).to_owned();
    let stored = tx.put(resource, new);
    removal::after_change(tx, resource, &namespace);
    Ok(tx
        .get(resource, &Key::new(&namespace, &name))
        .unwrap_or(stored))
}

/// Checks type and structure of a body and brings it into stored form.
fn decode(
    target: &Target,
    mut body: Value,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Failure> {
    let info = target.resource().info();
    let expected = target.served.api_version();
    if !body.is_object() {
        return Err(Failure::bad_request(format!(
            "the body is not a {} object",
            info.kind
        )));
    }
    for (field, expected) in [("apiVersion", expected.as_str()), ("kind", info.kind)] {
        let sent = object::text(&body, &format!("/{field}"));
        if !sent.is_empty() && sent != expected {
            return Err(Failure::bad_request(format!(
                "the {field} in the data ({sent}) does not match the expected {field} ({expected})"
            )));
        }
        object::set(&mut body, &[field], expected);
    }
    let stored = events::to_stored(target.served, body);
    let canonical = typed::canonical(target.resource(), stored).map_err(|why| {
        Failure::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {why}",
            info.kind, info.version, info.kind
        ))
    })?;
    let unknown: Vec<String> = canonical
        .unknown
        .iter()
        .map(|path| format!("unknown field {path:?}"))
        .collect();
    match validation {
        FieldValidation::Strict if !unknown.is_empty() => Err(Failure::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
            info.kind,
            info.version,
            info.kind,
            unknown.join(", ")
        ))),
        FieldValidation::Warn => Ok((canonical.object, unknown)),
        FieldValidation::Strict | FieldValidation::Ignore => Ok((canonical.object, Vec::new())),
    }
}

/// Fills and checks the namespace of an object by the one of its path.
fn place(target: &Target, object: &mut Value) -> Result<(), Failure> {
    if !target.resource().info().namespaced {
        object::remove(object, &["metadata", "namespace"]);
        return Ok(());
    }
    let sent = object::namespace(object);
    if !sent.is_empty() && sent != target.namespace {
        return Err(Failure::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request \
             ({sent} is not {})",
            target.namespace
        )));
    }
    object::set(
        object,
        &["metadata", "namespace"],
        target.namespace.as_str(),
    );
    Ok(())
}

fn admit_namespace(
    tx: &Tx<'_>,
    resource: Resource,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    if !resource.info().namespaced {
        return Ok(());
    }
    let Some(found) = tx.get(Resource::Namespaces, &Key::new("", namespace)) else {
        return Err(Failure::not_found(Resource::Namespaces, namespace));
    };
    if object::terminating(&found) {
        return Err(Failure::forbidden(
            resource,
            name,
            &format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            ),
        ));
    }
    Ok(())
}

fn within_limit(object: &Value) -> Result<(), Failure> {
    let size = serde_json::to_vec(object).map_or(usize::MAX, |bytes| bytes.len());
    if size > OBJECT_LIMIT {
        return Err(Failure::too_large(format!(
            "the object is too large: {size} bytes, limit is {OBJECT_LIMIT}"
        )));
    }
    Ok(())
}

/// The `Status` of success.
pub(crate) fn success(details: Option<Value>) -> Value {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
    });
    if let Some(details) = details {
        object::set(&mut status, &["details"], details);
    }
    status
}
