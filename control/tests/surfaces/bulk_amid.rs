//! What becomes of a bulk while it is under way: cancelled, waited for, asked for once more, met by an
//! upgrade of somebody else or by a full quota.

use crate::bulk_stage::{by_id, listed, to_the_end, upgrade_all};
use crate::world::{WORKSPACES, World};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

#[tokio::test]
async fn a_cancel_ends_what_has_not_begun() {
    let world = World::start().await;
    world.sample("sample:1").await;
    for id in ["a", "b", "c"] {
        world.running("alice", id).await;
    }
    world.sample("sample:2").await;
    let begun = upgrade_all(&world, json!({"maxParallel": 1})).await;
    let operation = begun["operationId"].as_str().unwrap();
    let path = format!("/operations/{operation}");
    // Without a kubelet the first stays where it is.
    world
        .until("the first is under way", || async {
            world.pods_of("a").await.len() == 2
        })
        .await;
    let single = world.get("alice", "/workspaces/a").await["operationId"].clone();
    let single = world
        .get(
            "alice",
            &format!("/operations/{}", single.as_str().unwrap()),
        )
        .await;
    assert_eq!(
        (&single["parent"], &single["actor"]),
        (&json!(operation), &json!("admin"))
    );

    let cancelled = world
        .tool(
            "admin",
            "cancel_operation",
            json!({"operationId": operation}),
        )
        .await;
    let cancelled = &cancelled["result"]["structuredContent"];
    assert_eq!(
        (&cancelled["state"], &cancelled["done"]),
        (&json!("running"), &json!(false))
    );
    assert!(
        cancelled["message"]
            .as_str()
            .unwrap()
            .starts_with("Being cancelled by admin: "),
        "{cancelled}"
    );
    let states = by_id(&cancelled["targets"]);
    assert_eq!(
        (
            &states["a"]["state"],
            &states["b"]["state"],
            &states["c"]["state"]
        ),
        (&json!("running"), &json!("cancelled"), &json!("cancelled"))
    );
    // Again is the same.
    assert_eq!(
        world.post("admin", &format!("{path}/cancel")).await.status,
        200
    );
    let ended = to_the_end(&world, operation).await;
    assert_eq!(ended["state"], "cancelled");
    assert_eq!(
        ended["message"],
        "Cancelled by admin: 1 of 3 upgraded, 2 cancelled"
    );
    for id in ["b", "c"] {
        let after = world.get("alice", &format!("/workspaces/{id}")).await;
        assert_eq!(
            (&after["outdated"], &after["status"]),
            (&json!(true), &json!("running"))
        );
        assert_eq!(world.pods_of(id).await.len(), 1);
    }
    // An ended one stays as it ended.
    let after = world.post("admin", &format!("{path}/cancel")).await.json();
    assert_eq!(after["state"], "cancelled");
}

#[tokio::test]
async fn one_that_somebody_else_upgrades_is_skipped() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "a").await;
    world.running("alice", "b").await;
    world.sample("sample:2").await;
    let first = world.post("alice", "/workspaces/a/upgrade").await.json();
    let begun = upgrade_all(&world, json!({})).await;
    let ended = to_the_end(&world, begun["operationId"].as_str().unwrap()).await;
    let results = by_id(&ended["targets"]);
    assert_eq!(
        (&results["a"]["state"], &results["a"]["error"]["reason"]),
        (&json!("skipped"), &json!("UnderWay"))
    );
    let other = first["operationId"].as_str().unwrap();
    assert!(
        results["a"]["message"].as_str().unwrap().contains(other),
        "{results:?}"
    );
    assert_eq!(results["b"]["state"], "succeeded");
}

