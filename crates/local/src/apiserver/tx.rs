//! One job's view of the state: reads see its own writes, and a rollback takes them all back.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::object;
use super::registry::Resource;
use super::store::{Event, Key, Object, Objects};

/// A transaction in the writer.
pub(crate) struct Tx<'a> {
    objects: &'a mut Objects,
    version: &'a mut u64,
    events: &'a mut Vec<Arc<Event>>,
    /// Events of earlier jobs in the same batch.
    earlier: usize,
    started_at: u64,
    now: Timestamp,
}

impl<'a> Tx<'a> {
    pub(super) fn new(
        objects: &'a mut Objects,
        version: &'a mut u64,
        events: &'a mut Vec<Arc<Event>>,
    ) -> Self {
        let (earlier, started_at) = (events.len(), *version);
        Self {
            objects,
            version,
            events,
            earlier,
            started_at,
            now: Timestamp::now(),
        }
    }

    /// The time of this job.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The time of this job as Kubernetes writes it: RFC 3339, whole seconds.
    pub(crate) fn now_text(&self) -> String {
        rfc3339(self.now)
    }

    pub(crate) fn get(&self, resource: Resource, key: &Key) -> Option<Object> {
        self.objects.get(resource, key).cloned()
    }

    pub(crate) fn list(&self, resource: Resource, namespace: Option<&str>) -> Vec<Object> {
        self.objects
            .iter(resource, namespace)
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// Whether a namespace holds anything.
    pub(crate) fn namespace_empty(&self, namespace: &str) -> bool {
        Resource::ALL
            .into_iter()
            .filter(|resource| resource.info().namespaced)
            .all(|resource| {
                self.objects
                    .iter(resource, Some(namespace))
                    .next()
                    .is_none()
            })
    }

    /// Stores an object under the next version.
    pub(crate) fn put(&mut self, resource: Resource, value: Value) -> Object {
        self.record(resource, value, false)
    }

    /// Deletes an object; `last` is its final state.
    pub(crate) fn delete(&mut self, resource: Resource, last: Value) -> Object {
        self.record(resource, last, true)
    }

    fn record(&mut self, resource: Resource, mut value: Value, deleted: bool) -> Object {
        *self.version += 1;
        object::set(
            &mut value,
            &["metadata", "resourceVersion"],
            self.version.to_string(),
        );
        let key = Key::new(object::namespace(&value), object::name(&value));
        let object = Arc::new(value);
        let before = self.objects.get(resource, &key).cloned();
        if deleted {
            self.objects.remove(resource, &key);
        } else {
            self.objects
                .insert(resource, key.clone(), Arc::clone(&object));
        }
        self.events.push(Arc::new(Event {
            version: *self.version,
            resource,
            key,
            before,
            object: Arc::clone(&object),
            deleted,
        }));
        object
    }

    /// Takes back all that this job did.
    pub(crate) fn rollback(&mut self) {
        while self.events.len() > self.earlier {
            if let Some(event) = self.events.pop() {
                self.objects.undo(&event);
            }
        }
        *self.version = self.started_at;
    }
}

/// RFC 3339 in whole seconds.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
