//! Who may see what, and by what: others' pages, access tokens, sessions.

use super::{browse, no_complaints, only_of_status};
use anyhow::Context as _;
use nogoo9_tests::{Site, Template};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn stranger(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("secret", "1.0"), json!({}))
        .await?;
    let env = [("OTHERS", id.as_str()), ("ABSENT", "absent")];
    let report = browse(&site, "stranger.mjs", &env).await?;
    assert_eq!(report["others"]["status"], 404);
    assert_eq!(report["others"], report["absent"]);
    assert!(
        report["others"]["hops"]
            .as_array()
            .is_some_and(|hops| hops.len() > 1)
    );
    only_of_status(&report, &["404"])?;
    assert_eq!(
        (&report["own"], &report["ownComplaints"]),
        (&json!(200), &json!([]))
    );
    Ok(())
}

pub(super) async fn tokens(site: Arc<Site>) -> anyhow::Result<()> {
    let report = browse(&site, "tokens.mjs", &[]).await?;
    let token = report["token"].as_str().context("the token")?;
    assert!(token.starts_with("ng9_"), "{report}");
    assert_eq!(report["copied"], token);
    let listed = report["listed"].as_str().context("its row")?;
    assert!(listed.contains("Look and open"), "{listed}");
    assert_eq!(report["again"], false, "it is shown once");
    assert_eq!(
        (&report["used"], &report["after"]),
        (&json!(200), &json!(401))
    );
    assert_eq!(report["shown"], json!({"overflow": 0, "violations": []}));
    no_complaints(&report);
    Ok(())
}

/// Vera's, whom no other scenario knows, so that all sessions are counted.
pub(super) async fn sessions(site: Arc<Site>) -> anyhow::Result<()> {
    let report = browse(&site, "sessions.mjs", &[]).await?;
    let ids = |field: &str| -> anyhow::Result<Vec<&str>> {
        let ids = report[field]["ids"].as_array().context("ids")?;
        Ok(ids.iter().filter_map(Value::as_str).collect())
    };
    let (own, first) = (report["own"].as_str(), report["first"].as_str());
    let (own, first) = (own.context("own")?, first.context("first")?);
    let all = ids("all")?;
    assert!(all.contains(&own) && all.contains(&first), "{report}");
    let without: Vec<&str> = all.iter().copied().filter(|id| *id != first).collect();
    assert_eq!(ids("without")?, without);
    assert_eq!(ids("alone")?, [own]);
    for list in ["all", "without", "alone"] {
        let marks = (&report[list]["current"], &report[list]["marked"]);
        assert_eq!(marks, (&json!(1), &json!(1)), "{list}");
    }
    assert_eq!(report["buttons"], 0, "nothing is left to end");
    let question = report["question"].as_str().unwrap_or_default();
    assert!(question.contains("End 2 other sessions?"), "{question}");
    for seen in ["shown", "dark", "asked"] {
        assert_eq!(report[seen], json!({"overflow": 0, "violations": []}));
    }
    no_complaints(&report);
    Ok(())
}
