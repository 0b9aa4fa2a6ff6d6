//! What clients are told that have no token, or one that does not reach as far as they want to.

use crate::world::{Answer, World};
use http::Method;
use serde_json::{Value, json};

const LEGACY: (&str, &str) = ("mcp-protocol-version", "2025-11-25");
const ALL: [&str; 3] = ["nogoo9:read", "nogoo9:write", "nogoo9:admin"];

fn challenge(answer: &Answer) -> &str {
    answer.headers["www-authenticate"].to_str().unwrap()
}

async fn metadata(world: &World) -> Value {
    let mut seen = Vec::new();
    for path in ["", "/mcp"] {
        let url = format!("{}/.well-known/oauth-protected-resource{path}", world.url);
        let answer = world.send(world.http.get(url)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert_eq!(answer.headers["access-control-allow-origin"], "*");
        seen.push(answer.json());
    }
    assert_eq!(
        seen[0], seen[1],
        "the same for the host as for its resource"
    );
    seen.swap_remove(0)
}

/// Sends without a token, and with one that does not verify.
async fn unproven(world: &World, method: &Method, path: &str) -> [Answer; 2] {
    let request = || {
        world
            .http
            .request(method.clone(), format!("{}{path}", world.url))
    };
    let mut forged = world.token("alice");
    forged.truncate(forged.len() - 10);
    forged += "AAAAAAAAAA";
    [
        world.send(request()).await,
        world.send(request().bearer_auth(forged)).await,
    ]
}

async fn asks_for(world: &World, method: Method, path: &str, scope: &str) {
    let start = format!(
        r#"Bearer resource_metadata="{}/.well-known/oauth-protected-resource/mcp", scope="{scope}""#,
        world.url
    );
    let [without, forged] = unproven(world, &method, path).await;
    assert_eq!(
        (without.status.as_u16(), forged.status.as_u16()),
        (401, 401)
    );
    assert_eq!(challenge(&without), start, "{method} {path}");
    let error = challenge(&forged).strip_prefix(start.as_str());
    assert!(
        error.is_some_and(|rest| rest.starts_with(r#", error="invalid_token""#)),
        "{method} {path}: {}",
        challenge(&forged)
    );
}

#[tokio::test]
async fn where_scopes_mean_nothing_only_known_ones_are_named() {
    let flags = [
        "--login-scopes=profile,offline_access,groups",
        "--extra-issuer=https://other.example.org",
    ];
    let world = World::start_with(&flags).await;
    let told = metadata(&world).await;
    let issuers = told["authorization_servers"].as_array().unwrap();
    assert_eq!(issuers.len(), 2);
    assert!(
        issuers[0]
            .as_str()
            .unwrap()
            .starts_with("http://127.0.0.1:")
    );
    assert_eq!(issuers[1], "https://other.example.org");
    assert_eq!(told["resource"], format!("{}/mcp", world.url));
    assert_eq!(told["bearer_methods_supported"], json!(["header"]));
    assert!(told.get("scopes_supported").is_none(), "{told}");
    for (method, path) in [
        (Method::POST, "/mcp"),
        (Method::GET, "/api/v1/workspaces"),
        (Method::DELETE, "/api/v1/workspaces/dev"),
    ] {
        asks_for(&world, method, path, "openid profile groups").await;
    }
    // No scope is missed.
    let none = world.scoped("alice", "");
    assert_eq!(
        call(&world, &none, "list_workspaces", json!({}))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn an_audience_that_is_no_address_is_not_the_resource() {
    let world = World::start_with(&["--audience=nogoo9-client"]).await;
    let told = metadata(&world).await;
    assert_eq!(told["resource"], format!("{}/mcp", world.url));
    let ours = world.token_for("alice", "nogoo9-client");
    assert_eq!(
        call(&world, &ours, "list_workspaces", json!({}))
            .await
            .status,
        200
    );
    let others = world.token("alice");
    assert_eq!(
        call(&world, &others, "list_workspaces", json!({}))
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn where_scopes_count_those_of_the_operation_are_named() {
    let world = World::start_with(&["--scopes=on"]).await;
    assert_eq!(metadata(&world).await["scopes_supported"], json!(ALL));
    for (method, path, scope) in [
        (Method::POST, "/mcp", "nogoo9:read nogoo9:write"),
        (Method::GET, "/api/v1/workspaces", "nogoo9:read"),
        (
            Method::POST,
            "/api/v1/workspaces",
            "nogoo9:read nogoo9:write",
        ),
    ] {
        asks_for(&world, method, path, scope).await;
    }

    let api = async |token: &str, method: Method, path: &str, body: Value| {
        let url = format!("{}/api/v1{path}", world.url);
        let request = world.http.request(method, url).bearer_auth(token);
        world.send(request.json(&body)).await
    };
    for (scope, method, path, body, named) in [
        ("openid", Method::GET, "/workspaces", json!(null), ALL[0]),
        (
            "nogoo9:read",
            Method::DELETE,
            "/workspaces/dev",
            json!(null),
            "nogoo9:read nogoo9:write",
        ),
        (
            "nogoo9:write",
            Method::POST,
            "/workspaces",
            json!({"template": "sample"}),
            "nogoo9:read nogoo9:write",
        ),
        (
            "nogoo9:read nogoo9:write",
            Method::POST,
            "/upgrade-all",
            json!({}),
            "nogoo9:read nogoo9:write nogoo9:admin",
        ),
    ] {
        let token = world.scoped("admin", scope);
        let refused = api(&token, method, path, body).await;
        refuses(&world, &refused, named);
    }
    let reads = world.scoped("alice", "nogoo9:read");
    let list = api(&reads, Method::GET, "/workspaces", json!(null)).await;
    assert_eq!(list.status, 200);
    assert!(!list.headers.contains_key("www-authenticate"));
}

/// Checks a 403 that names these scopes, all in one challenge.
fn refuses(world: &World, answer: &Answer, named: &str) {
    assert_eq!(answer.status, 403, "{named}: {}", answer.body);
    assert_eq!(answer.json()["code"], "insufficient_scope");
    let lacking = answer.json()["scope"].as_str().unwrap().to_owned();
    assert!(named.contains(&lacking), "{lacking}");
    let expected = format!(
        r#"Bearer resource_metadata="{}/.well-known/oauth-protected-resource/mcp", scope="{named}", error="insufficient_scope""#,
        world.url
    );
    assert_eq!(challenge(answer), expected);
}

async fn call(world: &World, token: &str, tool: &str, arguments: Value) -> Answer {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}});
    world.mcp(token, &[LEGACY], &call).await
}

#[tokio::test]
async fn a_tool_that_needs_more_is_refused_by_http() {
    let world = World::start_with(&["--scopes=on"]).await;
    // Whatever the scopes, the tools can be listed, and one may ask who one is.
    let none = world.scoped("alice", "openid");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let list = world.mcp(&none, &[LEGACY], &list).await;
    assert_eq!(list.status, 200, "{}", list.body);
    let me = call(&world, &none, "get_capabilities", json!({})).await;
    assert_eq!(
        me.json()["result"]["structuredContent"]["scopes"],
        json!([])
    );

    let reads = world.scoped("alice", "nogoo9:read");
    for tool in list.json()["result"]["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let needed = match (name, &tool["annotations"]["readOnlyHint"]) {
            ("get_capabilities", _) => continue,
            ("upgrade_all_workspaces", _) => "nogoo9:read nogoo9:admin",
            (_, Value::Bool(true)) => {
                refuses(&world, &call(&world, &none, name, json!({})).await, ALL[0]);
                let answer = call(&world, &reads, name, json!({})).await;
                assert_eq!(answer.status, 200, "{name}: {}", answer.body);
                continue;
            }
            _ => "nogoo9:read nogoo9:write",
        };
        refuses(&world, &call(&world, &reads, name, json!({})).await, needed);
    }

    // The same by the newest protocol, which names the tool in a header too.
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let modern = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "stop_workspace", "arguments": {"id": "dev"}, "_meta": meta}});
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "stop_workspace"),
    ];
    let refused = world.mcp(&reads, &headers, &modern).await;
    refuses(&world, &refused, "nogoo9:read nogoo9:write");
}

