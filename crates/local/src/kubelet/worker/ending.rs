//! The end of a pod: by the API's wish, by a forced delete, or with the kubelet.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::api;
use super::super::events::Level;
use super::super::probe::{self, Check};
use super::super::prober::{self, Target};
use super::super::process::KILL_BOUND;
use super::{Desired, Report, STOP_GRACE, Worker};

/// Grace of a pod whose object vanished: a forced delete, which the kubelet makes
/// no harsher than this.
pub(super) const FORCED_GRACE: Duration = Duration::from_secs(2);

impl Worker {
    /// The pod's grace period.
    pub(super) fn grace(&self) -> Duration {
        let spec = self
            .pod
            .spec
            .as_ref()
            .and_then(|spec| spec.termination_grace_period_seconds);
        let seconds = self
            .pod
            .metadata
            .deletion_grace_period_seconds
            .or(spec)
            .unwrap_or(30);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    /// Begins to stop a container: preStop, then `SIGTERM`; `SIGKILL` at the deadline.
    pub(super) fn stop_container(&mut self, index: usize, deadline: Instant) {
        let hook = self.spec(index).and_then(|spec| pre_stop(&spec));
        let Some(live) = self.containers.get_mut(&index) else {
            return;
        };
        live.stopping = true;
        live.probes.drain(..).for_each(|task| task.abort());
        let target = Target {
            pod_ip: self.state.ip.to_string(),
            shim: self.agent.shim.clone(),
            around: live.around.clone(),
            reapers: self.agent.reapers.clone(),
        };
        let process = live.process.clone();
        let (agent, pod) = (Arc::clone(&self.agent), Arc::clone(&self.pod));
        let name = self
            .state
            .containers
            .get(index)
            .map(|c| (c.init, c.name.clone()));
        // Holds the process only until the deadline, which is when it is killed.
        tokio::spawn(async move {
            let left = deadline.saturating_duration_since(Instant::now());
            let result = match hook {
                Some(Hook::Check(check)) => prober::run(&check, &target, left).await,
                Some(Hook::Sleep(time)) => {
                    sleep(time.min(left)).await;
                    Ok(())
                }
                None => Ok(()),
            };
            if let Err(problem) = result {
                let container = name.as_ref().map(|(init, name)| (*init, name.as_str()));
                agent.recorder.record(
                    &pod,
                    container,
                    Level::Warning,
                    "FailedPreStopHook",
                    format!("PreStopHook failed: {problem}"),
                );
            }
            process.terminate();
            sleep_until(deadline).await;
            process.kill();
        });
    }

    /// Deletion as the API asks for it, up to the removal of the object.
    pub(super) async fn terminate(mut self, desired: &mut watch::Receiver<Desired>) {
        self.state.terminating = true;
        self.launches.shutdown().await;
        self.publish(Timestamp::now());
        let began = Instant::now();
        let mut deadline = began + self.grace();
        let running: Vec<usize> = self.containers.keys().copied().collect();
        for index in running {
            let name = self
                .state
                .containers
                .get(index)
                .map(|c| c.name.clone())
                .unwrap_or_default();
            self.record(
                index,
                Level::Normal,
                "Killing",
                format!("Stopping container {name}"),
            );
            self.stop_container(index, deadline);
        }
        let stop = self.agent.stop.clone();
        let mut present = true;
        // A launch may have succeeded between the last report and now.
        self.drain_reports();
        while !self.containers.is_empty() {
            tokio::select! {
                Some(report) = self.reports.recv() => {
                    self.take(report);
                    self.publish(Timestamp::now());
                }
                changed = desired.changed(), if present => {
                    let wanted = desired.borrow_and_update().clone();
                    match wanted {
                        Desired::Present(pod) if changed.is_ok() => {
                            self.observe(pod);
                            deadline = deadline.min(began + self.grace());
                        }
                        _ => {
                            present = false;
                            deadline = deadline.min(Instant::now() + FORCED_GRACE);
                        }
                    }
                }
                () = sleep_until(deadline) => {
                    self.kill_all();
                    deadline = Instant::now() + KILL_BOUND;
                }
                () = stop.cancelled() => return self.stop(STOP_GRACE).await,
            }
        }
        self.settle_unstarted();
        self.publish(Timestamp::now());
        let namespace = self.pod.metadata.namespace.clone().unwrap_or_default();
        let name = self.pod.metadata.name.clone().unwrap_or_default();
        let api = self.agent.pods(&namespace);
        self.writer.finish().await;
        // Before its object goes: whoever waits for that may mount them at once.
        self.agent.claims.release(&self.uid);
        tokio::select! {
            () = api::remove(&api, &name, &self.uid) => {}
            () = stop.cancelled() => {}
        }
    }

    /// What was still being launched is not launched any more.
    pub(super) fn settle_unstarted(&mut self) {
        for container in &mut self.state.containers {
            container.abandon();
        }
    }

    pub(super) fn drain_reports(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            // A process that is launched now is dropped with its report, which kills it.
            if !matches!(report, Report::Launched { .. }) {
                self.take(report);
            }
        }
    }

    pub(super) fn kill_all(&self) {
        for live in self.containers.values() {
            live.process.kill();
        }
    }

    /// Stops all processes without telling the API server.
    pub(super) async fn stop(mut self, grace: Duration) {
        self.state.terminating = true;
        self.launches.shutdown().await;
        self.drain_reports();
        for live in self.containers.values() {
            live.probes.iter().for_each(AbortHandle::abort);
            live.process.terminate();
        }
        if !self.wait_for_exits(grace).await {
            self.kill_all();
            if !self.wait_for_exits(KILL_BOUND).await {
                tracing::error!(uid = self.uid, "processes of a pod could not be stopped");
            }
        }
    }

    pub(super) async fn wait_for_exits(&mut self, bound: Duration) -> bool {
        let deadline = Instant::now() + bound;
        while !self.containers.is_empty() {
            tokio::select! {
                Some(report) = self.reports.recv() => self.take(report),
                () = sleep_until(deadline) => return false,
            }
        }
        true
    }
}

enum Hook {
    Check(Check),
    Sleep(Duration),
}

fn pre_stop(spec: &core::Container) -> Option<Hook> {
    let hook = spec.lifecycle.as_ref()?.pre_stop.as_ref()?;
    if let Some(exec) = &hook.exec {
        Some(Hook::Check(Check::Exec(
            exec.command.clone().unwrap_or_default(),
        )))
    } else if let Some(http) = &hook.http_get {
        Some(Hook::Check(probe::http_check(http, spec)))
    } else {
        let seconds = u64::try_from(hook.sleep.as_ref()?.seconds).unwrap_or(0);
        Some(Hook::Sleep(Duration::from_secs(seconds)))
    }
}
