//! Everything dies once, in the middle of a bulk upgrade under load: the API server, its store, control,
//! a proxy, a node. Each is started again as its supervisor does, and then: the bulk ends with one
//! result a workspace, each runs on the new version or has an honest error, no claim ever had two
//! writers, and whoever was not a client of what died has not lost a request.
//!
//! Its cluster must be ours to break: `NOGOO9_TEST_NODES` names the folder of a cluster of tests/cluster
//! on which `NOGOO9_TEST_CLUSTER` is installed. Without one this suite runs nothing. With
//! `NOGOO9_TEST_CHAOS=all` the API server also stays away for two minutes.

mod bulk;
mod cases;
mod fleet;
mod load;

use nogoo9_tests::{Results, Suite, Target, faults};
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait: what a node takes to be missed (20 s) and to start, a drain that a dead proxy holds up
/// (60 s), a container's back-off, and the machine being busy.
const LONG: Duration = Duration::from_secs(300);

/// Whether outages as long as real ones are asked for; control's tests strike every phase with those of
/// two minutes, without waiting for them.
fn is_patient() -> bool {
    std::env::var("NOGOO9_TEST_CHAOS").is_ok_and(|what| what == "all")
}

#[allow(clippy::print_stdout, reason = "the report of a test program")]
fn main() -> ExitCode {
    if faults::folder().is_none() {
        println!("chaos: run by `make cluster-test`, on a cluster that it may break");
        return ExitCode::SUCCESS;
    }
    let suite = Suite::on(Target::up()).limit(Duration::from_secs(900));
    let suite = match Results::new("chaos", Target::ground()) {
        Ok(results) => suite.results(results),
        // Not run by cargo: there is no place to keep them.
        Err(_) => suite,
    };
    // One at a time: what dies is everybody's.
    let suite = suite
        .alone("the_api_server_is_killed", cases::the_api_server_is_killed)
        .alone("etcd_is_killed", cases::etcd_is_killed)
        .alone("control_is_killed", cases::control_is_killed)
        .alone("a_proxy_is_killed", cases::a_proxy_is_killed)
        .alone("a_node_loses_power", cases::a_node_loses_power);
    let suite = if is_patient() {
        suite.alone(
            "the_api_server_is_away_for_two_minutes",
            cases::the_api_server_is_away_for_two_minutes,
        )
    } else {
        suite
    };
    suite
        .alone(
            "it_all_goes_away_in_order",
            cases::it_all_goes_away_in_order,
        )
        .main()
}
