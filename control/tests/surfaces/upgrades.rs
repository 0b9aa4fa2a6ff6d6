//! Upgrades as callers see them.

use crate::world::World;
use http::Method;
use kube::ResourceExt;
use serde_json::{Value, json};

async fn names(world: &World, id: &str) -> Vec<String> {
    world
        .pods_of(id)
        .await
        .iter()
        .map(ResourceExt::name_any)
        .collect()
}

#[tokio::test]
async fn from_asking_to_done() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let before = world.running("alice", "dev").await;

    // Nothing to do: nothing is touched.
    let same = world.post("alice", "/workspaces/dev/upgrade").await.json();
    assert_eq!(
        (&same["status"], &same["podName"]),
        (&json!("up_to_date"), &before["podName"])
    );
    assert!(same.get("operationId").is_none());

    world.sample("sample:2").await;
    let outdated = world.get("alice", "/workspaces/dev").await;
    assert_eq!(outdated["outdated"], true);
    assert_eq!(outdated["version"], before["version"]);
    assert_ne!(outdated["latestVersion"], before["version"]);

    // An admin upgrades it; it stays alice's.
    let begun = world
        .tool("admin", "upgrade_workspace", json!({"id": "dev"}))
        .await["result"]["structuredContent"]
        .clone();
    assert_eq!(begun["status"], "upgrading");
    assert_eq!(begun["previousPodName"], before["podName"]);
    assert_eq!(begun["fromVersion"], before["version"]);
    assert_eq!(begun["toVersion"], outdated["latestVersion"]);
    assert_eq!(begun["mode"], "side-by-side");
    let (operation, pod) = (
        begun["operationId"].as_str().unwrap(),
        begun["podName"].as_str().unwrap(),
    );
    assert!(pod.starts_with("ws-alice-dev-up-"), "{pod}");

    // It is durable: the operation can be read at once, and asking again is asking for the same.
    let path = format!("/operations/{operation}");
    let running = world.get("alice", &path).await;
    assert_eq!(
        (&running["state"], &running["done"], &running["actor"]),
        (&json!("running"), &json!(false), &json!("admin"))
    );
    let again = world.post("alice", "/workspaces/dev/upgrade").await.json();
    assert_eq!(
        (&again["operationId"], &again["podName"]),
        (&begun["operationId"], &begun["podName"])
    );

    world
        .until("the successor", || async {
            let during = world.get("alice", "/workspaces/dev").await;
            during["message"]
                .as_str()
                .unwrap()
                .starts_with("Upgrading: waiting for the pod")
        })
        .await;
    assert!(names(&world, "dev").await.contains(&pod.to_owned()));
    let during = world.get("alice", "/workspaces/dev").await;
    assert_eq!(
        (&during["status"], &during["podName"]),
        (&json!("upgrading"), &before["podName"])
    );
    assert_eq!(during["operationId"], begun["operationId"]);

    world.ready(pod).await;
    let mut operation = running;
    while operation["done"] != true {
        let wait = format!(
            "{path}/wait?seconds=25&sinceRevision={}",
            operation["revision"].as_str().unwrap()
        );
        operation = world.get("alice", &wait).await;
    }
    assert_eq!(operation["state"], "succeeded", "{operation}");
    assert_eq!(operation["targets"][0]["podName"], pod);
    assert!(operation.get("next").is_none() && operation["finishedAt"].is_string());
    world
        .until("the end", || async { names(&world, "dev").await == [pod] })
        .await;
    world
        .until("running", || async {
            world.get("alice", "/workspaces/dev").await["status"] == "running"
        })
        .await;
    let after = world.get("alice", "/workspaces/dev").await;
    for (key, value) in [
        ("owner", &before["owner"]),
        ("createdAt", &before["createdAt"]),
        ("version", &begun["toVersion"]),
        ("outdated", &json!(false)),
    ] {
        assert_eq!(&after[key], value, "{key}");
    }
    assert_eq!(
        world.get("alice", "/operations").await["operations"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn at_once_and_together_there_is_one_operation() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    world.sample("sample:2").await;
    let ask = || async { world.post("alice", "/workspaces/dev/upgrade").await };
    let answers = futures::future::join_all((0..8).map(|_| ask())).await;
    let first = answers[0].json();
    for answer in &answers {
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.json(), first);
    }
    let pod = first["podName"].as_str().unwrap().to_owned();
    world
        .until("two pods", || async {
            names(&world, "dev").await.len() == 2
        })
        .await;
    assert!(names(&world, "dev").await.contains(&pod));
}

/// Whoever sees an operation end may ask for the next upgrade in the same breath.
#[tokio::test]
async fn the_next_one_begins_as_soon_as_the_last_is_done() {
    let world = World::start().await;
    world.sample("sample:0").await;
    world.running("alice", "dev").await;
    world.sample("sample:1").await;
    let mut begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    for round in 2..7 {
        // Before the end, so that nothing delays the next call.
        world.sample(&format!("sample:{round}")).await;
        let pod = begun["podName"].as_str().unwrap();
        world
            .until("the successor", || async {
                names(&world, "dev").await.contains(&pod.to_owned())
            })
            .await;
        world.ready(pod).await;
        let path = format!("/operations/{}", begun["operationId"].as_str().unwrap());
        let mut operation = world.get("alice", &path).await;
        while operation["done"] != true {
            let revision = operation["revision"].as_str().unwrap();
            let wait = format!("{path}/wait?seconds=25&sinceRevision={revision}");
            operation = world.get("alice", &wait).await;
        }
        let next = world.post("alice", "/workspaces/dev/upgrade").await.json();
        assert_eq!(next["status"], "upgrading", "round {round}: {next}");
        assert_ne!(next["operationId"], begun["operationId"], "round {round}");
        assert_eq!(next["previousPodName"], begun["podName"], "round {round}");
        begun = next;
    }
}

