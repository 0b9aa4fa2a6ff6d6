//! Seven workspaces, each held in another phase of its upgrade: five side by side, two recreated.

use super::LONG;
use anyhow::Context as _;
use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use kube::api::ListParams;
use nogoo9_model::keys;
use nogoo9_tests::{Api, Cluster, Edge, Observation, Site, Socket, Template, until};
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio_tungstenite::tungstenite::Message;

/// Where an upgrade is when the blow falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The answer has just come; hardly a candidate exists.
    Asked,
    /// The candidate runs and is not ready yet.
    Starting,
    /// The candidate is ready and has to stay so for a moment.
    Settling,
    /// The candidate has taken over; a socket keeps the old pod.
    Draining,
    /// The candidate's image is not there; the upgrade will be given up.
    Failing,
    /// Recreate: the old pod answers its last requests, the new one waits behind its gate.
    Quiescing,
    /// Recreate: the old pod is gone, the new one is not ready yet, requests are held.
    Released,
}

const PHASES: [Phase; 7] = [
    Phase::Failing,
    Phase::Released,
    Phase::Starting,
    Phase::Settling,
    Phase::Quiescing,
    Phase::Draining,
    Phase::Asked,
];

impl Phase {
    /// Whether the workspace has a claim, and with it files.
    fn is_recreate(self) -> bool {
        matches!(self, Self::Quiescing | Self::Released)
    }

    /// Whether the new pod is ready only once the blow has fallen.
    fn is_kept_unready(self) -> bool {
        matches!(self, Self::Starting | Self::Released)
    }
}

/// What is in each file.
const CONTENT: &[u8] = b"a file that outlives its pods\n\xff\x00";
/// Longer than the longest that a recreate waits for requests under way, in milliseconds.
const SLOW: u32 = 12_000;

/// One workspace of the fleet.
pub(super) struct Ship {
    pub(super) id: String,
    phase: Phase,
    old: String,
    new: String,
    operation: String,
    pub(super) socket: Option<Socket>,
}

/// All of them.
pub(super) struct Fleet {
    pub(super) ships: Vec<Ship>,
    name: String,
    alice: Api,
    cluster: Cluster,
    edge: Edge,
}

/// The file that makes the new pod of a workspace ready that is kept unready.
fn ready_file(site: &Site, id: &str) -> PathBuf {
    site.data_dir().join(format!("{id}-may-be-ready"))
}

fn templates(site: &Site, id: &str, phase: Phase) -> (Template, Template) {
    let first = Template::new(id, "1.0")
        .annotation(keys::SETTLE, "0")
        .annotation(keys::DRAIN_TIMEOUT, "600");
    let first = if phase.is_recreate() {
        first.files(None)
    } else {
        first
    };
    let second = first.clone().version("2.0");
    let second = match phase {
        Phase::Asked | Phase::Draining | Phase::Quiescing => second,
        Phase::Starting | Phase::Released => {
            let test = json!(["test", "-e", ready_file(site, id)]);
            let probe = json!({"exec": {"command": test}, "periodSeconds": 1});
            second.container("readinessProbe", probe)
        }
        Phase::Settling => second.annotation(keys::SETTLE, "12"),
        Phase::Failing => second
            .image("registry.invalid/none:1")
            .annotation(keys::UPGRADE_DEADLINE, "20"),
    };
    (first, second)
}

impl Ship {
    /// Whether the upgrade is as far as it should be for the blow.
    fn is_there(&self, record: &Value, pods: &[Pod]) -> bool {
        let upgrade = &record["upgrade"];
        let created = pods.len() == 2;
        match self.phase {
            Phase::Asked => true,
            Phase::Starting => created && upgrade["readySeen"] == false,
            Phase::Settling => {
                created && upgrade["readySeen"] == true && upgrade["phase"]["is"] == "starting"
            }
            Phase::Draining => created && upgrade["phase"]["is"] == "committed",
            Phase::Quiescing => created && upgrade["phase"]["is"] == "quiescing",
            Phase::Released => pods.len() == 1 && upgrade["phase"]["is"] == "released",
            Phase::Failing => pods.get(1).is_some_and(|pod| {
                let statuses = pod
                    .status
                    .iter()
                    .flat_map(|status| status.container_statuses.iter().flatten());
                let mut waiting =
                    statuses.filter_map(|c| c.state.as_ref()?.waiting.as_ref()?.reason.clone());
                waiting.any(|reason| reason.contains("Image"))
            }),
        }
    }

