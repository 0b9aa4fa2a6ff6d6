//! Upgrades of everyone's workspaces while they run: paused, tried on a canary, stopped by what
//! fails, tried again; and what they leave to each other.

use crate::bulk_stage::{MISSING, REFUSAL, by_id, kubelet, listed, to_the_end, upgrade_all};
use crate::world::World;
use http::Method;
use serde_json::{Value, json};

/// Plays the kubelet until the operation is as it should be, and returns it.
async fn until(world: &World, operation: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/operations/{operation}");
    world
        .until(what, || async {
            kubelet(world).await;
            is(&world.get("admin", &path).await)
        })
        .await;
    world.get("admin", &path).await
}

/// A command on an operation, by JSON.
async fn command(world: &World, operation: &str, command: &str) -> Value {
    let path = format!("/operations/{operation}/{command}");
    let answer = world.post("admin", &path).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

async fn pods(world: &World, ids: &[&str]) -> Vec<usize> {
    let mut counts = Vec::new();
    for id in ids {
        counts.push(world.pods_of(id).await.len());
    }
    counts
}

/// Workspaces of alice at version 1 of a template that is at version 2.
async fn outdated(world: &World, ids: &[&str]) {
    world.sample("sample:1").await;
    for id in ids {
        world.running("alice", id).await;
    }
    world.sample("sample:2").await;
}

#[tokio::test]
async fn a_pause_takes_no_more_up_and_a_resume_does() {
    let world = World::start().await;
    outdated(&world, &["a", "b", "c"]).await;
    let begun = upgrade_all(&world, json!({"maxParallel": 1})).await;
    let operation = begun["operationId"].as_str().unwrap();
    let path = format!("/operations/{operation}");
    // Without a kubelet the first stays where it is.
    world
        .until("the first is under way", || async {
            world.pods_of("a").await.len() == 2
        })
        .await;
    let paused = world
        .tool(
            "admin",
            "pause_operation",
            json!({"operationId": operation}),
        )
        .await["result"]["structuredContent"]
        .clone();
    assert_eq!(
        (&paused["paused"], &paused["done"]),
        (&json!(true), &json!(false)),
        "{paused}"
    );
    let message = paused["message"].as_str().unwrap();
    assert!(message.starts_with("Paused by admin: "), "{message}");
    let next = paused["next"].as_str().unwrap();
    assert!(next.contains("resume_operation"), "{next}");
    let again = command(&world, operation, "pause").await;
    assert_eq!(again["paused"], true, "again is the same");

    // What counts the first as upgraded would have taken up the next.
    let rests = until(&world, operation, "the first has ended", |seen| {
        seen["counts"]["succeeded"] == 1
    })
    .await;
    assert_eq!(
        (&rests["counts"]["running"], &rests["counts"]["pending"]),
        (&json!(0), &json!(2)),
        "{rests}"
    );
    assert_eq!(rests["state"], "running");
    assert_eq!(pods(&world, &["b", "c"]).await, [1, 1]);

    // Who waits for it is told at once that it waits for them.
    let wait = format!("{path}/wait?seconds=0");
    assert_eq!(world.get("admin", &wait).await["paused"], true);
    let resumed = command(&world, operation, "resume").await;
    assert!(resumed.get("paused").is_none(), "{resumed}");
    let ended = to_the_end(&world, operation).await;
    assert_eq!(ended["message"], "Ended: 3 of 3 upgraded");
    for what in ["pause", "resume"] {
        let after = command(&world, operation, what).await;
        assert_eq!(after["state"], "succeeded", "what has ended stays so");
        assert!(after.get("paused").is_none());
    }
}

#[tokio::test]
async fn a_canary_goes_first_and_a_person_lets_the_others_follow() {
    let world = World::start().await;
    outdated(&world, &["a", "b", "c"]).await;
    let arguments = json!({"canary": 1, "maxParallel": 3});
    let begun = upgrade_all(&world, arguments).await;
    let next = begun["next"].as_str().unwrap();
    assert!(next.contains("resume_operation"), "{next}");
    let operation = begun["operationId"].as_str().unwrap();
    world
        .until("the canary is under way", || async {
            world.pods_of("a").await.len() == 2
        })
        .await;
    // There is nothing to approve yet.
    let path = format!("/operations/{operation}/resume");
    let early = world.post("admin", &path).await;
    assert_eq!(
        (early.status.as_u16(), early.json()["code"].as_str()),
        (409, Some("conflict")),
        "{}",
        early.body
    );
    let waits = until(&world, operation, "it waits", |seen| {
        seen["waiting"] == "approval"
    })
    .await;
    assert_eq!(
        (
            &waits["canary"],
            &waits["done"],
            &waits["counts"]["pending"]
        ),
        (&json!(1), &json!(false), &json!(2)),
        "{waits}"
    );
    let message = waits["message"].as_str().unwrap();
    assert!(message.starts_with("Waiting for approval: "), "{message}");
    assert_eq!(pods(&world, &["b", "c"]).await, [1, 1]);
    let resumed = world
        .tool(
            "admin",
            "resume_operation",
            json!({"operationId": operation}),
        )
        .await["result"]["structuredContent"]
        .clone();
    assert!(resumed.get("waiting").is_none(), "{resumed}");
    let ended = to_the_end(&world, operation).await;
    assert_eq!(ended["message"], "Ended: 3 of 3 upgraded");
    assert_eq!(ended["canary"], 1);
}

/// A canary that nobody approves is cancelled like anything else.
#[tokio::test]
async fn a_canary_may_be_the_only_one() {
    let world = World::start().await;
    outdated(&world, &["a", "b"]).await;
    let begun = upgrade_all(&world, json!({"canary": 1})).await;
    let operation = begun["operationId"].as_str().unwrap();
    until(&world, operation, "it waits", |seen| {
        seen["waiting"] == "approval"
    })
    .await;
    command(&world, operation, "cancel").await;
    let ended = to_the_end(&world, operation).await;
    assert_eq!(
        ended["message"],
        "Cancelled by admin: 1 of 2 upgraded, 1 cancelled"
    );
    assert!(ended.get("waiting").is_none());
    assert_eq!(
        world.get("alice", "/workspaces/b").await["outdated"],
        json!(true)
    );
}

#[tokio::test]
async fn a_failure_beyond_the_budget_stops_the_rest_and_what_failed_is_tried_again() {
    let world = World::start().await;
    outdated(&world, &["a", "b", "c"]).await;
    let spec = format!("containers: [{{name: main, image: '{MISSING}'}}]");
    let quick = json!({"nogoo9/settle": "0", "nogoo9/upgrade-deadline": "2"});
    world.template("sample", &spec, quick).await;
    let arguments = json!({"maxParallel": 1, "failureBudget": 0});
    let begun = upgrade_all(&world, arguments).await;
    let operation = begun["operationId"].as_str().unwrap();
    let ended = to_the_end(&world, operation).await;
    assert_eq!(
        (&ended["state"], &ended["failureBudget"]),
        (&json!("failed"), &json!(0)),
        "{ended}"
    );
    let stopped = "stopped: 1 failed, 0 were allowed to";
    assert_eq!(ended["stopped"], stopped);
    assert_eq!(
        ended["message"],
        format!("Ended: 0 of 3 upgraded, 1 failed, 2 cancelled; {stopped}")
    );
    let results = by_id(&ended["targets"]);
    assert_eq!(results["a"]["state"], "failed");
    for id in ["b", "c"] {
        assert_eq!(
            (&results[id]["state"], &results[id]["error"]["message"]),
            (&json!("cancelled"), &json!(stopped))
        );
    }
    assert_eq!(pods(&world, &["b", "c"]).await, [1, 1]);

    // Mended, only what failed is tried again.
    world.sample("sample:3").await;
    let again = world
        .tool(
            "admin",
            "retry_operation",
            json!({"operationId": operation}),
        )
        .await["result"]["structuredContent"]
        .clone();
    assert_eq!(
        (&again["status"], &again["total"], &again["upgraded"]),
        (&json!("upgrading"), &json!(1), &json!(1)),
        "{again}"
    );
    let retry = again["operationId"].as_str().unwrap();
    assert_ne!(retry, operation);
    let ended = to_the_end(&world, retry).await;
    assert_eq!(
        (&ended["state"], &ended["retryOf"], &ended["failureBudget"]),
        (&json!("succeeded"), &json!(operation), &json!(0))
    );
    assert_eq!(ended["targets"][0]["id"], "a");
    for (id, outdated) in [("a", false), ("b", true), ("c", true)] {
        let after = world.get("alice", &format!("/workspaces/{id}")).await;
        assert_eq!(after["outdated"], outdated, "{id}");
    }
    // Nothing is left to try.
    let nothing = command(&world, operation, "retry").await;
    assert_eq!(nothing["status"], "up_to_date", "{nothing}");
    let answer = world
        .post("admin", &format!("/operations/{retry}/retry"))
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()["code"].as_str()),
        (409, Some("conflict")),
        "nothing failed there: {}",
        answer.body
    );
}

