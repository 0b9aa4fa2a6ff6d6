//! Personal access tokens, at the edge and behind it.

use http::Method;
use nogoo9_tests::{Api, Edge, Observation, Site, Socket, Template, until};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

/// Longest wait for a revocation to be known everywhere: twice as long as it may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Close code of a socket whose token counts no more.
const POLICY: u16 = 1008;

/// Makes a token with these scopes; returns it and its id.
async fn create(api: &Api, name: &str, scopes: Value) -> anyhow::Result<(String, String)> {
    let body = json!({"name": name, "scopes": scopes, "expiresInDays": 1});
    let made = api.post("/api/v1/tokens", &body).await?.expect(201)?;
    let text = |key: &str| made[key].as_str().unwrap_or_default().to_owned();
    Ok((text("token"), text("id")))
}

pub(super) async fn opens_what_its_owner_may(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, bob) = (site.api("alice").await?, site.api("bob").await?);
    let id = site
        .spawn(&alice, &Template::new("scripted", "1.0"), json!({}))
        .await?;
    let (token, _) = create(&alice, "reads", json!(["nogoo9:read"])).await?;
    let edge = site.anonymous()?.with_token(Some(token.clone()));

    // Its owner's pages, in either mode, and the pod sees who it is and nothing of the token.
    for (host, path) in [
        (edge.host(&id), "/headers".to_owned()),
        (edge.console(), format!("/route/{id}/headers")),
    ] {
        let request = edge.request(Method::GET, &host, &path)?;
        let seen = Edge::send(request).await?.json()?;
        assert_eq!(seen["x-user-sub"], json!(["alice"]), "{seen}");
        assert!(
            !seen.to_string().contains("ng9_") && seen["authorization"].is_null(),
            "{seen}"
        );
    }
    let mut socket = Socket::open(&edge, &edge.host(&id), "/echo", &[]).await?;
    socket.send(Message::text("hello")).await?;
    assert_eq!(socket.next().await?.into_text()?.as_str(), "hello");
    socket.close().await;

    // What is another's is as good as not there.
    let (bobs, _) = create(&bob, "bob's", json!(null)).await?;
    let bobs = site.anonymous()?.with_token(Some(bobs));
    let none = "scriptez";
    assert_eq!(none.len(), id.len());
    let mask = |answer: Vec<u8>, id: &str| String::from_utf8_lossy(&answer).replace(id, "<id>");
    for path in ["/", "/.nogoo9/status"] {
        let theirs = bobs.raw_request("GET", &bobs.host(&id), path, &[]).await?;
        let nobodys = bobs.raw_request("GET", &bobs.host(none), path, &[]).await?;
        let theirs = mask(theirs, &id);
        assert!(theirs.starts_with("HTTP/1.1 404"), "{theirs}");
        assert_eq!(theirs, mask(nobodys, none), "{path}");
    }

    // A token that may not look opens nothing, and says which scope it lacks.
    let (blind, _) = create(&alice, "writes", json!(["nogoo9:write"])).await?;
    let blind = site.anonymous()?.with_token(Some(blind));
    let refused = blind.get(&id, "/headers").await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(
        refused
            .header("www-authenticate")
            .is_some_and(|challenge| challenge.contains("insufficient_scope")),
        "{:?}",
        refused.headers
    );

    // Tools and JSON take it too, through the edge, each within its scopes.
    let mcp = site.mcp("alice").await?.with_token(Some(token.clone()));
    let list = mcp.call("list_workspaces", json!({})).await?.ok()?;
    assert!(list.to_string().contains(&id), "{list}");
    let stop = mcp.call("stop_workspace", json!({"id": id})).await?;
    assert!(stop.is_error, "{stop:?}");
    assert_eq!(stop.text["code"], "insufficient_scope");
    let api = alice.with_token(Some(token));
    assert_eq!(api.workspace(&id).await?["status"], "running");
    assert_eq!(api.act(&id, "stop").await?.status, 403);
    // Where a proxy asks, nobody else does.
    let asked = edge.get_console("/.nogoo9/personal-token").await?;
    assert_eq!(asked.status, 404);
    Ok(())
}

pub(super) async fn revoked_is_out(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("revoking", "1.0"), json!({}))
        .await?;
    let (token, token_id) = create(&alice, "lost", json!(null)).await?;
    let secret = token.trim_start_matches("ng9_").to_owned();
    let edge = site.anonymous()?.with_token(Some(token.clone()));
    let api = alice.with_token(Some(token));
    let mut socket = Socket::open(&edge, &edge.host(&id), "/echo", &[]).await?;
    assert_eq!(edge.get(&id, "/info").await?.status, 200);
    assert_eq!(api.get("/api/v1/workspaces").await?.status, 200);

    let path = format!("/api/v1/tokens/{token_id}");
    alice.ask(Method::DELETE, &path, None).await?.expect(200)?;
    assert_eq!(api.get("/api/v1/workspaces").await?.status, 401);
    let refused = until("the edge to refuse it", PATIENCE, || async {
        let answer = edge.get(&id, "/info").await?;
        let (out, seen) = (answer.status == 401, answer.status);
        Ok(Observation::when(out, answer, seen))
    })
    .await?;
    let (code, _) = socket.closed().await?;
    assert_eq!(code, POLICY);

    // Its making and its end are in control's log, by its id; the token is in nobody's.
    let mut told = 0;
    for log in std::fs::read_dir(site.data_dir().join("logs"))? {
        let log = log?.path();
        if !log.is_file() {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
        assert!(!text.contains(&secret), "a token in a log");
        let of_it = text.lines().filter(|line| line.contains(&token_id));
        told += of_it.filter(|line| line.contains("audit")).count();
    }
    assert_eq!(told, 2, "one record each");

    // As one that never was.
    let unknown = format!("ng9_{}", "a".repeat(40));
    let unknown = edge.with_token(Some(unknown)).get(&id, "/info").await?;
    assert_eq!(
        (
            refused.status,
            &refused.body,
            refused.header("www-authenticate")
        ),
        (
            unknown.status,
            &unknown.body,
            unknown.header("www-authenticate")
        )
    );
    assert!(
        refused
            .header("www-authenticate")
            .is_some_and(|challenge| challenge.contains("invalid_token")),
        "{:?}",
        refused.headers
    );
    Ok(())
}
