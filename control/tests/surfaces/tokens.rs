//! Personal access tokens: what they do, what they do not, and when they stop.

use crate::world::{Answer, SYSTEM, World};
use http::{HeaderMap, Method};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams, PostParams};
use nogoo9_control::personal::delete_expired;
use nogoo9_model::personal_token::{self, ENTROPY, MOST, PATH};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::task::JoinHandle;

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
async fn all_that_do_not_count_are_refused_alike() {
    let world = World::start().await;
    let fresh = async |name: &str| {
        let made = create(&world, "alice", json!({"name": name, "expiresInDays": 1})).await;
        (
            text(&made["token"]).to_owned(),
            text(&made["id"]).to_owned(),
        )
    };
    let (revoked, id) = fresh("revoked").await;
    let path = format!("/tokens/{id}");
    assert_eq!(
        world.api("alice", Method::DELETE, &path, None).await.status,
        200
    );
    let (expired, id) = fresh("expired").await;
    tamper(&world, &id, |kept| {
        kept["expires"] = json!(kept["created"].as_i64().unwrap() - 1);
    })
    .await;
    let list = world.get("alice", "/tokens").await;
    assert_eq!(
        (&list["tokens"][0]["name"], &list["tokens"][0]["expired"]),
        (&json!("expired"), &json!(true))
    );
    // A Secret that says it is another token's.
    let (moved, id) = fresh("moved").await;
    tamper(&world, &id, |kept| {
        let hash = text(&kept["hash"]).to_owned();
        kept["hash"] = json!(format!("{}{}", &hash[..26], "a".repeat(26)));
    })
    .await;
    let (unreadable, id) = fresh("unreadable").await;
    tamper(&world, &id, |kept| *kept = json!({"owner": "admin"})).await;

    let unknown = personal_token::token(&[9; ENTROPY]);
    let mut seen: Vec<(u16, HeaderMap, String)> = Vec::new();
    for token in [
        revoked.as_str(),
        &expired,
        &moved,
        &unreadable,
        &unknown,
        "ng9_",
        "ng9_../../nogoo9-session-keys",
        &unknown.to_uppercase().replace("NG9_", "ng9_"),
        &format!("ng9_{}", "a".repeat(5000)),
    ] {
        let refused = with(&world, token, Method::GET, "/capabilities", None)
            .await
            .without_date();
        seen.push((refused.status.as_u16(), refused.headers, refused.body));
    }
    seen.dedup();
    let [(401, headers, body)] = &seen[..] else {
        panic!("{seen:?}");
    };
    let challenge = headers["www-authenticate"].to_str().unwrap();
    assert!(
        challenge.contains("resource_metadata=") && challenge.contains("error=\"invalid_token\""),
        "{challenge}"
    );
    assert!(!body.contains("ng9_"), "{body}");
    // Two credentials that both are ours prove nothing.
    let (good, _) = fresh("good").await;
    let url = format!("{}/api/v1/capabilities", world.url);
    let both = world.http.get(&url).bearer_auth(&good);
    let both = both.header("authorization", format!("Bearer {}", world.token("admin")));
    assert_eq!(world.send(both).await.status, 401);
    // Under whatever scheme it comes, it is recognised.
    for value in [
        good.clone(),
        format!("token {good}"),
        format!("bearer {good}"),
    ] {
        let request = world.http.get(&url).header("authorization", value);
        assert_eq!(world.send(request).await.status, 200);
    }
}

#[tokio::test]
async fn a_token_makes_lists_and_ends_no_token() {
    let world = World::start().await;
    let body = json!({"name": "first", "scopes": ["nogoo9:read", "nogoo9:write", "nogoo9:admin"]});
    let made = create(&world, "admin", body).await;
    let (token, id) = (text(&made["token"]), text(&made["id"]));
    let own = format!("/tokens/{id}");
    for (method, path, body) in [
        (Method::POST, "/tokens", Some(json!({"name": "second"}))),
        (Method::GET, "/tokens", None),
        (Method::DELETE, own.as_str(), None),
    ] {
        let refused = with(&world, token, method.clone(), path, body).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.json()["code"]),
            (403, &json!("forbidden")),
            "{method} {path}"
        );
    }
    let list = world.get("admin", "/tokens").await;
    assert_eq!(list["tokens"].as_array().unwrap().len(), 1);

    // A browser makes one by a call of the console's own, and by no other.
    let url = format!("{}/api/v1/tokens", world.url);
    for (site, status) in [
        ("same-origin", 201),
        ("same-site", 401),
        ("cross-site", 401),
    ] {
        let request = world
            .http
            .post(&url)
            .header("cookie", world.cookie("alice"));
        let request = request.header("sec-fetch-site", site);
        let answer = world.send(request.json(&json!({"name": site}))).await;
        assert_eq!(answer.status, status, "{site}: {}", answer.body);
    }
}

