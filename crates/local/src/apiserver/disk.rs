//! State on disk: one redb file, one row an object, committed before any reply.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::Value;
use thiserror::Error;

use super::registry::Resource;
use super::store::{Event, Key, Objects};

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const VERSION: &str = "resource-version";

/// Why the state cannot be read or written.
#[derive(Debug, Error)]
pub enum DiskError {
    /// The file cannot be opened or read, or a commit failed.
    #[error("{0}")]
    Database(#[source] Box<redb::Error>),
    /// A row does not hold what this version of the program writes.
    #[error("row {0:?} is not an object that this version can read")]
    Row(String),
}

fn database(error: impl Into<redb::Error>) -> DiskError {
    DiskError::Database(Box::new(error.into()))
}

/// The open file.
pub(crate) struct Disk {
    db: Database,
}

impl Disk {
    /// Opens or makes the file, and reads everything in it.
    pub(crate) fn open(path: &Path) -> Result<(Self, Objects, u64), DiskError> {
        let db = Database::create(path).map_err(database)?;
        let write = db.begin_write().map_err(database)?;
        write.open_table(OBJECTS).map_err(database)?;
        write.open_table(META).map_err(database)?;
        write.commit().map_err(database)?;

        let mut objects = Objects::default();
        let read = db.begin_read().map_err(database)?;
        let table = read.open_table(OBJECTS).map_err(database)?;
        for row in table.iter().map_err(database)? {
            let (key, bytes) = row.map_err(database)?;
            let path = key.value().to_owned();
            let parsed = split_path(&path).zip(serde_json::from_slice::<Value>(bytes.value()).ok());
            let Some(((resource, key), value)) = parsed else {
                return Err(DiskError::Row(path));
            };
            objects.insert(resource, key, Arc::new(value));
        }
        let meta = read.open_table(META).map_err(database)?;
        let version = meta
            .get(VERSION)
            .map_err(database)?
            .map_or(0, |v| v.value());
        Ok((Self { db }, objects, version))
    }

    /// Makes events durable, in one transaction: when this returns they survive a kill and a
    /// power cut.
    pub(crate) fn commit(&self, events: &[Arc<Event>], version: u64) -> Result<(), DiskError> {
        let mut write = self.db.begin_write().map_err(database)?;
        write
            .set_durability(Durability::Immediate)
            .map_err(database)?;
        {
            let mut table = write.open_table(OBJECTS).map_err(database)?;
            for event in events {
                let path = join_path(event.resource, &event.key);
                if event.deletes() {
                    table.remove(path.as_str()).map_err(database)?;
                } else {
                    let bytes = serde_json::to_vec(event.object.as_ref())
                        .map_err(|_| DiskError::Row(path.clone()))?;
                    table
                        .insert(path.as_str(), bytes.as_slice())
                        .map_err(database)?;
                }
            }
            let mut meta = write.open_table(META).map_err(database)?;
            meta.insert(VERSION, version).map_err(database)?;
        }
        write.commit().map_err(database)
    }
}

fn join_path(resource: Resource, key: &Key) -> String {
    format!("{}/{}/{}", resource.info().plural, key.namespace, key.name)
}

fn split_path(path: &str) -> Option<(Resource, Key)> {
    let mut parts = path.splitn(3, '/');
    let resource = Resource::by_plural(parts.next()?)?;
    let namespace = parts.next()?.to_owned();
    let name = parts.next()?.to_owned();
    Some((resource, Key { namespace, name }))
}
