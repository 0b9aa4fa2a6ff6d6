//! Requests to every workspace through every proxy, all along. Each pair is a client of its own, so that
//! what a failure is blamed on is beyond doubt.

use super::LONG;
use super::fleet::{Fleet, OWNER, Workspace};
use anyhow::Context as _;
use nogoo9_load::{FailureKind, FailureSample, HttpLoad, HttpReport, HttpRun, Phases};
use nogoo9_tests::Target;
use nogoo9_tests::proxies::Running;
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// Requests a second of each client.
const RATE: f64 = 4.0;
/// Requests that each must have answered before anything is broken.
const WARM: u64 = 4;
/// Longest request: longer than a proxy holds one while a workspace is recreated.
const REQUEST: Duration = Duration::from_secs(150);

/// Who asks for what, through whom.
#[derive(Debug)]
struct Client<R> {
    workspace: Workspace,
    proxy: Running,
    what: R,
}

/// All clients, and their clock.
#[derive(Debug)]
pub(super) struct Load {
    clients: Vec<Client<HttpRun>>,
    pub(super) phases: Phases,
}

/// Whose failures are no news.
#[derive(Debug, Clone)]
pub(super) enum Excuse {
    /// Nobody's.
    None,
    /// Those of requests that were under way to this proxy when it died, or were sent to it before it
    /// was ready again, when no load balancer sends any.
    Proxy {
        /// Its pod.
        name: String,
        /// When it was killed, on the load's clock.
        killed: Duration,
        /// When it was ready again.
        back: Duration,
    },
    /// Those of requests to workspaces on that node, or through the proxy on it.
    Node(String),
    /// Those of requests that were held for as long as a proxy holds any, while a workspace was being
    /// recreated, and then told to come back later.
    Recreated,
}

impl Excuse {
    fn covers<R>(&self, client: &Client<R>, failure: &FailureSample) -> bool {
        match self {
            Self::None => false,
            Self::Proxy { name, killed, back } => {
                client.proxy.name == *name
                    && u128::from(failure.ended_us) >= killed.as_micros()
                    && u128::from(failure.sent_us) <= back.as_micros()
            }
            Self::Recreated => {
                let told = failure.kind == FailureKind::Status && failure.detail.contains("503");
                client.workspace.holds && told
            }
            Self::Node(node) => client.proxy.node == *node || client.workspace.node == *node,
        }
    }
}

impl Excuse {
    /// Whether the client's proxy will not be at the client's address again: pods of a node that boots
    /// get others.
    fn is_gone<R>(&self, client: &Client<R>) -> bool {
        matches!(self, Self::Node(node) if client.proxy.node == *node)
    }
}

impl Load {
    /// Starts them all, and waits until each has had its first answers.
    pub(super) async fn on(
        target: &Target,
        fleet: &Fleet,
        proxies: &[Running],
    ) -> anyhow::Result<Self> {
        let phases = Phases::new("all");
        let mut clients = Vec::new();
        for workspace in &fleet.workspaces {
            for proxy in proxies {
                clients.push(Client {
                    workspace: workspace.clone(),
                    proxy: proxy.clone(),
                    what: load(target, &workspace.id, proxy).await?.start(&phases)?,
                });
            }
        }
        let load = Self { clients, phases };
        load.answered(WARM, &Excuse::None).await?;
        Ok(load)
    }

    /// Waits until each has had so many more answers; the clients of a proxy that is gone for good will
    /// have none.
    async fn answered(&self, more: u64, excuse: &Excuse) -> anyhow::Result<()> {
        let there = self.clients.iter().filter(|client| !excuse.is_gone(client));
        let answered = there.map(|client| async move {
            let good = |run: &HttpRun| run.requests().saturating_sub(run.failures());
            let enough = good(&client.what) + more;
            let what = format!("{}: {enough} answers", client.name());
            let run = &client.what;
            run.wait_until(&what, LONG, |run| good(run) >= enough).await
        });
        futures::future::try_join_all(answered).await?;
        Ok(())
    }

    /// Ends them. Each went on to the end, and whatever failed is excused. Returns how many requests
    /// were answered, and how many failed.
    pub(super) async fn end(self, excuse: &Excuse) -> anyhow::Result<(u64, u64)> {
        // What was broken is mended: everybody is served again.
        self.answered(WARM, excuse).await?;
        let ended = self.clients.into_iter().map(|client| async move {
            Client {
                what: client.what.finish().await,
                workspace: client.workspace,
                proxy: client.proxy,
            }
        });
        let clients: Vec<Client<HttpReport>> = futures::future::join_all(ended).await;
        let (mut answered, mut failed) = (0, 0);
        for client in &clients {
            let report = &client.what;
            answered += report.requests - report.failures;
            failed += report.failures;
            let blamed: Vec<&FailureSample> = report
                .samples
                .iter()
                .filter(|failure| !excuse.covers(client, failure))
                .collect();
            assert!(
                blamed.is_empty() && report.samples_omitted == 0,
                "{}: {} of {} requests failed, beyond {excuse:?}: {blamed:#?}",
                client.name(),
                report.failures,
                report.requests,
            );
        }
        Ok((answered, failed))
    }
}

impl<R> Client<R> {
    fn name(&self) -> String {
        let (to, by) = (&self.workspace, &self.proxy);
        format!(
            "{} on {} through {} on {}",
            to.id, to.node, by.name, by.node
        )
    }
}

async fn load(target: &Target, id: &str, proxy: &Running) -> anyhow::Result<HttpLoad> {
    let edge = target.edge(OWNER).await?;
    let token = edge.token().context("token")?.to_owned();
    let url = Url::parse(&format!("http://{}/info", proxy.address()?))?;
    let workspace = id.to_owned();
    Ok(HttpLoad::new(&url)?
        .connections(1)
        .rate(RATE)?
        .timeouts(Duration::from_secs(5), REQUEST)
        .failure_samples(5_000)
        .header("host", &edge.host(id))?
        .header("authorization", &format!("Bearer {token}"))?
        .check(
            move |answer| match serde_json::from_slice::<Value>(&answer.body) {
                Ok(info) if info["workspace"] == workspace.as_str() => Ok(()),
                _ => Err("not that workspace's answer".to_owned()),
            },
        ))
}
