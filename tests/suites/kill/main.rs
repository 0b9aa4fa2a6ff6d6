//! kill -9 of control at every call that an upgrade makes to the API server, with real workspaces and
//! traffic through the edge all along; alone, and with a second control that reconciles beside it.
//!
//! `make test` kills after every call, its reply lost; with two controls after every write and some of
//! the reads. `make kill` also kills before every call, and fewer at once.

mod fleet;
mod rounds;
mod stage;
mod strikes;

use nogoo9_tests::Suite;
use stage::Stage;
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for anything that takes processes to start or end.
const LONG: Duration = Duration::from_secs(240);

/// Whether this is `make kill`.
fn thorough() -> bool {
    std::env::var("NOGOO9_TEST_KILL").is_ok_and(|what| what == "all")
}

fn main() -> ExitCode {
    let limit = if thorough() { 7200 } else { 1200 };
    Suite::on(Stage::up())
        // One after the other: both kill the same control.
        .parallel(1)
        .limit(Duration::from_secs(limit))
        .scenario("control_killed_at_every_call", rounds::one_control)
        .scenario(
            "one_of_two_controls_killed_at_every_call",
            rounds::two_controls,
        )
        .main()
}
