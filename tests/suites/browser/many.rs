//! Upgrades of many, and what may be said to them.

use super::{DEADLINE, LONG, browse, only_of_status};
use anyhow::Context as _;
use nogoo9_model::keys;
use nogoo9_tests::{Api, Observation, Site, Template, signalled, until};
use serde_json::json;
use std::sync::Arc;

pub(super) async fn bulk(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, bob, admin) = (
        site.api("alice").await?,
        site.api("bob").await?,
        site.api("admin").await?,
    );
    everyone_gone(&admin).await?;
    let template =
        |name: &str| Template::new(name, "1.0").annotation(keys::UPGRADE_DEADLINE, DEADLINE);
    let (hers, his, bad) = (
        template("bulk-hers"),
        template("bulk-his"),
        template("bulk-bad"),
    );
    site.spawn(&alice, &hers, json!({})).await?;
    site.spawn(&bob, &his, json!({})).await?;
    site.spawn(&bob, &bad, json!({})).await?;
    let cluster = site.cluster().await?;
    let signal = site.data_dir().join("bulk-is-to-change");
    let edit = async {
        signalled(&signal).await?;
        cluster.apply(&hers.version("2.0")).await?;
        cluster.apply(&his.version("2.0")).await?;
        cluster
            .apply(&bad.image("example.com/there-is-none:9"))
            .await
    };
    let env = [
        ("HERS", "bulk-hers"),
        ("HIS", "bulk-his"),
        ("BAD", "bulk-bad"),
        ("APPLY_FILE", signal.to_str().context("folder of the site")?),
    ];
    let (report, edited) = tokio::join!(browse(&site, "bulk.mjs", &env), edit);
    let report = report?;
    edited?;
    assert_eq!(report["upToDate"], json!({"admin": 0, "alice": 0}));
    assert_eq!(report["outdated"], json!({"admin": 1, "alice": 0}));
    let owners: Vec<String> = serde_json::from_value(report["owners"].clone())?;
    let starts: Vec<bool> = ["alice", "bob"]
        .iter()
        .zip(&owners)
        .map(|(name, heading)| heading.starts_with(name))
        .collect();
    assert_eq!((owners.len(), starts), (2, vec![true, true]), "{owners:?}");
    assert_eq!(
        report["direct"],
        json!([
            403,
            "Forbidden: Only admin users can upgrade all workspaces"
        ])
    );
    for id in ["bulk-hers", "bulk-his", "bulk-bad"] {
        assert_eq!(report["plan"][id][0], "upgrade", "{}", report["plan"]);
    }
    assert_eq!(report["heading"], "Upgrade of 3 outdated workspaces");
    assert_eq!(report["progress"], json!(["3", "3"]));
    assert_eq!(
        report["rows"].as_object().map(serde_json::Map::len),
        Some(3)
    );
    for (id, state) in [
        ("bulk-hers", "succeeded"),
        ("bulk-his", "succeeded"),
        ("bulk-bad", "failed"),
    ] {
        assert_eq!(report["rows"][id][0], state, "{}", report["rows"]);
    }
    let why = report["rows"]["bulk-bad"][1].as_str().context("row")?;
    assert!(why.contains("there-is-none"), "{why}");
    assert_eq!(
        (&report["failed"], &report["reloaded"], &report["found"]),
        (&json!(1), &json!(1), &json!(1))
    );
    // Whoever asked, they are still theirs.
    assert_eq!(bob.workspace("bulk-his").await?["owner"], "bob");
    only_of_status(&report, &["403"])
}

/// Deletes every workspace of the scenarios before.
async fn everyone_gone(admin: &Api) -> anyhow::Result<()> {
    let list = || async { admin.get("/api/v1/workspaces").await?.expect(200) };
    let all = list().await?;
    for workspace in all["workspaces"].as_array().context("workspaces")? {
        let id = workspace["id"].as_str().context("id")?;
        let path = format!("/api/v1/workspaces/{id}");
        admin.ask(reqwest::Method::DELETE, &path, None).await?;
    }
    until("all workspaces to be gone", LONG, || async {
        let left = list().await?;
        let gone = left["workspaces"].as_array().is_some_and(Vec::is_empty);
        Ok(Observation::when(gone, (), left))
    })
    .await
}

pub(super) async fn canary(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, bob, admin) = (
        site.api("alice").await?,
        site.api("bob").await?,
        site.api("admin").await?,
    );
    everyone_gone(&admin).await?;
    let (hers, his) = (
        Template::new("canary-hers", "1.0")
            .pod("volumes", json!([{"name": "cache", "emptyDir": {}}]))
            .container(
                "volumeMounts",
                json!([{"name": "cache", "mountPath": "/cache"}]),
            ),
        Template::new("canary-his", "1.0"),
    );
    site.spawn(&alice, &hers, json!({})).await?;
    site.spawn(&bob, &his, json!({})).await?;
    let cluster = site.cluster().await?;
    cluster.apply(&hers.version("2.0")).await?;
    cluster.apply(&his.version("2.0")).await?;
    let env = [("HERS", "canary-hers"), ("HIS", "canary-his")];
    let report = browse(&site, "canary.mjs", &env).await?;
    let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
    let plan = |id: &str| {
        report["plan"][id][1]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(plan("canary-hers").contains("Loses what is in cache"));
    assert!(!plan("canary-his").contains("Loses"));
    assert_eq!(report["waiting"], json!(["Waits for approval", "1"]));
    assert_eq!(report["state"], "succeeded", "{report}");
    for id in ["canary-hers", "canary-his"] {
        assert_eq!(report["rows"][id][0], "succeeded", "{}", report["rows"]);
    }
    // Its owner asks for the version before, and is told what that means.
    let [from, to] = ["before", "after"].map(text);
    let question = text("question");
    assert!(
        question.contains(&from) && question.contains(&to) && from != to,
        "{question}"
    );
    assert_eq!(report["heading"], "Rollback of canary-hers");
    assert_eq!(report["back"], "succeeded");
    let details = text("details");
    for part in [&from, &to, "alice"] {
        assert!(details.contains(part), "{part}: {details}");
    }
    assert_eq!(alice.workspace("canary-hers").await?["outdated"], true);
    // And that nobody else upgrades it for a while, which whoever upgrades everything is told.
    assert_eq!(
        report["kept"],
        json!(["2099-12-01T10:30", "2099-12-01T10:30"])
    );
    let skipped = &report["later"]["canary-hers"];
    assert_eq!(skipped[0], "skip", "{skipped}");
    assert!(
        skipped[1].as_str().is_some_and(|row| row.contains("2099")),
        "{skipped}"
    );
    assert_eq!(report["lifted"], "Any time");
    assert_eq!(report["complaints"], json!([]));
    Ok(())
}
