//! What happens, in order: load and sockets on, upgrades one by one, a quiet time, the sums.

use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api as KubeApi, ListParams};
use nogoo9_load::{Answer, HttpLoad, HttpRun, Phases};
use nogoo9_local::supervisor::WORKSPACES_NAMESPACE;
use nogoo9_model::keys;
use reqwest::Url;

use super::api::{Api, Workspace};
use super::report::{AFTER, BEFORE, DURING, DemoReport, UpgradeReport};
use super::template::DemoTemplate;
use super::users::Users;
use super::{DemoArgs, say};

/// How long the load runs before the first upgrade and, at least, after the last.
const QUIET: Duration = Duration::from_secs(5);
/// Longest wait for a new pod to take over, and for an old one to go.
const UPGRADE_BOUND: Duration = Duration::from_secs(180);
/// Longest wait for the load to reach its number: generous, the rate decides.
const LOAD_BOUND: Duration = Duration::from_secs(1800);
/// Longest wait for one answer of the API server.
const CALL_BOUND: Duration = Duration::from_secs(15);

pub(super) struct Script<'a> {
    pub(super) args: &'a DemoArgs,
    pub(super) api: &'a Api,
    pub(super) cluster: &'a Client,
    pub(super) token: &'a str,
    pub(super) workspace: Workspace,
}

impl Script<'_> {
    pub(super) async fn play(&self, template: &DemoTemplate<'_>) -> anyhow::Result<DemoReport> {
        let address =
            Url::parse(self.workspace.address()?).context("the workspace's address is no URL")?;
        let phases = Phases::new(BEFORE);
        let mut problems = Vec::new();
        let mut users = Users::new(&phases, address.clone(), self.token, self.args.sockets);
        users
            .open(BEFORE, self.workspace.pod()?, &mut problems)
            .await?;
        let load = self.load(&address)?.start(&phases)?;
        say(&format!(
            "{} connections and {} sockets are open",
            self.args.connections, self.args.sockets
        ));
        tokio::time::sleep(QUIET).await;

        phases.enter(DURING);
        let mut upgrades = Vec::new();
        for number in 1..=self.args.upgrades {
            match self
                .upgrade(number, template, &phases, &mut users, &load, &mut problems)
                .await
            {
                Ok(upgrade) => upgrades.push(upgrade),
                Err(error) => {
                    problems.push(format!("upgrade {number}: {error:#}"));
                    break;
                }
            }
        }

        phases.enter(AFTER);
        tokio::time::sleep(QUIET).await;
        if problems.is_empty() && load.requests() < self.args.requests {
            say(&format!(
                "going on until {} requests are made",
                self.args.requests
            ));
            load.wait_for_requests(self.args.requests, LOAD_BOUND)
                .await?;
        }
        users.close(&mut problems).await;
        let http = load.finish().await;
        problems.extend(self.stray_pods().await?);
        Ok(DemoReport::new(upgrades, http, users.closed, problems))
    }

    fn load(&self, address: &Url) -> anyhow::Result<HttpLoad> {
        let id = self.workspace.id.clone();
        let load = HttpLoad::new(&address.join("info")?)?
            .header("Authorization", &format!("Bearer {}", self.token))?
            .connections(usize::from(self.args.connections))
            .check(move |answer| match field(answer, "workspace") {
                Some(workspace) if workspace == id => Ok(()),
                other => Err(format!("an answer of {other:?} instead of {id:?}")),
            })
            .label(|answer| field(answer, "pod"));
        Ok(match self.args.rate {
            0 => load,
            rate => load.rate(f64::from(rate))?,
        })
    }

    /// One upgrade, from the edit of the template to the end of the old pod.
    async fn upgrade(
        &self,
        number: u32,
        template: &DemoTemplate<'_>,
        phases: &Phases,
        users: &mut Users<'_>,
        load: &HttpRun,
        problems: &mut Vec<String>,
    ) -> anyhow::Result<UpgradeReport> {
        let mark = |what: &str| micros(phases.mark(format!("upgrade {number} {what}")));
        template.edit(number).await?;
        let started_us = mark("started");
        let upgrade = self.api.upgrade(&self.workspace.id).await?;
        let answered_us = mark("answered");
        let (Some(operation), Some(previous)) = (upgrade.operation_id, upgrade.previous_pod_name)
        else {
            bail!("it did not begin: {}", upgrade.status);
        };
        let pod = upgrade.pod_name;

        let seen = self
            .api
            .follow(&operation, UPGRADE_BOUND, super::api::Operation::started)
            .await?;
        let committed_us = mark("committed");
        if !seen.well() {
            bail!("{}", seen.message);
        }
        // Whoever is on the old pod stays there, until they close their tab themselves.
        users.close(problems).await;
        users.open(DURING, &pod, problems).await?;
        let moved_us = mark("moved");

        let seen = self
            .api
            .follow(&operation, UPGRADE_BOUND, |operation| operation.done)
            .await?;
        let done_us = mark("done");
        if !seen.well() {
            bail!("{}", seen.message);
        }
        say(&format!(
            "upgrade {number:>3} of {}: {pod} took over after {:.1} s, {previous} was gone after {:.1} s; {} requests, {} failed",
            self.args.upgrades,
            seconds(started_us, committed_us),
            seconds(started_us, done_us),
            load.requests(),
            load.failures(),
        ));
        Ok(UpgradeReport {
            number,
            operation_id: operation,
            pod_name: pod,
            previous_pod_name: previous,
            started_us,
            answered_us,
            first_answer_us: None,
            committed_us,
            moved_us,
            done_us,
        })
    }

    /// Pods of the workspace beyond the one that it should have.
    async fn stray_pods(&self) -> anyhow::Result<Option<String>> {
        let pods: KubeApi<Pod> = KubeApi::namespaced(self.cluster.clone(), WORKSPACES_NAMESPACE);
        let selector = format!("{}={}", keys::WORKSPACE_ID, self.workspace.id);
        let params = ListParams::default().labels(&selector);
        let list = tokio::time::timeout(CALL_BOUND, pods.list(&params)).await;
        let list = list
            .context("the API server does not answer")?
            .context("the workspace's pods cannot be listed")?;
        let names: Vec<_> = list
            .items
            .into_iter()
            .filter_map(|pod| pod.metadata.name)
            .collect();
        Ok((names.len() != 1).then(|| {
            format!(
                "one pod should be left, not {}: {}",
                names.len(),
                names.join(", ")
            )
        }))
    }
}

/// A text field of the sample's `/info`.
fn field(answer: &Answer, name: &str) -> Option<String> {
    let info: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
    Some(info.get(name)?.as_str()?.to_owned())
}

fn micros(at: Duration) -> u64 {
    u64::try_from(at.as_micros()).unwrap_or(u64::MAX)
}

fn seconds(from_us: u64, to_us: u64) -> f64 {
    Duration::from_micros(to_us.saturating_sub(from_us)).as_secs_f64()
}
