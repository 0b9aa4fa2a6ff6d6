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

use super::api::{Api, Operation, Workspace};
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

/// The script under way.
struct Play<'a> {
    script: &'a Script<'a>,
    template: &'a DemoTemplate<'a>,
    phases: &'a Phases,
    users: Users<'a>,
    load: HttpRun,
    /// The pod that serves.
    pod: String,
    problems: Vec<String>,
}

impl Script<'_> {
    pub(super) async fn play(&self, template: &DemoTemplate<'_>) -> anyhow::Result<DemoReport> {
        let address =
            Url::parse(self.workspace.address()?).context("the workspace's address is no URL")?;
        let phases = Phases::new(BEFORE);
        let pod = self.workspace.pod()?.to_owned();
        let mut problems = Vec::new();
        let mut users = Users::new(&phases, address.clone(), self.token, self.args.sockets);
        users.open(BEFORE, &pod, &mut problems).await?;
        let load = self.load(&address)?.start(&phases)?;
        say(&format!(
            "{} connections and {} sockets are open",
            self.args.connections, self.args.sockets
        ));
        let play = Play {
            script: self,
            template,
            phases: &phases,
            users,
            load,
            pod,
            problems,
        };
        play.finish().await
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

impl Play<'_> {
    async fn finish(mut self) -> anyhow::Result<DemoReport> {
        let args = self.script.args;
        tokio::time::sleep(QUIET).await;
        self.phases.enter(DURING);
        let mut upgrades = Vec::new();
        for number in 1..=args.upgrades {
            match self.upgrade(number).await {
                Ok(upgrade) => upgrades.push(upgrade),
                Err(error) => {
                    self.problems.push(format!("upgrade {number}: {error:#}"));
                    break;
                }
            }
        }
        self.phases.enter(AFTER);
        tokio::time::sleep(QUIET).await;
        if self.problems.is_empty() && self.load.requests() < args.requests {
            say(&format!(
                "going on until {} requests are made",
                args.requests
            ));
            self.load
                .wait_for_requests(args.requests, LOAD_BOUND)
                .await?;
        }
        self.users.close(&mut self.problems).await;
        let http = self.load.finish().await;
        self.problems.extend(self.script.stray_pods().await?);
        Ok(DemoReport::new(
            upgrades,
            http,
            self.users.closed,
            self.problems,
        ))
    }

    /// One upgrade, from the edit of the template to the end of the old pod.
    async fn upgrade(&mut self, number: u32) -> anyhow::Result<UpgradeReport> {
        let (api, phases) = (self.script.api, self.phases);
        let mark = |what: &str| micros(phases.mark(format!("upgrade {number} {what}")));
        self.template.edit(number).await?;
        let started_us = mark("started");
        let upgrade = api.upgrade(&self.script.workspace.id).await?;
        let answered_us = mark("answered");
        let (Some(operation), Some(previous)) = (upgrade.operation_id, upgrade.previous_pod_name)
        else {
            bail!("it did not begin: {}", upgrade.status);
        };
        if previous != self.pod {
            bail!("it replaces {previous}, but {} serves", self.pod);
        }
        let pod = upgrade.pod_name;

        let seen = api
            .follow(&operation, UPGRADE_BOUND, Operation::started)
            .await?;
        let committed_us = mark("committed");
        if !seen.well() {
            bail!("{}", seen.message);
        }
        // Whoever is on the old pod stays there, until they close their tab themselves.
        self.users.close(&mut self.problems).await;
        self.users.open(DURING, &pod, &mut self.problems).await?;
        let moved_us = mark("moved");

        let seen = api
            .follow(&operation, UPGRADE_BOUND, |operation| operation.done)
            .await?;
        let done_us = mark("done");
        if !seen.well() {
            bail!("{}", seen.message);
        }
        say(&format!(
            "upgrade {number:>3} of {}: {pod} took over after {:.1} s, {previous} was gone after {:.1} s; {} requests, {} failed",
            self.script.args.upgrades,
            seconds(started_us, committed_us),
            seconds(started_us, done_us),
            self.load.requests(),
            self.load.failures(),
        ));
        self.pod.clone_from(&pod);
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
