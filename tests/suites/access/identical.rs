//! Another's workspace and none at all: the same bytes.

use nogoo9_tests::{Edge, Observation, Site, Template, until};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// A valid id of the same length as `id` that nobody has.
fn nobodys(id: &str) -> String {
    id.chars().rev().chain("0".chars()).skip(1).collect()
}

/// The answer with the id that was asked for masked: it may be quoted, and nothing else may differ.
fn masked(answer: &[u8], id: &str) -> String {
    String::from_utf8_lossy(answer).replace(id, "<id>")
}

/// Everything that can be asked of a workspace at the edge, as (method, path inside, headers).
const ASKED: [(&str, &str, &[&str]); 9] = [
    ("GET", "/", &[]),
    ("HEAD", "/", &[]),
    (
        "GET",
        "/",
        &[
            "Accept: text/html",
            "Sec-Fetch-Mode: navigate",
            "Sec-Fetch-Dest: document",
        ],
    ),
    ("GET", "/some/deep/path?with=query", &[]),
    ("POST", "/upload", &["Content-Length: 0"]),
    (
        "OPTIONS",
        "/",
        &[
            "Origin: http://elsewhere.example",
            "Access-Control-Request-Method: PUT",
        ],
    ),
    (
        "GET",
        "/echo",
        &[
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ],
    ),
    ("GET", "/.nogoo9/status", &[]),
    ("GET", "/.nogoo9/anything", &[]),
];

async fn same_at_the_edge(edge: &Edge, who: &str, theirs: &str) -> anyhow::Result<()> {
    let none = nobodys(theirs);
    let (their_host, no_host, console) = (edge.host(theirs), edge.host(&none), edge.console());
    for (method, path, headers) in ASKED {
        let (a, b) = tokio::try_join!(
            edge.raw_request(method, &their_host, path, headers),
            edge.raw_request(method, &no_host, path, headers),
        )?;
        assert_eq!(
            masked(&a, theirs),
            masked(&b, &none),
            "{who}: {method} {path} {headers:?} by host"
        );
        assert!(
            !masked(&a, theirs).contains("alice"),
            "{who}: {method} {path}: {}",
            masked(&a, theirs)
        );
        let (by_path, none_by_path) = (
            format!("/route/{theirs}{path}"),
            format!("/route/{none}{path}"),
        );
        let (a, b) = tokio::try_join!(
            edge.raw_request(method, &console, &by_path, headers),
            edge.raw_request(method, &console, &none_by_path, headers),
        )?;
        assert_eq!(
            masked(&a, theirs),
            masked(&b, &none),
            "{who}: {method} {path} {headers:?} by path"
        );
    }
    Ok(())
}

pub(super) async fn at_the_edge(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("edgeone", "1.0"), json!({}))
        .await?;
    assert_eq!(
        site.edge("alice").await?.get(&id, "/info").await?.status,
        200
    );
    for user in ["bob", "admin", "vera"] {
        let edge = site.edge(user).await?;
        assert_eq!(edge.get(&id, "/info").await?.status, 404, "{user}");
        same_at_the_edge(&edge, user, &id).await?;
    }
    let anonymous = site.anonymous()?;
    assert_eq!(anonymous.get(&id, "/info").await?.status, 401);
    // The nonce of a redirect to sign-in is random; the rest of what a stranger sees is not.
    for (method, path, headers) in ASKED
        .iter()
        .filter(|(_, _, headers)| !headers.contains(&"Accept: text/html"))
    {
        let none = nobodys(&id);
        let a = anonymous
            .raw_request(method, &anonymous.host(&id), path, headers)
            .await?;
        let b = anonymous
            .raw_request(method, &anonymous.host(&none), path, headers)
            .await?;
        assert_eq!(
            masked(&a, &id),
            masked(&b, &none),
            "nobody: {method} {path} {headers:?}"
        );
    }
    Ok(())
}

pub(super) async fn while_stopped(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("sleeper", "1.0"), json!({}))
        .await?;
    alice.act(&id, "stop").await?.expect(200)?;
    until("it to be stopped", Duration::from_secs(120), || async {
        let seen = alice.workspace(&id).await?;
        Ok(Observation::when(seen["status"] == "stopped", (), seen))
    })
    .await?;
    for user in ["bob", "admin"] {
        same_at_the_edge(&site.edge(user).await?, user, &id).await?;
    }
    Ok(())
}