#[tokio::test]
async fn all_get_a_new_pod_if_all_are_asked_for_and_the_second_leaves_them_to_the_first() {
    let world = World::start().await;
    let spec = "{containers: [{name: main, image: 'sample:1', volumeMounts: [{name: scratch, mountPath: /s}]}], \
        volumes: [{name: scratch, emptyDir: {}}]}";
    world.sample("sample:1").await;
    world
        .template("scratchy", spec, json!({"nogoo9/settle": "0"}))
        .await;
    let before = world.running("alice", "a").await;
    world
        .spawn("bob", json!({"template": "scratchy", "id": "b"}))
        .await;
    world
        .until("b runs", || async {
            kubelet(&world).await;
            world.get("bob", "/workspaces/b").await["status"] == "running"
        })
        .await;
    assert_eq!(upgrade_all(&world, json!({})).await["status"], "up_to_date");
    // A pod may run a moment before its record knows it, and until then it is not upgraded.
    let dry = json!({"scope": "all", "dryRun": true});
    world
        .until("both may be upgraded", || async {
            let planned = by_id(&upgrade_all(&world, dry.clone()).await["targets"]);
            planned
                .values()
                .all(|target| target["verdict"] == "upgrade")
        })
        .await;

    let plan = upgrade_all(&world, dry.clone()).await;
    let planned = by_id(&plan["targets"]);
    assert_eq!(plan["upgraded"], 2, "{plan}");
    assert_eq!(planned["b"]["dataLost"], json!(["scratch"]));
    assert!(planned["a"].get("dataLost").is_none(), "{plan}");
    assert!(planned["a"].get("underWay").is_none(), "{plan}");

    let begun = upgrade_all(&world, json!({"scope": "all", "userSub": "alice"})).await;
    let operation = begun["operationId"].as_str().unwrap();
    listed(&world, operation).await;
    let plan = upgrade_all(&world, json!({"scope": "all", "dryRun": true})).await;
    let planned = by_id(&plan["targets"]);
    assert_eq!(
        (&planned["a"]["verdict"], &planned["a"]["underWay"]),
        (&json!("skip"), &json!(operation))
    );
    let second = upgrade_all(&world, json!({"scope": "all"})).await;
    assert_eq!(
        (&second["upgraded"], &second["underWay"]),
        (&json!(1), &json!([{"id": "a", "operationId": operation}])),
        "{second}"
    );
    let first = to_the_end(&world, operation).await;
    assert_eq!(
        (&first["state"], &first["scope"], &first["message"]),
        (
            &json!("succeeded"),
            &json!("all"),
            &json!("Ended: 1 of 1 upgraded")
        )
    );
    let second = to_the_end(&world, second["operationId"].as_str().unwrap()).await;
    let results = by_id(&second["targets"]);
    assert_eq!(
        (&results["a"]["state"], &results["a"]["underWay"]),
        (&json!("skipped"), &json!(operation))
    );
    assert_eq!(results["b"]["state"], "succeeded");
    let after = world.get("alice", "/workspaces/a").await;
    assert_ne!(after["podName"], before["podName"], "a new pod");
    assert_eq!(after["version"], before["version"], "of the same version");
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused_and_one_workspace_is_not_paused() {
    let world = World::start().await;
    outdated(&world, &["a"]).await;
    for arguments in [
        json!({"canary": 0}),
        json!({"failureBudget": -1}),
        json!({"scope": "some"}),
    ] {
        let answer = world
            .api("admin", Method::POST, "/upgrade-all", Some(arguments))
            .await;
        assert!(answer.status.is_client_error(), "{}", answer.body);
    }
    let single = world.post("alice", "/workspaces/a/upgrade").await.json();
    let path = format!("/operations/{}", single["operationId"].as_str().unwrap());
    for what in ["pause", "resume"] {
        let answer = world.post("alice", &format!("{path}/{what}")).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["code"].as_str()),
            (409, Some("conflict")),
            "{}",
            answer.body
        );
        // Another's is as if it were not there.
        let other = world.post("bob", &format!("{path}/{what}")).await;
        assert_eq!(
            (other.status.as_u16(), other.json()["message"].as_str()),
            (403, Some(REFUSAL))
        );
    }
}

