//! The workspaces: who owns them, what is in their files, who works in them.

use super::LONG;
use anyhow::Context as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use kube::api::ListParams;
use nogoo9_load::{HttpLoad, HttpRun, Phases};
use nogoo9_model::keys;
use nogoo9_tests::{Api, Cluster, Edge, Observation, Site, Template, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const OWNERS: [&str; 2] = ["alice", "bob"];
/// People at work, each with a connection of its own.
const CLIENTS: usize = 64;
/// Requests a second of all of them.
const RATE: f64 = 100.0;
/// Longer than a request is held while a workspace is recreated.
const PATIENCE: Duration = Duration::from_secs(150);
/// Spawns at once.
const SPAWNS: usize = 8;
/// In each file.
const FILE_BYTES: usize = 20_000;

/// How a workspace is upgraded, and whether it is a program or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sort {
    pub(super) recreate: bool,
    pub(super) real: bool,
}

impl Sort {
    pub(super) const ALL: [Self; 4] = [
        Self::new(false, true),
        Self::new(false, false),
        Self::new(true, true),
        Self::new(true, false),
    ];

    const fn new(recreate: bool, real: bool) -> Self {
        Self { recreate, real }
    }

    pub(super) const fn name(self) -> &'static str {
        match (self.recreate, self.real) {
            (false, true) => "side by side, in use",
            (false, false) => "side by side, cheap",
            (true, true) => "recreated, in use",
            (true, false) => "recreated, cheap",
        }
    }

    const fn template_name(self) -> &'static str {
        match (self.recreate, self.real) {
            (false, true) => "side",
            (false, false) => "side-cheap",
            (true, true) => "recreate",
            (true, false) => "recreate-cheap",
        }
    }

    fn image(self, version: &str) -> String {
        let name = if self.real {
            "nogoo9-sample"
        } else {
            "nogoo9-nothing"
        };
        format!("{name}:{version}")
    }

    fn template(self, version: &str) -> Template {
        let template = Template::new(self.template_name(), version)
            .image(&self.image(version))
            .annotation(keys::SETTLE, "0")
            .annotation(keys::DRAIN_TIMEOUT, "600");
        let template = if self.real {
            template
        } else {
            // Nobody answers a probe.
            template.container("readinessProbe", Value::Null)
        };
        if self.recreate {
            template.files(None)
        } else {
            template
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Workspace {
    pub(super) id: String,
    pub(super) sort: Sort,
    owner: &'static str,
}

pub(super) struct Town {
    pub(super) workspaces: Vec<Workspace>,
    pub(super) cluster: Cluster,
    edges: BTreeMap<&'static str, Edge>,
    files: BTreeMap<String, PathBuf>,
}

impl Town {
    /// Spawns `count` workspaces, half of them with a claim, a tenth of them real; waits until all
    /// are ready, and puts a file into each claim.
    pub(super) async fn build(site: &Site, count: usize) -> anyhow::Result<Self> {
        let (mut apis, mut edges) = (BTreeMap::new(), BTreeMap::new());
        for owner in OWNERS {
            apis.insert(owner, site.api(owner).await?);
            edges.insert(owner, site.edge(owner).await?);
        }
        let mut town = Self {
            workspaces: Vec::new(),
            cluster: site.cluster().await?,
            edges,
            files: BTreeMap::new(),
        };
        town.offer("1.0").await?;
        let real = count.div_ceil(10);
        for number in 0..count {
            let sort = Sort::new(number % 2 == 1, number < real);
            let owner = if number % 4 < 2 { OWNERS[0] } else { OWNERS[1] };
            town.workspaces.push(Workspace {
                id: format!("noon-{number}"),
                sort,
                owner,
            });
        }
        for sort in Sort::ALL {
            known(&apis[OWNERS[0]], sort.template_name()).await?;
        }
        let mut spawns = Vec::new();
        for workspace in &town.workspaces {
            let api = apis[workspace.owner].clone();
            let body = json!({"template": workspace.sort.template_name(), "id": workspace.id});
            spawns.push(async move {
                let reply = api.post("/api/v1/workspaces", &body).await?;
                reply.expect(201).map(drop)
            });
        }
        stream::iter(spawns)
            .buffer_unordered(SPAWNS)
            .try_collect::<()>()
            .await?;
        town.all_ready("1.0").await?;
        for workspace in town.workspaces.iter().filter(|it| it.sort.real) {
            site.routed(&workspace.id, None).await?;
        }
        town.put_files(site).await?;
        Ok(town)
    }

    /// Gives every template this version.
    pub(super) async fn offer(&self, version: &str) -> anyhow::Result<()> {
        for sort in Sort::ALL {
            self.cluster.apply(&sort.template(version)).await?;
        }
        Ok(())
    }

    /// Starts all clients.
    pub(super) fn load(&self) -> anyhow::Result<HttpRun> {
        let real: Vec<&Workspace> = self.workspaces.iter().filter(|it| it.sort.real).collect();
        let loads = real
            .iter()
            .enumerate()
            .map(|(index, workspace)| {
                // As many each as there are, and one more for the first ones.
                let more = usize::from(index < CLIENTS % real.len());
                self.clients(workspace, CLIENTS / real.len() + more)
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok(HttpLoad::start_all(loads, &Phases::new("all"))?)
    }

    fn clients(&self, workspace: &Workspace, clients: usize) -> anyhow::Result<HttpLoad> {
        let edge = &self.edges[workspace.owner];
        let token = edge.token().unwrap_or_default();
        let (id, sort) = (workspace.id.clone(), workspace.sort);
        let share = f64::from(u32::try_from(clients)?) / f64::from(u32::try_from(CLIENTS)?);
        Ok(HttpLoad::new(&edge.address("/info")?)?
            .connections(clients)
            .rate(RATE * share)?
            .timeouts(PATIENCE, PATIENCE)
            .header("host", &edge.host(&workspace.id))?
            .header("authorization", &format!("Bearer {token}"))?
            .check(move |answer| {
                let info: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                if info["workspace"] == id.as_str() {
                    Ok(())
                } else {
                    Err(format!("not an answer of {id}: {info}"))
                }
            })
            .label(move |_| Some(sort.name().to_owned())))
    }

    /// Asserts that every workspace has one pod, of this version, a record at rest, its files, and
    /// that the edge routes there.
    pub(super) async fn all_have(&self, site: &Site, version: &str) -> anyhow::Result<()> {
        let pods = self.all_ready(version).await?;
        for workspace in &self.workspaces {
            let id = &workspace.id;
            let pod = pods.get(id).map(String::as_str);
            self.at_rest(id, pod).await?;
            if let Some(path) = self.files.get(id) {
                let file = std::fs::read(path).with_context(|| path.display().to_string())?;
                assert!(file == content(id), "{id}: the file is another");
            }
            if !workspace.sort.real {
                continue;
            }
            site.routed(id, pod).await?;
            let edge = &self.edges[workspace.owner];
            let info = edge.get(id, "/info").await?.json()?;
            assert_eq!(
                (info["version"].as_str(), info["pod"].as_str()),
                (Some(version), pod),
                "{id}"
            );
            if workspace.sort.recreate {
                let file = edge.get(id, "/files/kept.bin").await?;
                assert!(file.body == content(id), "{id}: {}", file.status);
            }
        }
        Ok(())
    }

    /// The record lets go a moment after the operation has ended.
    async fn at_rest(&self, id: &str, pod: Option<&str>) -> anyhow::Result<()> {
        until("the record to be at rest", LONG, || async {
            let record = self.cluster.record(id).await?.unwrap_or_default();
            let rests = record["upgrade"].is_null() && record["pod"]["name"].as_str() == pod;
            Ok(Observation::when(rests, (), record))
        })
        .await
    }

    /// Waits until every workspace has one pod and no more, of this version, and ready; returns them.
    async fn all_ready(&self, version: &str) -> anyhow::Result<BTreeMap<String, String>> {
        until("every workspace to be ready", LONG, || async {
            let pods = self.pods().await?;
            let not_yet: Vec<&str> = self
                .workspaces
                .iter()
                .filter(|it| match pods.get(&it.id).map(Vec::as_slice) {
                    Some([only]) => !(is_ready(only) && has_image(only, &it.sort.image(version))),
                    _ => true,
                })
                .map(|it| it.id.as_str())
                .collect();
            let names = pods.iter().filter_map(|(id, pods)| {
                let only = pods.first()?;
                Some((id.clone(), only.name_any()))
            });
            Ok(Observation::when(
                not_yet.is_empty(),
                names.collect(),
                not_yet,
            ))
        })
        .await
    }

    async fn pods(&self) -> anyhow::Result<BTreeMap<String, Vec<Pod>>> {
        let params = ListParams::default().labels(WORKSPACE_PODS);
        let mut by_id: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
        for pod in self.cluster.pods_api().list(&params).await?.items {
            by_id.entry(id_of(&pod)).or_default().push(pod);
        }
        Ok(by_id)
    }

    async fn put_files(&mut self, site: &Site) -> anyhow::Result<()> {
        let claims = self.cluster.beside_workspaces::<PersistentVolumeClaim>();
        for claim in claims.list(&ListParams::default()).await?.items {
            let id = claim.labels().get(keys::WORKSPACE_ID).cloned();
            let id = id.context("a claim of no workspace")?;
            let folder = site
                .data_dir()
                .join("claims")
                .join(claim.namespace().unwrap_or_default())
                .join(claim.name_any())
                .join(claim.uid().unwrap_or_default());
            let path = folder.join("kept.bin");
            std::fs::write(&path, content(&id)).with_context(|| path.display().to_string())?;
            self.files.insert(id, path);
        }
        let recreated = self.workspaces.iter().filter(|it| it.sort.recreate);
        assert_eq!(self.files.len(), recreated.count());
        Ok(())
    }
}

/// Label selector of all workspaces' pods.
pub(super) const WORKSPACE_PODS: &str = "nogoo9/type=workspace";

pub(super) fn id_of(pod: &Pod) -> String {
    let id = pod.labels().get(keys::WORKSPACE_ID);
    id.cloned().unwrap_or_default()
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn has_image(pod: &Pod, image: &str) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.any(|container| container.image.as_deref() == Some(image))
}

/// Other bytes for each workspace, none of them text.
fn content(id: &str) -> Vec<u8> {
    let seed = id.bytes().fold(7_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    std::iter::successors(Some(seed), next)
        .map(|state| state.to_be_bytes()[0])
        .take(FILE_BYTES)
        .collect()
}

async fn known(api: &Api, template: &str) -> anyhow::Result<()> {
    until("the template to be known", LONG, || async {
        let reply = api.get(&format!("/api/v1/templates/{template}")).await?;
        Ok(Observation::when(reply.body["usable"] == true, (), reply))
    })
    .await
}
