//! Table tests of the status.
#![allow(clippy::needless_pass_by_value)] // `json!` values read better without a reference

use super::*;
use crate::kubelet::state::Failure;
use serde_json::{Value, json};
use std::net::Ipv4Addr;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

struct Bench {
    pod: Pod,
    state: PodState,
    told: PodStatus,
}

impl Bench {
    fn new(spec: Value) -> Self {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec,
            "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]},
        }))
        .unwrap();
        let state = PodState::new(&pod, Ipv4Addr::new(127, 64, 0, 1), at(100));
        let told = pod.status.clone().unwrap();
        Self { pod, state, told }
    }

    fn look(&mut self, now: i64) -> Value {
        self.told = render(&self.pod, &self.state, &self.told, at(now));
        serde_json::to_value(&self.told).unwrap()
    }

    fn run(&mut self, index: usize, now: i64) {
        self.state.containers[index].begin(at(now));
        self.state.containers[index].running("local:///bin/x".into(), at(now));
    }
}

fn one(extra: Value) -> Value {
    let mut container = json!({"name": "c", "image": "i:1"});
    container
        .as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    json!({"containers": [container]})
}

fn condition<'a>(status: &'a Value, type_: &str) -> &'a Value {
    status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["type"] == type_)
        .unwrap()
}

#[test]
fn a_life_in_order() {
    let probe = json!({"readinessProbe": {"tcpSocket": {"port": 1}}});
    let mut bench = Bench::new(one(probe));
    let status = bench.look(100);
    assert_eq!(status["phase"], "Pending");
    assert_eq!(status["podIP"], "127.64.0.1");
    assert_eq!(status["startTime"], "1970-01-01T00:01:40Z");
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["reason"],
        "ContainerCreating"
    );
    assert_eq!(
        condition(&status, "PodScheduled")["status"],
        "True",
        "not ours, kept"
    );
    assert_eq!(
        condition(&status, "Ready")["message"],
        "containers with unready status: [c]"
    );

    bench.run(0, 101);
    let status = bench.look(101);
    assert_eq!(status["phase"], "Running");
    assert_eq!(
        status["containerStatuses"][0]["containerID"],
        "local://u/c/0"
    );
    assert_eq!(status["containerStatuses"][0]["started"], true);
    assert_eq!(condition(&status, "Ready")["status"], "False");
    assert_eq!(
        condition(&status, "Ready")["lastTransitionTime"],
        "1970-01-01T00:01:40Z"
    );

    bench.state.containers[0].probed_ready = true;
    let status = bench.look(105);
    assert_eq!(condition(&status, "Ready")["status"], "True");
    assert_eq!(
        condition(&status, "Ready")["lastTransitionTime"],
        "1970-01-01T00:01:45Z"
    );
    assert_eq!(
        condition(&status, "Initialized")["lastTransitionTime"],
        "1970-01-01T00:01:40Z"
    );
    assert_eq!(bench.look(200), status, "nothing changed, nothing to tell");

    bench.state.terminating = true;
    let status = bench.look(201);
    assert_eq!(
        (&status["phase"], &condition(&status, "Ready")["status"]),
        (&json!("Running"), &json!("False"))
    );
    assert_eq!(status["containerStatuses"][0]["ready"], false);

    bench.state.containers[0].exited(0, None, "local://u/c/0".into(), at(202));
    let status = bench.look(202);
    assert_eq!(status["phase"], "Succeeded");
    assert_eq!(
        status["containerStatuses"][0]["state"]["terminated"]["reason"],
        "Completed"
    );
}

#[test]
fn a_pull_that_failed_is_told_until_the_next_one_has_ended() {
    let mut bench = Bench::new(one(json!({})));
    let reason = |bench: &mut Bench, second| {
        let status = bench.look(second);
        status["containerStatuses"][0]["state"]["waiting"]["reason"].clone()
    };
    bench.state.containers[0].begin(at(100));
    assert_eq!(reason(&mut bench, 100), "ContainerCreating");
    let failure = Failure::Pull {
        reason: "ErrImagePull",
        message: "not found".into(),
    };
    bench.state.containers[0].failed(failure, at(101));
    assert_eq!(reason(&mut bench, 101), "ErrImagePull");
    assert_eq!(reason(&mut bench, 105), "ImagePullBackOff");
    bench.state.containers[0].begin(at(111));
    assert_eq!(reason(&mut bench, 111), "ImagePullBackOff");
    bench.run(0, 112);
    assert_eq!(bench.look(112)["containerStatuses"][0]["started"], true);
}

