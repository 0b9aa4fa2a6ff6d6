//! What a workspace loses when its pod is replaced.

use k8s_openapi::api::core::v1::{PodSpec, Volume};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// Names of the pod's volumes that end with the pod, and everything in them: `emptyDir` and volumes
/// made for the pod (`ephemeral`), where a container can write to them. What containers write beside
/// their volumes ends with them as well; that is so for every pod, and not listed.
///
/// `manifest` is a pod. One that cannot be read loses nothing that could be named.
#[must_use]
pub fn data_lost(manifest: &Value) -> Vec<String> {
    let Some(Ok(spec)) = manifest.get("spec").map(PodSpec::deserialize) else {
        return Vec::new();
    };
    let init = spec.init_containers.iter().flatten();
    let written: BTreeSet<&str> = spec
        .containers
        .iter()
        .chain(init)
        .flat_map(|container| container.volume_mounts.iter().flatten())
        .filter(|mount| mount.read_only != Some(true))
        .map(|mount| mount.name.as_str())
        .collect();
    let ends = |volume: &&Volume| volume.empty_dir.is_some() || volume.ephemeral.is_some();
    let volumes = spec.volumes.iter().flatten().filter(ends);
    volumes
        .filter(|volume| written.contains(volume.name.as_str()))
        .map(|volume| volume.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_ends_with_the_pod_and_nothing_else() {
        let manifest = json!({"spec": {
            "initContainers": [{"name": "i", "volumeMounts": [{"name": "made", "mountPath": "/m"}]}],
            "containers": [{"name": "c", "volumeMounts": [
                {"name": "scratch", "mountPath": "/s"},
                {"name": "home", "mountPath": "/h"},
                {"name": "config", "mountPath": "/c"},
                {"name": "read", "mountPath": "/r", "readOnly": true},
            ]}],
            "volumes": [
                {"name": "scratch", "emptyDir": {"medium": "Memory"}},
                {"name": "home", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "config", "configMap": {"name": "c"}},
                {"name": "read", "emptyDir": {}},
                {"name": "unused", "emptyDir": {}},
                {"name": "made", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            ],
        }});
        assert_eq!(data_lost(&manifest), ["scratch", "made"]);
        assert!(data_lost(&json!({"spec": {"containers": []}})).is_empty());
        assert!(data_lost(&json!({"spec": 7})).is_empty() && data_lost(&json!({})).is_empty());
    }
}
