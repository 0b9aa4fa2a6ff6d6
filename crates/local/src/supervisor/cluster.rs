//! Kubeconfigs, and the objects that local mode puts into its cluster.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, Client, Resource, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};

use super::{DataDir, SYSTEM_NAMESPACE, UpError, WORKSPACES_NAMESPACE, data_dir::ApiTokens};
use crate::apiserver::{Pki, kubeconfig};

/// Templates that local mode starts with.
const TEMPLATES: [&str; 2] = [
    include_str!("../templates/sample.yaml"),
    include_str!("../templates/notebook.yaml"),
];
/// Longest wait for one object.
const CALL: Duration = Duration::from_secs(10);

/// The files by which the parts reach the cluster.
#[derive(Clone, Debug)]
pub(super) struct Kubeconfigs {
    pub(super) admin: PathBuf,
    pub(super) control: PathBuf,
    pub(super) proxy: PathBuf,
}

impl Kubeconfigs {
    /// Writes one file a caller for the embedded API server, each with its own token.
    pub(super) fn embedded(
        dir: &DataDir,
        server: SocketAddr,
        tokens: &ApiTokens,
    ) -> Result<Self, UpError> {
        let pki = Pki::ensure(dir.path()).map_err(|e| UpError::Pki(e.to_string()))?;
        let write = |name: &str, token: &str, namespace: &str| {
            let text = kubeconfig(server, pki.ca_pem(), token, namespace);
            dir.write(name, text.as_bytes())
        };
        Ok(Self {
            admin: write("kubeconfig", &tokens.admin, WORKSPACES_NAMESPACE)?,
            control: write("control.kubeconfig", &tokens.control, SYSTEM_NAMESPACE)?,
            proxy: write("proxy.kubeconfig", &tokens.proxy, WORKSPACES_NAMESPACE)?,
        })
    }

    /// One file for all, that of a real cluster.
    pub(super) fn given(path: &Path) -> Result<Self, UpError> {
        // The children have the same working folder, but `status` may not.
        let path = super::data_dir::io(path, std::path::absolute(path))?;
        Ok(Self {
            admin: path.clone(),
            control: path.clone(),
            proxy: path,
        })
    }
}

/// Makes both namespaces where they are missing.
pub(super) async fn namespaces(client: &Client) -> Result<(), UpError> {
    let api: Api<Namespace> = Api::all(client.clone());
    for name in [SYSTEM_NAMESPACE, WORKSPACES_NAMESPACE] {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        create_if_absent(&api, &namespace).await?;
    }
    Ok(())
}

/// Makes the sample templates where they are missing: people may have edited them.
pub(super) async fn templates(client: &Client) -> Result<(), UpError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    for text in TEMPLATES {
        let template: ConfigMap =
            serde_saphyr::from_str(text).map_err(|e| UpError::System(e.to_string()))?;
        create_if_absent(&api, &template).await?;
    }
    Ok(())
}

async fn create_if_absent<K>(api: &Api<K>, object: &K) -> Result<(), UpError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let name = object.meta().name.clone().unwrap_or_default();
    let refused = |reason| UpError::Object {
        object: format!("{} {name}", K::kind(&())),
        reason,
    };
    let params = PostParams::default();
    match tokio::time::timeout(CALL, api.create(&params, object)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Ok(()),
        Ok(Err(kube::Error::Api(status))) => Err(refused(status.message.clone())),
        Ok(Err(error)) => Err(refused(error.to_string())),
        Err(_) => Err(refused(format!("no reply within {} s", CALL.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_templates_are_templates() {
        for text in TEMPLATES {
            let template: ConfigMap = serde_saphyr::from_str(text).unwrap();
            let annotations = template.metadata.annotations.unwrap();
            nogoo9_model::template::Settings::parse(&annotations).unwrap();
            let schema = &annotations[nogoo9_model::keys::PARAMETERS];
            serde_json::from_str::<serde_json::Value>(schema).unwrap();
            let labels = template.metadata.labels.unwrap();
            assert_eq!(labels["nogoo9/pod-template"], "true");
            let data = template.data.unwrap();
            let spec: k8s_openapi::api::core::v1::PodSpec =
                serde_saphyr::from_str(&data["spec"]).unwrap();
            // One of them upgrades side by side, the other by recreation.
            let mounts = spec.volumes.is_some();
            assert_eq!(
                mounts,
                template.metadata.name.as_deref() == Some("notebook")
            );
            assert_eq!(data.contains_key("claims"), mounts);
        }
    }
}
