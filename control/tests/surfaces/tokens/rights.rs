//! What tokens may do, and who may make and end them.

use super::{create, tamper, text, with};
use crate::world::{Answer, World};
use http::Method;
use serde_json::{Value, json};

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
