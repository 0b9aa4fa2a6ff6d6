//! The pod status that the API server is told, from what the kubelet knows. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::state::{Container, PodState, RestartPolicy, State, Terminated};

/// The node's own address: everything here is loopback.
pub(crate) const HOST_IP: &str = "127.0.0.1";

/// The conditions that the kubelet owns; all others are left as they are.
const OWN_CONDITIONS: [&str; 3] = ["Initialized", "ContainersReady", "Ready"];

/// Builds the status. `previous` is what was last told (or found in the API at the
/// start): a condition keeps its transition time while its status stays the same.
pub(crate) fn render(
    pod: &Pod,
    state: &PodState,
    previous: &PodStatus,
    now: Timestamp,
) -> PodStatus {
    let phase = phase(state);
    let ip = state.ip.to_string();
    let statuses = |init: bool| -> Option<Vec<ContainerStatus>> {
        let list: Vec<_> = state
            .containers
            .iter()
            .filter(|container| container.init == init)
            .map(|container| container_status(pod, state, container, now))
            .collect();
        (!list.is_empty()).then_some(list)
    };
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions(pod, state, phase, previous, now)),
        host_ip: Some(HOST_IP.to_owned()),
        host_ips: Some(vec![HostIP {
            ip: HOST_IP.to_owned(),
        }]),
        pod_ip: Some(ip.clone()),
        pod_ips: Some(vec![PodIP { ip }]),
        start_time: Some(time(state.start_time)),
        init_container_statuses: statuses(true),
        container_statuses: statuses(false),
        ..PodStatus::default()
    }
}

/// `told` with the conditions that are not the kubelet's as they are in `observed`, and those of
/// its own that somebody else has changed since: a node controller says that nothing on a silent
/// node is ready, which is to be said again once it is not silent any more.
pub(crate) fn adopt(told: &PodStatus, observed: &PodStatus) -> PodStatus {
    let own = |condition: &&PodCondition| OWN_CONDITIONS.contains(&condition.type_.as_str());
    // An echo of what was told earlier is no change by others: it is not newer.
    let overruled = |ours: &PodCondition| {
        let seen = observed.conditions.iter().flatten();
        let newer = seen.clone().find(|theirs| {
            theirs.type_ == ours.type_
                && theirs.status != ours.status
                && theirs.last_transition_time > ours.last_transition_time
        });
        newer.unwrap_or(ours).clone()
    };
    let foreign = observed
        .conditions
        .iter()
        .flatten()
        .filter(|condition| !own(condition));
    let ours = told.conditions.iter().flatten().filter(own).map(overruled);
    PodStatus {
        conditions: Some(foreign.cloned().chain(ours).collect()),
        ..told.clone()
    }
}

/// The phase, by the rules of the kubelet's `getPhase`.
pub(crate) fn phase(state: &PodState) -> &'static str {
    if state.init_failed() {
        return "Failed";
    }
    if state.terminating && state.is_idle() {
        let succeeded = state.main().all(Container::succeeded);
        return if succeeded { "Succeeded" } else { "Failed" };
    }
    if !state.initialized() {
        return "Pending";
    }
    let (mut running, mut stopped, mut succeeded) = (0_u32, 0_u32, 0_u32);
    for container in state.main() {
        match &container.state {
            State::Running { .. } => running += 1,
            State::Exited(_) => {
                stopped += 1;
                succeeded += u32::from(container.succeeded());
            }
            _ if container.last.is_some() => stopped += 1,
            _ => return "Pending",
        }
    }
    match state.policy {
        _ if running > 0 => "Running",
        RestartPolicy::Always => "Running",
        _ if stopped == succeeded => "Succeeded",
        RestartPolicy::Never => "Failed",
        RestartPolicy::OnFailure => "Running",
    }
}

/// Ready as the API means it: running, started, probed, and not on its way out.
pub(crate) fn container_ready(state: &PodState, container: &Container) -> bool {
    if container.init {
        return container.succeeded();
    }
    container.is_running() && container.started && container.probed_ready && !state.terminating
}

fn conditions(
    pod: &Pod,
    state: &PodState,
    phase: &str,
    previous: &PodStatus,
    now: Timestamp,
) -> Vec<PodCondition> {
    let existing = previous.conditions.iter().flatten();
    let mut all: Vec<PodCondition> = existing
        .clone()
        .filter(|c| !OWN_CONDITIONS.contains(&c.type_.as_str()))
        .cloned()
        .collect();
    let mut put = |type_: &str, problem: Option<(&str, String)>| {
        let status = if problem.is_some() { "False" } else { "True" };
        let since = existing
            .clone()
            .find(|c| c.type_ == type_ && c.status == status)
            .and_then(|c| c.last_transition_time.clone());
        let (reason, message) = problem.unzip();
        all.push(PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            message: message.filter(|text| !text.is_empty()),
            last_transition_time: Some(since.unwrap_or_else(|| time(now))),
            ..PodCondition::default()
        });
    };

    let completed = phase == "Succeeded";
    let unfinished: Vec<&str> = state
        .init()
        .filter(|c| !c.succeeded())
        .map(|c| c.name.as_str())
        .collect();
    let unready: Vec<&str> = state
        .main()
        .filter(|c| !container_ready(state, c))
        .map(|c| c.name.as_str())
        .collect();
    let closed_gate = pod
        .spec
        .iter()
        .flat_map(|spec| spec.readiness_gates.iter().flatten())
        .map(|gate| gate.condition_type.as_str())
        .find(|gate| {
            !existing
                .clone()
                .any(|c| c.type_ == *gate && c.status == "True")
        });
    let list = |names: &[&str]| format!("[{}]", names.join(" "));

    put(
        "Initialized",
        (!unfinished.is_empty()).then(|| {
            (
                "ContainersNotInitialized",
                format!("containers with incomplete status: {}", list(&unfinished)),
            )
        }),
    );
    let containers_ready = if unready.is_empty() {
        None
    } else if completed {
        Some(("PodCompleted", String::new()))
    } else {
        Some((
            "ContainersNotReady",
            format!("containers with unready status: {}", list(&unready)),
        ))
    };
    put("ContainersReady", containers_ready.clone());
    put(
        "Ready",
        containers_ready.or_else(|| {
            closed_gate.map(|gate| {
                (
                    "ReadinessGatesNotReady",
                    format!(
                        "corresponding condition of pod readiness gate \"{gate}\" is not \"True\""
                    ),
                )
            })
        }),
    );
    all
}

