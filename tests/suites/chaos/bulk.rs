//! The bulk upgrade, followed by somebody who is used to getting no answer for a while.

use super::LONG;
use nogoo9_tests::stage::text;
use nogoo9_tests::{Observation, Target, patiently};
use serde_json::{Value, json};

/// Upgrades at once: few, so that there is a middle.
const PARALLEL: u32 = 2;

/// What the JSON API says there, to an admin.
pub(super) async fn asked(target: &Target, path: &str) -> anyhow::Result<Value> {
    target.api("admin").await?.get(path).await?.expect(200)
}

/// Begins it; returns its operation.
pub(super) async fn begin(target: &Target, workspaces: usize) -> anyhow::Result<String> {
    let admin = target.api("admin").await?;
    let body = json!({"maxParallel": PARALLEL});
    let answer = admin.post("/api/v1/upgrade-all", &body).await?;
    assert!(answer.status < 300, "{answer:?}");
    assert_eq!(answer.body["total"], workspaces, "{answer:?}");
    Ok(text(&answer.body["operationId"]))
}

/// Waits until some upgrades have ended and others have not begun.
pub(super) async fn middle(target: &Target, operation: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/operations/{operation}");
    patiently("the middle of the bulk", LONG, || async {
        let seen = asked(target, &path).await?;
        assert_eq!(seen["done"], false, "past the middle: {seen}");
        let ended = seen["counts"]["succeeded"].as_u64().unwrap_or_default();
        Ok(Observation::when(ended >= 1, (), seen))
    })
    .await
}

/// Waits until it has ended; returns it with the result of each workspace.
pub(super) async fn end(target: &Target, operation: &str) -> anyhow::Result<Value> {
    let path = format!("/api/v1/operations/{operation}?limit=250");
    patiently("the bulk to end", LONG, || async {
        let seen = asked(target, &path).await?;
        Ok(Observation::when(seen["done"] == true, seen.clone(), seen))
    })
    .await
}
