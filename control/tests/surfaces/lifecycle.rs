//! Spawn, start, stop, delete.

use crate::world::World;
use http::Method;
use kube::ResourceExt;
use serde_json::json;

#[tokio::test]
async fn a_workspace_lives_stops_and_goes() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let body = json!({"template": "sample", "id": "dev", "name": "My desk", "port": 8080, "inputs": {"message": "hi"}});
    let spawned = world.spawn("alice", body).await;
    assert_eq!(spawned["id"], "dev");
    assert_eq!(spawned["name"], "My desk");
    assert_eq!(spawned["status"], "starting");
    assert_eq!(spawned["outdated"], false);
    let host = world.url.trim_start_matches("http://");
    assert_eq!(spawned["url"], format!("http://dev.{host}/"));
    assert_eq!(spawned["pathUrl"], format!("{}/route/dev/", world.url));
    // What was spawned is listed at once.
    assert_eq!(
        world.get("alice", "/workspaces").await["workspaces"][0]["id"],
        "dev"
    );

    let pod = spawned["podName"].as_str().unwrap();
    world
        .until("the pod", || async {
            world
                .pods_of("dev")
                .await
                .iter()
                .any(|p| p.name_any() == pod)
        })
        .await;
    let object = world.pods_api().get(pod).await.unwrap();
    let annotations = object.annotations();
    assert_eq!(annotations["nogoo9/workspace-port"], "8080");
    assert_eq!(annotations["nogoo9/user-sub"], "alice");
    assert_eq!(
        annotations["nogoo9/spawn-inputs"],
        r#"{"message":"hi","name":"My desk","port":8080}"#
    );
    let env = object.spec.unwrap().containers[0].env.clone().unwrap();
    let value = |name: &str| {
        env.iter()
            .find(|e| e.name == name)
            .and_then(|e| e.value.clone())
    };
    assert_eq!(
        (value("OWNER").as_deref(), value("MESSAGE").as_deref()),
        (Some("alice"), Some("hi"))
    );

    world.ready(pod).await;
    world
        .until("running", || async {
            world.get("alice", "/workspaces/dev").await["message"] == "Running"
        })
        .await;

    assert_eq!(
        world.post("alice", "/workspaces/dev/stop").await.status,
        200
    );
    world
        .until("stopped", || async {
            world.get("alice", "/workspaces/dev").await["status"] == "stopped"
        })
        .await;
    assert!(world.pods_of("dev").await.is_empty());
    let stopped = world.post("alice", "/workspaces/dev/stop").await.json();
    assert_eq!(
        stopped["status"], "stopped",
        "stopping twice is stopping once"
    );
    let upgrade = world.post("alice", "/workspaces/dev/upgrade").await;
    assert_eq!(
        (upgrade.status.as_u16(), upgrade.json()["code"].as_str()),
        (409, Some("conflict"))
    );

    let started = world.post("alice", "/workspaces/dev/start").await.json();
    let next = started["podName"].as_str().unwrap();
    assert_ne!(next, pod, "a new pod under a new name");
    world
        .until("the next pod", || async {
            world
                .pods_of("dev")
                .await
                .iter()
                .any(|p| p.name_any() == next)
        })
        .await;

    let deleted = world
        .api("alice", Method::DELETE, "/workspaces/dev", None)
        .await
        .json();
    assert_eq!(
        (&deleted["id"], &deleted["status"]),
        (&json!("dev"), &json!("deleting"))
    );
    world
        .until("gone", || async {
            world
                .api("alice", Method::GET, "/workspaces/dev", None)
                .await
                .status
                == 403
        })
        .await;
    assert!(world.pods_of("dev").await.is_empty());
    // Then the id is free again.
    world.forget("dev").await;
    world
        .spawn("bob", json!({"template": "sample", "id": "dev"}))
        .await;
}

#[tokio::test]
async fn an_id_is_taken_whoever_has_it() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world
        .spawn("alice", json!({"template": "sample", "id": "dev"}))
        .await;
    let body = json!({"template": "sample", "id": "dev"});
    let own = world
        .api("alice", Method::POST, "/workspaces", Some(body.clone()))
        .await
        .without_date();
    let anothers = world
        .api("bob", Method::POST, "/workspaces", Some(body))
        .await
        .without_date();
    assert_eq!(own, anothers);
    assert_eq!(
        (own.status.as_u16(), own.json()["code"].as_str()),
        (409, Some("id_taken"))
    );
    assert!(!own.body.contains("alice"));
    // Left out, it is made up, and differs each time.
    let made_up = async || {
        world.spawn("bob", json!({"template": "sample"})).await["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_ne!(made_up().await, made_up().await);
}

#[tokio::test]
async fn what_cannot_become_a_pod_leaves_nothing_behind() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.template("broken", "containers: []", json!({})).await;
    world
        .template(
            "refused",
            "containers: [{name: 'No Name', image: i}]",
            json!({}),
        )
        .await;
    for (body, status, code, text) in [
        (
            json!({"template": "broken"}),
            422,
            "template_broken",
            "template 'broken' cannot be used",
        ),
        (json!({"template": "refused"}), 422, "refused", "'refused'"),
        (
            json!({"template": "sample", "inputs": {"colour": "red"}}),
            400,
            "invalid_argument",
            "input 'colour'",
        ),
        (
            json!({"template": "sample", "inputs": {"message": 1}}),
            400,
            "invalid_argument",
            "must be text",
        ),
        (
            json!({"template": "sample", "name": ""}),
            400,
            "invalid_argument",
            "input 'name'",
        ),
    ] {
        let answer = world
            .api("alice", Method::POST, "/workspaces", Some(body))
            .await;
        assert_eq!(answer.status, status, "{}", answer.body);
        let error = answer.json();
        assert_eq!(error["code"], code);
        assert!(error["message"].as_str().unwrap().contains(text), "{error}");
    }
    assert_eq!(
        world.get("alice", "/workspaces").await,
        json!({"workspaces": []})
    );
}
