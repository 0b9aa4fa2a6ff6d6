//! One pod: carries out what [`PodState`] decides, and feeds back what came of it.

mod ending;
mod probing;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self as core, Pod, PodStatus};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::agent::Agent;
use super::api::StatusWriter;
use super::events::Level;
use super::launch::{self, Launched, Order};
use super::probe::{Kind, Probe, Tally};
use super::process::{Process, Surroundings};
use super::state::{Failure, PodState};
use super::status;
use ending::FORCED_GRACE;

/// Longest grace when the kubelet itself stops.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Reports that may wait for the worker.
const REPORTS: usize = 64;

/// What is wanted of a pod.
#[derive(Debug, Clone)]
pub(crate) enum Desired {
    /// It is there, as it is in the API.
    Present(Arc<Pod>),
    /// Its object is gone.
    Gone,
}

/// Runs one pod until it is gone or the kubelet stops.
pub(crate) struct Worker {
    agent: Arc<Agent>,
    pod: Arc<Pod>,
    uid: String,
    state: PodState,
    told: PodStatus,
    writer: StatusWriter,
    containers: HashMap<usize, Live>,
    launches: JoinSet<()>,
    pulled: Vec<bool>,
    volumes: Arc<Mutex<()>>,
    reports: mpsc::Receiver<Report>,
    reporter: mpsc::Sender<Report>,
}

/// A running container.
struct Live {
    process: Process,
    around: Surroundings,
    probes: Vec<AbortHandle>,
    tallies: Vec<(Kind, Probe, Tally)>,
    stopping: bool,
}

/// What tasks report. `run` is the restart count they belong to.
enum Report {
    Launched {
        index: usize,
        outcome: Result<Box<Launched>, Failure>,
    },
    Exited {
        index: usize,
        code: i32,
        message: Option<String>,
    },
    Probed {
        index: usize,
        run: i32,
        kind: Kind,
        result: Result<(), String>,
    },
}

/// Why the main loop ended.
enum End {
    Deleted,
    Gone,
    Stopped,
}

impl Worker {
    pub(crate) fn new(agent: Arc<Agent>, pod: Arc<Pod>, state: PodState) -> Self {
        let meta = &pod.metadata;
        let uid = meta.uid.clone().unwrap_or_default();
        let name = meta.name.clone().unwrap_or_default();
        let api = agent.pods(meta.namespace.as_deref().unwrap_or_default());
        let writer = StatusWriter::start(api, name, uid.clone(), agent.stop.clone());
        let (reporter, reports) = mpsc::channel(REPORTS);
        Self {
            pulled: vec![false; state.containers.len()],
            told: pod.status.clone().unwrap_or_default(),
            containers: HashMap::new(),
            launches: JoinSet::new(),
            volumes: Arc::default(),
            agent,
            pod,
            uid,
            state,
            writer,
            reports,
            reporter,
        }
    }

    /// Returns when nothing of the pod is left on this node.
    pub(crate) async fn run(mut self, mut desired: watch::Receiver<Desired>) {
        match self.serve(&mut desired).await {
            End::Deleted => self.terminate(&mut desired).await,
            End::Gone => self.stop(FORCED_GRACE).await,
            End::Stopped => {
                let grace = self.grace().min(STOP_GRACE);
                self.stop(grace).await;
            }
        }
    }

