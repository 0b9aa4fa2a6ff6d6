//! Which operations are listed, and to whom.

use crate::bulk_stage::{MISSING, kubelet, to_the_end, upgrade_all};
use crate::world::World;
use nogoo9_model::bulk::child;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn id(answer: &Value) -> String {
    answer["operationId"].as_str().unwrap().to_owned()
}

/// Begins something with one workspace, and sees it through.
async fn done(world: &World, user: &str, path: &str) -> String {
    let begun = world.post(user, &format!("/workspaces/{path}")).await;
    assert_eq!(begun.status, 200, "{}", begun.body);
    let operation = id(&begun.json());
    to_the_end(world, &operation).await;
    operation
}

/// Waits until this is what is listed: watches learn in their own time.
async fn lists(world: &World, user: &str, query: &str, expected: &[&String]) {
    let expected: BTreeSet<String> = expected.iter().copied().cloned().collect();
    let path = format!("/operations{query}");
    let what = format!("{user}: {query}: {expected:?}");
    world
        .until(&what, || async {
            let listed = world.get(user, &path).await["operations"].clone();
            let listed = listed.as_array().unwrap().iter().map(id);
            listed.collect::<BTreeSet<_>>() == expected
        })
        .await;
}

#[tokio::test]
async fn operations_are_listed_by_state_kind_and_workspace() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "a").await;
    world.running("bob", "c").await;
    world.sample("sample:2").await;
    let upgrade = done(&world, "alice", "a/upgrade").await;
    let back = done(&world, "alice", "a/rollback").await;
    world
        .until("both are outdated", || async {
            kubelet(&world).await;
            upgrade_all(&world, json!({"dryRun": true})).await["upgraded"] == 2
        })
        .await;
    let bulk = id(&upgrade_all(&world, json!({})).await);
    to_the_end(&world, &bulk).await;
    let spec = format!("containers: [{{name: main, image: '{MISSING}'}}]");
    let quick = json!({"nogoo9/settle": "0", "nogoo9/upgrade-deadline": "2"});
    world.template("sample", &spec, quick).await;
    let failed = done(&world, "bob", "c/upgrade").await;

    let part = child(&bulk, "a");
    lists(&world, "admin", "", &[&upgrade, &back, &bulk, &failed]).await;
    lists(&world, "admin", "?state=failed", &[&failed]).await;
    lists(&world, "admin", "?state=running", &[]).await;
    lists(&world, "admin", "?kind=upgrade-all", &[&bulk]).await;
    lists(&world, "admin", "?kind=rollback", &[&back]).await;
    lists(
        &world,
        "admin",
        "?state=succeeded&kind=upgrade",
        &[&upgrade],
    )
    .await;
    for user in ["admin", "alice"] {
        lists(&world, user, "?workspaceId=a", &[&upgrade, &back, &part]).await;
    }
    lists(&world, "alice", "?workspaceId=a&kind=rollback", &[&back]).await;
    // Another's is as if it were not there.
    lists(&world, "bob", "?workspaceId=a", &[]).await;
    lists(&world, "bob", "?workspaceId=nil", &[]).await;
    lists(&world, "bob", "?kind=upgrade-all", &[]).await;

    let by_tool = async |arguments: Value| {
        let answer = world.tool("admin", "list_operations", arguments).await;
        answer["result"]["structuredContent"]["operations"].clone()
    };
    let only = by_tool(json!({"state": "failed", "workspaceId": "c"})).await;
    assert_eq!((only.as_array().unwrap().len(), id(&only[0])), (1, failed));
    let of_many = by_tool(json!({"workspaceId": "c", "state": "succeeded"})).await;
    assert_eq!(of_many[0]["parent"], bulk, "{of_many}");
}

#[tokio::test]
async fn what_no_operation_could_be_is_refused() {
    let world = World::start().await;
    let long = format!("workspaceId={}", "a".repeat(64));
    for (query, told) in [
        ("state=ended", "succeeded"),
        ("state=", "succeeded"),
        ("kind=upgradeAll", "upgrade-all"),
        ("workspaceId=", "workspaceId"),
        (&long, "workspaceId"),
        ("workspace=a", "workspaceId"),
        ("state=failed&state=running", "state"),
    ] {
        let path = format!("/operations?{query}");
        let answer = world.api("admin", http::Method::GET, &path, None).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.body);
        let body = answer.json();
        assert_eq!(body["code"], "invalid_argument", "{query}");
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(told), "{query}: {message}");
    }
    for arguments in [
        json!({"state": "ended"}),
        json!({"kind": 7}),
        json!({"workspaceId": ""}),
        json!({"workspace": "a"}),
    ] {
        let answer = world.tool("admin", "list_operations", arguments).await;
        assert!(
            answer["result"]["isError"] == true || answer["error"]["code"] == -32602,
            "{answer}"
        );
    }
}