/// Its owner wants it later: a bulk leaves it alone, also one that had it on its list before.
#[tokio::test]
async fn a_workspace_is_left_alone_until_its_owner_wants_it() {
    let world = World::start().await;
    outdated(&world, &["a", "b", "c"]).await;
    let later = async |id: &str| {
        let body = json!({"notBefore": "2126-12-01T10:00:00Z"});
        let path = format!("/workspaces/{id}/not-before");
        let answer = world.api("alice", Method::PUT, &path, Some(body)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.json()["notBefore"], "2126-12-01T10:00:00Z");
    };
    later("b").await;
    world
        .until("the dry run knows of it", || async {
            let plan = upgrade_all(&world, json!({"dryRun": true})).await;
            by_id(&plan["targets"])["b"]["verdict"] == "skip"
        })
        .await;
    let begun = upgrade_all(&world, json!({"maxParallel": 1})).await;
    assert_eq!(
        (&begun["total"], &begun["upgraded"]),
        (&json!(3), &json!(2)),
        "{begun}"
    );
    world
        .until("the first is under way", || async {
            world.pods_of("a").await.len() == 2
        })
        .await;
    later("c").await;
    let ended = to_the_end(&world, begun["operationId"].as_str().unwrap()).await;
    assert_eq!(ended["message"], "Ended: 1 of 3 upgraded, 2 skipped");
    let results = by_id(&ended["targets"]);
    for id in ["b", "c"] {
        assert_eq!(
            (&results[id]["state"], &results[id]["error"]["reason"]),
            (&json!("skipped"), &json!("NotBefore"))
        );
        let message = results[id]["message"].as_str().unwrap();
        assert!(message.contains("2126-12-01T10:00:00Z"), "{message}");
    }
    // Its owner's own upgrade does not care.
    let own = world.post("alice", "/workspaces/b/upgrade").await.json();
    assert_eq!(own["status"], "upgrading", "{own}");
}

