//! Black-box tests: the real proxy binary, an embedded API server, an identity provider, and small
//! real servers on loopback in the place of pods and control.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests and their helpers"
)]

mod absent;
mod accept;
mod access;
mod address;
mod affinity;
mod autobahn;
mod bodiless;
mod claims;
mod client;
mod cluster;
mod configuration;
mod conformance;
mod console;
mod cookies;
mod ending;
mod fidelity;
mod frames;
mod frames_fuzz;
mod fuzz;
mod grpc;
mod h2spec;
mod held;
mod hostile;
mod hostile_pods;
mod http2;
mod http2_attacks;
mod http2_balancer;
mod http2_pods;
mod http2_smuggling;
mod hygiene;
mod informational;
mod judged;
mod kept;
mod large_heads;
mod limits;
mod memory;
mod metrics;
mod origins;
mod ports;
mod progress;
mod proxy;
mod raw;
mod reach;
mod recorder;
mod recreate;
mod renew;
mod repeats;
mod resilience;
mod reuse;
mod routing;
mod sockets;
mod spelling;
mod tls;
mod tunnels;
mod unread;
mod upgrades;
mod upstream;

/// Longest wait for anything in these tests.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Whether suites run at the size that is asked for at least once, and not at that of every day.
fn is_full_size() -> bool {
    std::env::var("NOGOO9_TEST_EDGE").is_ok_and(|size| size == "all")
}

/// Waits for a condition, looking every few milliseconds.
async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("never came: {what}"));
}
