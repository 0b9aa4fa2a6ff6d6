//! The console: what it asks, what it follows, and what it says when it is left alone.

use super::{LONG, PARAMETERS, browse, only_of_status};
use anyhow::Context as _;
use nogoo9_model::keys;
use nogoo9_tests::{Observation, Site, Template, signalled, until};
use serde_json::json;
use std::sync::Arc;

pub(super) async fn forms(site: Arc<Site>) -> anyhow::Result<()> {
    let template = Template::new("forms", "1.0")
        .annotation(keys::PARAMETERS, PARAMETERS)
        .files(None);
    site.cluster().await?.apply(&template).await?;
    let alice = site.api("alice").await?;
    until("the template to be known", LONG, || async {
        let reply = alice.get("/api/v1/templates/forms").await?;
        Ok(Observation::when(reply.body["usable"] == true, (), reply))
    })
    .await?;
    let report = browse(&site, "forms.mjs", &[("TEMPLATE", "forms")]).await?;
    let labels = json!(["Name", "Id", "Greeting", "Loud", "Size", "Team (required)"]);
    assert_eq!(report["labels"], labels);
    assert_eq!(report["placeholder"], "Hi");
    // The id that is none, and the team that is required.
    assert_eq!(
        (&report["refusedHere"], &report["sentBefore"]),
        (&json!(2), &json!(0))
    );
    let inputs = json!({"team": "blue", "size": 2, "colour": "green", "loud": true});
    let spawn = json!({"template": "forms", "id": "forms", "inputs": inputs});
    let again = json!({"template": "forms", "id": "forms", "inputs": {"team": "red"}});
    assert_eq!(
        report["sent"],
        json!([
            ["POST", "/api/v1/workspaces", spawn],
            ["POST", "/api/v1/workspaces", again],
            ["DELETE", "/api/v1/workspaces/forms?deleteData=true", null],
        ])
    );
    let refused = report["refusedThere"].as_str().context("refusedThere")?;
    assert!(refused.contains("The id 'forms' is taken"), "{refused}");
    assert_eq!(report["stays"], "red");
    let question = report["question"].as_str().context("question")?;
    assert!(
        question.contains("Delete forms?") && question.contains("volume data"),
        "{question}"
    );
    assert_eq!(report["firstFocus"], "Keep it");
    assert_eq!(report["inside"], json!([true, true, true, true]));
    assert_eq!(
        (&report["back"], &report["still"]),
        (&json!("Delete forms"), &json!("running"))
    );
    only_of_status(&report, &["409"])
}

pub(super) async fn live(site: Arc<Site>) -> anyhow::Result<()> {
    let cluster = site.cluster().await?;
    let template = Template::new("live", "1.0").annotation(keys::UPGRADE_DEADLINE, "300");
    cluster.apply(&template).await?;
    let alice = site.api("alice").await?;
    until("the template to be known", LONG, || async {
        let reply = alice.get("/api/v1/templates/live").await?;
        Ok(Observation::when(reply.body["usable"] == true, (), reply))
    })
    .await?;
    let signal = site.data_dir().join("live-is-to-change");
    let file = signal.to_str().context("folder of the site")?;
    // The new version fails as soon as this is there, and not before.
    let fail = site.data_dir().join("live-is-to-fail");
    let fail = fail.to_str().context("folder of the site")?;
    let script = format!("until test -e '{fail}'; do sleep 0.1; done; exit 3");
    let edit = async {
        signalled(&signal).await?;
        let failing = template
            .container("command", json!(["/bin/sh", "-c", script]))
            .pod("restartPolicy", json!("Never"));
        cluster.apply(&failing).await
    };
    let env = [
        ("TEMPLATE", "live"),
        ("APPLY_FILE", file),
        ("FAIL_FILE", fail),
    ];
    let (report, edited) = tokio::join!(browse(&site, "live.mjs", &env), edit);
    let report = report?;
    edited?;
    let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
    assert_eq!(report["before"], 0);
    assert!(
        text("running").contains("Running") && !text("running").contains("Outdated"),
        "{}",
        text("running")
    );
    assert!(text("outdated").contains('→'), "{}", text("outdated"));
    for told in ["failed", "row"] {
        assert!(
            text(told).contains("container workspace ended with exit code 3"),
            "{told}: {}",
            text(told)
        );
    }
    assert_eq!(report["served"], "running", "on its old version");
    assert!(
        text("lost").contains("what was last known"),
        "{}",
        text("lost")
    );
    assert_eq!(
        (&report["kept"], &report["sameDocument"]),
        (&json!(1), &json!(true))
    );
    // What the browser says of a connection that was cut on purpose is no fault of the page.
    let complaints = report["complaints"].as_array().context("complaints")?;
    assert!(
        complaints.iter().all(|one| {
            let text = one["text"].as_str().unwrap_or_default();
            text.contains("ERR_INTERNET_DISCONNECTED") || text.contains("ERR_NETWORK_CHANGED")
        }),
        "{complaints:?}"
    );
    Ok(())
}

pub(super) async fn outage(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    site.spawn(&alice, &Template::new("outage", "1.0"), json!({}))
        .await?;
    let file = |name: &str| site.data_dir().join(name);
    let (begin, end) = (file("outage-may-begin"), file("outage-may-end"));
    let away = async {
        signalled(&begin).await?;
        let down = site.take_down("control").await?;
        let seen = signalled(&end).await;
        down.back().await?;
        seen
    };
    let path = |file: &std::path::PathBuf| file.to_string_lossy().into_owned();
    let (begin, end) = (path(&begin), path(&end));
    let env = [
        ("ID", "outage"),
        ("BEGIN_FILE", begin.as_str()),
        ("END_FILE", &end),
    ];
    let (report, away) = tokio::join!(browse(&site, "outage.mjs", &env), away);
    let report = report?;
    away?;
    let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
    assert!(text("lost").contains("trying again"), "{}", text("lost"));
    // What the edge says in control's stead.
    assert!(
        text("refused").contains("not reachable"),
        "{}",
        text("refused")
    );
    assert_eq!(
        (&report["kept"], &report["sameDocument"]),
        (&json!("running"), &json!(true))
    );
    assert_ne!(report["light"], report["dark"]);
    assert_eq!(report["dark"], report["reloaded"], "the theme is kept");
    assert_eq!(report["back"], "/auth/login?return=%2Ftemplates");
    let complaints = report["complaints"].as_array().context("complaints")?;
    let of_the_outage = |text: &str| {
        ["a status of 50", "a status of 401", "net::ERR_"]
            .iter()
            .any(|known| text.contains(known))
    };
    assert!(
        complaints
            .iter()
            .all(|one| one["text"].as_str().is_some_and(of_the_outage)),
        "{complaints:?}"
    );
    Ok(())
}
