//! What happened to a workspace, and what its containers wrote.

use crate::bulk_stage::to_the_end;
use crate::world::{WORKSPACES, World};
use http::Method;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

/// What a kubelet tells of a pod.
async fn tell(world: &World, pod: &str, uid: &str, reason: &str, at: &str) {
    let event: Event = serde_json::from_value(json!({
        "metadata": {"name": format!("{pod}.{}", reason.to_lowercase()), "namespace": WORKSPACES},
        "involvedObject": {"kind": "Pod", "namespace": WORKSPACES, "name": pod, "uid": uid},
        "type": "Warning", "reason": reason, "message": format!("said of {pod}"), "count": 3,
        "firstTimestamp": at, "lastTimestamp": at,
    }))
    .unwrap();
    let api: Api<Event> = Api::namespaced(world.admin.clone(), WORKSPACES);
    api.create(&PostParams::default(), &event).await.unwrap();
}

fn reasons(history: &Value) -> Vec<&str> {
    let events = history["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| event["reason"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn what_happened_is_told_newest_first_and_to_its_owner() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    let pods = world.pods_of("dev").await;
    let (pod, uid) = (pods[0].name_any(), pods[0].uid().unwrap());
    // Longer ago than anything of this test, and in the future.
    tell(&world, &pod, &uid, "BackOff", "2001-01-01T00:00:00Z").await;
    tell(&world, &pod, &uid, "Unhealthy", "2100-01-01T00:00:00Z").await;
    // Of a pod of the same name that was somebody else's.
    tell(
        &world,
        &pod,
        "another-uid",
        "Stolen",
        "2100-01-01T00:00:00Z",
    )
    .await;
    world.sample("sample:2").await;
    // Asked again, it is the same operation; at first its record may not know the pod yet.
    world
        .until("the upgrade to begin", || async {
            let begun = world.post("alice", "/workspaces/dev/upgrade").await;
            begun.status == 200
        })
        .await;
    let begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    let operation = begun["operationId"].as_str().unwrap().to_owned();

    let seen = async |user: &str, query: &str| {
        world
            .get(user, &format!("/workspaces/dev/events{query}"))
            .await
    };
    world
        .until("the upgrade to be told", || async {
            let history = seen("alice", "").await;
            let reasons = reasons(&history);
            reasons.contains(&"UpgradeStarted") && reasons.contains(&"OperationRunning")
        })
        .await;
    let history = seen("alice", "").await;
    let told = reasons(&history);
    assert_eq!(told.first(), Some(&"Unhealthy"), "{history}");
    assert_eq!(told.last(), Some(&"BackOff"), "{history}");
    assert!(!told.contains(&"Stolen"), "{history}");
    assert_eq!(
        history["events"][0],
        json!({"at": "2100-01-01T00:00:00Z", "type": "Warning", "reason": "Unhealthy", "count": 3,
            "message": format!("said of {pod}"), "objectKind": "Pod", "objectName": pod})
    );
    let running = history["events"].as_array().unwrap();
    let running = running
        .iter()
        .find(|event| event["objectKind"] == "Operation")
        .unwrap();
    assert_eq!(running["objectName"], operation.as_str());
    assert_eq!(reasons(&seen("admin", "?limit=1").await), ["Unhealthy"]);
    let by_tool = world
        .tool(
            "alice",
            "get_workspace_events",
            json!({"id": "dev", "limit": 1}),
        )
        .await;
    assert_eq!(
        reasons(&by_tool["result"]["structuredContent"]),
        ["Unhealthy"]
    );
    for wrong in ["?limit=0", "?limit=201", "?limit=x", "?most=1"] {
        let path = format!("/workspaces/dev/events{wrong}");
        let answer = world.api("alice", Method::GET, &path, None).await;
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.body);
    }
    to_the_end(&world, &operation).await;
    world
        .until("its end", || async {
            let history = seen("alice", "").await;
            reasons(&history).contains(&"OperationSucceeded")
        })
        .await;
}

