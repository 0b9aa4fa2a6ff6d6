//! Who gets in, and that nobody can tell another's workspace from none.

use crate::world::World;
use http::Method;
use serde_json::json;

#[tokio::test]
async fn nobody_gets_in_without_a_token_for_us() {
    let world = World::start().await;
    for path in [
        "/mcp",
        "/api/v1/workspaces",
        "/api/v1/capabilities",
        "/api/v1/nothing/here",
    ] {
        let url = format!("{}{path}", world.url);
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", world.url);
        let plain = world.send(world.http.post(&url)).await;
        assert_eq!(plain.status, 401, "{path}");
        let challenge = plain.headers["www-authenticate"].to_str().unwrap();
        assert_eq!(
            challenge,
            format!(r#"Bearer resource_metadata="{metadata}", scope="openid profile email""#)
        );
        assert_eq!(plain.json()["code"], "unauthenticated");

        // Another's audience: not ours, so it proves nothing. Ours and forged: refused by name.
        let stranger = world.token_for("alice", "https://other.example/mcp");
        assert_eq!(
            world
                .send(world.http.post(&url).bearer_auth(stranger))
                .await
                .status,
            401
        );
        let mut forged = world.token("alice");
        forged.truncate(forged.len() - 10);
        let refused = world
            .send(world.http.post(&url).bearer_auth(forged + "AAAAAAAAAA"))
            .await;
        assert_eq!(refused.status, 401, "{path}");
        assert!(
            refused.headers["www-authenticate"]
                .to_str()
                .unwrap()
                .contains("invalid_token")
        );
    }
    // A cookie drives no tools.
    let cookie = world.cookie("alice");
    let request = world
        .http
        .post(format!("{}/mcp", world.url))
        .header("cookie", &cookie);
    assert_eq!(
        world
            .send(request.header("sec-fetch-site", "same-origin"))
            .await
            .status,
        401
    );
    let request = world
        .http
        .get(format!("{}/api/v1/capabilities", world.url))
        .header("cookie", &cookie);
    assert_eq!(world.send(request).await.json()["sub"], "alice");
}

#[tokio::test]
async fn anothers_workspace_is_as_good_as_none() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    world.sample("sample:2").await;
    let operation = world.post("alice", "/workspaces/dev/upgrade").await.json();
    let operation = operation["operationId"].as_str().unwrap();
    let absent = "op-aaaaaaaaaaaaaaaaaaaaaaaaaa";

    let pairs = [
        (Method::GET, "/workspaces/dev", "/workspaces/nil"),
        (Method::DELETE, "/workspaces/dev", "/workspaces/nil"),
        (
            Method::POST,
            "/workspaces/dev/start",
            "/workspaces/nil/start",
        ),
        (Method::POST, "/workspaces/dev/stop", "/workspaces/nil/stop"),
        (
            Method::POST,
            "/workspaces/dev/upgrade",
            "/workspaces/nil/upgrade",
        ),
        (
            Method::GET,
            &format!("/operations/{operation}"),
            &format!("/operations/{absent}"),
        ),
        (
            Method::GET,
            &format!("/operations/{operation}"),
            "/operations/..%2F..%2Fsecrets%2Fx",
        ),
        (
            Method::GET,
            &format!("/operations/{operation}/wait"),
            &format!("/operations/{absent}/wait"),
        ),
    ];
    for user in ["bob", "vera"] {
        for (method, theirs, none) in &pairs {
            let theirs = world
                .api(user, method.clone(), theirs, None)
                .await
                .without_date();
            let none = world
                .api(user, method.clone(), none, None)
                .await
                .without_date();
            assert_eq!(theirs, none, "{user} {method}");
            assert_eq!(theirs.status, 403);
            assert_eq!(
                theirs.json(),
                json!({"code": "access_denied", "message": "Access Denied", "retryable": false})
            );
        }
        for tool in [
            "get_workspace",
            "start_workspace",
            "stop_workspace",
            "delete_workspace",
            "upgrade_workspace",
        ] {
            let theirs = world.tool(user, tool, json!({"id": "dev"})).await;
            assert_eq!(
                theirs,
                world.tool(user, tool, json!({"id": "nil"})).await,
                "{tool}"
            );
            assert_eq!(theirs["result"]["isError"], true);
        }
        for tool in ["get_operation", "wait_for_operation"] {
            let theirs = world
                .tool(user, tool, json!({"operationId": operation}))
                .await;
            assert_eq!(
                theirs,
                world.tool(user, tool, json!({"operationId": absent})).await,
                "{tool}"
            );
            assert_eq!(theirs["result"]["isError"], true);
        }
        assert_eq!(
            world.get(user, "/workspaces").await,
            json!({"workspaces": []})
        );
        assert_eq!(
            world.get(user, "/operations").await,
            json!({"operations": []})
        );
    }
    // For admins, what is not there is refused in the same words.
    let none = world
        .api("admin", Method::GET, "/workspaces/nil", None)
        .await;
    assert_eq!(
        (none.status.as_u16(), none.json()["message"].as_str()),
        (403, Some("Access Denied"))
    );
    // Nothing that was tried had an effect.
    let dev = world.get("alice", "/workspaces/dev").await;
    assert_eq!(
        (dev["status"].as_str(), dev["owner"].as_str()),
        (Some("upgrading"), Some("alice"))
    );
}