#[tokio::test]
async fn wishes_that_are_refused() {
    let world = World::start().await;
    for (user, body, status) in [
        ("alice", json!({}), 422),
        ("alice", json!({"name": ""}), 400),
        ("alice", json!({"name": "n".repeat(65)}), 400),
        ("alice", json!({"name": "a\u{0}b"}), 400),
        ("alice", json!({"name": "n", "expiresInDays": 0}), 400),
        ("alice", json!({"name": "n", "expiresInDays": 366}), 400),
        ("alice", json!({"name": "n", "expiresInDays": -1}), 422),
        ("alice", json!({"name": "n", "scopes": []}), 400),
        ("alice", json!({"name": "n", "scopes": ["all"]}), 400),
        (
            "alice",
            json!({"name": "n", "scopes": ["nogoo9:admin"]}),
            400,
        ),
        ("alice", json!({"name": "n", "owner": "bob"}), 422),
        ("alice", json!({"name": "n", "roles": ["admin"]}), 422),
    ] {
        let refused = world
            .api(user, Method::POST, "/tokens", Some(body.clone()))
            .await;
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
        assert_eq!(refused.json()["code"], "invalid_argument", "{body}");
    }
    assert_eq!(world.get("alice", "/tokens").await["tokens"], json!([]));
    let plain = world.http.post(format!("{}/api/v1/tokens", world.url));
    let plain = world.send(plain.json(&json!({"name": "n"}))).await;
    assert_eq!(plain.status, 401);
}

#[tokio::test]
async fn scopes_and_roles_bound_what_it_does() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let token = async |user: &str, scopes: Value| {
        let made = create(&world, user, json!({"name": "n", "scopes": scopes})).await;
        text(&made["token"]).to_owned()
    };
    let spawn = |id: &str| Some(json!({"template": "sample", "id": id}));
    let code = |answer: &Answer| (answer.status.as_u16(), answer.json()["code"].clone());
    let reads = token("alice", json!(["nogoo9:read"])).await;
    let writes = token("alice", json!(null)).await;
    let looks = token("vera", json!(null)).await;
    let admin = token("admin", json!(null)).await;
    let whole = token(
        "admin",
        json!(["nogoo9:read", "nogoo9:write", "nogoo9:admin"]),
    )
    .await;
    let lacks = (403, json!("insufficient_scope"));
    for (token, path, body, expected) in [
        (&reads, "/workspaces", spawn("a"), lacks.clone()),
        (&looks, "/workspaces", spawn("b"), (403, json!("forbidden"))),
        (&writes, "/upgrade-all", None, lacks.clone()),
        (&admin, "/upgrade-all", None, lacks),
        (&writes, "/workspaces", spawn("c"), (201, Value::Null)),
        (&whole, "/upgrade-all", None, (200, Value::Null)),
    ] {
        let answer = with(&world, token, Method::POST, path, body).await;
        assert_eq!(code(&answer), expected, "{path}: {}", answer.body);
    }
    let seen = with(&world, &reads, Method::GET, "/workspaces", None).await;
    assert_eq!(seen.json()["workspaces"][0]["id"], "c");
    // Whoever was less when it was made gets no more by what they are now.
    let made = create(&world, "admin", json!({"name": "lesser"})).await;
    tamper(&world, text(&made["id"]), |kept| {
        kept["role"] = json!("viewer");
    })
    .await;
    let lesser = text(&made["token"]);
    let answer = with(&world, lesser, Method::POST, "/workspaces", spawn("d")).await;
    assert_eq!(code(&answer), (403, json!("forbidden")));
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

