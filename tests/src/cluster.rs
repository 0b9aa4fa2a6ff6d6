//! The cluster under a site, as an admin sees it.

use crate::{Observation, Template, until};
use anyhow::Context as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Config, ResourceExt};
use nogoo9_model::{keys, name};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Namespace of control's objects in a site.
const SYSTEM: &str = "nogoo9-system";
/// Namespace of workspaces in a site.
const WORKSPACES: &str = "nogoo9-workspaces";

/// Access to pods, templates, records and operations.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    system: String,
    workspaces: String,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    /// Connects to a site's cluster with a kubeconfig file.
    ///
    /// # Errors
    /// The file cannot be used.
    pub async fn connect(kubeconfig: &Path) -> anyhow::Result<Self> {
        Self::within(kubeconfig, SYSTEM, WORKSPACES).await
    }

    /// Connects to a cluster where nogoo9 was given these namespaces.
    ///
    /// # Errors
    /// The file cannot be used.
    pub async fn within(kubeconfig: &Path, system: &str, workspaces: &str) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).context("kubeconfig")?;
        let mut config =
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        config.connect_timeout = Some(Duration::from_secs(5));
        // Longer than a watch is ever silent: servers send a bookmark every minute.
        config.read_timeout = Some(Duration::from_secs(150));
        Ok(Self {
            client: Client::try_from(config)?,
            system: system.to_owned(),
            workspaces: workspaces.to_owned(),
        })
    }

    /// Objects beside those of workspaces, such as claims and quotas.
    #[must_use]
    pub fn beside_workspaces<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.workspaces)
    }

    /// Objects beside those of control, such as its own pods on a real cluster.
    #[must_use]
    pub fn beside_control<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.system)
    }

    /// Pods of all workspaces.
    #[must_use]
    pub fn pods_api(&self) -> Api<Pod> {
        self.beside_workspaces()
    }

    /// Templates and operations.
    #[must_use]
    pub fn config_maps_api(&self) -> Api<ConfigMap> {
        self.beside_control()
    }

    /// Records.
    #[must_use]
    pub fn secrets_api(&self) -> Api<Secret> {
        self.beside_control()
    }

    /// Creates or replaces a template.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn apply(&self, template: &Template) -> anyhow::Result<()> {
        let api = self.config_maps_api();
        let mut object = template.config_map();
        let old = api
            .get_opt(template.name())
            .await
            .context("read template")?;
        let params = PostParams::default();
        match old {
            None => api.create(&params, &object).await,
            Some(old) => {
                object.metadata.resource_version = old.resource_version();
                api.replace(template.name(), &params, &object).await
            }
        }
        .with_context(|| format!("write template {}", template.name()))?;
        Ok(())
    }

    /// Pods of a workspace, oldest generation first.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn pods(&self, id: &str) -> anyhow::Result<Vec<Pod>> {
        let params = ListParams::default().labels(&selector(id));
        let mut pods = self
            .pods_api()
            .list(&params)
            .await
            .context("list pods")?
            .items;
        pods.sort_by_key(generation);
        Ok(pods)
    }

    /// Names of the pods of a workspace, oldest generation first.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn pod_names(&self, id: &str) -> anyhow::Result<Vec<String>> {
        Ok(self
            .pods(id)
            .await?
            .iter()
            .map(ResourceExt::name_any)
            .collect())
    }

    /// Waits until the workspace has exactly this pod, and returns it.
    ///
    /// # Errors
    /// It does not come to that in time.
    pub async fn only_pod(&self, id: &str, pod: &str, within: Duration) -> anyhow::Result<Pod> {
        until(
            &format!("{pod} to be the only pod of {id}"),
            within,
            || async {
                let pods = match self.pods(id).await {
                    Ok(pods) => pods,
                    Err(error) => return Ok(Observation::NotYet(format!("{error:#}"))),
                };
                Ok(match <[Pod; 1]>::try_from(pods) {
                    Ok([only]) if only.name_any() == pod => Observation::Holds(only),
                    Ok([other]) => Observation::NotYet(other.name_any()),
                    Err(pods) => Observation::NotYet(format!(
                        "{:?}",
                        pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
                    )),
                })
            },
        )
        .await
    }

    /// Waits until nothing is left of the workspace but its tombstone, which says so for a while.
    ///
    /// # Errors
    /// It does not come to that in time.
    pub async fn gone(&self, id: &str, within: Duration) -> anyhow::Result<()> {
        until(&format!("{id} to be gone"), within, || async {
            let seen = (self.record(id).await?, self.pod_names(id).await?);
            let buried = |record: &Value| record["goneAt"].is_number();
            let gone = seen.0.as_ref().is_none_or(buried) && seen.1.is_empty();
            Ok(Observation::when(gone, (), seen))
        })
        .await
    }

    /// Deletes a pod.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn delete_pod(&self, name: &str) -> anyhow::Result<()> {
        self.pods_api()
            .delete(name, &DeleteParams::default())
            .await
            .map(drop)
            .context("delete pod")
    }

    /// The record of a workspace as it is stored.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn record(&self, id: &str) -> anyhow::Result<Option<Value>> {
        let secret = self
            .secrets_api()
            .get_opt(&name::record(id))
            .await
            .context("read record")?;
        let Some(secret) = secret else {
            return Ok(None);
        };
        record_of(&secret).map(Some)
    }

    /// An operation as it is stored.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn operation(&self, id: &str) -> anyhow::Result<Option<Value>> {
        let map = self
            .config_maps_api()
            .get_opt(&name::operation(id))
            .await
            .context("read operation")?;
        let Some(map) = map else { return Ok(None) };
        let json = map
            .data
            .as_ref()
            .and_then(|data| data.get("operation.json"))
            .context("operation.json")?;
        serde_json::from_str(json)
            .context("operation.json")
            .map(Some)
    }
}

/// Label selector of a workspace's own pods, and of its claims; not of probes.
pub(crate) fn selector(id: &str) -> String {
    format!("{},{}={id}", keys::pods_selector(), keys::WORKSPACE_ID)
}

/// The record in its Secret.
///
/// # Errors
/// There is none in it.
pub fn record_of(secret: &Secret) -> anyhow::Result<Value> {
    let json = secret
        .data
        .as_ref()
        .and_then(|data| data.get("record.json"))
        .context("record.json")?;
    serde_json::from_slice(&json.0).context("record.json")
}

fn generation(pod: &Pod) -> u32 {
    pod.labels()
        .get(keys::GENERATION)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}