/// The upgrade of one workspace is taken back, alone and as a part of many.
#[tokio::test]
async fn an_upgrade_that_has_not_ended_its_old_pod_is_taken_back() {
    let world = World::start().await;
    outdated(&world, &["a", "b"]).await;
    let before = world.get("alice", "/workspaces/a").await;
    let begun = upgrade_all(&world, json!({"maxParallel": 1})).await;
    let bulk = begun["operationId"].as_str().unwrap();
    world
        .until("the first is under way", || async {
            world.pods_of("a").await.len() == 2
        })
        .await;
    world
        .until("the workspace tells its operation", || async {
            let seen = world.get("alice", "/workspaces/a").await;
            seen.get("operationId").is_some()
        })
        .await;
    let part = world.get("alice", "/workspaces/a").await["operationId"].clone();
    let part = part.as_str().unwrap().to_owned();
    let path = format!("/operations/{part}/cancel");
    let other = world.post("bob", &path).await;
    assert_eq!(other.status, 403, "{}", other.body);
    for _ in 0..2 {
        // Twice is once.
        let answer = world.post("alice", &path).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let ended = to_the_end(&world, bulk).await;
    let results = by_id(&ended["targets"]);
    assert_eq!(
        (&results["a"]["state"], &results["b"]["state"]),
        (&json!("cancelled"), &json!("succeeded")),
        "{ended}"
    );
    let ended = to_the_end(&world, &part).await;
    assert_eq!(ended["state"], "cancelled", "{ended}");
    let message = ended["message"].as_str().unwrap();
    assert!(message.contains("alice"), "{message}");
    let after = world.get("alice", "/workspaces/a").await;
    assert_eq!(
        (&after["podName"], &after["version"], &after["outdated"]),
        (&before["podName"], &before["version"], &json!(true))
    );
    // What has ended stays as it ended, and was no failure that could be tried again.
    assert_eq!(
        world.post("alice", &path).await.json()["state"],
        "cancelled"
    );
    let retry = world
        .post("alice", &format!("/operations/{part}/retry"))
        .await;
    assert_eq!(retry.status, 409, "{}", retry.body);
}

/// Owners try again what failed of their own.
#[tokio::test]
async fn a_failed_upgrade_of_one_is_tried_again() {
    let world = World::start().await;
    outdated(&world, &["a"]).await;
    let spec = format!("containers: [{{name: main, image: '{MISSING}'}}]");
    let quick = json!({"nogoo9/settle": "0", "nogoo9/upgrade-deadline": "2"});
    world.template("sample", &spec, quick).await;
    let first = world.post("alice", "/workspaces/a/upgrade").await.json();
    let first = first["operationId"].as_str().unwrap();
    assert_eq!(to_the_end(&world, first).await["state"], "failed");
    world.sample("sample:3").await;
    let again = world
        .tool("alice", "retry_operation", json!({"operationId": first}))
        .await["result"]["structuredContent"]
        .clone();
    assert_eq!(
        (&again["status"], &again["total"]),
        (&json!("upgrading"), &json!(1)),
        "{again}"
    );
    let retry = again["operationId"].as_str().unwrap();
    let path = format!("/operations/{retry}");
    let tells = world.get("alice", &path).await["retryOf"].clone();
    assert_eq!(tells, first, "from the beginning");
    let ended = to_the_end(&world, retry).await;
    assert_eq!(
        (&ended["state"], &ended["retryOf"]),
        (&json!("succeeded"), &json!(first)),
        "{ended}"
    );
    assert_eq!(ended["targets"][0]["podName"], again["upgradedPods"][0]);
}
