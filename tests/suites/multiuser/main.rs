//! Many users, one cluster: the decision record's end-to-end script as a suite, through an official
//! MCP SDK. It runs on a site of its own and, where `NOGOO9_TEST_CLUSTER` names one, on a real
//! Kubernetes with the chart installed; each run adds its column to one table.
//!
//! The people: `admin` (admin), `alice` and `bob` (writers), `vera` (a reader).

mod access;
mod adoption;
mod bulk;
mod claims;
mod console;
mod desired;
mod failures;
mod owner;
mod restart;

use nogoo9_tests::{Results, Suite, Target, files, stage, watch};
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for anything that takes processes or containers to start or end.
const LONG: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let suite = Suite::on(Target::up()).parallel(4);
    let suite = match Results::new("multiuser", Target::ground()) {
        Ok(results) => suite.results(results),
        // Not run by cargo: there is no place to keep them.
        Err(_) => suite,
    };
    suite
        .scenario("a_writer_upgrades_own", access::a_writer_upgrades_own)
        .scenario(
            "anothers_is_refused_like_none",
            access::anothers_is_refused_like_none,
        )
        .scenario(
            "a_reader_cannot_upgrade_own",
            access::a_reader_cannot_upgrade_own,
        )
        .scenario("bulk_is_for_admins", access::bulk_is_for_admins)
        .scenario(
            "an_admins_upgrade_keeps_the_owner",
            owner::an_admins_upgrade_keeps_the_owner,
        )
        .scenario(
            "a_claim_means_recreate_and_files_survive",
            claims::a_claim_means_recreate_and_files_survive,
        )
        .scenario(
            "a_recreate_to_an_image_that_is_not_there",
            claims::a_recreate_to_an_image_that_is_not_there,
        )
        .scenario(
            "a_failed_recreate_restores_the_old_version",
            claims::a_failed_recreate_restores_the_old_version,
        )
        .scenario(
            "a_claim_that_stays_pending",
            claims::a_claim_that_stays_pending,
        )
        .scenario(
            "an_image_that_is_not_there",
            failures::an_image_that_is_not_there,
        )
        .scenario("a_crash_at_start", failures::a_crash_at_start)
        .scenario(
            "a_pod_that_is_never_ready",
            failures::a_pod_that_is_never_ready,
        )
        .scenario(
            "an_evicted_workspace_comes_back",
            desired::an_evicted_workspace_comes_back,
        )
        .scenario(
            "a_record_without_a_pod_gets_one",
            desired::a_record_without_a_pod_gets_one,
        )
        .alone(
            "a_pod_without_a_record_is_adopted",
            adoption::a_pod_without_a_record_is_adopted,
        )
        .alone(
            "a_pair_left_by_no_crd_ends_as_one",
            adoption::a_pair_left_by_no_crd_ends_as_one,
        )
        .alone(
            "a_pair_whose_newer_failed_keeps_the_older",
            adoption::a_pair_whose_newer_failed_keeps_the_older,
        )
        .alone(
            "three_duplicates_end_as_one",
            adoption::three_duplicates_end_as_one,
        )
        .alone("refused_by_quota", failures::refused_by_quota)
        .alone(
            "an_admin_upgrades_all_and_one_fails",
            bulk::an_admin_upgrades_all_and_one_fails,
        )
        .alone(
            "the_console_button_is_for_admins",
            console::the_console_button_is_for_admins,
        )
        .alone(
            "control_killed_amid_upgrades",
            restart::control_killed_amid_upgrades,
        )
        .alone(
            "what_happened_while_control_was_away",
            restart::what_happened_while_control_was_away,
        )
        .main()
}
