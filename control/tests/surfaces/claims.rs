//! Templates with claims: each workspace has its own, and it outlives everything but a deletion
//! with data.

use crate::world::{WORKSPACES, World};
use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, ResourceQuota};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

/// A claim of a template.
fn claim(name: &str, size: &str) -> Value {
    json!({"name": name, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}})
}

/// Creates or replaces the template `notebook` with these claims, all of them mounted.
async fn notebook(world: &World, image: &str, claims: &[Value]) {
    let volume = |claim: &Value| json!({"name": claim["name"], "persistentVolumeClaim": {"claimName": claim["name"]}});
    let volumes: Vec<Value> = claims.iter().map(volume).collect();
    let spec = json!({"containers": [{"name": "main", "image": image}], "volumes": volumes});
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "notebook", "labels": {"nogoo9/pod-template": "true"},
            "annotations": {"nogoo9/settle": "0"}},
        "data": {"spec": spec.to_string(), "claims": json!(claims).to_string()},
    }))
    .unwrap();
    let api = world.templates();
    match api.get_opt("notebook").await.unwrap() {
        None => api.create(&PostParams::default(), &map).await,
        Some(_) => api.replace("notebook", &PostParams::default(), &map).await,
    }
    .unwrap();
}

fn claims_api(world: &World) -> Api<PersistentVolumeClaim> {
    Api::namespaced(world.admin.clone(), WORKSPACES)
}

/// The claims of an owner: what the template calls each, its name and its uid.
async fn claims_of(world: &World, owner: &str) -> Vec<(String, String, String)> {
    let list = claims_api(world)
        .list(&ListParams::default())
        .await
        .unwrap();
    let mine = list.items.into_iter().filter(|claim| {
        claim.annotations()["nogoo9/user-sub"] == owner
            && claim.metadata.deletion_timestamp.is_none()
    });
    let mut all: Vec<_> = mine
        .map(|claim| {
            let called = claim.annotations()["nogoo9/claim"].clone();
            (called, claim.name_any(), claim.uid().unwrap())
        })
        .collect();
    all.sort();
    all
}

fn mounted(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.as_ref().unwrap().volumes.iter().flatten();
    volumes
        .filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()))
        .collect()
}

async fn the_pod(world: &World, id: &str) -> Pod {
    world
        .until("the pod", || async { world.pods_of(id).await.len() == 1 })
        .await;
    world.pods_of(id).await.remove(0)
}

async fn gone(world: &World, user: &str, id: &str) {
    world
        .until("gone", || async {
            let path = format!("/workspaces/{id}");
            world.api(user, Method::GET, &path, None).await.status != 200
        })
        .await;
}

/// Makes pods ready as they come, until the workspace's upgrade has ended; then it runs.
async fn upgraded(world: &World, id: &str, operation: &str) -> Value {
    let path = format!("/operations/{operation}");
    world
        .until("the upgrade has ended", || async {
            for pod in world.pods_of(id).await {
                let gates = pod
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.scheduling_gates.clone());
                if gates.is_none_or(|gates| gates.is_empty()) {
                    world.try_ready(&pod.name_any()).await;
                }
            }
            world.get("alice", &path).await["done"] == true
        })
        .await;
    world.get("alice", &path).await
}

