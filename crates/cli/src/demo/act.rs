//! One act: workspaces of a template, load and sockets on them, upgrades of one kind, the sums.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api as KubeApi, ListParams};
use nogoo9_load::{Answer, HttpLoad, HttpRun, Phases};
use nogoo9_local::supervisor::WORKSPACES_NAMESPACE;
use nogoo9_model::keys;
use reqwest::Url;
use tokio::sync::OnceCell;

use super::report::{AFTER, ActReport, BEFORE, DURING, Facts, Mode, Played};
use super::stage::{Person, Stage};
use super::template::DemoTemplate;
use super::users::Users;
use super::{at_once, edge, one_by_one, say};

/// How long the load runs before the first upgrade and, at least, after the last.
const QUIET: Duration = Duration::from_secs(5);
/// Longest wait for the load to reach its number: generous, the rate decides.
const LOAD_BOUND: Duration = Duration::from_secs(1800);
/// Longest wait for one answer of the API server.
const CALL_BOUND: Duration = Duration::from_secs(15);

/// An act before and after it is played: knows by what names to clear up.
pub(super) struct Act<'a> {
    pub(super) stage: &'a Stage<'a>,
    pub(super) mode: Mode,
    name: String,
    ids: Vec<String>,
    template: OnceCell<DemoTemplate>,
}

/// A workspace with those who use it.
pub(super) struct Desk {
    pub(super) id: String,
    pub(super) owner: Person,
    pub(super) address: Url,
    /// The pod that serves it.
    pub(super) pod: String,
    pub(super) users: Users,
}

/// An act under way.
pub(super) struct Scene<'a> {
    pub(super) stage: &'a Stage<'a>,
    pub(super) template: &'a DemoTemplate,
    pub(super) phases: Phases,
    pub(super) load: HttpRun,
    pub(super) desks: Vec<Desk>,
    pub(super) problems: Vec<String>,
}

impl<'a> Act<'a> {
    pub(super) fn prepare(stage: &'a Stage<'a>, mode: Mode) -> Self {
        let name = format!("demo-{}-{mode}", std::process::id());
        let count = match mode {
            Mode::Bulk => stage.args.workspaces,
            Mode::Edge | Mode::SideBySide | Mode::Recreate => 1,
        };
        Self {
            stage,
            mode,
            ids: (1..=count).map(|n| format!("{name}-{n}")).collect(),
            name,
            template: OnceCell::new(),
        }
    }

    /// Plays it, going on until at least `requests` are made.
    pub(super) async fn play(&self, requests: u64) -> anyhow::Result<Played> {
        say(&format!("{}:", self.mode));
        let template = self.template().await?;
        template.seen(&self.stage.admin.api).await?;
        let phases = Phases::new(BEFORE);
        let desks = try_join_all((0..self.ids.len()).map(|number| self.desk(number, &phases)));
        let desks = desks.await?;
        if self.mode == Mode::Edge {
            let desk = desks.first().context("no workspace")?;
            let edge = edge::play(self.stage, desk).await?;
            return Ok(Played::Edge(Box::new(edge)));
        }
        let held = self.stage.held().await?;
        let mut scene = self.open(template, phases, desks).await?;
        tokio::time::sleep(QUIET).await;
        scene.phases.enter(DURING);
        let facts = match self.mode {
            Mode::Bulk => at_once::play(&mut scene).await?,
            Mode::SideBySide => {
                one_by_one::play(&mut scene, self.mode, self.stage.args.upgrades).await
            }
            Mode::Recreate | Mode::Edge => {
                one_by_one::play(&mut scene, self.mode, self.stage.args.recreates).await
            }
        };
        scene.phases.enter(AFTER);
        tokio::time::sleep(QUIET).await;
        if scene.problems.is_empty() && scene.load.requests() < requests {
            say(&format!("going on until {requests} more requests are made"));
            scene.load.wait_for_requests(requests, LOAD_BOUND).await?;
        }
        let closing = scene.desks.iter_mut().map(|desk| async {
            let mut problems = Vec::new();
            desk.users.close(&mut problems).await;
            problems
        });
        let closed = join_all(closing).await;
        scene.problems.extend(closed.into_iter().flatten());
        let http = scene.load.finish().await;
        let held = self.stage.held().await?.saturating_sub(held);
        let mut problems = scene.problems;
        let strays = join_all(self.ids.iter().map(|id| self.stray_pods(id)));
        for stray in strays.await {
            problems.extend(stray?);
        }
        let facts = Facts { held, ..facts };
        let sockets = scene.desks.into_iter().flat_map(|desk| desk.users.closed);
        let sockets = sockets.collect();
        let report = ActReport::new(self.mode, self.ids.len(), facts, http, sockets, problems);
        Ok(Played::Upgrades(Box::new(report)))
    }