#[tokio::test]
async fn waiting_for_a_bulk_tells_how_far_it_is() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "a").await;
    world.running("bob", "b").await;
    world.sample("sample:2").await;
    let begun = upgrade_all(&world, json!({"maxParallel": 1})).await;
    let operation = begun["operationId"].as_str().unwrap();
    let token = world.token("admin");
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "wait_for_operation", "arguments": {"operationId": operation, "seconds": 25},
        "_meta": {"progressToken": "p"}}});
    let headers = [("mcp-protocol-version", "2025-11-25")];
    let (answer, _) = tokio::join!(
        world.mcp(&token, &headers, &call),
        to_the_end(&world, operation)
    );
    let events: Vec<Value> = answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data).ok())
        .collect();
    let told: Vec<&Value> = events
        .iter()
        .filter(|event| event["method"] == "notifications/progress")
        .map(|event| &event["params"])
        .collect();
    assert!(!told.is_empty(), "{}", answer.body);
    let progress: Vec<f64> = told
        .iter()
        .map(|p| p["progress"].as_f64().unwrap())
        .collect();
    assert!(
        progress.windows(2).all(|pair| pair[0] < pair[1]),
        "{progress:?}"
    );
    assert!(told.iter().all(|p| p["total"] == 2.0), "{told:?}");
    let last = &events.last().unwrap()["result"]["structuredContent"];
    assert_eq!(last["operationId"], operation);
    let ended = world
        .get("admin", &format!("/operations/{operation}/wait?seconds=25"))
        .await;
    assert_eq!(
        (&ended["done"], &ended["counts"]["succeeded"]),
        (&json!(true), &json!(2))
    );
}

/// The quota leaves room for one more pod: the bulk takes its turns within it.
#[tokio::test]
async fn a_quota_that_its_own_pods_fill_is_waited_for() {
    let world = World::start().await;
    world.sample("sample:1").await;
    for id in ["a", "b", "c"] {
        world.running("alice", id).await;
    }
    world.sample("sample:2").await;
    let quotas: Api<ResourceQuota> = Api::namespaced(world.pods_api().into_client(), WORKSPACES);
    let quota = json!({"metadata": {"name": "room"}, "spec": {"hard": {"pods": "4"}}});
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    let begun = upgrade_all(&world, json!({"maxParallel": 3})).await;
    let operation = begun["operationId"].as_str().unwrap();
    let ended = to_the_end(&world, operation).await;
    assert_eq!(ended["message"], "Ended: 3 of 3 upgraded", "{ended:#}");

    // One that others fill is a reason to fail, in the cluster's words.
    world.sample("sample:3").await;
    let patch = json!({"spec": {"hard": {"pods": "3"}}});
    let patch = Patch::Merge(&patch);
    quotas
        .patch("room", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let begun = upgrade_all(&world, json!({"userSub": "alice"})).await;
    let ended = to_the_end(&world, begun["operationId"].as_str().unwrap()).await;
    assert_eq!(ended["message"], "Ended: 0 of 3 upgraded, 3 failed");
    for target in ended["targets"].as_array().unwrap() {
        let message = target["error"]["message"].as_str().unwrap();
        assert!(message.contains("exceeded quota: room"), "{message}");
        let id = target["id"].as_str().unwrap();
        let after = world.get("alice", &format!("/workspaces/{id}")).await;
        assert_eq!(after["status"], "running");
        let told = after["lastUpgradeError"].as_str().unwrap();
        assert!(told.contains("exceeded quota: room"), "{told}");
    }
}

/// A reply that was lost is asked for again, and a button pressed twice.
#[tokio::test]
async fn asking_for_what_is_under_way_is_asking_for_the_same() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "a").await;
    world.running("bob", "b").await;
    world.sample("sample:2").await;
    let begun = upgrade_all(&world, json!({"maxParallel": 1})).await;
    listed(&world, begun["operationId"].as_str().unwrap()).await;
    for arguments in [json!({}), json!({"userSub": "bob"})] {
        let again = upgrade_all(&world, arguments).await;
        assert_eq!(
            (&again["status"], &again["operationId"], &again["total"]),
            (&json!("upgrading"), &begun["operationId"], &json!(2)),
            "{again}"
        );
    }
    let would = upgrade_all(&world, json!({"dryRun": true})).await;
    let reason = by_id(&would["targets"])["b"]["reason"].clone();
    let operation = begun["operationId"].as_str().unwrap();
    assert!(reason.as_str().unwrap().contains(operation), "{would}");
    let ended = to_the_end(&world, operation).await;
    assert_eq!(ended["message"], "Ended: 2 of 2 upgraded");
    let listed = world.get("admin", "/operations").await["operations"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(upgrade_all(&world, json!({})).await["status"], "up_to_date");
}
