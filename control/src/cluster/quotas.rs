//! ResourceQuotas of the workspaces' namespace: whether there are any that may refuse a pod.

use super::{Cluster, ClusterError, limited};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::ListParams;

/// Quotas that are looked at; more than any namespace has.
const MOST: u32 = 100;

impl Cluster {
    /// Whether a ResourceQuota of the workspaces' namespace may refuse a pod, read live.
    ///
    /// # Errors
    /// `Rejected` without the right to list them, or another [`ClusterError`].
    pub async fn quota_limits_pods(&self) -> Result<bool, ClusterError> {
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), &self.workspaces);
        let params = ListParams::default().limit(MOST);
        let quotas = limited("list quotas of", &self.workspaces, api.list(&params)).await?;
        let more = quotas
            .metadata
            .continue_
            .is_some_and(|token| !token.is_empty());
        Ok(more || quotas.items.iter().any(limits_pods))
    }
}

fn limits_pods(quota: &ResourceQuota) -> bool {
    let limits = quota
        .spec
        .iter()
        .flat_map(|spec| spec.hard.iter().flatten());
    limits.map(|(name, _)| name.as_str()).any(concerns_pods)
}

/// Whether a limit of this name is about pods: their number, or what they ask for. What is not known
/// to be about something else is.
fn concerns_pods(name: &str) -> bool {
    match name {
        "pods" | "count/pods" => true,
        "requests.storage"
        | "persistentvolumeclaims"
        | "configmaps"
        | "secrets"
        | "services"
        | "services.loadbalancers"
        | "services.nodeports"
        | "replicationcontrollers"
        | "resourcequotas" => false,
        other => !other.starts_with("count/") && !other.contains(".storageclass.storage.k8s.io/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_may_refuse_a_pod_and_what_never_does() {
        for (name, limits) in [
            ("pods", true),
            ("count/pods", true),
            ("cpu", true),
            ("memory", true),
            ("requests.cpu", true),
            ("limits.memory", true),
            ("requests.ephemeral-storage", true),
            ("requests.nvidia.com/gpu", true),
            ("hugepages-2Mi", true),
            ("requests.storage", false),
            ("fast.storageclass.storage.k8s.io/requests.storage", false),
            ("persistentvolumeclaims", false),
            ("count/deployments.apps", false),
            ("services.nodeports", false),
            ("secrets", false),
        ] {
            let quota = json!({"spec": {"hard": {name: "1"}}});
            let quota = serde_json::from_value(quota).unwrap();
            assert_eq!(limits_pods(&quota), limits, "{name}");
        }
        assert!(!limits_pods(&ResourceQuota::default()));
    }
}