#[tokio::test]
async fn what_cannot_be_upgraded_is_not_touched() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let before = world.running("alice", "dev").await;
    let refused = async |status: u16, code: &str, text: &str| {
        let answer = world.post("alice", "/workspaces/dev/upgrade").await;
        assert_eq!(answer.status, status, "{}", answer.body);
        assert_eq!(answer.json()["code"], code);
        assert!(answer.body.contains(text), "{}", answer.body);
    };
    let unknown = async || {
        world
            .until("unknown", || async {
                world.get("alice", "/workspaces/dev").await["outdated"] == "unknown"
            })
            .await;
    };

    world
        .template(
            "sample",
            "containers: [{name: m, image: '${{oops}}'}]",
            json!({}),
        )
        .await;
    refused(422, "template_broken", "template 'sample' cannot be used").await;
    unknown().await;

    let schema =
        json!({"required": ["size"], "properties": {"size": {"type": "integer"}}}).to_string();
    world
        .template(
            "sample",
            "containers: [{name: m, image: i}]",
            json!({"nogoo9/parameters": schema}),
        )
        .await;
    refused(400, "invalid_argument", "input 'size' is required").await;

    world
        .templates()
        .delete("sample", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    refused(404, "template_not_found", "'sample'").await;
    unknown().await;

    let after = world.get("alice", "/workspaces/dev").await;
    assert_eq!(
        (&after["podName"], &after["status"]),
        (&before["podName"], &json!("running"))
    );
    assert_eq!(names(&world, "dev").await.len(), 1);
    assert_eq!(
        world.get("alice", "/operations").await,
        json!({"operations": []})
    );
}

#[tokio::test]
async fn a_failed_upgrade_is_told_and_the_original_stays() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let before = world.running("alice", "dev").await;
    let annotations = json!({"nogoo9/settle": "0", "nogoo9/upgrade-deadline": "20"});
    world
        .template(
            "sample",
            "containers: [{name: main, image: 'gone:2'}]",
            annotations,
        )
        .await;
    let begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    let path = format!("/operations/{}", begun["operationId"].as_str().unwrap());
    let pod = begun["podName"].as_str().unwrap();
    world
        .until("the successor", || async {
            names(&world, "dev").await.contains(&pod.to_owned())
        })
        .await;
    let message = "Back-off pulling image \"gone:2\"";
    world.status(pod, json!({"containerStatuses": [{"name": "main", "image": "gone:2", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff", "message": message}}}]})).await;
    let mut operation = Value::Null;
    while operation["done"] != true {
        operation = world.get("alice", &format!("{path}/wait?seconds=25")).await;
    }
    assert_eq!(operation["state"], "failed", "reading it is no error");
    assert_eq!(
        operation["targets"][0]["error"],
        json!({"reason": "ImagePullBackOff", "message": message})
    );
    let stays = format!("stays on version {}", before["version"].as_str().unwrap());
    assert!(
        operation["message"].as_str().unwrap().ends_with(&stays),
        "{operation}"
    );
    world
        .until("the error", || async {
            let after = world.get("alice", "/workspaces/dev").await;
            after["lastUpgradeError"]
                .as_str()
                .is_some_and(|e| e.starts_with("ImagePullBackOff: "))
                && after["status"] == "running"
                && after["podName"] == before["podName"]
        })
        .await;
    world
        .until("one pod", || async {
            names(&world, "dev").await.len() == 1
        })
        .await;
}

#[tokio::test]
async fn waiting_ends_when_time_is_up_or_something_moves() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    world.sample("sample:2").await;
    let begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    let path = format!("/operations/{}", begun["operationId"].as_str().unwrap());
    let now = world.get("alice", &format!("{path}/wait?seconds=0")).await;
    assert_eq!(now["done"], false);
    // A revision that is not the current one: something has moved already.
    let moved = world
        .get(
            "alice",
            &format!("{path}/wait?seconds=25&sinceRevision=old"),
        )
        .await;
    assert_eq!(moved["revision"], now["revision"]);
    let waiting = world.get("alice", &path).await["revision"]
        .as_str()
        .unwrap()
        .to_owned();
    let wait = format!("{path}/wait?seconds=25&sinceRevision={waiting}");
    let (after, ()) = tokio::join!(world.get("alice", &wait), async {
        let pod = begun["podName"].as_str().unwrap();
        world
            .until("the pod", || async {
                names(&world, "dev").await.iter().any(|name| name == pod)
            })
            .await;
        world.ready(pod).await;
    });
    assert_ne!(after["revision"], waiting.as_str());
    let bad = world
        .api(
            "alice",
            Method::GET,
            &format!("{path}/wait?seconds=soon"),
            None,
        )
        .await;
    assert_eq!(bad.status, 400);
}
