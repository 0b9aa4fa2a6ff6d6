//! Upgrades of everyone's workspaces, as admins ask for them and as others do not get them.

use crate::bulk_stage::{MISSING, REFUSAL, by_id, kubelet, to_the_end, upgrade_all};
use crate::world::World;
use http::Method;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[tokio::test]
async fn only_admins_get_it_in_the_agreed_words() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    world.sample("sample:2").await;
    for body in [
        None,
        Some(json!({"dryRun": true})),
        Some(json!({"userSub": "alice"})),
    ] {
        let answer = world.api("alice", Method::POST, "/upgrade-all", body).await;
        assert_eq!(answer.status, 403, "{}", answer.body);
        assert_eq!(
            answer.json(),
            json!({"code": "forbidden", "message": REFUSAL, "retryable": false})
        );
    }
    let tool = world
        .tool("alice", "upgrade_all_workspaces", json!({}))
        .await;
    assert_eq!(tool["result"]["isError"], true, "{tool}");
    let text = tool["result"]["content"][0]["text"].as_str().unwrap();
    let text: Value = serde_json::from_str(text).unwrap();
    assert_eq!(text["message"], REFUSAL);
    assert_eq!(world.pods_of("dev").await.len(), 1, "nothing was touched");
    assert_eq!(
        world.get("admin", "/operations").await["operations"],
        json!([])
    );

    // Nor do others see what an admin has begun, or command it; they do not even learn whether there
    // is such an operation.
    let begun = upgrade_all(&world, json!({})).await;
    let operation = begun["operationId"].as_str().unwrap();
    for id in [operation, "op-aaaaaaaaaaaaaaaaaaaaaaaaaa"] {
        let path = format!("/operations/{id}");
        for (method, path, message) in [
            (Method::GET, path.clone(), "Access Denied"),
            (
                Method::GET,
                format!("{path}/wait?seconds=0"),
                "Access Denied",
            ),
            (Method::POST, format!("{path}/pause"), REFUSAL),
            (Method::POST, format!("{path}/resume"), REFUSAL),
            (Method::POST, format!("{path}/cancel"), REFUSAL),
            (Method::POST, format!("{path}/retry"), REFUSAL),
        ] {
            let answer = world.api("alice", method, &path, None).await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()["message"].as_str()),
                (403, Some(message)),
                "{path}"
            );
        }
    }
    assert_eq!(
        world.get("alice", "/operations").await["operations"],
        json!([])
    );
    assert_eq!(
        to_the_end(&world, begun["operationId"].as_str().unwrap()).await["state"],
        "succeeded"
    );
}

#[tokio::test]
async fn everyones_outdated_ones_are_upgraded_and_stay_their_owners() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let mut before = BTreeMap::new();
    for (owner, id) in [
        ("alice", "a1"),
        ("alice", "a2"),
        ("bob", "b1"),
        ("bob", "resting"),
    ] {
        before.insert(id, world.running(owner, id).await);
    }
    assert_eq!(
        world.post("bob", "/workspaces/resting/stop").await.status,
        200
    );
    world.sample("sample:2").await;
    world.running("alice", "fresh").await;

    // First what would happen; nothing is touched.
    let plan = upgrade_all(&world, json!({"dryRun": true})).await;
    assert_eq!(
        (&plan["status"], &plan["total"], &plan["upgraded"]),
        (&json!("dry_run"), &json!(4), &json!(3))
    );
    assert!(plan.get("operationId").is_none());
    let planned = by_id(&plan["targets"]);
    assert_eq!(
        planned.keys().collect::<Vec<_>>(),
        ["a1", "a2", "b1", "resting"]
    );
    assert_eq!(planned["a1"]["verdict"], "upgrade");
    assert_eq!(planned["b1"]["mode"], "side-by-side");
    assert_eq!(planned["resting"]["verdict"], "skip");
    assert!(
        planned["resting"]["reason"]
            .as_str()
            .unwrap()
            .contains("not running")
    );
    assert_eq!(
        world.get("admin", "/operations").await["operations"],
        json!([])
    );

    let begun = world
        .tool("admin", "upgrade_all_workspaces", json!({"maxParallel": 2}))
        .await["result"]["structuredContent"]
        .clone();
    assert_eq!(
        (
            &begun["status"],
            &begun["total"],
            &begun["upgraded"],
            &begun["failed"]
        ),
        (&json!("upgrading"), &json!(4), &json!(3), &json!(0)),
        "{begun}"
    );
    let operation = begun["operationId"].as_str().unwrap();
    let path = format!("/operations/{operation}");
    // It is there at once, and what is there is complete.
    let first = world.get("admin", &path).await;
    assert_eq!(
        (&first["kind"], &first["actor"], &first["counts"]["total"]),
        (&json!("upgrade-all"), &json!("admin"), &json!(4))
    );
    assert_eq!(first["targets"].as_array().unwrap().len(), 4);

    let ended = to_the_end(&world, operation).await;
    assert_eq!(ended["state"], "succeeded", "{ended}");
    assert_eq!(ended["message"], "Ended: 3 of 4 upgraded, 1 skipped");
    assert_eq!(
        (&ended["counts"]["succeeded"], &ended["counts"]["skipped"]),
        (&json!(3), &json!(1))
    );
    let results = by_id(&ended["targets"]);
    assert_eq!(results["resting"]["error"]["reason"], "Stopped");
    assert!(results["resting"].get("podName").is_none());
    let pods = begun["upgradedPods"].as_array().unwrap();
    for (i, (owner, id)) in [("alice", "a1"), ("alice", "a2"), ("bob", "b1")]
        .into_iter()
        .enumerate()
    {
        let result = &results[id];
        assert_eq!(
            (&result["state"], &result["owner"]),
            (&json!("succeeded"), &json!(owner))
        );
        assert_eq!(result["podName"], pods[i], "named before it was there");
        let after = world.get(owner, &format!("/workspaces/{id}")).await;
        for key in ["owner", "createdAt", "url", "name"] {
            assert_eq!(after[key], before[id][key], "{id} {key}");
        }
        assert_eq!(after["outdated"], false);
        let pod = world.pods_of(id).await.remove(0);
        assert_eq!(pod.annotations()["nogoo9/user-sub"], owner);
        let env = pod.spec.unwrap().containers.remove(0).env.unwrap();
        assert_eq!(env[0].value.as_deref(), Some(owner), "not the admin's");
    }
    assert_eq!(world.pods_of("resting").await.len(), 0);

    // One operation in lists, whatever it took; each owner can still look at their part.
    let listed = world.get("admin", "/operations").await["operations"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["operationId"], operation);
    assert_eq!(
        world.get("bob", "/operations").await["operations"],
        json!([])
    );

    // Nothing is left to do.
    let again = upgrade_all(&world, json!({})).await;
    assert_eq!(
        (&again["status"], &again["total"]),
        (&json!("up_to_date"), &json!(1))
    );
    assert!(again.get("operationId").is_none());
}