    fn succeeds(&self) -> bool {
        self.phase != Phase::Failing
    }
}

impl Fleet {
    /// Spawns the workspaces, begins their upgrades, and returns when each is in its phase.
    pub(super) async fn under_way(site: &Site, name: &str) -> anyhow::Result<Self> {
        let (alice, cluster, edge) = (
            site.api("alice").await?,
            site.cluster().await?,
            site.edge("alice").await?,
        );
        let ids: Vec<_> = PHASES
            .iter()
            .map(|phase| (format!("{name}-{phase:?}").to_lowercase(), *phase))
            .collect();
        let spawned = ids.iter().map(|(id, phase)| {
            let (alice, template) = (alice.clone(), templates(site, id, *phase).0);
            async move { site.spawn(&alice, &template, json!({})).await }
        });
        futures::future::try_join_all(spawned).await?;
        let mut ships = Vec::new();
        for (id, phase) in ids {
            let old = cluster.pod_names(&id).await?.remove(0);
            let mut socket = Socket::open(&edge, &edge.host(&id), "/echo", &[]).await?;
            socket.send(Message::text("before")).await?;
            socket.next().await?;
            // Only one socket keeps its pod; the others end, so that their upgrades can.
            let socket = if phase == Phase::Draining {
                Some(socket)
            } else {
                socket.close().await;
                None
            };
            if phase.is_recreate() {
                let path = format!("/files/{name}");
                let request = edge.request(Method::PUT, &edge.host(&id), &path)?;
                let answer = Edge::send(request.body(CONTENT)).await?;
                assert!(answer.status.is_success(), "{}", answer.text());
            }
            if phase == Phase::Quiescing {
                // Whether it is answered depends on what is killed; that it is under way is enough.
                let (visitor, of) = (edge.clone(), id.clone());
                tokio::spawn(async move { visitor.get(&of, &format!("/slow?ms={SLOW}")).await });
                let path = format!("/sessions?workspace={id}");
                until("the request to be under way", LONG, || async {
                    let sessions = site.proxy_admin(&path).await?;
                    let requests = sessions["requests"].as_object();
                    let any = requests.is_some_and(|requests| !requests.is_empty());
                    Ok(Observation::when(any, (), sessions))
                })
                .await?;
            }
            cluster.apply(&templates(site, &id, phase).1).await?;
            let answer = alice.upgrade(&id).await?;
            assert_eq!(answer["status"], "upgrading", "{answer}");
            let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
            let ship = Ship {
                id,
                phase,
                old,
                new: text("podName"),
                operation: text("operationId"),
                socket,
            };
            until(&format!("{} to be {phase:?}", ship.id), LONG, || async {
                let seen = (
                    cluster.record(&ship.id).await?.unwrap_or_default(),
                    cluster.pods(&ship.id).await?,
                );
                Ok(Observation::when(ship.is_there(&seen.0, &seen.1), (), seen))
            })
            .await?;
            ships.push(ship);
        }
        Ok(Self {
            ships,
            name: name.to_owned(),
            alice,
            cluster,
            edge,
        })
    }

    /// Lets go of what keeps old pods and holds new ones back, and asserts that every upgrade ends as it should, with exactly
    /// one pod, one operation and one program for each workspace.
    pub(super) async fn ends_well(self, site: &Site) -> anyhow::Result<()> {
        self.ends_well_before(site, async || {}).await
    }

