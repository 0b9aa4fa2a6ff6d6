//! Template ConfigMaps, written only as long as they are templates.

use super::{Cluster, ClusterError, limited};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams, Preconditions};
use nogoo9_model::keys;

impl Cluster {
    /// The ConfigMap of that name, read live, if it is a template.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn template(&self, name: &str) -> Result<Option<ConfigMap>, ClusterError> {
        let read = self.config_maps_api();
        let map = limited("read template", name, read.get_opt(name)).await?;
        Ok(map.filter(is_template))
    }

    /// Creates a template.
    ///
    /// # Errors
    /// `Exists` if there is any ConfigMap of that name, or another [`ClusterError`].
    pub async fn create_template(&self, map: &ConfigMap) -> Result<(), ClusterError> {
        let name = map.metadata.name.clone().unwrap_or_default();
        let api = self.config_maps_api();
        let params = PostParams::default();
        let create = api.create(&params, map);
        limited("create template", &name, create).await.map(|_| ())
    }

    /// Replaces a template, if it is still the one that was read.
    ///
    /// # Errors
    /// `Conflict` if it is not, or another [`ClusterError`].
    pub async fn put_template(&self, map: &ConfigMap) -> Result<(), ClusterError> {
        let name = map.metadata.name.clone().unwrap_or_default();
        let api = self.config_maps_api();
        let params = PostParams::default();
        let replace = api.replace(&name, &params, map);
        limited("write template", &name, replace).await.map(|_| ())
    }

    /// Deletes a template, if it is still the one that was read.
    ///
    /// # Errors
    /// `Conflict` if it is not, or another [`ClusterError`].
    pub async fn delete_template(&self, read: &ConfigMap) -> Result<(), ClusterError> {
        let name = read.metadata.name.clone().unwrap_or_default();
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: read.metadata.uid.clone(),
                resource_version: read.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let api = self.config_maps_api();
        match limited("delete template", &name, api.delete(&name, &params)).await {
            Ok(_) | Err(ClusterError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Whether the ConfigMap is a template.
pub(crate) fn is_template(map: &ConfigMap) -> bool {
    let labels = map.metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(keys::POD_TEMPLATE));
    label.is_some_and(|value| value == "true")
}