#[tokio::test]
async fn what_a_call_needs_may_depend_on_what_it_is_about() {
    let world = World::start_with(&["--scopes=on"]).await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    world.sample("sample:2").await;
    // To spawn takes reading the template.
    let writes = world.scoped("alice", "nogoo9:write");
    let spawn = json!({"template": "sample", "id": "other"});
    let refused = call(&world, &writes, "spawn_workspace", spawn).await;
    refuses(&world, &refused, "nogoo9:read nogoo9:write");
    // To pause what is about everyone's is for admins.
    let begun = world
        .tool("admin", "upgrade_all_workspaces", json!({}))
        .await;
    let id = &begun["result"]["structuredContent"]["operationId"];
    let both = world.scoped("admin", "nogoo9:read nogoo9:write");
    let pause = json!({"operationId": id});
    let refused = call(&world, &both, "pause_operation", pause.clone()).await;
    refuses(&world, &refused, "nogoo9:read nogoo9:write nogoo9:admin");

    // What no scope would help against stays an answer of the tool.
    for (user, scope, tool, arguments, code) in [
        (
            "alice",
            "nogoo9:read nogoo9:admin",
            "upgrade_all_workspaces",
            json!({}),
            "forbidden",
        ),
        (
            "bob",
            "nogoo9:write",
            "stop_workspace",
            json!({"id": "dev"}),
            "access_denied",
        ),
        (
            "bob",
            "nogoo9:write",
            "stop_workspace",
            json!({"id": "nil"}),
            "access_denied",
        ),
        (
            "vera",
            "nogoo9:write nogoo9:read",
            "spawn_workspace",
            json!({"template": "sample"}),
            "forbidden",
        ),
    ] {
        let answer = call(&world, &world.scoped(user, scope), tool, arguments).await;
        assert_eq!(answer.status, 200, "{tool}: {}", answer.body);
        assert!(!answer.headers.contains_key("www-authenticate"));
        let result = &answer.json()["result"];
        assert_eq!(result["isError"], true);
        let text: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text["code"], code, "{tool}");
    }
    // Neither does a sign-in widen a personal access token.
    let body = json!({"name": "reads", "scopes": ["nogoo9:read"]});
    let made = world
        .http
        .post(format!("{}/api/v1/tokens", world.url))
        .bearer_auth(world.token("alice"));
    let made = world.send(made.json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let answer = call(&world, &token, "stop_workspace", json!({"id": "dev"})).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["result"]["isError"]),
        (200, &json!(true))
    );
    assert!(
        answer.body.contains("insufficient_scope"),
        "{}",
        answer.body
    );
    let dev = world.get("alice", "/workspaces/dev").await;
    assert_ne!(dev["status"], "stopped");
}

