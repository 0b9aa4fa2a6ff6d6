//! The limit of workspaces per user: what counts, what does not, and that nobody gets past it.

use crate::world::{Answer, World};
use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use nogoo9_model::record::Record;
use serde_json::{Value, json};
use std::collections::BTreeSet;

async fn ask(world: &World, user: &str, body: Value) -> Answer {
    world
        .api(user, Method::POST, "/workspaces", Some(body))
        .await
}

/// Asks that control for a workspace of alice.
async fn ask_at(world: &World, url: &str, body: Value) -> Answer {
    let token = world.token_for("alice", &format!("{url}/mcp"));
    let request = world.http.post(format!("{url}/api/v1/workspaces"));
    world.send(request.bearer_auth(token).json(&body)).await
}

fn sample(id: &str) -> Value {
    json!({"template": "sample", "id": id})
}

/// It was refused since they have so many, and may have no more than that.
fn assert_full(answer: &Answer, who: &str, have: usize, most: usize) {
    assert_eq!(answer.status, 409, "{}", answer.body);
    let error = answer.json();
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!("conflict"), &json!(false))
    );
    let said = error["message"].as_str().unwrap();
    let text = format!("limit of workspaces per user ({most}) is reached: {who} {have}, ");
    assert!(
        said.contains(&text) && said.contains("delete one"),
        "{said}"
    );
}

/// Ids of all records in the cluster, read live.
async fn stored(world: &World) -> BTreeSet<String> {
    let secrets: Api<Secret> = Api::namespaced(world.admin.clone(), crate::world::SYSTEM);
    let params = ListParams::default().labels("nogoo9/workspace-id");
    let records = secrets.list(&params).await.unwrap();
    let ids = records
        .iter()
        .map(|record| &record.labels()["nogoo9/workspace-id"]);
    ids.cloned().collect()
}

fn ids<const N: usize>(ids: [&str; N]) -> BTreeSet<String> {
    ids.map(Into::into).into()
}

async fn delete(world: &World, id: &str) {
    let path = format!("/workspaces/{id}");
    let deleted = world.api("alice", Method::DELETE, &path, None).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    world
        .until("gone", || async {
            world.api("alice", Method::GET, &path, None).await.status == 403
        })
        .await;
}

