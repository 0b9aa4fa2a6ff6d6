//! An id is its first owner's until they delete the workspace, or an admin releases it.

use crate::world::{Answer, World};
use http::Method;
use serde_json::json;

async fn delete(world: &World, user: &str, path: &str) -> Answer {
    let path = format!("/workspaces/{path}");
    world.api(user, Method::DELETE, &path, None).await
}

async fn gone(world: &World, id: &str) {
    world
        .until("it to be gone", || async {
            let stored = world.cluster().record(id).await.unwrap();
            stored.is_none_or(|stored| stored.value.is_gone())
        })
        .await;
}

/// Whether a spawn of that id gets it: status and code.
async fn spawns(world: &World, user: &str, id: &str) -> (u16, Option<String>) {
    let body = json!({"template": "sample", "id": id});
    let answer = world
        .api(user, Method::POST, "/workspaces", Some(body))
        .await;
    let code = answer.json()["code"].as_str().map(ToOwned::to_owned);
    (answer.status.as_u16(), code)
}

#[tokio::test]
async fn an_id_stays_its_owners_until_an_admin_releases_it() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let taken = (409, Some("id_taken".to_owned()));

    // An admin deletes it: the id is alice's all the same, for good.
    world
        .spawn("alice", json!({"template": "sample", "id": "dev"}))
        .await;
    let deleted = delete(&world, "admin", "dev").await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    assert!(
        deleted.body.contains("stays its owner's"),
        "{}",
        deleted.body
    );
    gone(&world, "dev").await;
    let record = async || world.cluster().record("dev").await.unwrap().unwrap().value;
    assert_eq!(
        (record().await.id_kept, record().await.free_at()),
        (true, None)
    );
    for user in ["bob", "admin"] {
        assert_eq!(spawns(&world, user, "dev").await, taken, "{user}");
    }
    assert_eq!(spawns(&world, "alice", "dev").await, (201, None));

    // What somebody else releases is nobody's release.
    let theirs = delete(&world, "bob", "dev?release=true")
        .await
        .without_date();
    let nobodys = delete(&world, "bob", "nil?release=true")
        .await
        .without_date();
    assert_eq!(theirs, nobodys);
    assert_eq!(theirs.status, 403);

    // Deleted by an admin, and released afterwards.
    assert_eq!(delete(&world, "admin", "dev").await.status, 200);
    gone(&world, "dev").await;
    assert_eq!(
        delete(&world, "alice", "dev").await.status,
        403,
        "it is gone"
    );
    let released = delete(&world, "admin", "dev?release=true").await;
    assert_eq!(released.status, 200, "{}", released.body);
    assert!(
        released.body.contains("its id is free"),
        "{}",
        released.body
    );
    assert!(!record().await.id_kept && record().await.free_at().is_some());
    world.forget("dev").await;
    assert_eq!(spawns(&world, "bob", "dev").await, (201, None));

    // Deleted by its owner: free, also if an admin deletes it once more meanwhile.
    assert_eq!(delete(&world, "bob", "dev").await.status, 200);
    let again = delete(&world, "admin", "dev").await;
    assert!(again.status == 200 || again.status == 403, "{}", again.body);
    gone(&world, "dev").await;
    assert!(!record().await.id_kept);

    // Released in one go, over MCP.
    world
        .spawn("alice", json!({"template": "sample", "id": "two"}))
        .await;
    let arguments = json!({"id": "two", "release": true});
    let answer = world.tool("admin", "delete_workspace", arguments).await;
    let told = answer["result"]["structuredContent"]["message"].as_str();
    assert!(told.unwrap().contains("then its id is free"), "{answer}");
    gone(&world, "two").await;
    let two = world.cluster().record("two").await.unwrap().unwrap().value;
    assert!(!two.id_kept);
}
