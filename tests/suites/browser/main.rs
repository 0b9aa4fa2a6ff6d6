//! A real browser: what a person sees and types, from signing in to an upgrade in mid-work. The
//! scripts in `tests/browser` tell what happened; this suite says what should have.

mod console;
mod credentials;
mod journey;
mod looks;
mod many;
mod pages;

use anyhow::Context as _;
use nogoo9_tests::{Api, Observation, Options, Site, Suite, until};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for what takes processes to start or end.
const LONG: Duration = Duration::from_secs(120);
/// Seconds after which an upgrade that cannot succeed is given up: enough for a slow machine to find
/// out that the image is missing, and between two tries to pull it, at 10 s and 30 s.
const DEADLINE: &str = "20";

fn main() -> ExitCode {
    Suite::new(Options::default())
        .scenario("a_journey_by_keyboard_through_an_upgrade", journey::journey)
        .scenario("the_console_follows_what_happens", console::live)
        .scenario("forms_and_dialogs_ask_what_they_must", console::forms)
        .scenario("anothers_page_and_nobodys_are_one", credentials::stranger)
        .scenario("a_page_waits_for_its_workspace", pages::waiting)
        .scenario("an_extra_port_is_an_origin_of_its_own", pages::extra_port)
        .scenario(
            "access_tokens_are_shown_once_and_revoked",
            credentials::tokens,
        )
        .scenario("ones_sessions_are_listed_and_ended", credentials::sessions)
        .scenario("pages_are_accessible_and_fit", looks::looks)
        .alone(
            "the_console_outlives_control_and_says_when_the_session_has_ended",
            console::outage,
        )
        .alone("an_admin_upgrades_all_that_is_outdated", many::bulk)
        .alone(
            "a_canary_waits_for_approval_and_its_owner_goes_back",
            many::canary,
        )
        .main()
}

/// Runs a script as alice's browser and agent.
async fn browse(site: &Site, script: &str, more: &[(&str, &str)]) -> anyhow::Result<Value> {
    let token = site.token("alice").await?;
    let ready = site.ready();
    let alices = [
        ("SITE_URL", ready.url.as_str()),
        ("MCP_URL", ready.mcp_url.as_str()),
        ("WORKSPACE_URL", &ready.workspace_url),
        ("TOKEN", &token),
    ];
    nogoo9_tests::browse(script, &[&alices, more].concat()).await
}

/// What the console complained about: nothing.
fn no_complaints(report: &Value) {
    assert_eq!(report["complaints"], json!([]));
}

/// Spawns from the template of that name; returns once the edge knows of it, ready or not.
async fn spawn_unready(site: &Site, alice: &Api, id: &str) -> anyhow::Result<()> {
    let spawn = json!({"template": id, "id": id});
    until("the template to be known", LONG, || async {
        let reply = alice.post("/api/v1/workspaces", &spawn).await?;
        Ok(Observation::when(reply.status == 201, (), reply))
    })
    .await?;
    until("the edge to know the workspace", LONG, || async {
        let routes = site.proxy_admin("/routes").await?;
        Ok(Observation::when(
            routes["routes"][id].is_object(),
            (),
            routes,
        ))
    })
    .await
}

/// A schema with every kind of field.
const PARAMETERS: &str = r#"{
    "title": "Studio", "description": "A studio with everything.", "required": ["team"],
    "properties": {
        "greeting": {"type": "string", "title": "Greeting", "description": "What it says.", "default": "Hi"},
        "team": {"type": "string", "title": "Team"},
        "size": {"type": "integer", "title": "Size", "minimum": 1, "maximum": 4},
        "colour": {"type": "string", "title": "Colour", "enum": ["red", "green"]},
        "loud": {"type": "boolean", "title": "Loud", "description": "Whether it shouts."}
    }
}"#;

/// The console complained of pages with these statuses, and of nothing else.
fn only_of_status(report: &Value, statuses: &[&str]) -> anyhow::Result<()> {
    let complaints = report["complaints"].as_array().context("complaints")?;
    let texts: Vec<&str> = complaints
        .iter()
        .filter_map(|one| one["text"].as_str())
        .collect();
    let of = |text: &&str, status: &&&str| text.contains(&format!("a status of {status}"));
    assert!(
        texts
            .iter()
            .all(|text| statuses.iter().any(|status| of(text, &status))),
        "{texts:?}"
    );
    assert!(
        statuses
            .iter()
            .all(|status| texts.iter().any(|text| of(text, &status))),
        "{texts:?}"
    );
    Ok(())
}
