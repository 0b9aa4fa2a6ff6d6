//! kill -9 of any process in the middle of upgrades: each ends well after the restart, with no
//! duplicate, no orphan and a record that says what is there.

mod fleet;
mod gone;
mod parts;
mod writes;

use nogoo9_tests::{Options, Suite};
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for anything that takes processes to start or end.
const LONG: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    Suite::new(Options::default())
        // One at a time: all of them kill what the others would stand on.
        .parallel(1)
        .limit(Duration::from_secs(900))
        .scenario("control_killed_in_every_phase", parts::control)
        .scenario("the_api_server_killed_in_every_phase", parts::api_server)
        .scenario("the_proxy_killed_in_every_phase", parts::proxy)
        .scenario("all_killed_at_once_in_every_phase", parts::everything)
        .scenario("killed_at_every_write", writes::killed_at_every_write)
        .scenario(
            "without_control_the_edge_serves_on",
            gone::without_control_the_edge_serves_on,
        )
        .scenario(
            "without_the_api_server_the_edge_serves_on",
            gone::without_the_api_server_the_edge_serves_on,
        )
        .scenario(
            "a_proxy_that_is_told_to_stop_says_so",
            gone::a_proxy_that_is_told_to_stop_says_so,
        )
        .scenario("a_pods_shim_killed", gone::a_pods_shim_killed)
        .main()
}
