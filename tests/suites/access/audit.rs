//! The audit trail, as the processes write it.

use super::origins::signed_in;
use http::Method;
use nogoo9_local::idp::mint_for_subject;
use nogoo9_tests::{Observation, Site, Template, until};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Somebody of whom no provider knows.
const STRANGER: &str = "stranger|audited";
/// Longest wait for a line to be written.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lines of all logs so far.
fn lines(site: &Site) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for log in std::fs::read_dir(site.data_dir().join("logs"))? {
        let log = log?.path();
        if log.is_file() {
            let text = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
            lines.extend(text.lines().map(ToOwned::to_owned));
        }
    }
    Ok(lines)
}

pub(super) async fn leaves_its_records(site: Arc<Site>) -> anyhow::Result<()> {
    // Nobody else is refused anything under that name, so no refusal of theirs is left out.
    let issuer = site.ready().issuer.as_str().trim_end_matches('/');
    let audience = site.ready().mcp_url.as_str();
    let (dir, life) = (site.data_dir(), Duration::from_secs(600));
    let stranger = mint_for_subject(&dir, issuer, STRANGER, audience, life)?;
    let bearers = [site.token("alice").await?, stranger];
    let [alice, stranger] = bearers.clone().map(Some);
    let tools = site.mcp("alice").await?.with_token(alice.clone());
    let alice = site.api("alice").await?.with_token(alice);
    let stranger = alice.with_token(stranger);
    let id = site
        .spawn(&alice, &Template::new("audited", "1.0"), json!({}))
        .await?;
    let visitor = signed_in(&site, "alice").await?;
    let cookies = visitor.cookies(&site.anonymous()?.console());
    assert_eq!(stranger.act(&id, "stop").await?.status, 403);
    let body = json!({"name": "audited", "scopes": ["nogoo9:read"], "expiresInDays": 1});
    let made = alice.post("/api/v1/tokens", &body).await?.expect(201)?;
    let text = |key: &str| made[key].as_str().unwrap_or_default().to_owned();
    let (token, token_id) = (text("token"), text("id"));
    let edge = site.anonymous()?.with_token(Some(token.clone()));
    assert_eq!(edge.get(&id, "/info").await?.status, 200);
    let next = Template::new("audited", "2.0");
    site.cluster().await?.apply(&next).await?;
    until("the workspace to be outdated", PATIENCE, || async {
        let seen = alice.workspace(&id).await?;
        Ok(Observation::when(seen["outdated"] == true, (), seen))
    })
    .await?;
    tools
        .call("upgrade_workspace", json!({"id": id}))
        .await?
        .ok()?;
    let revoke = format!("/api/v1/tokens/{token_id}");
    alice
        .ask(Method::DELETE, &revoke, None)
        .await?
        .expect(200)?;

    let of = |what: &str, how: &str, object: &str, ended: &str| {
        let who = if ended == "ok" { "alice" } else { STRANGER };
        let ended = match ended.split_once(' ') {
            Some((result, reason)) => format!("result=\"{result}\" reason=\"{reason}\""),
            None => format!("result=\"{ended}\""),
        };
        format!(
            "audit: audit what=\"{what}\" who=\"{who}\" from=\"127.0.0.1\" how=\"{how}\" object=\"{object}\" {ended}"
        )
    };
    for record in [
        of("workspace.spawn", "bearer", &id, "ok"),
        of("workspace.stop", "bearer", &id, "refused access_denied"),
        of("token.create", "bearer", &token_id, "ok"),
        of("workspace.upgrade", "bearer", &id, "ok"),
        of("token.revoke", "bearer", &token_id, "ok"),
    ] {
        until(&record, PATIENCE, || async {
            let lines = lines(&site)?;
            let there = lines.iter().filter(|line| line.contains(&record)).count();
            Ok(Observation::when(there == 1, (), there))
        })
        .await?;
    }
    let lines = lines(&site)?;
    let sign_in = "audit: audit what=\"sign-in\" who=\"alice\" from=\"127.0.0.1\" how=\"none\"";
    assert!(lines.iter().any(|line| line.contains(sign_in)), "{sign_in}");
    // Of no credential there is anything in any log, but the id of the personal access token.
    let session = cookies.split("nogoo9=").nth(1).unwrap_or_default();
    let session = session.split(';').next().unwrap_or_default();
    let signed = bearers.iter().map(String::as_str).chain([session]);
    let signatures = signed.map(|token| token.rsplit('.').next().unwrap_or_default());
    for secret in signatures.chain([token.trim_start_matches("ng9_")]) {
        assert!(secret.len() > 20, "{}", secret.len());
        let leak = lines.iter().find(|line| line.contains(secret));
        assert!(leak.is_none(), "a credential in a log: {leak:?}");
    }
    Ok(())
}
