//! Signing in with a real browser, the same for providers of several makes: the one of local mode,
//! `oidc-provider`, and the example server of `zitadel/oidc`. `NOGOO9_TEST_PROVIDER` chooses, `dev`,
//! `oidc-provider` or `zitadel`, or several by commas; without it, it is the first two. `make login`
//! passes all. The scripts in `tests/browser` tell what happened; this suite says what should have.

mod away;
mod inside;
mod part;
mod provider;
mod refused;
mod stand;
mod stay;

use nogoo9_tests::{Suite, Template};
use provider::Make;
use serde_json::json;
use stand::Stand;
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for anything that takes processes to start or end.
const LONG: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let makes = match Make::chosen() {
        Ok(makes) => makes,
        Err(error) => {
            say(&format!("FAILED: {error}"));
            return ExitCode::FAILURE;
        }
    };
    for make in makes {
        say(&format!("\nsigning in at: {}", make.name()));
        if suite(make).main() != ExitCode::SUCCESS {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn suite(make: Make) -> Suite<Stand> {
    Suite::on(Stand::up(make))
        .scenario("in_at_the_console_and_out_again", inside::in_and_out)
        .scenario("workspaces_opened_in_parallel_tabs", inside::tabs)
        .scenario("sign_ins_that_come_to_nothing", refused::refused)
        .scenario("sessions_go_on_by_refresh_tokens", stay::stay)
        .alone("a_provider_that_goes_away_and_comes_back", away::away)
}

/// Alice's workspaces, each of a template of its own name.
async fn workspaces(stand: &Stand, names: &[&str]) -> anyhow::Result<()> {
    let alice = stand.site.api("alice").await?;
    for &name in names {
        let template = Template::new(name, "1.0");
        stand.site.spawn(&alice, &template, json!({})).await?;
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the report of a test program")]
fn say(line: &str) {
    println!("{line}");
}
