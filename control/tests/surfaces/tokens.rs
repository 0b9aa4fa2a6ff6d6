//! Personal access tokens: how one lives, how many there are, and when they go.

mod rights;
mod verification;

use crate::world::{Answer, SYSTEM, World};
use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams, PostParams};
use nogoo9_control::personal::delete_expired;
use nogoo9_model::personal_token::{self, MOST};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const DAY: i64 = 24 * 3600;

fn secrets(world: &World) -> Api<Secret> {
    Api::namespaced(world.admin.clone(), SYSTEM)
}

/// Calls the JSON API with this bearer.
async fn with(
    world: &World,
    token: &str,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Answer {
    let url = format!("{}/api/v1{path}", world.url);
    let request = world.http.request(method, url).bearer_auth(token);
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    world.send(request).await
}

async fn create(world: &World, user: &str, body: Value) -> Value {
    let made = world.api(user, Method::POST, "/tokens", Some(body)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.headers["cache-control"], "no-store");
    made.json()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Changes what is kept of a token, as time or somebody with rights in the cluster would.
async fn tamper(world: &World, id: &str, change: impl Fn(&mut Value)) {
    let (api, name) = (secrets(world), format!("nogoo9-pat-{id}"));
    loop {
        let mut secret = api.get(&name).await.unwrap();
        let data = secret.data.as_mut().unwrap().get_mut("token.json").unwrap();
        let mut kept: Value = serde_json::from_slice(&data.0).unwrap();
        change(&mut kept);
        data.0 = serde_json::to_vec(&kept).unwrap();
        match api.replace(&name, &PostParams::default(), &secret).await {
            Ok(_) => return,
            // The note of its last use came in between.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_token_speaks_for_its_owner_until_it_is_revoked() {
    let world = World::start().await;
    let made = create(&world, "alice", json!({"name": " nightly build "})).await;
    let (token, id) = (text(&made["token"]), text(&made["id"]));
    assert!(personal_token::is_token(token) && personal_token::id(token) == id);
    assert_eq!(
        (&made["name"], &made["scopes"], &made["expired"]),
        (
            &json!("nightly build"),
            &json!(["nogoo9:read", "nogoo9:write"]),
            &json!(false)
        )
    );

    // The token is nowhere but in that answer.
    let stored = secrets(&world)
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    let kept = stored
        .iter()
        .find(|secret| secret.metadata.name.as_deref() == Some(&format!("nogoo9-pat-{id}")))
        .unwrap();
    assert_eq!(kept.type_.as_deref(), Some("nogoo9/personal-token"));
    for secret in &stored {
        for value in secret.data.iter().flat_map(|data| data.values()) {
            assert!(!String::from_utf8_lossy(&value.0).contains(&token[4..]));
        }
    }
    let list = world.api("alice", Method::GET, "/tokens", None).await;
    assert!(!list.body.contains(token) && !list.body.contains("hash"));
    assert_eq!(list.json()["tokens"][0]["id"], id);
    assert_eq!(list.json()["most"], MOST);

    // It opens what its owner opens: JSON and tools.
    let me = with(&world, token, Method::GET, "/capabilities", None).await;
    assert_eq!(
        (me.status.as_u16(), &me.json()["sub"], &me.json()["role"]),
        (200, &json!("alice"), &json!("user"))
    );
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "get_capabilities", "arguments": {}}});
    let version = [("mcp-protocol-version", "2025-11-25")];
    let tool = world.mcp(token, &version, &call).await;
    assert_eq!(
        tool.json()["result"]["structuredContent"]["sub"],
        "alice",
        "{}",
        tool.body
    );

    // Its use is noted, beside the request.
    world
        .until("its last use", || async {
            let list = world.get("alice", "/tokens").await;
            list["tokens"][0]["lastUsedAt"].is_string()
        })
        .await;

    // Nobody else ends it, or learns that it is there.
    let path = format!("/tokens/{id}");
    let none = format!("/tokens/{}", "a".repeat(26));
    for user in ["bob", "admin"] {
        let theirs = world.api(user, Method::DELETE, &path, None).await;
        let absent = world.api(user, Method::DELETE, &none, None).await;
        assert_eq!(theirs.without_date(), absent.without_date());
        assert_eq!(world.get(user, "/tokens").await["tokens"], json!([]));
    }
    let odd = "/tokens/..%2Fnogoo9-session-keys";
    let odd = world.api("alice", Method::DELETE, odd, None).await;
    assert_eq!(odd.status, 403);

    let revoked = world.api("alice", Method::DELETE, &path, None).await;
    assert_eq!(
        (revoked.status.as_u16(), &revoked.json()["id"]),
        (200, &json!(id))
    );
    let after = with(&world, token, Method::GET, "/capabilities", None).await;
    assert_eq!(after.status, 401);
    assert_eq!(world.mcp(token, &version, &call).await.status, 401);
    assert_eq!(world.get("alice", "/tokens").await["tokens"], json!([]));
    let again = world.api("alice", Method::DELETE, &path, None).await;
    assert_eq!(again.status, 403);
}

#[tokio::test]
async fn nobody_has_more_than_a_bounded_number() {
    let world = World::start().await;
    let post = |name: String| {
        let world = &world;
        async move {
            world
                .api(
                    "alice",
                    Method::POST,
                    "/tokens",
                    Some(json!({"name": name})),
                )
                .await
        }
    };
    // All at once, more than fit: whatever they come to, never too many are handed out.
    let asked =
        futures::future::join_all((0..MOST + 6).map(|i| post(format!("at once {i}")))).await;
    let mut held: BTreeSet<String> = asked
        .iter()
        .filter(|answer| answer.status == 201)
        .map(|answer| text(&answer.json()["id"]).to_owned())
        .collect();
    assert!(held.len() <= MOST, "{}", held.len());
    for refused in asked.iter().filter(|answer| answer.status != 201) {
        assert_eq!(refused.status, 409, "{}", refused.body);
    }
    // One after another, exactly as many as there may be.
    while held.len() < MOST {
        let made = post(format!("in turn {}", held.len())).await;
        assert_eq!(made.status, 201, "{}", made.body);
        held.insert(text(&made.json()["id"]).to_owned());
    }
    let more = post("one more".into()).await;
    assert_eq!(
        (more.status.as_u16(), &more.json()["code"]),
        (409, &json!("conflict"))
    );
    let listed = world.get("alice", "/tokens").await;
    let listed: BTreeSet<String> = listed["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| text(&token["id"]).to_owned())
        .collect();
    assert_eq!(listed, held, "what was refused has left nothing");
    // Others have places of their own; one that expired takes none.
    create(&world, "bob", json!({"name": "bob's"})).await;
    let oldest = held.first().unwrap();
    tamper(&world, oldest, |kept| kept["expires"] = json!(1)).await;
    assert_eq!(post("instead".into()).await.status, 201);
    assert_eq!(post("one more".into()).await.status, 409);
}

#[tokio::test]
async fn the_expired_go_a_week_later() {
    let world = World::start().await;
    let mut ids = Vec::new();
    for name in ["counts", "expired", "long expired"] {
        let made = create(&world, "alice", json!({"name": name})).await;
        ids.push(text(&made["id"]).to_owned());
    }
    let cluster = world.cluster();
    let now = cluster.now();
    for (id, ago) in ids[1..].iter().zip([6 * DAY, 8 * DAY]) {
        tamper(&world, id, |kept| kept["expires"] = json!(now - ago)).await;
    }
    assert_eq!(delete_expired(&cluster).await.unwrap(), 1);
    assert_eq!(delete_expired(&cluster).await.unwrap(), 0);
    let list = world.get("alice", "/tokens").await;
    let names: BTreeSet<&str> = list["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| text(&token["name"]))
        .collect();
    assert_eq!(names, ["counts", "expired"].into());
}
