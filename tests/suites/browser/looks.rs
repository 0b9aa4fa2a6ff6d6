//! Every page, as people see it: accessible, and none wider than the window.

use super::{LONG, PARAMETERS, browse, only_of_status, spawn_unready};
use anyhow::Context as _;
use nogoo9_model::keys;
use nogoo9_tests::{Observation, Site, Template, until};
use serde_json::json;
use std::sync::Arc;

pub(super) async fn looks(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let cluster = site.cluster().await?;
    let running = Template::new("looks-running", "1.0")
        .env("MESSAGE", "Hello from version 1.0")
        .annotation(keys::PARAMETERS, PARAMETERS);
    let name = json!({"name": "A workspace that runs", "inputs": {"team": "blue"}});
    site.spawn(&alice, &running, name).await?;
    let stopped = Template::new("looks-stopped", "1.0");
    let stopped = site
        .spawn(&alice, &stopped, json!({"name": "Stopped for the night"}))
        .await?;
    alice.act(&stopped, "stop").await?.expect(200)?;
    let operation = failed_upgrade(&site).await?;
    let token = json!({"name": "Nightly build", "scopes": ["nogoo9:read"]});
    alice.post("/api/v1/tokens", &token).await?.expect(201)?;
    cluster
        .apply(&Template::new("looks-starting", "1.0_slow-pull-60m"))
        .await?;
    spawn_unready(&site, &alice, "looks-starting").await?;
    let env = [
        ("RUNNING", "looks-running"),
        ("STARTING", "looks-starting"),
        ("ABSENT", "absent"),
        ("TEMPLATE", "looks-running"),
        ("OPERATION", &operation),
    ];
    let report = browse(&site, "looks.mjs", &env).await?;
    let pages = report["pages"].as_array().context("pages")?;
    assert_eq!(pages.len(), 21 * 3);
    for page in pages {
        let faults = (&page["violations"], &page["overflow"]);
        assert_eq!(faults, (&json!([]), &json!(0)), "{page}");
    }
    // Two of the pages are answers of status 404 and 503, in each of three looks.
    only_of_status(&report, &["404", "503"])
}

/// A workspace whose upgrade was tried and failed, for its page to say so; and that operation.
async fn failed_upgrade(site: &Site) -> anyhow::Result<String> {
    let alice = site.api("alice").await?;
    let template = Template::new("looks-failed", "1.0").annotation(keys::UPGRADE_DEADLINE, "2");
    let id = site
        .spawn(&alice, &template, json!({"name": "Upgrade that failed"}))
        .await?;
    site.cluster()
        .await?
        .apply(&template.image("example.com/there-is-none:9"))
        .await?;
    let begun = until("an upgrade to begin", LONG, || async {
        let answer = alice.upgrade(&id).await?;
        let operation = answer["operationId"].as_str().map(ToOwned::to_owned);
        Ok(match operation {
            Some(operation) => Observation::Holds(operation),
            None => Observation::NotYet(answer.to_string()),
        })
    })
    .await?;
    until("the upgrade to have failed", LONG, || async {
        let workspace = alice.workspace(&id).await?;
        let failed =
            workspace["lastUpgradeError"].is_string() && workspace["operationId"].is_null();
        Ok(Observation::when(failed, (), workspace))
    })
    .await?;
    Ok(begun)
}
