//! Sign-ins that come to nothing.

use super::provider::Make;
use super::stand::Stand;
use serde_json::{Value, json};
use std::sync::Arc;

/// Where those pages' links lead: to begin anew, and to the page that was asked for if it is known.
const AGAIN: &str = "/auth/login";
const AGAIN_DEEP: &str = "/auth/login?return=%2Ftemplates%3Ffrom%3Drefused";

pub(super) async fn refused(stand: Arc<Stand>) -> anyhow::Result<()> {
    let report = stand.browse("login-refused.mjs", &[]).await?;
    let over = (400, "This sign-in is over", AGAIN, 0);
    for name in ["elsewhere", "mixed", "tossed", "stateless", "doubled"] {
        page(&report, name, over);
    }
    assert_eq!(report["leadsBack"], true);
    assert_eq!(report["landed"], true, "it counted where it belongs");
    assert_eq!(report["signedIn"].as_array().map(Vec::len), Some(1));
    // A second time it does not, which takes nothing from the session of the first.
    page(&report, "twice", (400, "This sign-in is over", AGAIN, 1));
    let guessed = "The identity provider refused this sign-in";
    page(&report, "guessed", (502, guessed, AGAIN_DEEP, 0));
    told(&report, "guessed", "invalid_grant");
    let silent = "The identity provider needs something from you";
    page(&report, "silent", (403, silent, AGAIN_DEEP, 0));
    told(&report, "silent", "login_required");
    assert_eq!(report["afterwards"], 1, "its link signs in");
    if stand.make == Make::OidcProvider {
        let cancelled = "You were not signed in";
        page(&report, "cancelled", (403, cancelled, AGAIN_DEEP, 0));
        told(&report, "cancelled", "access_denied");
    } else {
        assert_eq!(report["pages"]["cancelled"], Value::Null);
    }
    Ok(())
}

/// Status, heading, where the link leads, and how many sessions there are; readable by everybody.
fn page(report: &Value, name: &str, expected: (u16, &str, &str, u64)) {
    let page = &report["pages"][name];
    let (status, title, again, sessions) = expected;
    assert_eq!(
        (&page["status"], &page["title"], &page["again"]),
        (&json!(status), &json!(title), &json!(again)),
        "{name}: {page}"
    );
    assert_eq!(page["sessions"], sessions, "{name}: {page}");
    assert_eq!(page["broken"], json!([]), "{name}");
}

/// What an administrator is told.
fn told(report: &Value, name: &str, what: &str) {
    let text = report["pages"][name]["text"].as_str().unwrap_or_default();
    assert!(text.contains(what), "{name}: {text}");
}
