//! What tests of bulks share: asking for one, a kubelet, and waiting for its end.

use crate::world::World;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) const REFUSAL: &str = "Forbidden: Only admin users can upgrade all workspaces";

/// Image that no kubelet could pull.
pub(crate) const MISSING: &str = "missing:2";

pub(crate) async fn upgrade_all(world: &World, arguments: Value) -> Value {
    let answer = world
        .api("admin", Method::POST, "/upgrade-all", Some(arguments))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    conditions
        .filter(|condition| condition.type_ == "Ready")
        .any(|condition| condition.status == "True")
}

/// What a kubelet does, once: pods become ready, those of a missing image say so.
pub(crate) async fn kubelet(world: &World) {
    for pod in world.pods_api().list(&ListParams::default()).await.unwrap() {
        let image = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.containers[0].image.clone());
        let missing = image.as_deref() == Some(MISSING);
        if pod.metadata.deletion_timestamp.is_some() || is_ready(&pod) {
            continue;
        }
        if missing {
            let waiting = json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image \"missing:2\""});
            let container = json!({"name": "main", "image": MISSING, "imageID": "", "ready": false,
                "restartCount": 0, "state": {"waiting": waiting}});
            world
                .try_status(&pod.name_any(), json!({"containerStatuses": [container]}))
                .await;
        } else {
            world.try_ready(&pod.name_any()).await;
        }
    }
}

/// Plays the kubelet until the operation has ended, and returns how it did.
pub(crate) async fn to_the_end(world: &World, operation: &str) -> Value {
    let path = format!("/operations/{operation}");
    world
        .until("the end of the bulk", || async {
            kubelet(world).await;
            world.get("admin", &path).await["done"] == true
        })
        .await;
    world.get("admin", &path).await
}

/// The watches show the operation: what rests on them knows it from now on.
pub(crate) async fn listed(world: &World, operation: &str) {
    world
        .until("the operation is listed", || async {
            let listed = world.get("admin", "/operations").await["operations"].clone();
            let mut listed = listed.as_array().unwrap().iter();
            listed.any(|listed| listed["operationId"] == operation)
        })
        .await;
}

pub(crate) fn by_id(targets: &Value) -> BTreeMap<String, Value> {
    let targets = targets.as_array().unwrap().iter();
    targets
        .map(|target| (target["id"].as_str().unwrap().to_owned(), target.clone()))
        .collect()
}
