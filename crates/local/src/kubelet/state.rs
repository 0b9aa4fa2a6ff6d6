//! What the kubelet knows of one pod, and what is to be done next. Pure: effects are
//! carried out by the worker, which reports back what came of them; `now` is passed in.

use std::net::Ipv4Addr;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{self as core, Pod};

use super::backoff::{BackOff, after};

/// For how long a failed pull reads `ErrImagePull` before `ImagePullBackOff`.
const PULL_ERROR_SHOWN: SignedDuration = SignedDuration::from_secs(2);
/// Pause between attempts to configure a container whose ConfigMap is missing.
const CONFIG_RETRY: SignedDuration = SignedDuration::from_secs(3);

/// `spec.restartPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terminated {
    pub(crate) exit_code: i32,
    pub(crate) reason: String,
    pub(crate) message: Option<String>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Timestamp,
    pub(crate) container_id: Option<String>,
}

/// Why a container could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The image has no meaning here.
    Pull {
        reason: &'static str,
        message: String,
    },
    /// Its configuration cannot be built, or its volumes cannot.
    Config {
        reason: &'static str,
        message: String,
    },
    /// Its program cannot be run.
    Start { message: String },
}

/// Where a container stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Not begun.
    Waiting,
    /// Being pulled, configured and started.
    Starting,
    PullFailed {
        reason: &'static str,
        message: String,
        at: Timestamp,
        retry_at: Timestamp,
    },
    Unconfigurable {
        reason: &'static str,
        message: String,
        retry_at: Timestamp,
    },
    Running {
        started_at: Timestamp,
    },
    Exited(Terminated),
}

/// One container of a pod.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) image_id: String,
    pub(crate) init: bool,
    pub(crate) state: State,
    pub(crate) last: Option<Terminated>,
    pub(crate) restart_count: i32,
    /// The startup probe has passed, or there is none.
    pub(crate) started: bool,
    /// What the readiness probe says; true without one.
    pub(crate) probed_ready: bool,
    pub(crate) has_startup_probe: bool,
    pub(crate) has_readiness_probe: bool,
    restarts: BackOff,
    pulls: BackOff,
    /// Why the last pull failed, while the next one is tried: it is told until that one has ended.
    pub(crate) last_pull: Option<(&'static str, String)>,
}

/// One pod.
#[derive(Debug, Clone)]
pub(crate) struct PodState {
    /// Init containers first, each group in the order of the spec.
    pub(crate) containers: Vec<Container>,
    pub(crate) policy: RestartPolicy,
    pub(crate) ip: Ipv4Addr,
    pub(crate) start_time: Timestamp,
    pub(crate) terminating: bool,
}

/// What to do now, and when to look again if nothing happens before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Indices of containers to start.
    pub(crate) start: Vec<usize>,
    pub(crate) wake: Option<Timestamp>,
}

impl RestartPolicy {
    fn of(pod: &Pod) -> Self {
        match pod
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref())
        {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }
}

impl Container {
    fn new(
        spec: &core::Container,
        init: bool,
        earlier: Option<&core::ContainerStatus>,
        now: Timestamp,
    ) -> Self {
        let mut container = Self {
            name: spec.name.clone(),
            image: spec.image.clone().unwrap_or_default(),
            image_id: String::new(),
            init,
            state: State::Waiting,
            last: None,
            restart_count: 0,
            started: false,
            probed_ready: false,
            has_startup_probe: !init && spec.startup_probe.is_some(),
            has_readiness_probe: !init && spec.readiness_probe.is_some(),
            restarts: BackOff::default(),
            pulls: BackOff::default(),
            last_pull: None,
        };
        if let Some(status) = earlier {
            container.resume(status, now);
        }
        container
    }

