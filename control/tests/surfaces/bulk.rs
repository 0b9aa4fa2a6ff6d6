//! Upgrades of everyone's workspaces, as admins ask for them and as others do not get them.

use crate::world::{WORKSPACES, World};
use http::Method;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
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