    async fn serve(&mut self, desired: &mut watch::Receiver<Desired>) -> End {
        let stop = self.agent.stop.clone();
        loop {
            if self.pod.metadata.deletion_timestamp.is_some() {
                return End::Deleted;
            }
            let now = Timestamp::now();
            let decision = self.state.decide(now);
            for index in decision.start {
                self.launch(index, now);
            }
            self.publish(now);
            let wake = async {
                match decision.wake {
                    // A little late rather than early: early would be a busy loop.
                    Some(at) => sleep(until(now, at) + Duration::from_millis(1)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return End::Stopped,
                changed = desired.changed() => {
                    let wanted = desired.borrow_and_update().clone();
                    match wanted {
                        Desired::Present(pod) if changed.is_ok() => self.observe(pod),
                        _ => return End::Gone,
                    }
                }
                Some(report) = self.reports.recv() => self.take(report),
                () = wake => {}
            }
        }
    }

    /// A newer version of the pod's object.
    fn observe(&mut self, pod: Arc<Pod>) {
        // Conditions of others (readiness gates, the scheduler's) come from the API.
        if let Some(status) = &pod.status {
            self.told = status::adopt(&self.told, status);
        }
        self.pod = pod;
    }

    fn publish(&mut self, now: Timestamp) {
        let status = status::render(&self.pod, &self.state, &self.told, now);
        if status != self.told {
            self.told = status.clone();
            self.writer.tell(status);
        }
    }

    fn spec(&self, index: usize) -> Option<core::Container> {
        let spec = self.pod.spec.as_ref()?;
        let init = spec.init_containers.iter().flatten();
        init.chain(&spec.containers).nth(index).cloned()
    }

    fn record(&self, index: usize, level: Level, reason: &'static str, message: String) {
        let container = self
            .state
            .containers
            .get(index)
            .map(|c| (c.init, c.name.as_str()));
        self.agent
            .recorder
            .record(&self.pod, container, level, reason, message);
    }

    fn launch(&mut self, index: usize, now: Timestamp) {
        let Some(spec) = self.spec(index) else { return };
        let Some(container) = self.state.containers.get_mut(index) else {
            return;
        };
        container.begin(now);
        let order = Order {
            pod: Arc::clone(&self.pod),
            spec,
            init: container.init,
            pod_ip: self.state.ip.to_string(),
            restart_count: container.restart_count,
            pulled: self.pulled.get(index).copied().unwrap_or(false),
            volumes: Arc::clone(&self.volumes),
        };
        let (agent, reporter) = (Arc::clone(&self.agent), self.reporter.clone());
        self.launches.spawn(async move {
            let outcome = launch::launch(&agent, &order).await.map(Box::new);
            let _ = reporter.send(Report::Launched { index, outcome }).await;
        });
    }

    fn take(&mut self, report: Report) {
        let now = Timestamp::now();
        while self.launches.try_join_next().is_some() {}
        match report {
            Report::Launched {
                index,
                outcome: Ok(launched),
            } => self.launched(index, *launched, now),
            Report::Launched {
                index,
                outcome: Err(failure),
            } => self.failed(index, failure, now),
            Report::Exited {
                index,
                code,
                message,
            } => self.exited(index, code, message, now),
            Report::Probed {
                index,
                run,
                kind,
                result,
            } => self.probed(index, run, kind, result),
        }
    }

    fn launched(&mut self, index: usize, launched: Launched, now: Timestamp) {
        let Launched {
            process,
            running,
            around,
            image_id,
            message,
        } = launched;
        let Some(container) = self.state.containers.get_mut(index) else {
            return;
        };
        container.running(image_id, now);
        let needs_startup = container.has_startup_probe;
        if let Some(pulled) = self.pulled.get_mut(index) {
            *pulled = true;
        }
        let reporter = self.reporter.clone();
        tokio::spawn(async move {
            let code = running.exit_code().await;
            let message = message.read(code).await;
            let _ = reporter
                .send(Report::Exited {
                    index,
                    code,
                    message,
                })
                .await;
        });
        let live = Live {
            process,
            around,
            probes: Vec::new(),
            tallies: Vec::new(),
            stopping: false,
        };
        self.containers.insert(index, live);
        if needs_startup {
            self.start_probes(index, &[Kind::Startup]);
        } else {
            self.start_probes(index, &[Kind::Liveness, Kind::Readiness]);
        }
    }

    fn failed(&mut self, index: usize, failure: Failure, now: Timestamp) {
        match &failure {
            Failure::Config {
                reason: "ContainerCreating",
                message,
            } => {
                self.record(index, Level::Warning, "FailedMount", message.clone());
            }
            Failure::Config { message, .. } | Failure::Start { message } => {
                self.record(index, Level::Warning, "Failed", format!("Error: {message}"));
            }
            // Told where the pull was attempted.
            Failure::Pull { .. } => {
                let image = self
                    .state
                    .containers
                    .get(index)
                    .map(|c| c.image.clone())
                    .unwrap_or_default();
                self.record(
                    index,
                    Level::Normal,
                    "BackOff",
                    format!("Back-off pulling image \"{image}\""),
                );
            }
        }
        if let Some(container) = self.state.containers.get_mut(index) {
            container.failed(failure, now);
        }
        self.warn_of_back_off(index, now);
    }

    fn exited(&mut self, index: usize, code: i32, message: Option<String>, now: Timestamp) {
        if let Some(live) = self.containers.remove(&index) {
            live.probes.iter().for_each(AbortHandle::abort);
        }
        if let Some(container) = self.state.containers.get_mut(index) {
            let id = status::container_id(&self.pod, container);
            container.exited(code, message, id, now);
        }
        self.warn_of_back_off(index, now);
    }

    fn warn_of_back_off(&self, index: usize, now: Timestamp) {
        let Some(container) = self.state.containers.get(index) else {
            return;
        };
        let waits = container
            .restart_at(self.state.policy)
            .is_some_and(|at| at > now);
        if waits && !self.state.terminating {
            let meta = &self.pod.metadata;
            let message = format!(
                "Back-off restarting failed container {} in pod {}_{}({})",
                container.name,
                meta.name.as_deref().unwrap_or_default(),
                meta.namespace.as_deref().unwrap_or_default(),
                self.uid,
            );
            self.record(index, Level::Warning, "BackOff", message);
        }
    }
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}
