//! The provider goes away and comes back, and control starts anew meanwhile.

use super::stand::Stand;
use super::stay::after_a_loss;
use super::workspaces;
use anyhow::Context as _;
use nogoo9_tests::signalled;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

pub(super) async fn away(stand: Arc<Stand>) -> anyhow::Result<()> {
    workspaces(&stand, &["away"]).await?;
    let file = |name: &str| stand.site.data_dir().join(name);
    let (away, is_away) = (file("provider-is-to-go"), file("provider-is-away"));
    let (back, is_back) = (file("provider-is-to-come"), file("provider-is-back"));
    let text = |file: &Path| file.to_str().map(ToOwned::to_owned).context("a path");
    let files = [text(&away)?, text(&is_away)?, text(&back)?, text(&is_back)?];
    let env = [
        ("ID", "away"),
        ("AWAY_FILE", files[0].as_str()),
        ("IS_AWAY_FILE", &files[1]),
        ("BACK_FILE", &files[2]),
        ("IS_BACK_FILE", &files[3]),
    ];
    let turns = async {
        signalled(&away).await?;
        stand.provider_goes().await?;
        std::fs::write(&is_away, "")?;
        let asked = signalled(&back).await;
        stand.provider_comes().await?;
        std::fs::write(&is_back, "")?;
        asked
    };
    let (report, turns) = tokio::join!(stand.browse("login-away.mjs", &env), turns);
    let report = report?;
    turns?;
    // Whoever was signed in stayed so, in the shell and in new requests.
    assert_eq!(report["typed"], json!({"n": "42"}));
    assert_eq!(report["fetched"], 200);
    assert_eq!(report["who"], "Account alice");
    let page = &report["away"];
    assert_eq!(
        (&page["status"], &page["title"], &page["again"]),
        (
            &json!(503),
            &json!("Signing in is not possible right now"),
            &json!("/auth/login?return=%2Ftemplates%3Ffrom%3Daway"),
        ),
        "{page}"
    );
    let said = page["text"].as_str().unwrap_or_default();
    assert!(
        said.contains("Workspaces that are open keep working"),
        "{said}"
    );
    assert_eq!(
        (&page["sessions"], &page["broken"]),
        (&json!(0), &json!([]))
    );
    assert_eq!(report["asked"], true);
    assert_eq!(report["bobs"], "Account bob");
    let token = report["token"].as_str().context("alice's session")?;
    after_a_loss(&stand, token).await
}
