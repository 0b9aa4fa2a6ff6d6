//! Nodes that are drained, cut off or without power: a workspace comes back where it may, and waits,
//! saying why, where it must not. Its nodes must be ours to break: `NOGOO9_TEST_NODES` names the
//! folder of a cluster of tests/cluster on which `NOGOO9_TEST_CLUSTER` is installed. Without one this
//! suite has no ground to stand on, and runs nothing.

mod cases;
mod cut;

use nogoo9_tests::{Results, Suite, Target, faults, stage};
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait: what a node takes to be missed (20 s), to start, and everything on it with it.
const LONG: Duration = Duration::from_secs(120);

#[allow(clippy::print_stdout, reason = "the report of a test program")]
fn main() -> ExitCode {
    if faults::folder().is_none() {
        println!("nodes: run by `make cluster-test`, on a cluster whose nodes it may break");
        return ExitCode::SUCCESS;
    }
    let suite = Suite::on(Target::up()).limit(Duration::from_secs(420));
    let suite = match Results::new("nodes", Target::ground()) {
        Ok(results) => suite.results(results),
        // Not run by cargo: there is no place to keep them.
        Err(_) => suite,
    };
    // One at a time: a broken node is everybody's.
    suite
        .alone(
            "a_node_cut_off_and_back_keeps_its_pod",
            cases::a_node_cut_off_and_back_keeps_its_pod,
        )
        .alone(
            "a_node_cut_off_serves_on_and_its_recreate_waits",
            cut::a_node_cut_off_serves_on_and_its_recreate_waits,
        )
        .alone("a_drained_node", cases::a_drained_node)
        .alone("a_node_without_power", cases::a_node_without_power)
        .main()
}