#[tokio::test]
async fn roles_reach_as_far_as_the_table_says() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let body = json!({"template": "sample", "id": "mine"});
    let refused = world
        .api("vera", Method::POST, "/workspaces", Some(body.clone()))
        .await;
    assert_eq!(
        (refused.status.as_u16(), refused.json()["code"].as_str()),
        (403, Some("forbidden"))
    );
    // Nobody but an admin spawns for others.
    let for_bob = json!({"template": "sample", "id": "bobs", "userSub": "bob"});
    let refused = world
        .api("alice", Method::POST, "/workspaces", Some(for_bob.clone()))
        .await;
    assert_eq!(
        (refused.status.as_u16(), refused.json()["message"].as_str()),
        (403, Some("Access Denied"))
    );
    assert_eq!(world.spawn("admin", for_bob).await["owner"], "bob");
    world.spawn("alice", body).await;

    let ids = async |user: &str, query: &str| {
        let list = world.get(user, &format!("/workspaces{query}")).await;
        let all = list["workspaces"].as_array().unwrap().iter();
        all.map(|w| w["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("alice", "").await, ["mine"]);
    assert_eq!(ids("bob", "").await, ["bobs"]);
    assert_eq!(
        ids("admin", "").await,
        ["mine", "bobs"],
        "by owner, then id"
    );
    assert!(ids("admin", "?mine=true").await.is_empty());

    let capabilities = world.get("vera", "/capabilities").await;
    assert_eq!(
        (&capabilities["role"], &capabilities["canSpawn"]),
        (&json!("viewer"), &json!(false))
    );
    let capabilities = world.get("admin", "/capabilities").await;
    assert_eq!(
        (&capabilities["isAdmin"], &capabilities["canUpgradeAll"]),
        (&json!(true), &json!(true))
    );
}

#[tokio::test]
async fn templates_for_others_are_not_there() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world
        .template(
            "secret",
            "containers: [{name: m, image: i}]",
            json!({"nogoo9/allowed-roles": "ops"}),
        )
        .await;
    world.template("broken", "containers: []", json!({})).await;
    let names = async |user: &str| {
        let list = world.get(user, "/templates").await;
        let all = list["templates"].as_array().unwrap().iter();
        all.map(|t| t["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    world
        .until("the templates", || async {
            names("admin").await == ["broken", "sample", "secret"]
        })
        .await;
    assert_eq!(names("alice").await, ["sample"]);
    let secret = world
        .api("alice", Method::GET, "/templates/secret", None)
        .await
        .without_date();
    let none = world
        .api("alice", Method::GET, "/templates/absent", None)
        .await
        .without_date();
    assert_eq!(secret.body.replace("secret", "absent"), none.body);
    assert_eq!(
        (secret.status, secret.headers.len()),
        (none.status, none.headers.len())
    );
    // No other object of the namespace passes for a template.
    let operation = world
        .api("alice", Method::GET, "/templates/nogoo9-session-jwks", None)
        .await;
    assert_eq!(operation.status, 404);
}

#[tokio::test]
async fn unknown_addresses_and_bodies_are_json_too() {
    let world = World::start().await;
    for (method, path, body, status, code) in [
        (Method::GET, "/nothing", None, 404, "not_found"),
        (Method::PUT, "/workspaces", None, 405, "method_not_allowed"),
        (
            Method::POST,
            "/workspaces",
            Some(json!({"template": 7})),
            422,
            "invalid_argument",
        ),
        (
            Method::POST,
            "/workspaces",
            Some(json!({"template": "x", "nogoo9/owner": "bob"})),
            422,
            "invalid_argument",
        ),
        (
            Method::POST,
            "/workspaces",
            Some(json!({"template": "x", "id": "A"})),
            400,
            "invalid_argument",
        ),
        (
            Method::POST,
            "/workspaces",
            Some(json!({"template": "../x"})),
            404,
            "template_not_found",
        ),
        (
            Method::GET,
            "/workspaces?mine=maybe",
            None,
            400,
            "invalid_argument",
        ),
    ] {
        let answer = world.api("alice", method.clone(), path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        assert_eq!(answer.json()["code"], code, "{path}");
    }
    let huge = json!({"template": "x", "inputs": {"a": "b".repeat(70_000)}});
    assert_eq!(
        world
            .api("alice", Method::POST, "/workspaces", Some(huge))
            .await
            .status,
        413
    );
}