#[tokio::test]
async fn a_token_in_a_url_is_refused_and_the_url_said_to_be_wrong() {
    let world = World::start().await;
    let token = world.token("alice");
    for path in [
        "/mcp",
        "/api/v1/workspaces",
        "/api/v1/events",
        "/api/v1/nothing",
    ] {
        let url = format!("{}{path}?x=y&access_token={token}", world.url);
        // Whatever else the request proves.
        for request in [
            world.http.get(&url),
            world.http.post(&url),
            world.http.get(&url).bearer_auth(&token),
        ] {
            let refused = world.send(request).await;
            assert_eq!(refused.status, 400, "{path}: {}", refused.body);
            assert_eq!(refused.json()["code"], "invalid_request");
            assert!(
                refused.body.contains("never into a URL"),
                "{}",
                refused.body
            );
            assert!(!refused.body.contains(&token), "{}", refused.body);
            let told = challenge(&refused);
            assert!(told.contains(r#"error="invalid_request""#), "{told}");
        }
    }
}

#[tokio::test]
async fn while_a_provider_was_never_reached_nobody_is_told_that_a_token_is_bad() {
    // Nothing listens at port 1.
    const AWAY: &str = "http://127.0.0.1:1";
    let world = World::start_with(&[&format!("--extra-issuer={AWAY}")]).await;
    let token = world.token_by(AWAY, "alice");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let get = |path: &str| {
        let request = world.http.get(format!("{}{path}", world.url));
        request.bearer_auth(&token)
    };
    for answer in [
        world.mcp(&token, &[LEGACY], &list).await,
        world.send(get("/api/v1/workspaces")).await,
        world.send(get("/api/v1/events")).await,
        world.send(get("/.nogoo9/absent/dev")).await,
    ] {
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert!(answer.headers.contains_key("retry-after"));
        // A client that reads a challenge would throw its token away.
        assert!(!answer.headers.contains_key("www-authenticate"));
        assert_eq!(
            (&answer.json()["code"], &answer.json()["retryable"]),
            (&json!("unavailable"), &json!(true))
        );
    }
    // Others are verified as ever.
    let own = world.api("alice", Method::GET, "/workspaces", None).await;
    assert_eq!(own.status, 200, "{}", own.body);
}
