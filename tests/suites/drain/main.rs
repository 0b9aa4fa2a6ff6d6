//! Draining by facts, with several proxies: an old pod, and a new one that was given up, goes when
//! every proxy that there is says that nobody uses it, or at the bound; never before.

mod link;
mod revoked;
mod silent;
mod stopping;

use nogoo9_tests::{Api, Cluster, Observation, Options, Site, Suite, Template, peer, until};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for anything that takes processes to start or end.
const LONG: Duration = Duration::from_secs(120);
/// A drain bound that no scenario lives to see, in seconds.
const NO_BOUND: &str = "3600";

fn main() -> ExitCode {
    let site = async {
        // As on a cluster: whoever is an endpoint of this Service is a proxy, and is asked.
        let flag = format!("--control-flag=--proxy-service={}", peer::SERVICE);
        let site = Site::up(Options { args: vec![flag] }).await?;
        peer::list(&site, "first", &site.ready().admin_proxy).await?;
        Ok(site)
    };
    Suite::on(site)
        .limit(Duration::from_secs(420))
        .scenario(
            "revoked_before_commit_with_sockets_on_both_pods",
            revoked::before_commit,
        )
        .scenario(
            "revoked_after_commit_with_sockets_on_both_pods",
            revoked::after_commit,
        )
        // A proxy that fails holds up every drain there is.
        .alone("a_proxy_that_is_dead", silent::dead)
        .alone("a_proxy_that_is_cut_off_from_us", silent::cut_off)
        .alone("a_proxy_that_is_cut_off_from_the_cluster", silent::deaf)
        .alone(
            "a_proxy_that_stops_counts_until_it_is_gone",
            stopping::until_it_is_gone,
        )
        .main()
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

/// Waits until the operation has ended, and returns it.
async fn ended(api: &Api, operation: &str) -> anyhow::Result<Value> {
    until("the upgrade to end", LONG, || async {
        let seen = api.operation(operation).await?;
        let ended = seen["state"] != "running";
        Ok(Observation::when(ended, seen.clone(), seen))
    })
    .await
}

/// Waits until the workspace's record shows this of its upgrade; returns the upgrade.
async fn upgrade(
    cluster: &Cluster,
    id: &str,
    what: &str,
    shows: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    until(what, LONG, || async {
        let record = cluster.record(id).await?.unwrap_or_default();
        let upgrade = record["upgrade"].clone();
        Ok(Observation::when(shows(&upgrade), upgrade.clone(), upgrade))
    })
    .await
}

/// Text of a JSON string; of anything else, nothing.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
