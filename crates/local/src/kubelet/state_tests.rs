//! Table tests of what is started when.
#![allow(clippy::needless_pass_by_value)] // `json!` values read better without a reference

use super::*;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(policy: &str, init: &[&str], main: &[&str], status: serde_json::Value) -> PodState {
    let containers = |names: &[&str]| -> Vec<serde_json::Value> {
        names
            .iter()
            .map(|name| json!({"name": name, "image": "i"}))
            .collect()
    };
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {"restartPolicy": policy, "initContainers": containers(init), "containers": containers(main)},
        "status": status,
    }))
    .unwrap();
    PodState::new(&pod, Ipv4Addr::LOCALHOST, at(1_000))
}

fn exit(pod: &mut PodState, index: usize, code: i32, now: i64) {
    pod.containers[index].exited(code, None, "local://x".into(), at(now));
}

fn run(pod: &mut PodState, index: usize, now: i64) {
    pod.containers[index].begin(at(now));
    pod.containers[index].running("local://image".into(), at(now));
}

#[test]
fn init_containers_run_in_order_and_before_the_rest() {
    let mut pod = pod("Always", &["i0", "i1"], &["a", "b"], json!({}));
    let mut order = Vec::new();
    for now in 0..3 {
        for index in pod.decide(at(now)).start {
            order.push(index);
            run(&mut pod, index, now);
            assert_eq!(
                pod.decide(at(now))
                    .start
                    .iter()
                    .filter(|i| **i <= index)
                    .count(),
                0
            );
            if index < 2 {
                exit(&mut pod, index, 0, now);
            }
        }
    }
    assert_eq!(order, [0, 1, 2, 3]);
    assert_eq!(pod.decide(at(9)), Decision::default());
}

#[test]
fn restart_policy() {
    // (policy, is it an init container, exit code) -> restarted
    for (policy, init, code, restarted) in [
        ("Always", false, 0, true),
        ("Always", false, 1, true),
        ("OnFailure", false, 0, false),
        ("OnFailure", false, 1, true),
        ("Never", false, 0, false),
        ("Never", false, 1, false),
        ("Always", true, 1, true),
        ("OnFailure", true, 1, true),
        ("Never", true, 1, false),
    ] {
        let mut pod = if init {
            pod(policy, &["x"], &["a"], json!({}))
        } else {
            pod(policy, &[], &["x"], json!({}))
        };
        run(&mut pod, 0, 1_000);
        exit(&mut pod, 0, code, 1_005);
        assert_eq!(
            pod.decide(at(1_005)).start == [0],
            restarted,
            "{policy} init={init} {code}"
        );
        assert_eq!(pod.init_failed(), init && policy == "Never");
    }
}

#[test]
fn crashes_back_off_and_a_long_run_forgets_them() {
    let mut pod = pod("Always", &[], &["a"], json!({}));
    let mut now = 1_000;
    run(&mut pod, 0, now);
    let mut waits = Vec::new();
    for _ in 0..4 {
        exit(&mut pod, 0, 1, now);
        let decision = pod.decide(at(now));
        let due = if decision.start.is_empty() {
            decision.wake.unwrap()
        } else {
            at(now)
        };
        waits.push(due.as_second() - now);
        assert!(pod.decide(due).start == [0]);
        now = due.as_second();
        run(&mut pod, 0, now);
    }
    assert_eq!(waits, [0, 10, 20, 40]);
    assert_eq!(pod.containers[0].restart_count, 4);
    exit(&mut pod, 0, 1, now + 601);
    assert_eq!(pod.decide(at(now + 601)).start, [0]);
}

#[test]
fn failed_pulls_back_off_without_counting_restarts() {
    let mut pod = pod("Always", &[], &["a"], json!({}));
    let mut now = 1_000;
    let mut waits = Vec::new();
    for _ in 0..3 {
        pod.containers[0].begin(at(now));
        let failure = Failure::Pull {
            reason: "ErrImagePull",
            message: "no".into(),
        };
        pod.containers[0].failed(failure, at(now));
        // First wake: the reason changes to ImagePullBackOff.
        assert_eq!(
            pod.decide(at(now)),
            Decision {
                start: vec![],
                wake: Some(at(now + 2))
            }
        );
        let retry = pod.decide(at(now + 2)).wake.unwrap();
        waits.push(retry.as_second() - now);
        now = retry.as_second();
        assert_eq!(pod.decide(at(now)).start, [0]);
    }
    assert_eq!(waits, [10, 20, 40]);
    assert_eq!(pod.containers[0].restart_count, 0);
}

#[test]
fn nothing_starts_in_a_terminating_pod() {
    let mut pod = pod("Always", &[], &["a"], json!({}));
    pod.terminating = true;
    assert_eq!(pod.decide(at(1_000)), Decision::default());
}

#[test]
fn an_earlier_life_is_taken_up() {
    let status = |state: serde_json::Value, last: serde_json::Value| {
        json!({"startTime": "1970-01-01T00:10:00Z", "containerStatuses": [{"name": "a", "image": "i", "imageID": "",
            "ready": false, "restartCount": 3, "state": state, "lastState": last}]})
    };
    let running = json!({"running": {"startedAt": "1970-01-01T00:11:00Z"}});
    let failed = json!({"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "1970-01-01T00:12:00Z"}});

    let mut ran = pod("Always", &[], &["a"], status(running.clone(), json!({})));
    assert_eq!(ran.start_time, at(600));
    assert_eq!(ran.decide(at(1_000)).start, [0]);
    run(&mut ran, 0, 1_000);
    let container = &ran.containers[0];
    assert_eq!(container.restart_count, 4);
    let last = container.last.as_ref().unwrap();
    assert_eq!(
        (last.exit_code, last.reason.as_str(), last.started_at),
        (137, "Error", Some(at(660)))
    );

    // Never: it may not run twice.
    assert!(
        pod("Never", &[], &["a"], status(running, json!({})))
            .decide(at(1_000))
            .start
            .is_empty()
    );
    assert!(
        pod("Never", &[], &["a"], status(failed.clone(), json!({})))
            .decide(at(1_000))
            .start
            .is_empty()
    );
    // It was in CrashLoopBackOff.
    let mut waiting = pod(
        "Always",
        &[],
        &["a"],
        status(json!({"waiting": {"reason": "CrashLoopBackOff"}}), failed),
    );
    assert_eq!(waiting.decide(at(1_000)).start, [0]);
    run(&mut waiting, 0, 1_000);
    assert_eq!(waiting.containers[0].restart_count, 4);
}