    /// [`Self::ends_well`], with something to do at the end, before the workspaces are deleted.
    pub(super) async fn ends_well_before(
        mut self,
        site: &Site,
        finally: impl AsyncFnOnce(),
    ) -> anyhow::Result<()> {
        for ship in &mut self.ships {
            if let Some(socket) = ship.socket.take() {
                socket.close().await;
            }
            if ship.phase.is_kept_unready() {
                std::fs::write(ready_file(site, &ship.id), "").context("ready file")?;
            }
        }
        for ship in &self.ships {
            let ended = until(
                &format!("the upgrade of {} to end", ship.id),
                LONG,
                || async {
                    let Ok(seen) = self.alice.operation(&ship.operation).await else {
                        return Ok(Observation::NotYet("no answer".into()));
                    };
                    Ok(Observation::when(seen["done"] == true, seen.clone(), seen))
                },
            )
            .await?;
            let (state, pod, version) = if ship.succeeds() {
                ("succeeded", &ship.new, "2.0")
            } else {
                ("failed", &ship.old, "1.0")
            };
            assert_eq!(ended["state"], state, "{}: {ended}", ship.id);
            self.cluster.only_pod(&ship.id, pod, LONG).await?;
            site.routed(&ship.id, Some(pod)).await?;
            let info = self.edge.get(&ship.id, "/info").await?.json()?;
            assert_eq!(
                (&info["version"], &info["pod"]),
                (&json!(version), &json!(pod)),
                "{}",
                ship.id
            );
            if ship.phase.is_recreate() {
                let path = format!("/files/{}", self.name);
                let file = self.edge.get(&ship.id, &path).await?;
                assert_eq!(&file.body[..], CONTENT, "{}: {}", ship.id, file.status);
            }
            self.record_agrees(ship, pod).await?;
        }
        let programs = || async {
            let pods = self
                .cluster
                .pods_api()
                .list(&ListParams::default())
                .await?
                .items;
            let census = site.census()?;
            let running = census
                .with_command("nogoo9-sample")
                .into_iter()
                .filter(|p| !p.command.contains("pod-shim"))
                .count();
            Ok(Observation::when(
                running == pods.len(),
                (),
                (
                    running,
                    pods.iter().map(|pod| pod.name_any()).collect::<Vec<_>>(),
                ),
            ))
        };
        until("one program for each pod, and no other", LONG, programs).await?;
        finally().await;
        self.delete(site).await
    }

    async fn record_agrees(&self, ship: &Ship, pod: &str) -> anyhow::Result<()> {
        let only = self.cluster.pods(&ship.id).await?.remove(0);
        until(
            &format!("the record of {} to agree", ship.id),
            LONG,
            || async {
                let record = self.cluster.record(&ship.id).await?.unwrap_or_default();
                let agrees = record["upgrade"].is_null()
                    && record["pod"]["name"] == pod
                    && record["pod"]["uid"].as_str() == only.metadata.uid.as_deref()
                    && record["desired"] == "running"
                    && record["last"]["operation"]["id"] == ship.operation.as_str();
                Ok(Observation::when(agrees, (), record))
            },
        )
        .await?;
        let params =
            ListParams::default().labels(&format!("{}={}", keys::KIND, keys::KIND_OPERATION));
        let operations: Vec<ConfigMap> = self.cluster.config_maps_api().list(&params).await?.items;
        let target = format!("\"workspace\":\"{}\"", ship.id);
        let mine = operations.iter().filter(|map| {
            map.data
                .iter()
                .flat_map(|data| data.values())
                .any(|json| json.contains(&target))
        });
        assert_eq!(mine.count(), 1, "operations of {}", ship.id);
        Ok(())
    }

    /// Deletes the workspaces: the next scenario counts programs too.
    async fn delete(&self, site: &Site) -> anyhow::Result<()> {
        for ship in &self.ships {
            let path = format!("/api/v1/workspaces/{}?deleteData=true", ship.id);
            self.alice
                .ask(Method::DELETE, &path, None)
                .await?
                .expect(200)?;
        }
        until("all of them to be gone", LONG, || async {
            let pods = self
                .cluster
                .pods_api()
                .list(&ListParams::default())
                .await?
                .items
                .len();
            let programs = site.census()?.with_command("nogoo9-sample").len();
            Ok(Observation::when(
                (pods, programs) == (0, 0),
                (),
                (pods, programs),
            ))
        })
        .await
    }
}
