//! MCP, by hand, in both eras of the protocol.

use crate::world::{Answer, World};
use serde_json::{Value, json};

const TOOLS: [&str; 24] = [
    "cancel_operation",
    "create_template",
    "delete_template",
    "delete_workspace",
    "get_capabilities",
    "get_operation",
    "get_template",
    "get_workspace",
    "get_workspace_events",
    "get_workspace_logs",
    "list_operations",
    "list_templates",
    "list_workspaces",
    "pause_operation",
    "resume_operation",
    "retry_operation",
    "rollback_workspace",
    "spawn_workspace",
    "start_workspace",
    "stop_workspace",
    "update_template",
    "upgrade_all_workspaces",
    "upgrade_workspace",
    "wait_for_operation",
];

async fn modern(world: &World, method: &str, name: Option<&str>, mut params: Value) -> Answer {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let mut headers = vec![
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
    ];
    headers.extend(name.map(|name| ("mcp-name", name)));
    world.mcp(&world.token("alice"), &headers, &call).await
}

async fn legacy(world: &World, method: &str, params: Value) -> Answer {
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    world
        .mcp(
            &world.token("alice"),
            &[("mcp-protocol-version", "2025-11-25")],
            &call,
        )
        .await
}

fn check(tools: &Value) {
    let tools = tools.as_array().unwrap();
    assert_eq!(
        tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect::<Vec<_>>(),
        TOOLS
    );
    for tool in tools {
        let name = &tool["name"];
        assert!(
            tool["title"].is_string() && tool["description"].is_string(),
            "{name}"
        );
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        for hint in [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ] {
            assert!(tool["annotations"][hint].is_boolean(), "{name} {hint}");
        }
        // Nullable types and integer formats make strict clients complain.
        let text = tool.to_string();
        assert!(
            !text.contains("null") && !text.contains(r#""format""#),
            "{text}"
        );
    }
    // The rule is printed with the tools that it is about.
    let rule = include_str!("../../../docs/access.md");
    for name in TOOLS {
        assert!(rule.contains(&format!("`{name}`")), "{name}");
    }
    let upgrade = tools
        .iter()
        .find(|tool| tool["name"] == "upgrade_workspace")
        .unwrap();
    assert_eq!(upgrade["annotations"]["destructiveHint"], true);
    assert_eq!(upgrade["inputSchema"]["required"], json!(["id"]));
    assert_eq!(upgrade["inputSchema"]["additionalProperties"], false);
}

#[tokio::test]
async fn both_eras_list_and_call() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let hello = legacy(&world, "initialize", json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}))
    .await;
    assert_eq!(hello.status, 200, "{}", hello.body);
    assert!(
        !hello.headers.contains_key("mcp-session-id"),
        "no session is kept"
    );
    assert_eq!(hello.json()["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(hello.json()["result"]["serverInfo"]["name"], "nogoo9");
    let list = legacy(&world, "tools/list", json!({})).await.json();
    check(&list["result"]["tools"]);
    assert!(list["result"].get("ttlMs").is_none());

    let discovered = modern(&world, "server/discover", None, json!({})).await;
    assert_eq!(discovered.status, 200, "{}", discovered.body);
    let list = modern(&world, "tools/list", None, json!({})).await.json();
    check(&list["result"]["tools"]);
    assert_eq!(
        (&list["result"]["ttlMs"], &list["result"]["cacheScope"]),
        (&json!(0), &json!("private"))
    );

    let call = json!({"name": "spawn_workspace", "arguments": {"template": "sample", "id": "dev"}});
    let spawned = modern(&world, "tools/call", Some("spawn_workspace"), call)
        .await
        .json();
    assert_eq!(
        spawned["result"]["structuredContent"]["id"], "dev",
        "{spawned}"
    );
    let seen = world
        .tool("alice", "get_workspace", json!({"id": "dev"}))
        .await;
    assert_eq!(seen["result"]["structuredContent"]["owner"], "alice");
    // The same answer as the JSON API's.
    let listed = world.tool("alice", "list_workspaces", json!({})).await;
    let by_api = world.get("alice", "/workspaces").await;
    assert_eq!(
        listed["result"]["structuredContent"]["workspaces"][0]["id"],
        by_api["workspaces"][0]["id"]
    );
}

#[tokio::test]
async fn errors_are_text_alone() {
    let world = World::start().await;
    let denied = world
        .tool("alice", "get_workspace", json!({"id": "nil"}))
        .await;
    let result = &denied["result"];
    assert_eq!(result["isError"], true);
    assert!(result.get("structuredContent").is_none());
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        text,
        json!({"code": "access_denied", "message": "Access Denied", "retryable": false})
    );
    for arguments in [
        json!({}),
        json!({"id": 7}),
        json!({"id": "dev", "userSub": "bob"}),
    ] {
        let bad = world.tool("alice", "get_workspace", arguments).await;
        assert!(
            bad["result"]["isError"] == true || bad["error"]["code"] == -32602,
            "{bad}"
        );
    }
    let unknown = world.tool("alice", "rm_rf", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[tokio::test]
async fn other_hosts_and_origins_are_refused() {
    let world = World::start().await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let token = world.token("alice");
    for (header, value, status) in [
        ("host", "evil.example", 403),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("origin", world.url.as_str(), 200),
        ("origin", "http://127.0.0.1:6274", 200),
    ] {
        let answer = world
            .mcp(
                &token,
                &[("mcp-protocol-version", "2025-11-25"), (header, value)],
                &call,
            )
            .await;
        assert_eq!(answer.status, status, "{header}: {value}: {}", answer.body);
    }
    let request = world
        .http
        .get(format!("{}/mcp", world.url))
        .bearer_auth(&token);
    assert_eq!(world.send(request).await.status, 405);
}

#[tokio::test]
async fn waiting_tells_progress() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    world.sample("sample:2").await;
    let begun = world.post("alice", "/workspaces/dev/upgrade").await.json();
    let arguments = json!({"operationId": begun["operationId"], "seconds": 1});
    let call = json!({"name": "wait_for_operation", "arguments": arguments, "_meta": {"progressToken": "p1"}});
    let answer = legacy(&world, "tools/call", call).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    let events = answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter(|data| !data.trim().is_empty());
    let events: Vec<Value> = events
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let progress = events
        .iter()
        .find(|event| event["method"] == "notifications/progress")
        .unwrap();
    assert_eq!(progress["params"]["progressToken"], "p1");
    assert!(
        progress["params"]["message"]
            .as_str()
            .unwrap()
            .starts_with("Upgrading"),
        "{progress}"
    );
    let last = events.last().unwrap();
    assert_eq!(
        last["result"]["structuredContent"]["operationId"], begun["operationId"],
        "{last}"
    );
}