#[tokio::test]
async fn who_may_open_its_pages_is_told_where_it_is_not_understood() {
    let world = World::start().await;
    let spec = "containers: [{name: m, image: i}]";
    for (name, visibility) in [("loud", "everyone"), ("plain", "user:bob")] {
        let annotations = json!({"nogoo9/visibility": visibility});
        world.template(name, spec, annotations).await;
        world
            .spawn("alice", json!({"template": name, "id": name}))
            .await;
    }
    world
        .until("the Event", || async {
            let history = world.get("alice", "/workspaces/loud/events").await;
            reasons(&history).contains(&"VisibilityUnclear")
        })
        .await;
    let history = world.get("alice", "/workspaces/loud/events").await;
    assert!(history.to_string().contains("is 'everyone'"), "{history}");
    let history = world.get("alice", "/workspaces/plain/events").await;
    assert!(
        !reasons(&history).contains(&"VisibilityUnclear"),
        "{history}"
    );
}

#[tokio::test]
async fn extra_ports_that_are_not_understood_are_told() {
    let world = World::start().await;
    let annotations = json!({"nogoo9/api.web.port": "99999"});
    let spec = "containers: [{name: m, image: i}]";
    world.template("odd", spec, annotations).await;
    world
        .spawn("alice", json!({"template": "odd", "id": "odd"}))
        .await;
    world
        .until("the Event", || async {
            let history = world.get("alice", "/workspaces/odd/events").await;
            reasons(&history).contains(&"PortUnclear")
        })
        .await;
    let history = world.get("alice", "/workspaces/odd/events").await;
    assert!(history.to_string().contains("is '99999'"), "{history}");
    let shown = world.get("alice", "/workspaces/odd").await;
    assert_eq!(shown.get("ports"), None, "{shown}");
}

#[tokio::test]
async fn the_end_of_a_log_is_read_and_bounded() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    let pod: Pod = world.pods_of("dev").await.remove(0);
    let read = async |query: &str| {
        let path = format!("/workspaces/dev/logs{query}");
        world.api("alice", Method::GET, &path, None).await
    };
    let none = read("").await;
    assert_eq!(none.status, 409, "{}", none.body);
    assert!(none.body.contains("there is no log"), "{}", none.body);

    world.write_log(&pod, "main", 0, &["it crashed"]);
    world.write_log(&pod, "main", 1, &["one", "two", "three"]);
    let log = read("?tailLines=2").await.json();
    assert_eq!(
        log,
        json!({"id": "dev", "pod": pod.name_any(), "container": "main", "containers": ["main"],
            "pods": [pod.name_any()], "log": "two\nthree\n", "truncated": false})
    );
    let before = json!({"id": "dev", "previous": true, "container": "main", "pod": pod.name_any()});
    let before = world.tool("alice", "get_workspace_logs", before).await;
    assert_eq!(before["result"]["structuredContent"]["log"], "it crashed\n");
    for (query, says) in [
        ("?container=other", "the pod has these: main"),
        ("?pod=other", "the workspace has these: ws-alice-dev"),
        ("?tailLines=0", "1 to 1000"),
        ("?tailLines=1001", "1 to 1000"),
        ("?tail=5", "tail"),
    ] {
        let answer = read(query).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.body);
        assert!(answer.body.contains(says), "{query}: {}", answer.body);
    }

    // Bounded in bytes, and it is the end that is kept: of many lines, and of a few that are long.
    for (lines, length) in [(5000, 100), (1000, 4000)] {
        let text: Vec<String> = (0..lines)
            .map(|i| format!("{i:06} {}", "x".repeat(length)))
            .collect();
        let text: Vec<&str> = text.iter().map(String::as_str).collect();
        world.write_log(&pod, "main", 1, &text);
        let log = read("?tailLines=1000").await.json();
        let shown = log["log"].as_str().unwrap();
        assert!(shown.len() <= 64 * 1024 && shown.len() > 60 * 1024 - length);
        assert_eq!(log["truncated"], true);
        assert_eq!(shown.lines().last(), text.last().copied());
        assert!(shown.starts_with("00"), "a whole line: {}", &shown[..20]);
    }

    // A workspace without a pod has none.
    assert_eq!(
        world.post("alice", "/workspaces/dev/stop").await.status,
        200
    );
    world
        .until("no pod", || async { world.pods_of("dev").await.is_empty() })
        .await;
    let none = read("").await;
    assert_eq!(none.status, 409, "{}", none.body);
    assert!(none.body.contains("has no pod"), "{}", none.body);
}