#[test]
fn crash_loops_read_as_in_kubernetes() {
    let mut bench = Bench::new(one(json!({})));
    bench.run(0, 100);
    bench.state.containers[0].exited(1, Some("boom".into()), "local://u/c/0".into(), at(101));
    let first = bench.look(101);
    assert_eq!(
        first["containerStatuses"][0]["state"]["terminated"]["message"], "boom",
        "restart is due at once"
    );
    bench.run(0, 101);
    bench.state.containers[0].exited(1, None, "local://u/c/1".into(), at(102));
    let status = bench.look(102);
    let container = &status["containerStatuses"][0];
    assert_eq!(status["phase"], "Running");
    assert_eq!(container["restartCount"], 1);
    assert_eq!(
        container["state"]["waiting"],
        json!({"reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=c pod=p_n(u)"})
    );
    assert_eq!(
        container["lastState"]["terminated"]["containerID"],
        "local://u/c/1"
    );
}

#[test]
fn pull_errors_turn_into_back_off() {
    let mut bench = Bench::new(one(json!({})));
    bench.state.containers[0].begin(at(100));
    bench.state.containers[0].failed(
        Failure::Pull {
            reason: "ErrImagePull",
            message: "not found".into(),
        },
        at(100),
    );
    let reason = |status: &Value| status["containerStatuses"][0]["state"]["waiting"].clone();
    assert_eq!(
        reason(&bench.look(100)),
        json!({"reason": "ErrImagePull", "message": "not found"})
    );
    let later = bench.look(102);
    assert_eq!(later["phase"], "Pending");
    assert_eq!(
        reason(&later),
        json!({"reason": "ImagePullBackOff",
        "message": "Back-off pulling image \"i:1\": ErrImagePull: not found"})
    );
}

#[test]
fn phases() {
    let two = |policy: &str| json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]});
    // Exit codes of both containers (None: runs), policy -> phase.
    for (codes, policy, wanted) in [
        ([None, None], "Always", "Running"),
        ([Some(0), None], "Never", "Running"),
        ([Some(1), None], "Never", "Running"),
        ([Some(0), Some(0)], "Always", "Running"),
        ([Some(0), Some(0)], "Never", "Succeeded"),
        ([Some(0), Some(0)], "OnFailure", "Succeeded"),
        ([Some(0), Some(1)], "Never", "Failed"),
        ([Some(0), Some(1)], "OnFailure", "Running"),
    ] {
        let mut bench = Bench::new(two(policy));
        for (index, code) in codes.into_iter().enumerate() {
            bench.run(index, 100);
            if let Some(code) = code {
                bench.state.containers[index].exited(code, None, String::new(), at(100));
            }
        }
        assert_eq!(phase(&bench.state), wanted, "{codes:?} {policy}");
    }
    let mut half = Bench::new(two("Always"));
    half.run(0, 100);
    assert_eq!(phase(&half.state), "Pending", "one is still to come");
}

#[test]
fn init_containers_and_gates_hold_readiness() {
    let mut bench = Bench::new(json!({
        "restartPolicy": "Never", "readinessGates": [{"conditionType": "x/ok"}],
        "initContainers": [{"name": "i", "image": "i"}], "containers": [{"name": "c", "image": "i"}]
    }));
    let status = bench.look(100);
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["reason"],
        "PodInitializing"
    );
    assert_eq!(
        condition(&status, "Initialized")["reason"],
        "ContainersNotInitialized"
    );
    let mut failed = bench.state.clone();
    bench.run(0, 101);
    bench.state.containers[0].exited(0, None, String::new(), at(102));
    bench.run(1, 103);
    let status = bench.look(103);
    assert_eq!(condition(&status, "Initialized")["status"], "True");
    assert_eq!(condition(&status, "ContainersReady")["status"], "True");
    assert_eq!(
        condition(&status, "Ready")["reason"],
        "ReadinessGatesNotReady"
    );
    bench.told.conditions.as_mut().unwrap().push(PodCondition {
        type_: "x/ok".into(),
        status: "True".into(),
        ..PodCondition::default()
    });
    assert_eq!(condition(&bench.look(104), "Ready")["status"], "True");

    failed.containers[0].begin(at(100));
    failed.containers[0].exited(3, None, String::new(), at(100));
    assert_eq!(phase(&failed), "Failed");
}
