//! The targets of bulk operations.

use super::super::{Cluster, ClusterError, Stored, limited};
use super::{malformed, stored};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, PostParams};
use nogoo9_model::bulk::{Chunk, VERSION};
use nogoo9_model::{keys, name};
use serde_json::Value;
use std::collections::BTreeSet;

const DATA: &str = "chunk.json";
/// Chunks of one page of a list.
const PAGE: u32 = 500;

/// What there is in the place of a chunk.
#[derive(Debug)]
pub enum FoundChunk {
    /// The chunk.
    Whole(Stored<Chunk>),
    /// Something that is not that chunk, or not any more: why, with what replacing it needs.
    Broken(Stored<String>),
    /// Nothing.
    Missing,
}

impl Cluster {
    /// A chunk of a bulk's targets, read live.
    ///
    /// # Errors
    /// `NotFound`, `Malformed` if it is not that chunk, or another [`ClusterError`].
    pub async fn chunk(
        &self,
        operation: &str,
        index: usize,
    ) -> Result<Stored<Chunk>, ClusterError> {
        let name = name::chunk(operation, index);
        let map = limited("read chunk", &name, self.config_maps_api().get(&name)).await?;
        read_as(&map, operation, index)
    }

    /// The same for whoever has to put something in its place. It has to hold so many `targets`.
    ///
    /// # Errors
    /// `Malformed` where a later version wrote it, which this one does not touch, or another
    /// [`ClusterError`].
    pub async fn find_chunk(
        &self,
        operation: &str,
        index: usize,
        targets: usize,
    ) -> Result<FoundChunk, ClusterError> {
        let name = name::chunk(operation, index);
        let found = limited("read chunk", &name, self.config_maps_api().get_opt(&name)).await?;
        let Some(map) = found else {
            return Ok(FoundChunk::Missing);
        };
        let whole = read_as(&map, operation, index);
        if written_later(&map) {
            return whole.map(FoundChunk::Whole);
        }
        let why = match whole {
            Ok(chunk) if chunk.value.targets.len() == targets => {
                return Ok(FoundChunk::Whole(chunk));
            }
            Ok(chunk) => format!(
                "it holds {} targets, not {targets}",
                chunk.value.targets.len()
            ),
            Err(error) => error.to_string(),
        };
        Ok(FoundChunk::Broken(Stored {
            value: why,
            resource_version: map.metadata.resource_version.unwrap_or_default(),
            uid: map.metadata.uid.unwrap_or_default(),
        }))
    }

    /// Creates a chunk.
    ///
    /// # Errors
    /// `Exists` or another [`ClusterError`].
    pub async fn create_chunk(&self, chunk: &Chunk) -> Result<Stored<Chunk>, ClusterError> {
        let (name, map) = self.chunk_object(chunk, None::<&Stored<Chunk>>)?;
        let api = self.config_maps_api();
        let params = PostParams::default();
        let written = limited("create chunk", &name, api.create(&params, &map)).await?;
        read(&written)
    }

    /// Replaces a chunk, if it is still the one that was read. Returns it as it is stored now.
    ///
    /// # Errors
    /// `Conflict` if it is not, or another [`ClusterError`].
    pub async fn put_chunk<T>(
        &self,
        read: &Stored<T>,
        next: &Chunk,
    ) -> Result<Stored<Chunk>, ClusterError> {
        let (name, map) = self.chunk_object(next, Some(read))?;
        let api = self.config_maps_api();
        let params = PostParams::default();
        let written = limited("write chunk", &name, api.replace(&name, &params, &map)).await?;
        self::read(&written)
    }