    /// Takes up what an earlier life of the kubelet reported. What ran then was
    /// killed with it, and counts as a failed run that is restarted at once.
    fn resume(&mut self, status: &core::ContainerStatus, now: Timestamp) {
        self.restart_count = status.restart_count;
        let ended = |state: Option<&core::ContainerState>| {
            state
                .and_then(|state| state.terminated.as_ref())
                .map(|t| Terminated {
                    exit_code: t.exit_code,
                    reason: t.reason.clone().unwrap_or_default(),
                    message: t.message.clone(),
                    started_at: t.started_at.as_ref().map(|time| time.0),
                    finished_at: t.finished_at.as_ref().map_or(now, |time| time.0),
                    container_id: t.container_id.clone(),
                })
        };
        self.last = ended(status.last_state.as_ref());
        self.image_id.clone_from(&status.image_id);
        if let Some(terminated) = ended(status.state.as_ref()) {
            self.state = State::Exited(terminated);
        } else if let Some(running) = status
            .state
            .as_ref()
            .and_then(|state| state.running.as_ref())
        {
            self.state = State::Exited(Terminated {
                exit_code: 137,
                reason: "Error".to_owned(),
                message: Some("The node agent was stopped while the container ran".to_owned()),
                started_at: running.started_at.as_ref().map(|time| time.0),
                finished_at: now,
                container_id: status.container_id.clone(),
            });
        } else if let Some(last) = self.last.take() {
            // It was waiting out its back-off.
            self.state = State::Exited(last);
        }
    }

    /// Marks the start of an attempt, counting a restart.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        match std::mem::replace(&mut self.state, State::Starting) {
            State::Exited(terminated) => {
                self.last = Some(terminated);
                self.restart_count = self.restart_count.saturating_add(1);
                self.restarts.advance(now);
            }
            State::PullFailed {
                reason, message, ..
            } => self.last_pull = Some((reason, message)),
            _ => self.pulls.reset(),
        }
        self.started = false;
        self.probed_ready = false;
    }

    /// The process runs.
    pub(crate) fn running(&mut self, image_id: String, now: Timestamp) {
        self.pulls.reset();
        self.last_pull = None;
        self.image_id = image_id;
        self.state = State::Running { started_at: now };
        self.started = !self.has_startup_probe;
        self.probed_ready = !self.has_readiness_probe;
    }

    /// The attempt failed.
    pub(crate) fn failed(&mut self, failure: Failure, now: Timestamp) {
        self.last_pull = None;
        self.state = match failure {
            Failure::Pull { reason, message } => {
                self.pulls.advance(now);
                let retry_at = after(now, self.pulls.delay(now));
                State::PullFailed {
                    reason,
                    message,
                    at: now,
                    retry_at,
                }
            }
            Failure::Config { reason, message } => State::Unconfigurable {
                reason,
                message,
                retry_at: after(now, CONFIG_RETRY),
            },
            Failure::Start { message } => State::Exited(Terminated {
                exit_code: 128,
                reason: "StartError".to_owned(),
                message: Some(message),
                started_at: None,
                finished_at: now,
                container_id: None,
            }),
        };
    }

    /// The process ended.
    pub(crate) fn exited(
        &mut self,
        exit_code: i32,
        message: Option<String>,
        container_id: String,
        now: Timestamp,
    ) {
        let started_at = match self.state {
            State::Running { started_at } => Some(started_at),
            _ => None,
        };
        let reason = if exit_code == 0 { "Completed" } else { "Error" };
        self.started = false;
        self.probed_ready = false;
        self.state = State::Exited(Terminated {
            exit_code,
            reason: reason.to_owned(),
            message,
            started_at,
            finished_at: now,
            container_id: Some(container_id),
        });
    }

    /// The pod ends while it was being started.
    pub(crate) fn abandon(&mut self) {
        if self.state == State::Starting {
            self.state = State::Waiting;
        }
    }

    /// When it is to be started again, if it ended and the policy says so.
    pub(crate) fn restart_at(&self, policy: RestartPolicy) -> Option<Timestamp> {
        let State::Exited(ended) = &self.state else {
            return None;
        };
        let failed = ended.exit_code != 0;
        let restart = match policy {
            RestartPolicy::Never => false,
            RestartPolicy::OnFailure => failed,
            RestartPolicy::Always => failed || !self.init,
        };
        restart.then(|| after(ended.finished_at, self.restarts.delay(ended.finished_at)))
    }

    /// The delay that [`Self::restart_at`] waits out.
    pub(crate) fn restart_delay(&self) -> SignedDuration {
        match &self.state {
            State::Exited(ended) => self.restarts.delay(ended.finished_at),
            _ => SignedDuration::ZERO,
        }
    }

    /// Ran to success: what lets an init container's successor start.
    pub(crate) fn succeeded(&self) -> bool {
        matches!(&self.state, State::Exited(ended) if ended.exit_code == 0)
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Ended or never begun, with no process and none on its way.
    pub(crate) fn is_idle(&self) -> bool {
        !matches!(self.state, State::Running { .. } | State::Starting)
    }

    /// Whether a failed pull still reads as the error itself.
    pub(crate) fn pull_error_shown(at: Timestamp, now: Timestamp) -> bool {
        now < after(at, PULL_ERROR_SHOWN)
    }

    /// `None`: nothing to do until something happens. A time not after `now`: start.
    fn due(&self, policy: RestartPolicy) -> Option<Timestamp> {
        match &self.state {
            State::Waiting => Some(Timestamp::MIN),
            State::Starting | State::Running { .. } => None,
            State::PullFailed { retry_at, .. } | State::Unconfigurable { retry_at, .. } => {
                Some(*retry_at)
            }
            State::Exited(_) => self.restart_at(policy),
        }
    }
}

