//! What all acts of the demo share: the instance, its cluster, and the people who use it.

use std::time::Duration;

use anyhow::Context as _;
use kube::Client;
use nogoo9_local::idp;
use nogoo9_local::supervisor::Ready;
use nogoo9_runtime::kube::{self as cluster, Retry};

use super::api::Api;
use super::{DemoArgs, say};

/// Those whose workspaces they are.
const USERS: [&str; 2] = ["alice", "bob"];
/// Who upgrades everybody's at once.
const ADMIN: &str = "admin";
/// Life of their tokens, which must outlast the demo.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);
/// Longest wait for the proxy's counters.
const METRICS_BOUND: Duration = Duration::from_secs(10);

/// Somebody who is signed in.
#[derive(Clone)]
pub(super) struct Person {
    pub(super) token: String,
    pub(super) api: Api,
}

pub(super) struct Stage<'a> {
    pub(super) args: &'a DemoArgs,
    pub(super) cluster: Client,
    pub(super) users: Vec<Person>,
    pub(super) admin: Person,
    metrics: String,
    http: reqwest::Client,
}

impl<'a> Stage<'a> {
    pub(super) async fn set_up(args: &'a DemoArgs, ready: &Ready) -> anyhow::Result<Self> {
        let person = |name: &str| -> anyhow::Result<Person> {
            let token = idp::mint(
                &ready.data_dir,
                &ready.issuer,
                name,
                &ready.mcp_url,
                TOKEN_LIFE,
            )?;
            let api = Api::new(&ready.url, &token)?;
            Ok(Person { token, api })
        };
        let users = USERS
            .iter()
            .map(|name| person(name))
            .collect::<Result<_, _>>()?;
        let cluster = cluster::connect(Some(&ready.kubeconfig), Retry::On).await?;
        say(&format!(
            "signed in as {} and {ADMIN} at {}",
            USERS.join(", "),
            ready.url
        ));
        Ok(Self {
            args,
            cluster: cluster.client,
            users,
            admin: person(ADMIN)?,
            metrics: format!("{}/metrics", ready.admin_proxy.trim_end_matches('/')),
            http: reqwest::Client::builder()
                .timeout(METRICS_BOUND)
                .build()
                .context("no HTTP client")?,
        })
    }

    /// The user whose the workspace of that number is.
    pub(super) fn owner(&self, number: usize) -> anyhow::Result<&Person> {
        self.users
            .get(number % self.users.len().max(1))
            .context("nobody is signed in")
    }

    /// Requests that the proxy has held so far and then sent to a pod.
    pub(super) async fn held(&self) -> anyhow::Result<u64> {
        let what = || format!("the proxy's counters at {} cannot be read", self.metrics);
        let answer = self.http.get(&self.metrics).send().await;
        let answer = answer.and_then(reqwest::Response::error_for_status);
        let text = answer.with_context(what)?.text().await.with_context(what)?;
        Ok(served_holds(&text))
    }
}

/// The counter in the proxy's metrics; 0 where nothing was held yet, since then it is not there.
fn served_holds(metrics: &str) -> u64 {
    metrics
        .lines()
        .filter_map(|line| line.strip_prefix("nogoo9_proxy_holds_total{end=\"Served\"}"))
        .filter_map(|value| value.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_holds_that_ended_well_count() {
        let metrics = "# TYPE nogoo9_proxy_holds counter\n\
                       nogoo9_proxy_holds_total{end=\"Served\"} 41\n\
                       nogoo9_proxy_holds_total{end=\"TimedOut\"} 2\n# EOF\n";
        assert_eq!(served_holds(metrics), 41);
        assert_eq!(served_holds("# EOF\n"), 0);
    }
}