fn container_status(
    pod: &Pod,
    state: &PodState,
    container: &Container,
    now: Timestamp,
) -> ContainerStatus {
    let (current, last) = container_states(pod, state, container, now);
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone(),
        image_id: container.image_id.clone(),
        container_id: container
            .is_running()
            .then(|| container_id(pod, container))
            .or_else(|| match &container.state {
                State::Exited(ended) => ended.container_id.clone(),
                _ => None,
            }),
        ready: container_ready(state, container),
        started: Some(container.is_running() && container.started),
        restart_count: container.restart_count,
        state: Some(current),
        last_state: last,
        ..ContainerStatus::default()
    }
}

/// `local://POD-UID/CONTAINER/RESTART`.
pub(crate) fn container_id(pod: &Pod, container: &Container) -> String {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    format!(
        "local://{uid}/{}/{}",
        container.name, container.restart_count
    )
}

/// A pull that failed: as it ended while that is `fresh`, then as waiting for the next try.
fn pull_failed(container: &Container, reason: &str, message: &str, fresh: bool) -> ContainerState {
    if fresh || reason != "ErrImagePull" {
        return waiting(reason, Some(message.to_owned()));
    }
    let message = format!(
        "Back-off pulling image \"{}\": ErrImagePull: {message}",
        container.image
    );
    waiting("ImagePullBackOff", Some(message))
}

/// Current and last state.
fn container_states(
    pod: &Pod,
    state: &PodState,
    container: &Container,
    now: Timestamp,
) -> (ContainerState, Option<ContainerState>) {
    let last = container.last.as_ref().map(terminated);
    let current = match &container.state {
        State::Waiting | State::Starting if !container.init && !state.initialized() => {
            waiting("PodInitializing", None)
        }
        State::Waiting | State::Starting => match &container.last_pull {
            Some((reason, message)) => pull_failed(container, reason, message, false),
            None => waiting("ContainerCreating", None),
        },
        State::PullFailed {
            reason,
            message,
            at,
            ..
        } => {
            let fresh = Container::pull_error_shown(*at, now);
            pull_failed(container, reason, message, fresh)
        }
        State::Unconfigurable {
            reason, message, ..
        } => waiting(reason, Some(message.clone())),
        State::Running { started_at } => ContainerState {
            running: Some(ContainerStateRunning {
                started_at: Some(time(*started_at)),
            }),
            ..ContainerState::default()
        },
        State::Exited(ended) => {
            let restarts = !state.terminating && !state.init_failed();
            match container
                .restart_at(state.policy)
                .filter(|at| restarts && *at > now)
            {
                Some(_) => {
                    let message = crash_loop_message(pod, container);
                    return (
                        waiting("CrashLoopBackOff", Some(message)),
                        Some(terminated(ended)),
                    );
                }
                None => terminated(ended),
            }
        }
    };
    (current, last)
}

/// `back-off 10s restarting failed container=NAME pod=NAME_NAMESPACE(UID)`.
pub(crate) fn crash_loop_message(pod: &Pod, container: &Container) -> String {
    let seconds = container.restart_delay().as_secs();
    let (minutes, rest) = (seconds / 60, seconds % 60);
    let delay = if minutes > 0 {
        format!("{minutes}m{rest}s")
    } else {
        format!("{seconds}s")
    };
    let meta = &pod.metadata;
    format!(
        "back-off {delay} restarting failed container={} pod={}_{}({})",
        container.name,
        meta.name.as_deref().unwrap_or_default(),
        meta.namespace.as_deref().unwrap_or_default(),
        meta.uid.as_deref().unwrap_or_default(),
    )
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message,
        }),
        ..ContainerState::default()
    }
}

fn terminated(ended: &Terminated) -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: ended.exit_code,
            reason: Some(ended.reason.clone()),
            message: ended.message.clone(),
            started_at: ended.started_at.map(time),
            finished_at: Some(time(ended.finished_at)),
            container_id: ended.container_id.clone(),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    }
}

/// API times have whole seconds; anything finer would make equal statuses differ.
pub(crate) fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
