//! One person, from signing in to an upgrade in mid-work, by keyboard.

use super::{browse, no_complaints};
use anyhow::Context as _;
use nogoo9_model::keys;
use nogoo9_tests::{Site, Template};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn journey(site: Arc<Site>) -> anyhow::Result<()> {
    let cluster = site.cluster().await?;
    // Long enough to type a line meanwhile, short enough to see the end of it.
    let template = Template::new("journey", "1.0")
        .env("MESSAGE", "Hello, journey")
        .annotation(keys::SETTLE, "1")
        .annotation(keys::DRAIN_TIMEOUT, "40");
    cluster.apply(&template).await?;
    let edit = async {
        site.routed("journey", None).await?;
        cluster.apply(&template.clone().version("2.0")).await
    };
    let env = [("TEMPLATE", "journey")];
    let (report, edited) = tokio::join!(browse(&site, "journey.mjs", &env), edit);
    let report = report?;
    edited?;
    no_complaints(&report);
    pods(&report);
    order(&report)?;
    words(&report);
    assert_eq!(report["signedOut"], site.ready().url.as_str());
    Ok(())
}

/// Who answered what: the shell stays on its pod until it is drained, all else is the new pod's.
fn pods(report: &Value) {
    let (old, new) = (
        &report["upgrade"]["previousPodName"],
        &report["upgrade"]["podName"],
    );
    assert_ne!(old, new);
    assert_eq!(report["upgrade"]["status"], "upgrading");
    assert_eq!(report["first"], json!({"version": "1.0", "pod": old}));
    let (before, during, after) = (&report["before"], &report["during"], &report["after"]);
    assert_eq!((&before["pod"], &before["n"]), (old, &json!("41")));
    // The same shell: its process, and what it remembers.
    assert_eq!((&during["pod"], &during["n"]), (old, &json!("42")));
    assert_eq!(during["pid"], before["pid"]);
    assert_eq!(report["meanwhile"]["info"]["pod"], *new);
    assert_eq!(report["meanwhile"]["info"]["version"], "2.0");
    assert_eq!(report["meanwhile"]["operation"]["state"], "running");
    assert_eq!(
        report["beside"],
        json!({"version": "2.0", "pod": new, "shell": {"pod": new}})
    );
    assert_eq!((&after["pod"], &after["n"]), (new, &json!("")));
    assert_eq!(report["reloaded"], json!({"version": "2.0", "pod": new}));
    assert_eq!(report["done"]["state"], "succeeded");
}

/// The shell's socket ended once, after what was typed meanwhile, and came back.
fn order(report: &Value) -> anyhow::Result<()> {
    let events: Vec<&str> = report["events"]
        .as_array()
        .context("events")?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let upto_done = events.split(|event| *event == "upgrade done").next();
    assert_eq!(
        upto_done.context("the upgrade was never done")?,
        [
            "open /shell",
            "upgrade asked for",
            "new pod answers",
            "typed in the old pod",
            "close /shell",
            "open /shell",
        ]
    );
    Ok(())
}

/// What was told, and where.
fn words(report: &Value) {
    let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
    assert!(text("spawned").contains("Running"), "{}", text("spawned"));
    assert!(
        text("notice").contains("now runs version 2.0"),
        "{}",
        text("notice")
    );
    let farewell = text("farewell");
    let (away, back) = farewell.split_once("[disconnected").unwrap_or_default();
    assert!(away.contains("during: "), "{farewell}");
    assert!(back.contains("[reconnected: a new shell]"), "{farewell}");
    let (upgraded, details) = (text("upgraded"), text("details"));
    assert!(
        upgraded.contains("Running") && !upgraded.contains("Outdated"),
        "{upgraded}"
    );
    let new = report["upgrade"]["podName"].as_str();
    assert!(new.is_some_and(|new| details.contains(new)), "{details}");
}
