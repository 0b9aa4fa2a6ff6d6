//! The console's button that upgrades everything, in a real browser: who has it, when, and what it
//! does.

use super::LONG;
use super::bulk::none_outdated;
use super::stage::{offer, served, tidy, workspace};
use anyhow::Context as _;
use nogoo9_model::keys;
use nogoo9_tests::{Target, browse, signalled};
use serde_json::json;
use std::sync::Arc;

pub(super) async fn the_console_button_is_for_admins(target: Arc<Target>) -> anyhow::Result<()> {
    let (hers, his) = (
        target.template("button-a", "1.0"),
        target.template("button-b", "1.0"),
    );
    let owned = [("alice", &hers), ("bob", &his)];
    tokio::try_join!(
        workspace(&target, "alice", &hers),
        workspace(&target, "bob", &his)
    )?;
    // Or the button would be there for others.
    none_outdated(&target).await?;

    let folder = tempfile::tempdir()?;
    let signal = folder.path().join("templates-are-to-change");
    let edit = async {
        signalled(&signal).await?;
        for (_, template) in owned {
            offer(&target, &template.clone().version("2.0")).await?;
        }
        Ok(())
    };
    let env = [
        ("SITE_URL", target.url().as_str()),
        ("HERS", hers.name()),
        ("HIS", his.name()),
        ("APPLY_FILE", signal.to_str().context("temporary folder")?),
    ];
    let (report, ()) = tokio::try_join!(browse("button.mjs", &env), edit)?;

    assert_eq!(
        (&report["before"], &report["during"], &report["after"]),
        (&json!(0), &json!(1), &json!(0)),
        "an admin has it exactly while something is outdated"
    );
    assert_eq!(report["alicesEver"], false, "a writer never has it");
    assert_eq!(report["state"], "succeeded", "{report}");
    for (what, state) in [("plan", "upgrade"), ("rows", "succeeded")] {
        let lines = report[what].as_object().context(what)?;
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (_, template) in owned {
            assert_eq!(lines[template.name()][0], state, "{lines:?}");
        }
    }
    assert_eq!(report["complaints"], json!([]));
    for (owner, template) in owned {
        let id = template.name();
        let (version, pod) = served(&target, owner, id).await?;
        assert_eq!(version, "2.0");
        let pod = target.cluster().only_pod(id, &pod, LONG).await?;
        let annotations = pod.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations[keys::USER_SUB], owner);
    }
    tidy(&target, &[hers.name(), his.name()], &[&hers, &his]).await
}