#[tokio::test]
async fn a_proxy_learns_whom_it_speaks_for_and_no_more() {
    let world = World::start().await;
    let made = create(
        &world,
        "alice",
        json!({"name": "n", "scopes": ["nogoo9:read"]}),
    )
    .await;
    let (token, id) = (text(&made["token"]), text(&made["id"]));
    let url = format!("{}{PATH}", world.url);
    let asked = async |token: &str| world.send(world.http.get(&url).bearer_auth(token)).await;
    let proven = asked(token).await;
    let now = world.cluster().now();
    let told = proven.json();
    assert_eq!(
        (&told["version"], &told["caller"]),
        (
            &json!(1),
            &json!({"sub": "alice", "roles": ["user"], "role": "user", "scopes": ["nogoo9:read"]})
        )
    );
    let left = told["expires"].as_i64().unwrap() - now;
    assert!((29 * DAY..=31 * DAY).contains(&left), "{left}");
    assert_eq!(proven.headers["cache-control"], "no-store");
    for other in [&world.token("alice"), "ng9_x", "x"] {
        let refused = asked(other).await;
        assert_eq!(refused.status, 401, "{}", refused.body);
    }
    let path = format!("/tokens/{id}");
    world.api("alice", Method::DELETE, &path, None).await;
    assert_eq!(asked(token).await.status, 401);
}

#[tokio::test]
async fn what_may_only_read_makes_and_ends_no_token() {
    let world = World::start_with(&["--scopes=on"]).await;
    let made = create(&world, "alice", json!({"name": "first"})).await;
    let own = format!("/tokens/{}", text(&made["id"]));
    let none = format!("/tokens/{}", "a".repeat(26));
    let reads = world.scoped("alice", "nogoo9:read");
    for (method, path, body) in [
        (Method::POST, "/tokens", Some(json!({"name": "second"}))),
        (Method::DELETE, own.as_str(), None),
        (Method::DELETE, none.as_str(), None),
    ] {
        let refused = with(&world, &reads, method.clone(), path, body).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.json()["code"]),
            (403, &json!("insufficient_scope")),
            "{method} {path}"
        );
        let challenge = refused.headers["www-authenticate"].to_str().unwrap();
        assert!(challenge.contains("nogoo9:write"), "{challenge}");
    }
    let list = with(&world, &reads, Method::GET, "/tokens", None).await;
    assert_eq!(list.json()["tokens"].as_array().unwrap().len(), 1);
    let writes = world.scoped("alice", "nogoo9:write");
    let ended = with(&world, &writes, Method::DELETE, &own, None).await;
    assert_eq!(ended.status, 200, "{}", ended.body);
}

#[tokio::test]
async fn a_flood_of_made_up_tokens_does_not_go_through_to_the_api_server() {
    const ONE: &[&str] = &["--auth-failures-per-minute=1"];
    let world = World::start().await;
    let (url, calls) = world.overheard(ONE).await;
    let send = |from: &str, nth: u8| -> JoinHandle<u16> {
        let token = personal_token::token(&[nth; ENTROPY]);
        let request = world.http.get(format!("{url}/api/v1/capabilities"));
        let request = request.bearer_auth(token).header("x-forwarded-for", from);
        tokio::spawn(async move { request.send().await.unwrap().status().as_u16() })
    };
    let (bad, good) = ("203.0.113.9", "203.0.113.10");
    assert_eq!(send(bad, 0).await.unwrap(), 401);
    calls.take();
    calls.hold_tokens(true);
    let flood: Vec<_> = (1..5).map(|nth| send(bad, nth)).collect();
    let asked = async |times| {
        world
            .until("questions", async || calls.tokens() >= times)
            .await;
    };
    asked(2).await;
    // Nobody else waits for them, and they do wait.
    let others: Vec<_> = (5..8).map(|nth| send(good, nth)).collect();
    asked(5).await;
    assert_eq!(calls.tokens(), 5);
    calls.hold_tokens(false);
    for answer in flood.into_iter().chain(others) {
        let status = answer.await.unwrap();
        assert!(matches!(status, 401 | 429), "{status}");
    }
    assert_eq!(calls.tokens(), 7);
}
