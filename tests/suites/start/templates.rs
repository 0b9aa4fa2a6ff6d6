//! The templates that local mode starts with do what they are for.

use http::Method;
use nogoo9_tests::{Edge, Observation, Site, until};
use serde_json::{Value, json};
use std::time::Duration;

/// Far more than an upgrade by recreation takes.
const LONG: Duration = Duration::from_secs(120);
const NOTES: &str = "/files/notes.txt";

/// The notebook's notes outlive an upgrade, which recreates its pod, and a kill of everything.
#[tokio::test]
async fn a_notebook_keeps_its_notes() {
    let site = Site::up(nogoo9_tests::Options::default()).await.unwrap();
    let (alice, edge) = (
        site.api("alice").await.unwrap(),
        site.edge("alice").await.unwrap(),
    );
    let spawn = json!({"template": "notebook", "id": "desk"});
    let spawned = alice.post("/api/v1/workspaces", &spawn).await.unwrap();
    assert_eq!(spawned.status, 201, "{}", spawned.body);
    let first = site.routed("desk", None).await.unwrap();
    let put = edge
        .request(Method::PUT, &edge.host("desk"), NOTES)
        .unwrap()
        .body("milk, bread\n");
    let kept = Edge::send(put).await.unwrap();
    assert_eq!(kept.status, 200, "{}", kept.text());

    // What people do by `kubectl edit`.
    let maps = site.cluster().await.unwrap().config_maps_api();
    let mut template = maps.get("notebook").await.unwrap();
    let data = template.data.as_mut().unwrap();
    let newer = data["spec"].replace("nogoo9-sample:1.0", "nogoo9-sample:2.0");
    data.insert("spec".to_owned(), newer);
    maps.replace("notebook", &kube::api::PostParams::default(), &template)
        .await
        .unwrap();
    let begun = alice
        .post("/api/v1/workspaces/desk/upgrade", &Value::Null)
        .await
        .unwrap()
        .expect(200)
        .unwrap();
    assert_eq!(begun["mode"], "recreate", "{begun}");
    let path = format!(
        "/api/v1/operations/{}",
        begun["operationId"].as_str().unwrap()
    );
    until("the upgrade to end", LONG, || async {
        let operation = alice.get(&path).await?;
        Ok(Observation::when(
            operation.body["done"] == true,
            (),
            operation,
        ))
    })
    .await
    .unwrap();
    let second = site
        .routed("desk", begun["podName"].as_str())
        .await
        .unwrap();
    assert_ne!(first, second);
    let info = edge.get("desk", "/info").await.unwrap().json().unwrap();
    assert_eq!(info["version"], "2.0", "{info}");
    assert_eq!(
        edge.get("desk", NOTES).await.unwrap().text(),
        "milk, bread\n"
    );

    site.kill_all_and_restart().await.unwrap();
    site.routed("desk", Some(&second)).await.unwrap();
    assert_eq!(
        edge.get("desk", NOTES).await.unwrap().text(),
        "milk, bread\n"
    );

    // Its data goes only when that is asked for, and then all of it.
    let folder = site.data_dir().join("claims/nogoo9-workspaces");
    assert!(folder.is_dir());
    let gone = alice
        .ask(
            Method::DELETE,
            "/api/v1/workspaces/desk?deleteData=true",
            None,
        )
        .await
        .unwrap();
    assert_eq!(gone.status, 200, "{}", gone.body);
    until("the volume's folder to go", LONG, || async {
        Ok(Observation::when(!folder.exists(), (), "it is there"))
    })
    .await
    .unwrap();
    site.stop().await.unwrap();
}