#[tokio::test]
async fn claims_outlive_everything_but_a_deletion_with_data() {
    let world = World::start().await;
    notebook(&world, "note:1", &[claim("data", "1Gi")]).await;
    let body = json!({"template": "notebook", "id": "dev"});
    let template = world.get("alice", "/templates/notebook").await;
    assert_eq!(template["claims"], json!(["data"]));
    world.spawn("alice", body.clone()).await;
    let pod = the_pod(&world, "dev").await;
    let hers = claims_of(&world, "alice").await;
    assert_eq!(hers.len(), 1);
    assert_eq!(hers[0].0, "data");
    assert!(
        hers[0].1.starts_with("ws-alice-dev-") && hers[0].1.ends_with("-data"),
        "{hers:?}"
    );
    assert_eq!(mounted(&pod), [hers[0].1.as_str()]);
    let object = claims_api(&world).get(&hers[0].1).await.unwrap();
    assert_eq!(object.labels()["nogoo9/workspace-id"], "dev");
    assert_eq!(object.labels()["nogoo9/user-sub"], "alice");
    assert_eq!(object.labels()["nogoo9/managed-by"], "nogoo9-spawner");

    // Stop and start.
    world.post("alice", "/workspaces/dev/stop").await;
    world
        .until("stopped", || async {
            world.pods_of("dev").await.is_empty()
        })
        .await;
    assert_eq!(claims_of(&world, "alice").await, hers);
    world.post("alice", "/workspaces/dev/start").await;
    assert_eq!(mounted(&the_pod(&world, "dev").await), [hers[0].1.as_str()]);

    // Deleted without data: the id is free, and whoever takes it finds nothing of hers.
    let deleted = world
        .api("alice", Method::DELETE, "/workspaces/dev", None)
        .await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    assert_eq!(deleted.json()["dataDeleted"], false);
    gone(&world, "alice", "dev").await;
    assert_eq!(claims_of(&world, "alice").await, hers);
    world.forget("dev").await;
    world.spawn("bob", body.clone()).await;
    let his = claims_of(&world, "bob").await;
    assert_ne!(his[0].1, hers[0].1);
    assert_eq!(mounted(&the_pod(&world, "dev").await), [his[0].1.as_str()]);

    // Deleted with data: his goes, hers stays.
    let refused = world
        .api(
            "bob",
            Method::DELETE,
            "/workspaces/dev?deleteData=maybe",
            None,
        )
        .await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    let deleted = world
        .api(
            "bob",
            Method::DELETE,
            "/workspaces/dev?deleteData=true",
            None,
        )
        .await;
    assert_eq!(deleted.json()["dataDeleted"], true, "{}", deleted.body);
    gone(&world, "bob", "dev").await;
    assert_eq!(claims_of(&world, "bob").await, []);
    assert_eq!(claims_of(&world, "alice").await, hers);

    // She gets hers back, and deletes it by the tool.
    world.forget("dev").await;
    world.spawn("alice", body).await;
    assert_eq!(mounted(&the_pod(&world, "dev").await), [hers[0].1.as_str()]);
    assert_eq!(claims_of(&world, "alice").await, hers);
    let told = world
        .tool(
            "alice",
            "delete_workspace",
            json!({"id": "dev", "deleteData": true}),
        )
        .await;
    assert_eq!(
        told["result"]["structuredContent"]["dataDeleted"], true,
        "{told}"
    );
    gone(&world, "alice", "dev").await;
    assert_eq!(claims_of(&world, "alice").await, []);
}

#[tokio::test]
async fn upgrades_add_claims_and_take_none_away() {
    let world = World::start().await;
    notebook(&world, "note:1", &[claim("data", "1Gi")]).await;
    world
        .spawn("alice", json!({"template": "notebook", "id": "dev"}))
        .await;
    let first = the_pod(&world, "dev").await;
    world.ready(&first.name_any()).await;
    world
        .until("running", || async {
            world.get("alice", "/workspaces/dev").await["status"] == "running"
        })
        .await;
    let before = claims_of(&world, "alice").await;

    // Larger in the template, and one more.
    notebook(
        &world,
        "note:2",
        &[claim("cache", "1Gi"), claim("data", "9Gi")],
    )
    .await;
    let begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    assert_eq!(begun["mode"], "recreate", "{begun}");
    let ended = upgraded(&world, "dev", begun["operationId"].as_str().unwrap()).await;
    assert_eq!(ended["state"], "succeeded", "{ended}");
    let after = claims_of(&world, "alice").await;
    assert_eq!(after.len(), 2);
    assert_eq!(after[1], before[0], "what is there stays");
    let size = claims_api(&world)
        .get(&after[1].1)
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(
        size.resources.unwrap().requests.unwrap()["storage"].0,
        "1Gi"
    );
    let pod = the_pod(&world, "dev").await;
    assert_eq!(mounted(&pod), [after[0].1.as_str(), after[1].1.as_str()]);

    // Named no more: it stays where it is, with all that is in it, until the workspace goes with
    // its data.
    notebook(&world, "note:3", &[claim("data", "9Gi")]).await;
    let begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    upgraded(&world, "dev", begun["operationId"].as_str().unwrap()).await;
    let mut still = mounted(&the_pod(&world, "dev").await);
    still.sort();
    let mut kept = [after[0].1.as_str(), after[1].1.as_str()];
    kept.sort_unstable();
    assert_eq!(still, kept);
    assert_eq!(claims_of(&world, "alice").await, after);
    world
        .api(
            "alice",
            Method::DELETE,
            "/workspaces/dev?deleteData=true",
            None,
        )
        .await;
    gone(&world, "alice", "dev").await;
    assert_eq!(claims_of(&world, "alice").await, []);
}

