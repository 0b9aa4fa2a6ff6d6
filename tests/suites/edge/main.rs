//! The edge in front of one workspace: addresses, waiting, streams and sockets, also while the pod
//! behind it changes.

mod absent;
mod addresses;
mod bodies;
mod hold;
mod ports;
mod recreate;
mod sockets;
mod switch;

use nogoo9_tests::{Api, Observation, Options, Suite, until};
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for anything that takes processes to start or end.
const LONG: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    Suite::new(Options::default())
        .parallel(4)
        // The one that has to sit out the bound of a hold comes first, beside all others.
        .scenario(
            "held_no_longer_than_the_bound",
            hold::no_longer_than_the_bound,
        )
        .scenario("by_host_nothing_is_rewritten", addresses::by_host)
        .scenario("by_path_addresses_are_mapped", addresses::by_path)
        .scenario("a_template_may_keep_the_prefix", addresses::prefix_kept)
        .scenario("no_spelling_leaves_the_workspace", addresses::spellings)
        .scenario("hosts_that_are_not_ours", addresses::hosts)
        .scenario("a_waiting_page_follows_progress", hold::waiting_page)
        .scenario("uploads_arrive_byte_for_byte", bodies::uploads)
        .scenario("streams_arrive_as_they_are_sent", bodies::streams)
        .scenario("a_socket_carries_every_byte", sockets::every_byte)
        .scenario("sockets_end_with_the_pod", sockets::end_with_the_pod)
        .scenario(
            "sockets_keep_a_draining_pod_up_to_its_bound",
            sockets::up_to_the_bound,
        )
        .scenario("what_is_in_flight_survives_the_switch", switch::in_flight)
        .scenario("a_clock_ticks_on_through_the_switch", switch::clock)
        .scenario("a_dead_program_costs_no_request", switch::dead_program)
        .scenario("a_recreate_costs_no_request", recreate::under_load)
        .scenario(
            "extra_ports_are_opened_and_called",
            ports::opened_and_called,
        )
        .scenario("extra_ports_move_with_upgrades", ports::moved_by_an_upgrade)
        .scenario("a_stopped_one_is_started_from_its_page", absent::started)
        .scenario("a_deleted_one_is_nobodys", absent::deleted)
        // What is held is counted for all workspaces together.
        .alone("held_until_the_pod_is_ready", hold::until_ready)
        .main()
}

/// Begins an upgrade; returns the name of the new pod and the operation.
async fn begin(api: &Api, id: &str) -> anyhow::Result<(String, String)> {
    let answer = api.upgrade(id).await?;
    assert_eq!(answer["status"], "upgrading", "{answer}");
    Ok((text(&answer["podName"]), text(&answer["operationId"])))
}

/// Text of a JSON string; of anything else, nothing.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Waits until the operation has succeeded.
async fn succeeded(api: &Api, operation: &str) -> anyhow::Result<()> {
    until("the upgrade to end", LONG, || async {
        let seen = api.operation(operation).await?;
        assert_ne!(seen["state"], "failed", "{seen}");
        Ok(Observation::when(seen["state"] == "succeeded", (), seen))
    })
    .await
}
