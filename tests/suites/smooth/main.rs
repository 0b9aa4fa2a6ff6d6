//! Upgrades under every kind of traffic at once: an upload and downloads that are half done, hundreds
//! of event streams and WebSockets, and a client that pipelines. Side by side, nothing breaks before
//! the drain bound, and at the bound each is ended as its protocol says. In a recreate, what is open
//! is ended likewise, and what is new is held.
//!
//! `make edge` runs it with a thousand of each and a gigabyte each way.

mod bound;
mod crowd;
mod grpc;
mod held;
mod neighbour;
mod pipeline;
mod switch;
mod transfer;

use nogoo9_local::sample::noise::BLOCK;
use nogoo9_tests::{Api, Observation, Options, Suite, Template, until};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for anything.
const LONG: Duration = Duration::from_secs(300);
/// RFC 6455's successor codes: "service restart".
const RESTART: u16 = 1012;

fn main() -> ExitCode {
    // All clients are one address here, which may have fewer connections than this suite needs.
    let many = "--proxy-flag=--max-connections-per-client=5000".to_owned();
    // gRPC clients speak HTTP/2 at once.
    let h2c = "--proxy-flag=--h2c=true".to_owned();
    let args = vec![many, h2c];
    Suite::new(Options { args })
        .parallel(if Scale::is_full() { 1 } else { 3 })
        .limit(Duration::from_secs(1_200))
        .scenario("nothing_breaks_before_the_bound", switch::nothing_breaks)
        .scenario(
            "at_the_bound_each_ends_as_its_protocol_says",
            bound::each_ends_as_its_protocol_says,
        )
        .scenario(
            "in_a_recreate_what_is_new_is_held",
            held::what_is_new_is_held,
        )
        .scenario("grpc_streams_flow_on", grpc::streams_flow_on)
        .scenario(
            "grpc_streams_are_reset_at_the_bound",
            grpc::streams_are_reset_at_the_bound,
        )
        .alone(
            "a_hostile_workspace_is_its_owners_trouble_alone",
            neighbour::its_owners_trouble_alone,
        )
        .main()
}

/// How much of everything there is.
struct Scale {
    /// Event streams, and as many WebSockets.
    crowd: usize,
    /// Blocks of a transfer.
    blocks: u64,
}

impl Scale {
    fn is_full() -> bool {
        std::env::var("NOGOO9_TEST_EDGE").is_ok_and(|value| value == "all")
    }

    fn asked() -> Self {
        let (crowd, bytes) = if Self::is_full() {
            (1_000, 1 << 30)
        } else {
            (100, 64 << 20)
        };
        Self {
            crowd,
            blocks: bytes / BLOCK as u64,
        }
    }
}

/// A template whose pods stay ready for as long as they live, also on a machine that has much to do.
fn template(name: &str) -> Template {
    let probe = json!({
        "httpGet": {"path": "/healthz", "port": 3000},
        "periodSeconds": 1,
        "timeoutSeconds": 30,
        "failureThreshold": 20,
    });
    Template::new(name, "1.0").container("readinessProbe", probe)
}

/// Begins an upgrade; returns the name of the new pod and the operation.
async fn begin(api: &Api, id: &str) -> anyhow::Result<(String, String)> {
    let answer = api.upgrade(id).await?;
    assert_eq!(answer["status"], "upgrading", "{answer}");
    Ok((text(&answer["podName"]), text(&answer["operationId"])))
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

/// Text of a JSON string; of anything else, nothing.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