#[tokio::test]
async fn so_many_and_no_more() {
    let world = World::start_with(&["--max-workspaces-per-user=2"]).await;
    world.sample("sample:1").await;
    for id in ["a", "b"] {
        let spawned = world.spawn("alice", sample(id)).await;
        assert_eq!(spawned["status"], "starting");
    }
    assert_full(&ask(&world, "alice", sample("c")).await, "you have", 2, 2);
    assert_eq!(stored(&world).await, ids(["a", "b"]));
    assert!(world.pods_of("c").await.is_empty());
    // The tool says the same.
    let tool = world.tool("alice", "spawn_workspace", sample("c")).await;
    assert_eq!(tool["result"]["isError"], true, "{tool}");
    let said = tool["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("per user (2) is reached"), "{said}");
    // Whoever asks for what they have learns that they have it.
    let again = ask(&world, "alice", sample("a")).await;
    assert_eq!(again.json()["code"], "id_taken", "{}", again.body);

    // A stopped one counts.
    let stop = world.post("alice", "/workspaces/a/stop").await;
    assert_eq!(stop.status, 200, "{}", stop.body);
    assert_full(&ask(&world, "alice", sample("c")).await, "you have", 2, 2);
    // It may start again, of course.
    let start = world.post("alice", "/workspaces/a/start").await;
    assert_eq!(start.status, 200, "{}", start.body);

    // It counts for its owner, whoever spawns it.
    let of_alice = json!({"template": "sample", "id": "c", "userSub": "alice"});
    assert_full(&ask(&world, "admin", of_alice).await, "that user has", 2, 2);
    world.spawn("admin", sample("d")).await;
    let of_bob = json!({"template": "sample", "id": "e", "userSub": "bob"});
    world.spawn("admin", of_bob).await;
    world.spawn("bob", sample("f")).await;
    assert_full(&ask(&world, "bob", sample("g")).await, "you have", 2, 2);

    // What was deleted counts no more once it is gone, though its id is remembered; that id, too, may
    // be taken up again, as any other.
    delete(&world, "a").await;
    let spawned = world.spawn("alice", sample("a")).await;
    assert_eq!(spawned["status"], "starting");
    world
        .until("its pod", || async { !world.pods_of("a").await.is_empty() })
        .await;
    assert_full(&ask(&world, "alice", sample("c")).await, "you have", 2, 2);
    delete(&world, "b").await;
    world.spawn("alice", sample("c")).await;
    // The remembered one is not lost by a refusal.
    assert_full(&ask(&world, "alice", sample("b")).await, "you have", 2, 2);
    let remembered = world.cluster().record("b").await.unwrap().unwrap().value;
    assert!(remembered.is_gone() && !remembered.reserved);
}

#[tokio::test]
async fn never_more_whichever_control_is_asked() {
    const MOST: usize = 3;
    let limit = format!("--max-workspaces-per-user={MOST}");
    let world = World::start_with(&[&limit]).await;
    world.sample("sample:1").await;
    let another = world.another(&[&limit]).await;
    let urls = [world.url.as_str(), another.as_str()];
    // All at once, more than fit: whatever they come to, never too many are let in.
    let asked = (0..MOST + 5).map(|i| {
        let id = format!("at-once-{i}");
        ask_at(&world, urls[i % 2], sample(&id))
    });
    let mut held = BTreeSet::new();
    for answer in futures::future::join_all(asked).await {
        if answer.status == 201 {
            held.insert(answer.json()["id"].as_str().unwrap().to_owned());
        } else {
            assert_eq!(answer.json()["code"], "conflict", "{}", answer.body);
        }
    }
    assert!(held.len() <= MOST, "{held:?}");
    assert_eq!(
        stored(&world).await,
        held,
        "what was refused has left nothing"
    );
    // One after another, exactly as many as there may be.
    for i in held.len()..MOST {
        let id = format!("in-turn-{i}");
        let made = ask_at(&world, urls[i % 2], sample(&id)).await;
        assert_eq!(made.status, 201, "{}", made.body);
        held.insert(id);
    }
    for url in urls {
        assert_full(
            &ask_at(&world, url, sample("more")).await,
            "you have",
            MOST,
            MOST,
        );
    }
    assert_eq!(stored(&world).await, held);
    for id in &held {
        world
            .until("its pod", || async { !world.pods_of(id).await.is_empty() })
            .await;
    }
}

#[tokio::test]
async fn an_upgrade_is_no_second_workspace() {
    let world = World::start_with(&["--max-workspaces-per-user=1"]).await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    world.sample("sample:2").await;
    let begun = world.post("alice", "/workspaces/dev/upgrade").await;
    assert_eq!(begun.status, 200, "{}", begun.body);
    let begun = begun.json();
    let pod = begun["podName"].as_str().unwrap();
    world
        .until("two pods", || async {
            world.pods_of("dev").await.len() == 2
        })
        .await;
    assert_full(
        &ask(&world, "alice", sample("more")).await,
        "you have",
        1,
        1,
    );
    world.ready(pod).await;
    world
        .until("the end", || async {
            let pods = world.pods_of("dev").await;
            pods.iter().map(ResourceExt::name_any).eq([pod])
        })
        .await;
    let path = format!("/operations/{}", begun["operationId"].as_str().unwrap());
    world
        .until("it to be shown", || async {
            world.get("alice", &path).await["state"] == "succeeded"
        })
        .await;
    assert_full(
        &ask(&world, "alice", sample("more")).await,
        "you have",
        1,
        1,
    );
    assert_eq!(stored(&world).await, ids(["dev"]));
}

#[tokio::test]
async fn what_a_crash_leaves_is_stopped_and_starts_if_there_is_room() {
    let world = World::start_with(&["--max-workspaces-per-user=1"]).await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    // As a control leaves it that dies between storing a workspace and looking at the others.
    let cluster = world.cluster();
    let dev = cluster.record("dev").await.unwrap().unwrap().value;
    let manifest = dev.manifest.to_string().replace("\"dev\"", "\"left\"");
    let manifest = serde_json::from_str(&manifest).unwrap();
    let spawn = nogoo9_model::record::Spawn {
        id: "left".into(),
        namespace: dev.namespace,
        owner: dev.owner,
        name: "left".into(),
        template: dev.template,
        inputs: dev.inputs,
        manifest,
        exclusive: false,
    };
    let left = Record::spawn(spawn, cluster.now()).reserve();
    cluster.create_record(&left).await.unwrap();
    world
        .until("it to be seen", || async {
            let seen = world.api("alice", Method::GET, "/workspaces/left", None);
            seen.await.json()["status"] == "stopped"
        })
        .await;
    // It counts, and it does not get past the limit this way either.
    assert_full(&ask(&world, "alice", sample("c")).await, "you have", 2, 1);
    let start = world.post("alice", "/workspaces/left/start").await;
    assert_full(&start, "you have", 1, 1);
    let by_admin = world.post("admin", "/workspaces/left/start").await;
    assert_full(&by_admin, "that user has", 1, 1);
    let by_bob = world.post("bob", "/workspaces/left/start").await;
    assert_eq!(by_bob.status, 403, "{}", by_bob.body);
    assert!(world.pods_of("left").await.is_empty());
    // What was there before is none the worse.
    for what in ["stop", "start"] {
        let path = format!("/workspaces/dev/{what}");
        let answer = world.post("alice", &path).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    delete(&world, "dev").await;
    let start = world.post("alice", "/workspaces/left/start").await;
    assert_eq!(start.status, 200, "{}", start.body);
    world
        .until("its pod", || async {
            let pods = world.pods_of("left").await;
            pods.iter()
                .map(ResourceExt::name_any)
                .eq([left.pod.name.clone()])
        })
        .await;
    assert_full(&ask(&world, "alice", sample("c")).await, "you have", 1, 1);
}
