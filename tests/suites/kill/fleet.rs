//! Workspaces of both kinds, under load, that are upgraded again and again.

use super::LONG;
use super::stage::Stage;
use anyhow::Context as _;
use http::Method;
use kube::ResourceExt as _;
use kube::api::ListParams;
use nogoo9_load::{HttpLoad, HttpRun, Phases};
use nogoo9_model::keys;
use nogoo9_tests::{Api, Cluster, Edge, Observation, Template, until};
use serde_json::{Value, json};
use std::time::Duration;

/// What is in each file, with the workspace's id before it.
const CONTENT: &[u8] = b"\na file that outlives its pods\n\xff\x00";
/// Requests a second to each workspace: traffic, and time for all else on two cores.
const RATE: f64 = 10.0;
/// Longer than a request is held while a workspace is recreated.
const PATIENCE: Duration = Duration::from_secs(150);

/// How a workspace is upgraded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    SideBySide,
    Recreate,
}

impl Mode {
    pub(super) const ALL: [Self; 2] = [Self::SideBySide, Self::Recreate];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::SideBySide => "side",
            Self::Recreate => "recreate",
        }
    }
}

/// One workspace.
#[derive(Debug, Clone)]
pub(super) struct Ship {
    pub(super) id: String,
    pub(super) mode: Mode,
}

/// All of them.
pub(super) struct Fleet {
    pub(super) ships: Vec<Ship>,
    name: &'static str,
    alice: Api,
    cluster: Cluster,
    edge: Edge,
    load: HttpRun,
}

fn template(name: &str, mode: Mode, version: usize) -> Template {
    let name = format!("{name}-{}", mode.name());
    let template = Template::new(&name, &format!("{version}.0"))
        .annotation(keys::SETTLE, "0")
        .annotation(keys::DRAIN_TIMEOUT, "600");
    match mode {
        Mode::SideBySide => template,
        Mode::Recreate => template.files(None),
    }
}

fn load(edge: &Edge, id: &str) -> anyhow::Result<HttpLoad> {
    let token = edge.token().unwrap_or_default();
    let of = id.to_owned();
    Ok(HttpLoad::new(&edge.address("/info")?)?
        .connections(2)
        .rate(RATE)?
        .timeouts(PATIENCE, PATIENCE)
        .header("host", &edge.host(id))?
        .header("authorization", &format!("Bearer {token}"))?
        .check(move |answer| {
            let info: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            match info["workspace"] == of.as_str() {
                true => Ok(()),
                false => Err(format!("not an answer of {of}: {info}")),
            }
        }))
}

