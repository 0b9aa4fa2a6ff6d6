//! The way back, a time before which nobody else upgrades, and calling one upgrade off.

use crate::world::World;
use http::Method;
use serde_json::{Value, json};

/// Upgrades or rolls back, with the kubelet's part, and waits for the end.
async fn through(world: &World, begun: &Value) -> Value {
    let pod = begun["podName"].as_str().unwrap().to_owned();
    world
        .until("the successor", || async { world.try_ready(&pod).await })
        .await;
    ended(world, begun).await
}

async fn ended(world: &World, begun: &Value) -> Value {
    let path = format!("/operations/{}", begun["operationId"].as_str().unwrap());
    world
        .until("the end", || async {
            world.get("alice", &path).await["done"] == true
        })
        .await;
    world.get("alice", &path).await
}

#[tokio::test]
async fn back_to_the_version_before_and_forth_again() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let first = world.running("alice", "dev").await;
    let refused = world.post("alice", "/workspaces/dev/rollback").await;
    assert_eq!(refused.status, 409, "{}", refused.body);
    assert!(
        refused.body.contains("not been upgraded"),
        "{}",
        refused.body
    );

    world.sample("sample:2").await;
    let begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    // While something else is under way it says so, and what to do.
    let busy = world.post("alice", "/workspaces/dev/rollback").await;
    assert_eq!(busy.status, 409);
    assert!(busy.body.contains("cancel_operation"), "{}", busy.body);
    through(&world, &begun).await;
    let upgraded = world.get("alice", "/workspaces/dev").await;
    assert_eq!(upgraded["previousVersion"], first["version"]);
    assert_eq!(
        (
            &upgraded["lastUpgrade"]["state"],
            &upgraded["lastUpgrade"]["to"]
        ),
        (&json!("succeeded"), &upgraded["version"])
    );

    // The way back needs no template.
    let parameters = kube::api::DeleteParams::default();
    world
        .templates()
        .delete("sample", &parameters)
        .await
        .unwrap();
    let stranger = world.post("bob", "/workspaces/dev/rollback").await;
    assert_eq!(stranger.status, 403);
    let back = world
        .tool("admin", "rollback_workspace", json!({"id": "dev"}))
        .await["result"]["structuredContent"]
        .clone();
    assert_eq!(
        (&back["status"], &back["toVersion"], &back["fromVersion"]),
        (&json!("upgrading"), &first["version"], &upgraded["version"])
    );
    let again = world.post("alice", "/workspaces/dev/rollback").await.json();
    assert_eq!(again["operationId"], back["operationId"]);
    let operation = through(&world, &back).await;
    assert_eq!(
        (&operation["kind"], &operation["state"]),
        (&json!("rollback"), &json!("succeeded"))
    );
    let after = world.get("alice", "/workspaces/dev").await;
    for (key, value) in [
        ("version", &first["version"]),
        ("owner", &first["owner"]),
        ("createdAt", &first["createdAt"]),
        ("previousVersion", &upgraded["version"]),
    ] {
        assert_eq!(&after[key], value, "{key}");
    }
    let image = |pods: Vec<k8s_openapi::api::core::v1::Pod>| {
        pods.into_iter()
            .find(|pod| pod.metadata.name.as_deref() == back["podName"].as_str())
            .and_then(|pod| pod.spec?.containers.first()?.image.clone())
    };
    assert_eq!(
        image(world.pods_of("dev").await).as_deref(),
        Some("sample:1")
    );
}

#[tokio::test]
async fn one_upgrade_is_called_off() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let before = world.running("alice", "dev").await;
    world.sample("sample:2").await;
    let begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    let path = format!(
        "/operations/{}/cancel",
        begun["operationId"].as_str().unwrap()
    );
    assert_eq!(world.post("bob", &path).await.status, 403);
    assert_eq!(world.post("alice", &path).await.status, 200);
    let operation = ended(&world, &begun).await;
    assert_eq!(operation["state"], "cancelled", "{operation}");
    let after = world.get("alice", "/workspaces/dev").await;
    assert_eq!(
        (&after["podName"], &after["status"], &after["outdated"]),
        (&before["podName"], &json!("running"), &json!(true))
    );
    assert!(after.get("lastUpgradeError").is_none(), "{after}");
    assert_eq!(after["lastUpgrade"]["state"], "cancelled");
}

#[tokio::test]
async fn its_owner_says_before_when_nobody_else_upgrades_it() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    let path = "/workspaces/dev/not-before";
    let put = |user: &'static str, body: Value| world.api(user, Method::PUT, path, Some(body));
    let time = "2199-01-31T18:00:00Z";
    assert_eq!(put("bob", json!({"notBefore": time})).await.status, 403);
    for odd in ["tomorrow", "2199-01-31"] {
        let answer = put("alice", json!({"notBefore": odd})).await;
        assert_eq!(answer.status, 400, "{odd}: {}", answer.body);
        assert!(answer.body.contains("notBefore"), "{}", answer.body);
    }
    let set = put("alice", json!({"notBefore": time})).await;
    assert_eq!(set.json()["notBefore"], time);
    world.sample("sample:2").await;
    let trial = world
        .tool("admin", "upgrade_all_workspaces", json!({"dryRun": true}))
        .await["result"]["structuredContent"]
        .clone();
    assert_eq!(trial["targets"][0]["verdict"], "skip", "{trial}");
    assert!(
        trial["targets"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("2199"),
        "{trial}"
    );
    // Its owner does not mind.
    let begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    assert_eq!(begun["status"], "upgrading");
    let lifted = put("alice", json!({"notBefore": null})).await;
    assert!(lifted.json().get("notBefore").is_none(), "{}", lifted.body);
}

#[tokio::test]
async fn an_id_that_was_just_deleted_is_its_owners_alone_for_a_while() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let first = world.running("alice", "dev").await;
    let deleted = world
        .api("alice", Method::DELETE, "/workspaces/dev", None)
        .await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    world
        .until("it to be gone", || async {
            let answer = world
                .api("alice", Method::GET, "/workspaces/dev", None)
                .await;
            answer.status == 403 && world.pods_of("dev").await.is_empty()
        })
        .await;
    world
        .until("to people it is not there", || async {
            world.get("admin", "/workspaces").await["workspaces"] == json!([])
        })
        .await;
    let spawn = json!({"id": "dev", "template": "sample"});
    let taken = world
        .api("bob", Method::POST, "/workspaces", Some(spawn.clone()))
        .await;
    assert_eq!(taken.status, 409, "{}", taken.body);
    assert!(taken.body.contains("try again then"), "{}", taken.body);
    world.spawn("alice", spawn).await;
    world
        .until("its pod", || async {
            !world.pods_of("dev").await.is_empty()
        })
        .await;
    let second = world.pods_of("dev").await.remove(0);
    assert_ne!(second.metadata.name.as_deref(), first["podName"].as_str());
}