    /// Deletes a chunk. Its name says whose it is, so there is nothing to mistake it for.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn delete_chunk(&self, operation: &str, index: usize) -> Result<(), ClusterError> {
        let name = name::chunk(operation, index);
        let api = self.config_maps_api();
        match limited(
            "delete chunk",
            &name,
            api.delete(&name, &DeleteParams::default()),
        )
        .await
        {
            Ok(_) | Err(ClusterError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Chunks that were made before `before` (seconds since the epoch), by operation: what a bulk
    /// that never came to be has left behind is among them.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn old_chunks(&self, before: i64) -> Result<BTreeSet<(String, usize)>, ClusterError> {
        let mut found = BTreeSet::new();
        let selector = format!("{}={}", keys::KIND, keys::KIND_CHUNK);
        let mut params = ListParams::default().labels(&selector).limit(PAGE);
        loop {
            let api = self.config_maps_api();
            let page = limited("list", "chunks", api.list_metadata(&params)).await?;
            for chunk in &page.items {
                let made = chunk.metadata.creation_timestamp.as_ref();
                let old = made.is_some_and(|made| made.0.as_second() < before);
                let labels = chunk.metadata.labels.as_ref();
                let operation = labels.and_then(|labels| labels.get(keys::OPERATION));
                let name = chunk.metadata.name.as_deref().unwrap_or_default();
                let index = name.rsplit('-').next().and_then(|index| index.parse().ok());
                if let (true, Some(operation), Some(index)) = (old, operation, index) {
                    found.insert((operation.clone(), index));
                }
            }
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => return Ok(found),
            }
        }
    }

    fn chunk_object<T>(
        &self,
        chunk: &Chunk,
        read: Option<&Stored<T>>,
    ) -> Result<(String, ConfigMap), ClusterError> {
        let name = name::chunk(&chunk.operation, chunk.index);
        let json = serde_json::to_string(chunk)
            .map_err(|error| malformed("chunk", &name, &error.to_string()))?;
        let labels = [
            (keys::KIND.to_owned(), keys::KIND_CHUNK.to_owned()),
            (keys::OPERATION.to_owned(), chunk.operation.clone()),
        ];
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels.into()),
                uid: read.map(|read| read.uid.clone()),
                resource_version: read.map(|read| read.resource_version.clone()),
                ..ObjectMeta::default()
            },
            data: Some([(DATA.to_owned(), json)].into()),
            ..ConfigMap::default()
        };
        Ok((name, map))
    }
}

fn read(map: &ConfigMap) -> Result<Stored<Chunk>, ClusterError> {
    stored(map, DATA, "chunk")
}

/// The same, if it is the chunk that was asked for: whoever copies objects by hand may mistake one
/// for another.
fn read_as(map: &ConfigMap, operation: &str, index: usize) -> Result<Stored<Chunk>, ClusterError> {
    let chunk = read(map)?;
    if chunk.value.operation == operation && chunk.value.index == index {
        return Ok(chunk);
    }
    let told = format!(
        "it is chunk {} of {}",
        chunk.value.index, chunk.value.operation
    );
    Err(malformed("chunk", &name::chunk(operation, index), &told))
}

/// Whether a later version of nogoo9 wrote the chunk, in a form that this one may not know.
fn written_later(map: &ConfigMap) -> bool {
    let json = map.data.as_ref().and_then(|data| data.get(DATA));
    let value = json.and_then(|json| serde_json::from_str::<Value>(json).ok());
    let version = value.and_then(|value| value.get("version")?.as_u64());
    version.is_some_and(|version| version > VERSION.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_later_version_wrote_is_told_from_what_is_broken() {
        let map = |json: &str| ConfigMap {
            data: Some([(DATA.to_owned(), json.to_owned())].into()),
            ..ConfigMap::default()
        };
        let later = format!(r#"{{"version": {}, "all": "anew"}}"#, VERSION + 1);
        assert!(written_later(&map(&later)));
        for broken in [
            "",
            "{",
            "7",
            r#"{"version": "3"}"#,
            &format!(r#"{{"version": {VERSION}}}"#),
        ] {
            assert!(!written_later(&map(broken)), "{broken}");
        }
        assert!(!written_later(&ConfigMap::default()));
    }
}
