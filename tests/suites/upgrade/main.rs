//! One workspace's upgrade and life, as its owner asks for it: what is promised at once, what stays,
//! what lands, and what becomes of upgrades that cannot succeed.

mod facts;
mod failures;
mod follow;
mod kept;
mod life;

use nogoo9_tests::{Api, Observation, Options, Suite, until};
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for anything that takes processes to start or end.
const LONG: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    Suite::new(Options::default())
        .parallel(3)
        .scenario(
            "returns_at_once_with_durable_facts",
            facts::returns_at_once_with_durable_facts,
        )
        .scenario(
            "asked_again_means_the_same_operation",
            facts::asked_again_means_the_same_operation,
        )
        .scenario(
            "waits_end_with_every_step",
            facts::waits_end_with_every_step,
        )
        .scenario(
            "up_to_date_touches_nothing",
            facts::up_to_date_touches_nothing,
        )
        .scenario(
            "identity_and_inputs_stay_and_the_template_lands",
            kept::identity_and_inputs_stay_and_the_template_lands,
        )
        .scenario(
            "an_admins_upgrade_leaves_the_owner",
            kept::an_admins_upgrade_leaves_the_owner,
        )
        .scenario(
            "an_image_that_is_not_there",
            failures::an_image_that_is_not_there,
        )
        .scenario("a_program_that_crashes", failures::a_program_that_crashes)
        .scenario(
            "a_successor_that_is_deleted",
            failures::a_successor_that_is_deleted,
        )
        .scenario(
            "a_broken_template_touches_nothing",
            failures::a_broken_template_touches_nothing,
        )
        .scenario(
            "a_template_that_is_gone_is_unknown",
            failures::a_template_that_is_gone_is_unknown,
        )
        .scenario(
            "requests_stay_with_their_shell_until_it_is_drained",
            follow::requests_stay_with_their_shell_until_it_is_drained,
        )
        .scenario(
            "stop_start_delete_and_the_id_is_free",
            life::stop_start_delete_and_the_id_is_free,
        )
        .scenario(
            "a_stopped_workspace_is_not_upgraded",
            life::a_stopped_workspace_is_not_upgraded,
        )
        .scenario(
            "a_workspace_deleted_in_mid_upgrade",
            life::a_workspace_deleted_in_mid_upgrade,
        )
        .scenario(
            "a_pod_that_is_deleted_or_dies_comes_back",
            life::a_pod_that_is_deleted_or_dies_comes_back,
        )
        .scenario(
            "what_cannot_be_spawned_is_refused",
            life::what_cannot_be_spawned_is_refused,
        )
        .main()
}

/// Text of a JSON string; of anything else, nothing.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Waits until the operation has ended, and returns it.
async fn ended(api: &Api, operation: &str) -> anyhow::Result<Value> {
    until(&format!("operation {operation} to end"), LONG, || async {
        let seen = api.operation(operation).await?;
        Ok(Observation::when(seen["done"] == true, seen.clone(), seen))
    })
    .await
}

/// Begins an upgrade to a template that was just written, which control may not know of yet.
async fn begin(api: &Api, id: &str) -> anyhow::Result<Value> {
    until("the upgrade to begin", LONG, || async {
        let answer = api.upgrade(id).await?;
        Ok(Observation::when(
            answer["status"] == "upgrading",
            answer.clone(),
            answer,
        ))
    })
    .await
}