impl Fleet {
    /// Spawns `each` workspaces of each kind, puts a file where there is a claim, and starts the load.
    pub(super) async fn launch(
        stage: &Stage,
        name: &'static str,
        each: usize,
    ) -> anyhow::Result<Self> {
        let site = &stage.site;
        let (alice, cluster, edge) = (
            site.api("alice").await?,
            site.cluster().await?,
            site.edge("alice").await?,
        );
        let mut ships = Vec::new();
        for mode in Mode::ALL {
            cluster.apply(&template(name, mode, 0)).await?;
            let template = format!("{name}-{}", mode.name());
            until("the template to be known", LONG, || async {
                let reply = alice.get(&format!("/api/v1/templates/{template}")).await?;
                Ok(Observation::when(reply.body["usable"] == true, (), reply))
            })
            .await?;
            // Letters: no id may be the beginning of another.
            for letter in ('a'..='z').take(each) {
                let id = format!("{template}-{letter}");
                let spawn = json!({"template": template, "id": id});
                alice
                    .post("/api/v1/workspaces", &spawn)
                    .await?
                    .expect(201)?;
                ships.push(Ship { id, mode });
            }
        }
        for ship in &ships {
            site.routed(&ship.id, None).await?;
            if ship.mode == Mode::Recreate {
                let request = edge.request(Method::PUT, &edge.host(&ship.id), "/files/kept")?;
                let answer = Edge::send(request.body(content(&ship.id))).await?;
                assert!(answer.status.is_success(), "{}", answer.text());
            }
        }
        let loads = ships
            .iter()
            .map(|ship| load(&edge, &ship.id))
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self {
            load: HttpLoad::start_all(loads, &Phases::new("all"))?,
            ships,
            name,
            alice,
            cluster,
            edge,
        })
    }

    /// Makes a new version of both templates, asks for the upgrade of every workspace, and returns
    /// once all of them are there, whatever happened meanwhile.
    pub(super) async fn upgrade(&self, stage: &Stage, version: usize) -> anyhow::Result<()> {
        for mode in Mode::ALL {
            self.cluster
                .apply(&template(self.name, mode, version))
                .await?;
        }
        let each = self.ships.iter().map(|ship| async move {
            self.ask(ship, version).await?;
            self.arrives(stage, ship, version)
                .await
                .with_context(|| format!("{} on its way to {version}.0", ship.id))
        });
        futures::future::try_join_all(each).await?;
        self.no_other_process(stage).await
    }

    /// Asks until there is an answer: control may die over the question.
    async fn ask(&self, ship: &Ship, version: usize) -> anyhow::Result<()> {
        until("the upgrade to be taken", LONG, || async {
            let Ok(reply) = self.alice.act(&ship.id, "upgrade").await else {
                return Ok(Observation::NotYet("no answer".into()));
            };
            // What was taken with its answer lost may be over by now.
            let over = async || {
                let pods = self.cluster.pods(&ship.id).await;
                pods.is_ok_and(|pods| pods.iter().any(|pod| has_version(pod, version)))
            };
            let taken =
                reply.status == 200 && (reply.body["status"] == "upgrading" || over().await);
            Ok(Observation::when(taken, (), reply))
        })
        .await
    }

    async fn arrives(&self, stage: &Stage, ship: &Ship, version: usize) -> anyhow::Result<()> {
        let what = "one pod, of the new version, and a record at rest";
        let pod = until(what, LONG, || async {
            let (pods, record) = (
                self.cluster.pods(&ship.id).await?,
                self.cluster.record(&ship.id).await?.unwrap_or_default(),
            );
            let rests = record["upgrade"].is_null() && record["last"]["shown"] == true;
            let only = match pods.as_slice() {
                [only] if has_version(only, version) => Some(only.name_any()),
                _ => None,
            };
            let agrees =
                rests && only.is_some() && record["pod"]["name"].as_str() == only.as_deref();
            let seen = (
                pods.iter().map(|pod| pod.name_any()).collect::<Vec<_>>(),
                record,
            );
            Ok(Observation::when(agrees, only.unwrap_or_default(), seen))
        })
        .await?;
        stage.site.routed(&ship.id, Some(&pod)).await?;
        let info = self.edge.get(&ship.id, "/info").await?.json()?;
        assert_eq!(
            (&info["pod"], &info["version"]),
            (&json!(pod), &json!(format!("{version}.0"))),
            "{}",
            ship.id
        );
        if ship.mode == Mode::Recreate {
            let file = self.edge.get(&ship.id, "/files/kept").await?;
            assert_eq!(
                &file.body[..],
                &content(&ship.id)[..],
                "{}: {}",
                ship.id,
                file.status
            );
        }
        // However often it was asked for and begun again: every upgrade is one operation.
        let params =
            ListParams::default().labels(&format!("{}={}", keys::KIND, keys::KIND_OPERATION));
        let operations = self.cluster.config_maps_api().list(&params).await?.items;
        let target = format!("\"workspace\":\"{}\"", ship.id);
        let mine: Vec<&String> = operations
            .iter()
            .filter_map(|map| map.data.as_ref()?.get("operation.json"))
            .filter(|operation| operation.contains(&target))
            .collect();
        assert_eq!(mine.len(), version, "operations of {}: {mine:#?}", ship.id);
        for operation in mine {
            let operation: Value = serde_json::from_str(operation)?;
            assert_eq!(operation["state"], "succeeded", "{operation}");
        }
        Ok(())
    }

    async fn no_other_process(&self, stage: &Stage) -> anyhow::Result<()> {
        until("one program for each pod, and no other", LONG, || async {
            let pods = self.cluster.pods_api().list(&ListParams::default()).await?;
            let census = stage.site.census()?;
            let programs = census
                .with_command("nogoo9-sample")
                .into_iter()
                .filter(|process| !process.command.contains("pod-shim"))
                .count();
            let seen = (programs, pods.items.len());
            Ok(Observation::when(seen.0 == seen.1, (), seen))
        })
        .await
    }

    /// Ends the load, of which no request may have failed, and deletes the workspaces.
    pub(super) async fn home(self) -> anyhow::Result<String> {
        let report = self.load.finish().await;
        assert!(report.requests > 0);
        assert_eq!(report.failures, 0, "{:#?}", report.samples);
        // The last blow may be a moment old.
        until("control to be back", LONG, || async {
            let status = self
                .alice
                .ask(Method::GET, "/api/v1/capabilities", None)
                .await?
                .status;
            Ok(Observation::when(status == 200, (), status))
        })
        .await?;
        for ship in &self.ships {
            let path = format!("/api/v1/workspaces/{}?deleteData=true", ship.id);
            let reply = self.alice.ask(Method::DELETE, &path, None).await?;
            reply.expect(200)?;
        }
        until("all of them to be gone", LONG, || async {
            let pods = self.cluster.pods_api().list(&ListParams::default()).await?;
            Ok(Observation::when(
                pods.items.is_empty(),
                (),
                pods.items.len(),
            ))
        })
        .await?;
        Ok(report.table().to_string())
    }
}

fn content(id: &str) -> Vec<u8> {
    [id.as_bytes(), CONTENT].concat()
}

fn has_version(pod: &k8s_openapi::api::core::v1::Pod, version: usize) -> bool {
    let image = format!("nogoo9-sample:{version}.0");
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter_map(|container| container.image.as_deref())
        .any(|of| of == image)
}
