//! Events that the server's own controllers write about objects.

use serde_json::{Value, json};

use super::failure::Failure;
use super::names::new_uid;
use super::object::{self, text};
use super::registry::Resource;
use super::tx::Tx;

/// Writes an event about an object.
pub(crate) fn event(
    tx: &mut Tx<'_>,
    about: &Value,
    component: &str,
    kind: &str,
    reason: &str,
    message: &str,
) -> Result<(), Failure> {
    let uid = new_uid()?;
    let (now, micros) = (
        tx.now_text(),
        tx.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
    );
    let name = object::name(about);
    // Events of objects without a namespace are in `default`.
    let namespace = match object::namespace(about) {
        "" => "default",
        namespace => namespace,
    };
    let suffix = uid.get(..8).unwrap_or_default();
    tx.put(
        Resource::Events,
        json!({
            "kind": "Event", "apiVersion": "v1",
            "metadata": {
                "name": format!("{name}.{suffix}"), "namespace": namespace, "uid": uid,
                "creationTimestamp": now,
            },
            "involvedObject": {
                "kind": text(about, "/kind"), "apiVersion": text(about, "/apiVersion"),
                "namespace": object::namespace(about), "name": name, "uid": object::uid(about),
                "resourceVersion": text(about, "/metadata/resourceVersion"),
            },
            "type": kind, "reason": reason, "message": message, "action": reason,
            "eventTime": micros,
            "source": {"component": component},
            "reportingComponent": component, "reportingInstance": component,
        }),
    );
    Ok(())
}

/// Writes an event about an object unless there is one that says the same.
pub(crate) fn event_once(
    tx: &mut Tx<'_>,
    about: &Value,
    component: &str,
    kind: &str,
    reason: &str,
    message: &str,
) -> Result<(), Failure> {
    let known = tx
        .list(Resource::Events, Some(object::namespace(about)))
        .iter()
        .any(|event| {
            text(event, "/involvedObject/uid") == object::uid(about)
                && text(event, "/reason") == reason
                && text(event, "/message") == message
        });
    if known {
        return Ok(());
    }
    self::event(tx, about, component, kind, reason, message)
}