impl PodState {
    /// The state of a pod that this kubelet has not run yet, or not in this life.
    pub(crate) fn new(pod: &Pod, ip: Ipv4Addr, now: Timestamp) -> Self {
        let status = pod.status.as_ref();
        let spec = pod.spec.as_ref();
        let find = |list: Option<&Vec<core::ContainerStatus>>, name: &str| {
            list.into_iter()
                .flatten()
                .find(|status| status.name == name)
                .cloned()
        };
        let init = spec
            .and_then(|spec| spec.init_containers.as_ref())
            .into_iter()
            .flatten()
            .map(|c| {
                let earlier = find(
                    status.and_then(|s| s.init_container_statuses.as_ref()),
                    &c.name,
                );
                Container::new(c, true, earlier.as_ref(), now)
            });
        let main = spec
            .map(|spec| &spec.containers)
            .into_iter()
            .flatten()
            .map(|c| {
                let earlier = find(status.and_then(|s| s.container_statuses.as_ref()), &c.name);
                Container::new(c, false, earlier.as_ref(), now)
            });
        Self {
            containers: init.chain(main).collect(),
            policy: RestartPolicy::of(pod),
            ip,
            start_time: status
                .and_then(|s| s.start_time.as_ref())
                .map_or(now, |time| time.0),
            terminating: false,
        }
    }

    pub(crate) fn init(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(|container| container.init)
    }

    pub(crate) fn main(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(|container| !container.init)
    }

    /// Every init container ran to success.
    pub(crate) fn initialized(&self) -> bool {
        self.init().all(Container::succeeded)
    }

    /// An init container failed for good.
    pub(crate) fn init_failed(&self) -> bool {
        self.policy == RestartPolicy::Never
            && self
                .init()
                .any(|c| matches!(&c.state, State::Exited(ended) if ended.exit_code != 0))
    }

    /// No process, and none on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.containers.iter().all(Container::is_idle)
    }

    /// What to start now. Init containers run one after the other, each to success,
    /// before any other container starts.
    pub(crate) fn decide(&self, now: Timestamp) -> Decision {
        let mut decision = Decision::default();
        if self.terminating || self.init_failed() {
            return decision;
        }
        let first_unfinished = self
            .containers
            .iter()
            .position(|c| c.init && !c.succeeded());
        for (index, container) in self.containers.iter().enumerate() {
            let turn = match first_unfinished {
                Some(first) => index == first,
                None => !container.init,
            };
            let mut wake = None;
            match container.due(self.policy) {
                Some(at) if turn && at <= now => decision.start.push(index),
                Some(at) if turn => wake = Some(at),
                _ => {}
            }
            if let State::PullFailed { at, .. } = &container.state
                && Container::pull_error_shown(*at, now)
            {
                let shown = after(*at, PULL_ERROR_SHOWN);
                wake = Some(wake.map_or(shown, |at: Timestamp| at.min(shown)));
            }
            decision.wake = match (decision.wake, wake) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        decision
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
