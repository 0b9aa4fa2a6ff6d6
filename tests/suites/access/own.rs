//! What is one's own, and what its owner shares.

use http::Method;
use nogoo9_model::keys;
use nogoo9_tests::{Site, Template};
use serde_json::{Value, json};
use std::sync::Arc;

fn ids(list: &Value) -> Vec<&str> {
    list["workspaces"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|workspace| workspace["id"].as_str())
        .collect()
}

pub(super) async fn lists_show_ones_own(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, bob, admin) = (
        site.api("alice").await?,
        site.api("bob").await?,
        site.api("admin").await?,
    );
    site.spawn(&alice, &Template::new("listalice", "1.0"), json!({}))
        .await?;
    site.spawn(&bob, &Template::new("listbob", "1.0"), json!({}))
        .await?;
    let bobs = bob.get("/api/v1/workspaces").await?.expect(200)?;
    assert!(
        ids(&bobs).contains(&"listbob") && !bobs.to_string().contains("alice"),
        "{bobs}"
    );
    let everyone = admin.get("/api/v1/workspaces").await?.expect(200)?;
    assert!(
        ids(&everyone).contains(&"listbob") && ids(&everyone).contains(&"listalice"),
        "{everyone}"
    );
    let own = admin
        .get("/api/v1/workspaces?mine=true")
        .await?
        .expect(200)?;
    assert!(!ids(&own).contains(&"listbob"), "{own}");
    let through_mcp = site
        .mcp("bob")
        .await?
        .call("list_workspaces", json!({}))
        .await?
        .ok()?;
    assert!(!through_mcp.to_string().contains("alice"), "{through_mcp}");
    Ok(())
}

pub(super) async fn visibility(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let template = Template::new("shared", "1.0").annotation(keys::VISIBILITY, "user:bob");
    let id = site.spawn(&alice, &template, json!({})).await?;
    assert_eq!(site.edge("bob").await?.get(&id, "/info").await?.status, 200);
    assert_eq!(
        site.edge("vera").await?.get(&id, "/info").await?.status,
        404
    );
    assert_eq!(
        site.edge("admin").await?.get(&id, "/info").await?.status,
        404
    );
    let bob = site.api("bob").await?;
    assert_eq!(
        bob.get(&format!("/api/v1/workspaces/{id}")).await?.status,
        403
    );
    assert_eq!(
        bob.ask(Method::DELETE, &format!("/api/v1/workspaces/{id}"), None)
            .await?
            .status,
        403
    );
    // Everyone who is signed in, and nobody else.
    let template = Template::new("sharedall", "1.0").annotation(keys::VISIBILITY, "authenticated");
    let id = site.spawn(&alice, &template, json!({})).await?;
    for (user, status) in [("alice", 200), ("bob", 200), ("vera", 200), ("admin", 200)] {
        let seen = site.edge(user).await?.get(&id, "/info").await?;
        assert_eq!(seen.status, status, "{user}");
    }
    assert_eq!(site.anonymous()?.get(&id, "/info").await?.status, 401);
    // By role: whoever has it, and not whoever has a greater one.
    let template = Template::new("sharedrole", "1.0").annotation(keys::VISIBILITY, "role:viewer");
    let id = site.spawn(&alice, &template, json!({})).await?;
    for (user, status) in [("alice", 200), ("vera", 200), ("bob", 404), ("admin", 404)] {
        let seen = site.edge(user).await?.get(&id, "/info").await?;
        assert_eq!(seen.status, status, "{user}");
    }
    // Half a rule is not what its author meant: private.
    let template =
        Template::new("halfshared", "1.0").annotation(keys::VISIBILITY, "user:bob, everybody");
    let id = site.spawn(&alice, &template, json!({})).await?;
    assert_eq!(site.edge("bob").await?.get(&id, "/info").await?.status, 404);
    Ok(())
}
