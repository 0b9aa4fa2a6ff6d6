//! What may go wrong around an upgrade, case by case, through public surfaces only: nothing is lost,
//! and whoever has to mend it is told what. On a site of its own and, where `NOGOO9_TEST_CLUSTER`
//! names one, on a real Kubernetes with the chart installed; each run adds its column to one table.
//!
//! What suites beside this one show already is not shown again, but listed: [`ELSEWHERE`].

mod alone;
mod doomed;
mod eyes;
mod kept;
mod midway;
mod unready;

use nogoo9_tests::{Results, Suite, Target, files, stage, watch};
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for anything that takes processes or containers to start or end.
const LONG: Duration = Duration::from_secs(120);

/// Which tests show the rest of what must hold.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "quota that is full: old pod untouched, error on it",
        "multiuser refused_by_quota",
    ),
    (
        "a template that cannot be read touches nothing",
        "upgrade a_broken_template_touches_nothing",
    ),
    (
        "crash loop side by side; in a recreate",
        "multiuser a_crash_at_start, a_failed_recreate_restores_the_old_version",
    ),
    (
        "never ready side by side",
        "multiuser a_pod_that_is_never_ready",
    ),
    (
        "claim that stays pending",
        "multiuser a_claim_that_stays_pending",
    ),
    (
        "eviction outside of upgrades",
        "multiuser an_evicted_workspace_comes_back",
    ),
    (
        "node lost, drained, cut off",
        "nodes a_node_without_power, a_drained_node, a_node_cut_off_and_back_keeps_its_pod",
    ),
    (
        "eight more requests at once, over both surfaces",
        "upgrade asked_again_means_the_same_operation",
    ),
    (
        "deleted in the middle of an upgrade",
        "upgrade a_workspace_deleted_in_mid_upgrade",
    ),
    (
        "an admin's upgrade keeps the owner",
        "multiuser an_admins_upgrade_keeps_the_owner",
    ),
    (
        "what the user set wins over a new template",
        "upgrade identity_and_inputs_stay_and_the_template_lands",
    ),
    (
        "pods of another spawner, duplicates",
        "multiuser a_pair_left_by_no_crd_ends_as_one, three_duplicates_end_as_one",
    ),
    (
        "control killed at any call",
        "control cluster crash_points; multiuser control_killed_amid_upgrades",
    ),
];

fn main() -> ExitCode {
    let suite = Suite::on(Target::up()).parallel(5);
    let suite = match Results::new("misfortune", Target::ground()) {
        Ok(results) => suite.results(results.elsewhere(ELSEWHERE)),
        // Not run by cargo: there is no place to keep them.
        Err(_) => suite,
    };
    suite
        .scenario("a_spec_that_is_invalid", doomed::a_spec_that_is_invalid)
        .scenario(
            "a_spec_that_admission_refuses",
            doomed::a_spec_that_admission_refuses,
        )
        .scenario("an_image_that_is_missing", doomed::an_image_that_is_missing)
        .scenario(
            "an_image_name_that_is_none",
            doomed::an_image_name_that_is_none,
        )
        .scenario(
            "a_secret_of_the_environment_that_is_missing",
            doomed::a_secret_of_the_environment_that_is_missing,
        )
        .scenario(
            "a_secret_to_mount_that_is_missing",
            doomed::a_secret_to_mount_that_is_missing,
        )
        .scenario(
            "an_init_container_that_fails",
            unready::an_init_container_that_fails,
        )
        .scenario(
            "never_ready_where_the_old_pod_had_to_go",
            unready::never_ready_where_the_old_pod_had_to_go,
        )
        .scenario(
            "ready_by_turns_within_the_settle_time",
            unready::ready_by_turns_within_the_settle_time,
        )
        .scenario(
            "the_candidate_is_evicted",
            unready::the_candidate_is_evicted,
        )
        .scenario("the_original_is_evicted", unready::the_original_is_evicted)
        .scenario("both_are_evicted", unready::both_are_evicted)
        .scenario("a_template_that_changes", midway::a_template_that_changes)
        .scenario(
            "a_template_that_is_deleted",
            midway::a_template_that_is_deleted,
        )
        .scenario(
            "a_workspace_that_is_stopped",
            midway::a_workspace_that_is_stopped,
        )
        .scenario(
            "asked_again_and_up_to_date",
            midway::asked_again_and_up_to_date,
        )
        .scenario(
            "an_upgrade_that_is_called_off",
            midway::an_upgrade_that_is_called_off,
        )
        .scenario(
            "all_that_a_template_changes_lands",
            kept::all_that_a_template_changes_lands,
        )
        .scenario(
            "the_newest_upgrade_is_told_and_old_errors_are_forgotten",
            kept::the_newest_upgrade_is_told_and_old_errors_are_forgotten,
        )
        .scenario("files_and_inputs_survive", kept::files_and_inputs_survive)
        .scenario("owners_of_any_subject", kept::owners_of_any_subject)
        .scenario(
            "the_longest_id_of_the_longest_owner",
            kept::the_longest_id_of_the_longest_owner,
        )
        .alone(
            "a_bulk_waits_for_room_that_its_own_pods_take",
            alone::a_bulk_waits_for_room_that_its_own_pods_take,
        )
        .alone(
            "no_secret_in_any_word_about_a_failure",
            alone::no_secret_in_any_word_about_a_failure,
        )
        .main()
}
