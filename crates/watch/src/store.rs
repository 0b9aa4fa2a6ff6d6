//! Reading what a watch knows.

use crate::mirror::{Key, Known};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// A handle on what a watch knows; clones share it. It is as old as the last event: decide on a
/// live read where a decision cannot be taken back.
#[derive(Debug)]
pub struct Store<V>(Arc<RwLock<Known<V>>>);

impl<V> Clone for Store<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> Store<V> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(RwLock::new(HashMap::new())))
    }

    /// The object of that name; cluster-scoped objects have the namespace `""`.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        let key = Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.read(|known| known.get(&key).map(|entry| entry.value.clone()))
    }

    /// All objects, in no particular order.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<V>> {
        self.read(|known| known.values().map(|entry| entry.value.clone()).collect())
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(HashMap::len)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read<T>(&self, f: impl FnOnce(&Known<V>) -> T) -> T {
        // Whoever panicked left whole entries behind.
        f(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn write<T>(&self, f: impl FnOnce(&mut Known<V>) -> T) -> T {
        f(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}
