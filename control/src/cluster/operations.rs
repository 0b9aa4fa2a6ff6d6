//! Operations, one ConfigMap each, kept for 30 days. Those of a bulk have their targets in ConfigMaps
//! of their own, one a chunk.

mod chunks;

pub use chunks::FoundChunk;

use super::{Cluster, ClusterError, Stored, limited};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams, Preconditions};
use nogoo9_model::operation::Operation;
use nogoo9_model::{keys, name};
use serde::de::DeserializeOwned;

const DATA: &str = "operation.json";

impl Cluster {
    /// An operation, read live.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn operation(&self, id: &str) -> Result<Option<Stored<Operation>>, ClusterError> {
        let map = limited(
            "read operation",
            id,
            self.config_maps_api().get_opt(&name::operation(id)),
        )
        .await?;
        map.as_ref().map(read).transpose()
    }

    /// Creates an operation, or replaces it if it is still the one that was read. Returns it as it is
    /// stored now.
    ///
    /// # Errors
    /// `Conflict` or `Exists` if it is not, or another [`ClusterError`].
    pub async fn put_operation(
        &self,
        read: Option<&Stored<Operation>>,
        next: &Operation,
    ) -> Result<Stored<Operation>, ClusterError> {
        let name = name::operation(&next.id);
        let json = serde_json::to_string(next)
            .map_err(|error| malformed("operation", &next.id, &error.to_string()))?;
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(self.namespace.clone()),
                labels: Some([(keys::KIND.to_owned(), keys::KIND_OPERATION.to_owned())].into()),
                uid: read.map(|read| read.uid.clone()),
                resource_version: read.map(|read| read.resource_version.clone()),
                ..ObjectMeta::default()
            },
            data: Some([(DATA.to_owned(), json)].into()),
            ..ConfigMap::default()
        };
        let api = self.config_maps_api();
        let params = PostParams::default();
        let written = match read {
            None => limited("create operation", &next.id, api.create(&params, &map)).await?,
            Some(_) => {
                limited(
                    "write operation",
                    &next.id,
                    api.replace(&name, &params, &map),
                )
                .await?
            }
        };
        self::read(&written)
    }

    /// Deletes an operation, if it is still the one that was read.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn delete_operation(&self, read: &Stored<Operation>) -> Result<(), ClusterError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(read.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let name = name::operation(&read.value.id);
        match limited(
            "delete operation",
            &read.value.id,
            self.config_maps_api().delete(&name, &params),
        )
        .await
        {
            Ok(_) | Err(ClusterError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Reads an operation out of its ConfigMap.
pub(super) fn read(map: &ConfigMap) -> Result<Stored<Operation>, ClusterError> {
    stored(map, DATA, "operation")
}

/// Reads what a ConfigMap holds as JSON under `key`; `kind` is for people.
fn stored<T: DeserializeOwned>(
    map: &ConfigMap,
    key: &str,
    kind: &str,
) -> Result<Stored<T>, ClusterError> {
    let name = map.metadata.name.clone().unwrap_or_default();
    let json = map.data.as_ref().and_then(|data| data.get(key));
    let json =
        json.ok_or_else(|| malformed(kind, &name, &format!("the ConfigMap has no {key}")))?;
    let value =
        serde_json::from_str(json).map_err(|error| malformed(kind, &name, &error.to_string()))?;
    Ok(Stored {
        value,
        resource_version: map.metadata.resource_version.clone().unwrap_or_default(),
        uid: map.metadata.uid.clone().unwrap_or_default(),
    })
}

fn malformed(kind: &str, name: &str, reason: &str) -> ClusterError {
    ClusterError::Malformed {
        object: format!("{kind} {name}"),
        reason: reason.to_owned(),
    }
}
