//! What other pages could make a signed-in browser send. Control checks this itself, whatever the proxy
//! in front of it lets through.

use crate::world::{Answer, World};
use http::Method;
use serde_json::json;

/// A request with the cookie of alice's browser.
async fn browser(
    world: &World,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = world
        .http
        .request(method, format!("{}{path}", world.url))
        .header("cookie", world.cookie("alice"))
        .body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.send(request).await
}

#[tokio::test]
async fn a_cookie_changes_nothing_but_for_the_consoles_own_page() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world
        .spawn("alice", json!({"template": "sample", "id": "dev"}))
        .await;
    let own = world.url.clone();
    let port = own.rsplit(':').next().unwrap_or_default();
    let workspace = format!("http://dev.localhost:{port}");
    let spawn = json!({"template": "sample", "id": "forged"}).to_string();
    let json_type = ("content-type", "application/json");
    let changes = [
        (Method::POST, "/api/v1/workspaces", spawn.as_str()),
        (Method::POST, "/api/v1/workspaces/dev/stop", ""),
        (Method::POST, "/api/v1/workspaces/dev/upgrade", ""),
        (Method::DELETE, "/api/v1/workspaces/dev?deleteData=true", ""),
        (Method::POST, "/api/v1/tokens", r#"{"name": "forged"}"#),
        (Method::DELETE, "/api/v1/sessions", ""),
    ];
    // From the page of a workspace, from anywhere, and from whoever does not say; in path mode too, as
    // long as the browser can tell it from the console.
    let foreign: [&[(&str, &str)]; 8] = [
        &[("sec-fetch-site", "same-site"), ("origin", &workspace)],
        &[("sec-fetch-site", "cross-site"), ("origin", "null")],
        &[("sec-fetch-site", "same-site"), ("origin", &own)],
        &[
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "same-site"),
        ],
        &[("origin", &workspace)],
        &[("origin", "null")],
        &[("referer", &own)],
        &[],
    ];
    for (method, path, body) in &changes {
        for headers in foreign {
            let headers = [headers, &[json_type]].concat();
            let answer = browser(&world, method.clone(), path, &headers, body).await;
            assert_eq!(answer.status, 401, "{method} {path} {headers:?}");
            assert_eq!(answer.json()["signIn"], "/auth/login");
            let cors = "access-control-allow-origin";
            assert!(!answer.headers.contains_key(cors), "{method} {path}");
        }
    }
    // Forms send no JSON, and what is none is not taken for it.
    let console = [("sec-fetch-site", "same-origin"), ("origin", &*own)];
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        let headers = [&console[..], &[("content-type", kind)]].concat();
        for (path, body) in [
            ("/api/v1/workspaces", spawn.as_str()),
            ("/api/v1/tokens", r#"{"name": "forged"}"#),
        ] {
            let answer = browser(&world, Method::POST, path, &headers, body).await;
            assert_eq!(answer.status, 415, "{kind} {path}");
            assert_eq!(answer.json()["code"], "invalid_argument");
        }
    }
    // A cookie drives no tools, from the console neither.
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "stop_workspace", "arguments": {"id": "dev"}}});
    let accept = ("accept", "application/json, text/event-stream");
    let headers = [&console[..], &[json_type, accept]].concat();
    let answer = browser(&world, Method::POST, "/mcp", &headers, &call.to_string()).await;
    assert_eq!(answer.status, 401);
    // Nobody elsewhere learns by a preflight that they may.
    for origin in [workspace.as_str(), "https://elsewhere.example"] {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
        ];
        for path in ["/api/v1/workspaces", "/mcp", "/auth/logout"] {
            let answer = browser(&world, Method::OPTIONS, path, &headers, "").await;
            let cors = "access-control-allow-origin";
            assert!(!answer.headers.contains_key(cors), "{path}: {answer:?}");
        }
    }

    // None of it had an effect.
    let list = world.get("alice", "/workspaces").await;
    let all = list["workspaces"].as_array().unwrap();
    assert_eq!(all.len(), 1, "{list}");
    assert_ne!(all[0]["status"], "stopped", "{list}");
    assert_eq!(world.get("alice", "/tokens").await["tokens"], json!([]));
    // Those who send a bearer token prove more than any page could: no origin rule for them.
    let stop = format!("{}/api/v1/workspaces/dev/stop", world.url);
    let request = world.http.post(&stop).bearer_auth(world.token("alice"));
    let request = request.header("origin", "https://elsewhere.example");
    assert_eq!(world.send(request).await.status, 200);
    // What the console's page sends counts, among planted cookies too.
    let cookie = format!("nogoo9=x; nogoo9=y; {}; nogoo9=z", world.cookie("alice"));
    let request = world.http.post(&stop).header("cookie", cookie);
    let request = request.header("sec-fetch-site", "same-origin");
    assert_eq!(world.send(request).await.status, 200);
}