#[tokio::test]
async fn what_the_cluster_refuses_is_refused_before_anything_is_made() {
    let world = World::start().await;
    let quotas: Api<ResourceQuota> = Api::namespaced(world.admin.clone(), WORKSPACES);
    let quota =
        json!({"metadata": {"name": "few"}, "spec": {"hard": {"persistentvolumeclaims": "0"}}});
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    notebook(&world, "note:1", &[claim("data", "1Gi")]).await;
    let body = json!({"template": "notebook", "id": "dev"});
    let refused = world
        .api("alice", Method::POST, "/workspaces", Some(body))
        .await;
    assert!(refused.status.is_client_error(), "{}", refused.body);
    assert!(
        refused.body.contains("exceeded quota: few"),
        "{}",
        refused.body
    );
    assert_eq!(claims_of(&world, "alice").await, []);
    assert!(world.pods_of("dev").await.is_empty());
    let list = world.get("alice", "/workspaces").await;
    assert_eq!(list["workspaces"], json!([]));
}

#[tokio::test]
async fn a_volume_that_may_be_shared_no_longer_is_waited_for_whatever_becomes_of_the_upgrade() {
    let world = World::start().await;
    let shared = json!([{"name": "data", "spec": {"accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}}}}]);
    let template = |image: &str, mode: &str| -> ConfigMap {
        let spec = json!({"containers": [{"name": "main", "image": image}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
        serde_json::from_value(json!({
            "metadata": {"name": "shared", "labels": {"nogoo9/pod-template": "true"},
                "annotations": {"nogoo9/upgrade-mode": mode}},
            "data": {"spec": spec.to_string(), "claims": shared.to_string()},
        }))
        .unwrap()
    };
    let stored = async || {
        let name = nogoo9_model::name::record("dev");
        let api: Api<k8s_openapi::api::core::v1::Secret> =
            Api::namespaced(world.admin.clone(), crate::world::SYSTEM);
        let secret = api.get(&name).await.unwrap();
        let data = secret.data.unwrap();
        serde_json::from_slice::<Value>(&data["record.json"].0).unwrap()
    };
    let (api, params) = (world.templates(), PostParams::default());
    api.create(&params, &template("one", "side-by-side"))
        .await
        .unwrap();
    // The watch learns of it in its own time.
    world
        .until("the template", || async {
            let shown = world.get("alice", "/templates").await;
            let mut all = shown["templates"].as_array().unwrap().iter();
            all.any(|template| template["name"] == "shared")
        })
        .await;
    world
        .spawn("alice", json!({"template": "shared", "id": "dev"}))
        .await;
    world
        .until("the pod is known", || async {
            stored().await["pod"]["uid"].is_string()
        })
        .await;
    assert_eq!(stored().await["exclusive"], false);
    api.replace("shared", &params, &template("two", ""))
        .await
        .unwrap();
    world
        .until("outdated", || async {
            world.get("alice", "/workspaces/dev").await["outdated"] == true
        })
        .await;
    let begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    assert_eq!(begun["mode"], "recreate", "{begun}");
    assert_eq!(stored().await["exclusive"], true);
}
