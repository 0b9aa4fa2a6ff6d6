//! `GET /api/v1/events`: who is told what, and until when.

use crate::world::World;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(60);

/// A reader of the stream.
struct Reader {
    bytes: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: String,
}

impl Reader {
    async fn open(world: &World, token: &str) -> Result<Self, reqwest::Response> {
        Self::with(world, "authorization", &format!("Bearer {token}")).await
    }

    async fn with(world: &World, header: &str, value: &str) -> Result<Self, reqwest::Response> {
        let request = world.http.get(format!("{}/api/v1/events", world.url));
        let response = request.header(header, value).send().await.unwrap();
        if response.status() != 200 {
            return Err(response);
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Ok(Self {
            bytes: response.bytes_stream().boxed(),
            text: String::new(),
        })
    }

    /// The next event's name and data; `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, Value)> {
        let read = async {
            loop {
                while let Some((event, rest)) = self.text.split_once("\n\n") {
                    let field = |name: &str| {
                        event.lines().find_map(|line| {
                            line.strip_prefix(name)
                                .map(str::trim)
                                .map(ToOwned::to_owned)
                        })
                    };
                    let found = field("event:").zip(field("data:"));
                    self.text = rest.to_owned();
                    if let Some((name, data)) = found {
                        return Some((name, serde_json::from_str(&data).unwrap()));
                    }
                }
                let more = self.bytes.next().await?.ok()?;
                self.text.push_str(std::str::from_utf8(&more).unwrap());
            }
        };
        tokio::time::timeout(PATIENCE, read)
            .await
            .expect("no event came in time")
    }

    /// Events until one is like that; it is the last of them.
    async fn until(&mut self, is: impl Fn(&str, &Value) -> bool) -> Vec<(String, Value)> {
        let mut seen = Vec::new();
        loop {
            let Some((name, data)) = self.next().await else {
                panic!("the stream ended after {seen:?}");
            };
            let found = is(&name, &data);
            seen.push((name, data));
            if found {
                return seen;
            }
        }
    }
}

#[tokio::test]
async fn everything_first_and_then_what_changes() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    let mut events = Reader::open(&world, &world.token("alice"))
        .await
        .ok()
        .unwrap();
    let (name, snapshot) = events.next().await.unwrap();
    assert_eq!(name, "snapshot");
    assert_eq!(snapshot["operations"], json!([]));
    let whole = world.get("alice", "/workspaces").await;
    assert_eq!(snapshot["workspaces"], whole["workspaces"]);

    world
        .spawn("alice", json!({"template": "sample", "id": "two"}))
        .await;
    let seen = events
        .until(|name, data| name == "workspace" && data["id"] == "two")
        .await;
    assert!(
        seen.iter().all(|(_, data)| data["id"] == "two"),
        "dev did not change: {seen:?}"
    );

    // A template that moves on is told too.
    world.sample("sample:2").await;
    events
        .until(|name, data| name == "workspace" && data["id"] == "dev" && data["outdated"] == true)
        .await;

    let begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    let seen = events.until(|name, _| name == "operation").await;
    let (_, operation) = seen.last().unwrap();
    assert_eq!(operation["operationId"], begun["operationId"]);
    assert_eq!(
        (&operation["state"], &operation["targets"][0]["id"]),
        (&json!("running"), &json!("dev"))
    );

    world
        .api("alice", Method::DELETE, "/workspaces/two", None)
        .await;
    let seen = events.until(|name, _| name == "workspace-gone").await;
    assert_eq!(seen.last().unwrap().1, json!({"id": "two"}));
}

#[tokio::test]
async fn others_workspaces_are_told_to_admins_alone() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world
        .spawn("alice", json!({"template": "sample", "id": "hers"}))
        .await;
    let mut bob = Reader::open(&world, &world.token("bob"))
        .await
        .ok()
        .unwrap();
    let mut admin = Reader::open(&world, &world.token("admin"))
        .await
        .ok()
        .unwrap();
    let (_, empty) = bob.next().await.unwrap();
    assert_eq!(empty, json!({"workspaces": [], "operations": []}));
    let (_, all) = admin.next().await.unwrap();
    assert_eq!(all["workspaces"][0]["id"], "hers");

    // What comes later is told in order, so whatever would leak came before bob's own.
    world
        .spawn("alice", json!({"template": "sample", "id": "later"}))
        .await;
    admin.until(|_, data| data["id"] == "later").await;
    world
        .spawn("bob", json!({"template": "sample", "id": "his"}))
        .await;
    let seen = bob.until(|_, data| data["id"] == "his").await;
    assert!(seen.iter().all(|(_, data)| data["id"] == "his"), "{seen:?}");
    admin
        .until(|name, data| name == "workspace" && data["owner"] == "bob")
        .await;
}

#[tokio::test]
async fn it_ends_with_what_proves_the_caller() {
    let world = World::start().await;
    let none = world.http.get(format!("{}/api/v1/events", world.url));
    assert_eq!(world.send(none).await.status, 401);
    let cookie = world.cookie_for("alice", 10);
    let mut short = Reader::with(&world, "cookie", &cookie).await.ok().unwrap();
    assert_eq!(short.next().await.unwrap().0, "snapshot");
    assert_eq!(
        short.next().await,
        None,
        "nothing changed, so all that follows is the end"
    );
}

#[tokio::test]
async fn one_user_has_so_many_streams_and_others_have_theirs() {
    let world = World::start().await;
    let token = world.token("alice");
    let mut open = Vec::new();
    let refused = loop {
        match Reader::open(&world, &token).await {
            Ok(reader) => open.push(reader),
            Err(refused) => break refused,
        }
        assert!(open.len() < 100);
    };
    assert_eq!((open.len(), refused.status().as_u16()), (16, 503));
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(
        refused.json::<Value>().await.unwrap()["code"],
        "unavailable"
    );
    assert!(Reader::open(&world, &world.token("bob")).await.is_ok());
    // Whoever leaves makes room.
    open.truncate(3);
    world
        .until("a free place", || async {
            Reader::open(&world, &token).await.is_ok()
        })
        .await;
}