    async fn template(&self) -> anyhow::Result<&DemoTemplate> {
        self.template
            .get_or_try_init(|| {
                let claim = self.mode == Mode::Recreate;
                DemoTemplate::create(
                    &self.stage.cluster,
                    &self.stage.admin.api,
                    &self.name,
                    claim,
                )
            })
            .await
    }

    /// Spawns a workspace for one of the users.
    async fn desk(&self, number: usize, phases: &Phases) -> anyhow::Result<Desk> {
        let id = self.ids.get(number).context("no such workspace")?;
        let owner = self.stage.owner(number)?.clone();
        let workspace = owner.api.spawn(id, &self.name).await?;
        let address = workspace.address()?;
        say(&format!("workspace {id} is open at {address}"));
        let address = Url::parse(address).context("the workspace's address is no URL")?;
        let sockets = usize::from(self.stage.args.sockets);
        let share = match self.ids.len() {
            1 => sockets,
            // At least one each, since every one of them is upgraded.
            desks => sockets.div_ceil(desks),
        };
        Ok(Desk {
            users: Users::new(phases.clone(), address.clone(), owner.token.clone(), share),
            pod: workspace.pod()?.to_owned(),
            id: id.clone(),
            owner,
            address,
        })
    }

    /// Opens everybody's sockets and starts the load.
    async fn open(
        &self,
        template: &'a DemoTemplate,
        phases: Phases,
        mut desks: Vec<Desk>,
    ) -> anyhow::Result<Scene<'a>>
    where
        Self: 'a,
    {
        let mut problems = Vec::new();
        for desk in &mut desks {
            let pod = desk.pod.clone();
            desk.users.open(BEFORE, &pod, &mut problems).await?;
        }
        let args = self.stage.args;
        let loads = desks.iter().map(|desk| {
            let share = usize::from(args.connections).div_ceil(desks.len().max(1));
            let rate = f64::from(args.rate) / f64::from(u32::try_from(desks.len())?);
            load(desk, share, rate)
        });
        let loads: Vec<_> = loads.collect::<anyhow::Result<_>>()?;
        let load = HttpLoad::start_all(loads, &phases)?;
        say(&format!(
            "{} connections and {} sockets are open",
            args.connections,
            desks
                .iter()
                .map(|desk| desk.users.open_now())
                .sum::<usize>()
        ));
        Ok(Scene {
            stage: self.stage,
            template,
            phases,
            load,
            desks,
            problems,
        })
    }

    /// Pods of the workspace beyond the one that it should have.
    async fn stray_pods(&self, id: &str) -> anyhow::Result<Option<String>> {
        let cluster = self.stage.cluster.clone();
        let pods: KubeApi<Pod> = KubeApi::namespaced(cluster, WORKSPACES_NAMESPACE);
        let params = ListParams::default().labels(&format!("{}={id}", keys::WORKSPACE_ID));
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
                "one pod of {id} should be left, not {}: {}",
                names.len(),
                names.join(", ")
            )
        }))
    }

    /// Removes its workspaces, their data and its template.
    pub(super) async fn clear_up(&self) -> anyhow::Result<()> {
        let Some(template) = self.template.get() else {
            return Ok(());
        };
        let deleted = self
            .ids
            .iter()
            .enumerate()
            .map(|(number, id)| async move { self.stage.owner(number)?.api.delete(id).await });
        try_join_all(deleted).await?;
        template.delete().await
    }
}

/// The load on one workspace. `rate` 0: as fast as the answers come.
fn load(desk: &Desk, connections: usize, rate: f64) -> anyhow::Result<HttpLoad> {
    let id = desk.id.clone();
    let load = HttpLoad::new(&desk.address.join("info")?)?
        .header("Authorization", &format!("Bearer {}", desk.owner.token))?
        .connections(connections)
        .check(move |answer| is_of(answer, &id))
        .label(|answer| field(answer, "pod"));
    Ok(if rate > 0.0 { load.rate(rate)? } else { load })
}

/// Whether an answer of the sample's `/info` is workspace `id`'s.
pub(super) fn is_of(answer: &Answer, id: &str) -> Result<(), String> {
    match field(answer, "workspace") {
        Some(workspace) if workspace == id => Ok(()),
        other => Err(format!("an answer of {other:?} instead of {id:?}")),
    }
}

/// A text field of the sample's `/info`.
fn field(answer: &Answer, name: &str) -> Option<String> {
    let info: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
    Some(info.get(name)?.as_str()?.to_owned())
}

impl Scene<'_> {
    /// Remarks that something happened now, and returns the moment in microseconds.
    pub(super) fn mark(&self, what: &str) -> u64 {
        u64::try_from(self.phases.mark(what).as_micros()).unwrap_or(u64::MAX)
    }

    /// The one workspace of an act that has only one.
    pub(super) fn desk(&mut self) -> anyhow::Result<&mut Desk> {
        match self.desks.as_mut_slice() {
            [desk] => Ok(desk),
            desks => bail!("one workspace was expected, not {}", desks.len()),
        }
    }
}
