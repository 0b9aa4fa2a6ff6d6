//! Workspaces that are stopped or gone, as seen from their own address.

use super::LONG;
use http::Method;
use nogoo9_tests::{NAVIGATION, Observation, Site, Template, Visitor, until};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn started(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.anonymous()?);
    let template = Template::new("asleep", "1.0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let mut visitor = Visitor::new(edge.clone())?;
    visitor.sign_in("alice").await?;
    let page = visitor.url(&edge.host(&id), "/info?a=b")?;
    let (_, opened) = visitor.open(&page, "alice").await?;
    assert_eq!(opened.status, 200);
    alice.act(&id, "stop").await?.expect(200)?;

    // From the press of the button on, the address says so, and in the end shows a button of its own.
    until("the stopped page", LONG, || async {
        let mut visitor = visitor.clone();
        let answer = visitor.send(Method::GET, &page, &NAVIGATION, &[]).await?;
        let text = answer.text();
        // The edge may hear of it a moment later than whoever pressed the button.
        assert!(answer.status == 503 || answer.status == 200, "{text}");
        let stopped = text.contains(&format!("{id} is stopped"));
        Ok(Observation::when(stopped, (), text))
    })
    .await?;
    let program = site.edge("alice").await?.get(&id, "/info").await?;
    assert_eq!(program.status, 503);
    let told: Value = serde_json::from_slice(&program.body)?;
    assert_eq!(told["code"], "stopped", "{told}");
    let status = visitor.url(&edge.host(&id), "/.nogoo9/status")?;
    let own = [("sec-fetch-site", "same-origin")];
    let seen = visitor.send(Method::GET, &status, &own, &[]).await?;
    assert_eq!(seen.json()?["status"], "stopped");

    // A sibling's form is none of its buttons.
    let start = visitor.url(&edge.host(&id), "/.nogoo9/start?return=/info%3Fa%3Db")?;
    let sibling = format!("http://{}", edge.host("sibling"));
    let forged = [
        ("sec-fetch-site", "same-site"),
        ("origin", sibling.as_str()),
    ];
    let refused = visitor.send(Method::POST, &start, &forged, &[]).await?;
    assert_eq!(refused.status, 401);
    // An admin could start it in the console, and is nobody here.
    let admin = site.edge("admin").await?;
    let path = "/.nogoo9/start";
    let theirs = admin
        .raw_request("POST", &admin.host(&id), path, &["Content-Length: 0"])
        .await?;
    assert!(theirs.starts_with(b"HTTP/1.1 404 "));
    assert_eq!(alice.workspace(&id).await?["status"], "stopped");

    let origin = format!("http://{}", edge.host(&id));
    let button = [
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
        ("origin", origin.as_str()),
    ];
    let answer = visitor.send(Method::POST, &start, &button, &[]).await?;
    assert_eq!(
        (answer.status.as_u16(), answer.header("location")),
        (303, Some("/info?a=b")),
        "{}",
        answer.text()
    );
    // A program that comes now is held until there is a pod; a person's page reloads until then.
    let program = site.edge("alice").await?.get(&id, "/info").await?;
    assert_eq!(program.status, 200, "{}", program.text());
    let again = visitor.send(Method::GET, &page, &NAVIGATION, &[]).await?;
    assert_eq!(again.json()?["workspace"], id.as_str());
    Ok(())
}

pub(super) async fn deleted(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("gone", "1.0"), json!({}))
        .await?;
    let edge = site.edge("alice").await?;
    assert_eq!(edge.get(&id, "/info").await?.status, 200);
    alice
        .ask(Method::DELETE, &format!("/api/v1/workspaces/{id}"), None)
        .await?
        .expect(200)?;
    until("it to be gone", LONG, || async {
        let answer = edge.get(&id, "/info").await?;
        assert_ne!(answer.status, 502, "{}", answer.text());
        Ok(Observation::when(answer.status == 404, (), answer.text()))
    })
    .await?;
    let none = edge.get("nobodys-at-all", "/info").await?;
    let gone = edge.get(&id, "/info").await?;
    assert_eq!((gone.status, gone.body), (none.status, none.body));
    Ok(())
}