pub(super) async fn in_json(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let template = Template::new("jsonone", "1.0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    cluster
        .apply(&template.version("2.0_slow-pull-60m"))
        .await?;
    let operation = until("an upgrade to begin", Duration::from_secs(120), || async {
        let answer = alice.upgrade(&id).await?;
        Ok(Observation::when(
            answer["operationId"].is_string(),
            answer["operationId"].clone(),
            answer,
        ))
    })
    .await?;
    let operation = operation.as_str().unwrap_or_default();
    let no_operation = format!("op-{}", "a".repeat(26));
    until(
        "the upgrade to come to rest",
        Duration::from_secs(120),
        || async {
            let record = cluster.record(&id).await?.unwrap_or_default();
            Ok(Observation::when(
                record["upgrade"]["successor"]["uid"].is_string(),
                (),
                record,
            ))
        },
    )
    .await?;
    let before = cluster.record(&id).await?;

    let none = nobodys(&id);
    for user in ["bob", "vera", "nobody"] {
        let edge = if user == "nobody" {
            site.anonymous()?
        } else {
            site.edge(user).await?
        };
        for (method, action) in [
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/start"),
            ("POST", "/stop"),
            ("POST", "/upgrade"),
            ("POST", "/rollback"),
            ("GET", "/events"),
            ("GET", "/logs"),
        ] {
            let path = |id: &str| format!("/api/v1/workspaces/{id}{action}");
            let (theirs, nobodys) = (path(&id), path(&none));
            let headers: &[&str] = if method == "POST" {
                &["Content-Length: 0"]
            } else {
                &[]
            };
            let a = edge
                .raw_request(method, &edge.console(), &theirs, headers)
                .await?;
            let b = edge
                .raw_request(method, &edge.console(), &nobodys, headers)
                .await?;
            assert_eq!(
                masked(&a, &id),
                masked(&b, &none),
                "{user}: {method} {theirs}"
            );
            let refused = masked(&a, &id);
            let status = if user == "nobody" {
                "HTTP/1.1 401"
            } else {
                "HTTP/1.1 403"
            };
            assert!(
                refused.starts_with(status),
                "{user}: {method} {theirs}: {refused}"
            );
            assert!(
                user == "nobody" || refused.contains(r#""message":"Access Denied""#),
                "{refused}"
            );
        }
        for suffix in ["", "/wait?seconds=0"] {
            let path = |id: &str| format!("/api/v1/operations/{id}{suffix}");
            let a = edge
                .raw_request("GET", &edge.console(), &path(operation), &[])
                .await?;
            let b = edge
                .raw_request("GET", &edge.console(), &path(&no_operation), &[])
                .await?;
            assert_eq!(
                masked(&a, operation),
                masked(&b, &no_operation),
                "{user}: operation{suffix}"
            );
        }
    }
    assert_eq!(
        cluster.record(&id).await?,
        before,
        "nothing that they tried had an effect"
    );
    // An admin manages what is another's, and so may tell.
    assert_eq!(
        site.api("admin").await?.workspace(&id).await?["owner"],
        "alice"
    );
    Ok(())
}

pub(super) async fn in_mcp(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("mcpone", "1.0"), json!({}))
        .await?;
    let none = nobodys(&id);
    let bob = site.mcp("bob").await?;
    let call = |tool: &str, id: &str| json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": {"id": id}}});
    for tool in [
        "get_workspace",
        "start_workspace",
        "stop_workspace",
        "delete_workspace",
        "upgrade_workspace",
        "rollback_workspace",
        "get_workspace_events",
        "get_workspace_logs",
    ] {
        let (a, b) = (
            bob.post(&call(tool, &id)).await?,
            bob.post(&call(tool, &none)).await?,
        );
        assert_eq!(
            (a.0, masked(a.2.as_bytes(), &id)),
            (b.0, masked(b.2.as_bytes(), &none)),
            "{tool}"
        );
        let refused = bob.call(tool, json!({"id": id})).await?;
        assert!(
            refused.is_error && refused.structured.is_none(),
            "{tool}: {refused:?}"
        );
        assert_eq!(
            (&refused.text["code"], &refused.text["message"]),
            (&json!("access_denied"), &json!("Access Denied")),
            "{tool}"
        );
    }
    for tool in ["get_operation", "wait_for_operation"] {
        let refused = bob
            .call(
                tool,
                json!({"operationId": format!("op-{}", "a".repeat(26))}),
            )
            .await?;
        assert!(refused.is_error, "{tool}");
        assert_eq!(refused.text["message"], "Access Denied", "{tool}");
    }
    assert_eq!(alice.workspace(&id).await?["status"], "running");
    Ok(())
}