#[tokio::test]
async fn one_that_fails_stays_and_does_not_stop_the_others() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world
        .template(
            "other",
            "containers: [{name: main, image: 'other:1'}]",
            json!({"nogoo9/settle": "0"}),
        )
        .await;
    let before = world.running("alice", "a").await;
    world
        .spawn("bob", json!({"template": "other", "id": "b"}))
        .await;
    world
        .until("b runs", || async {
            kubelet(&world).await;
            world.get("bob", "/workspaces/b").await["status"] == "running"
        })
        .await;
    let spec = format!("containers: [{{name: main, image: '{MISSING}'}}]");
    let quick = json!({"nogoo9/settle": "0", "nogoo9/upgrade-deadline": "20"});
    world.template("sample", &spec, quick).await;
    world
        .template(
            "other",
            "containers: [{name: main, image: 'other:2'}]",
            json!({"nogoo9/settle": "0"}),
        )
        .await;
    let begun = upgrade_all(&world, json!({"maxParallel": 1})).await;
    let ended = to_the_end(&world, begun["operationId"].as_str().unwrap()).await;
    assert_eq!(ended["state"], "failed");
    assert_eq!(ended["message"], "Ended: 1 of 2 upgraded, 1 failed");
    let results = by_id(&ended["targets"]);
    assert_eq!(results["b"]["state"], "succeeded");
    assert_eq!(results["a"]["state"], "failed");
    assert_eq!(
        results["a"]["error"]["reason"], "ImagePullBackOff",
        "{results:?}"
    );
    let after = world.get("alice", "/workspaces/a").await;
    assert_eq!(
        (&after["podName"], &after["status"]),
        (&before["podName"], &json!("running"))
    );
    assert!(
        after["lastUpgradeError"]
            .as_str()
            .unwrap()
            .starts_with("ImagePullBackOff")
    );
}

#[tokio::test]
async fn filters_and_bounds() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "a").await;
    world.running("bob", "b").await;
    world.sample("sample:2").await;
    let of = async |arguments: Value| {
        let plan = upgrade_all(&world, arguments).await;
        by_id(&plan["targets"]).into_keys().collect::<Vec<_>>()
    };
    assert_eq!(of(json!({"dryRun": true, "userSub": "bob"})).await, ["b"]);
    assert_eq!(
        of(json!({"dryRun": true, "template": "sample"})).await,
        ["a", "b"]
    );
    assert!(
        of(json!({"dryRun": true, "userSub": "nobody"}))
            .await
            .is_empty()
    );
    for (arguments, code) in [
        (json!({"maxParallel": 0}), "invalid_argument"),
        (json!({"maxParallel": 51}), "invalid_argument"),
        (json!({"template": "no-such"}), "template_not_found"),
    ] {
        let answer = world
            .api("admin", Method::POST, "/upgrade-all", Some(arguments))
            .await;
        assert_eq!(answer.json()["code"], code, "{}", answer.body);
    }
    let slip = world
        .api(
            "admin",
            Method::POST,
            "/upgrade-all",
            Some(json!({"dryrun": true})),
        )
        .await;
    assert!(
        slip.status.is_client_error(),
        "a misspelt dryRun must not upgrade anything"
    );

    // A template that cannot be read: nobody can tell, so it is skipped, not touched.
    world.template("sample", "containers: 7", json!({})).await;
    let plan = upgrade_all(&world, json!({"dryRun": true})).await;
    let targets = by_id(&plan["targets"]);
    assert_eq!((&plan["upgraded"], targets.len()), (&json!(0), 2));
    assert!(
        targets["a"]["reason"]
            .as_str()
            .unwrap()
            .contains("template 'sample' cannot be used")
    );
    assert_eq!(upgrade_all(&world, json!({})).await["status"], "up_to_date");
    let page = world
        .api("admin", Method::GET, "/operations/op-x?limit=251", None)
        .await;
    assert_eq!(page.json()["code"], "invalid_argument");
}
