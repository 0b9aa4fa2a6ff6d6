//! The kubelet against the embedded API server: pods' lives as a user sees them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a failed step fails the test

#[path = "kubelet_support/cluster.rs"]
mod kubelet_support;

use kubelet_support::*;
use serde_json::{Value, json};

async fn get(url: String) -> Value {
    let text = reqwest::Client::new()
        .get(url)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    serde_json::from_str(&text).unwrap()
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_pod_lives_serves_and_goes() {
    let cluster = Cluster::start().await;
    wait_for("the node is Ready", async || {
        let Ok(Some(node)) = cluster.nodes().get_opt(&cluster.node).await else {
            return false;
        };
        condition(&serde_json::to_value(node).unwrap(), "Ready") == "True"
    })
    .await;
    cluster.create("one", sample("nogoo9-sample:1.0")).await;
    cluster.create("two", sample("nogoo9-sample:2.0")).await;
    let (one, two) = (
        cluster.until_ready("one").await,
        cluster.until_ready("two").await,
    );

    assert_eq!(phase(&one), "Running");
    assert_eq!(condition(&one, "PodScheduled"), "True");
    assert_eq!(condition(&one, "Initialized"), "True");
    assert_eq!(one["status"]["hostIP"], "127.0.0.1");
    assert_eq!(container(&one)["restartCount"], 0);
    assert_eq!(
        (&container(&one)["started"], &container(&one)["ready"]),
        (&json!(true), &json!(true))
    );
    let ip: std::net::Ipv4Addr = pod_ip(&one).parse().unwrap();
    assert_eq!(
        (ip.octets()[0], ip.octets()[1] & 0xc0),
        (127, 64),
        "127.64.0.0/10"
    );
    assert_ne!(
        pod_ip(&one),
        pod_ip(&two),
        "each has its own address, on the same port"
    );
    let info = get(format!("http://{ip}:3000/info")).await;
    assert_eq!(
        info,
        json!({"pod": "one", "version": "1.0", "workspace": "one", "message": "hello from one"})
    );
    assert_eq!(
        get(format!("http://{}:3000/info", pod_ip(&two))).await["version"],
        "2.0"
    );
    cluster.until_reason("one", "Started").await;
    let reasons = cluster.reasons("one").await;
    let order: Vec<&str> = reasons
        .iter()
        .map(String::as_str)
        .filter(|r| *r != "Unhealthy")
        .collect();
    assert_eq!(order, ["Pulled", "Created", "Started"]);
    assert!(
        cluster
            .log(&one, "workspace", 0)
            .iter()
            .any(|line| line.contains("the sample workspace is up"))
    );

    let uid = one["metadata"]["uid"].as_str().unwrap().to_owned();
    cluster.delete("one", 5).await;
    cluster.until_gone("one").await;
    let sandbox = cluster.pods_dir().join(&uid);
    assert_eq!(
        processes_below(&sandbox),
        Vec::<String>::new(),
        "gone from the API means gone"
    );
    wait_for("its folder is removed", async || !sandbox.exists()).await;
    cluster.until_reason("one", "Killing").await;
    assert_eq!(
        get(format!("http://{}:3000/info", pod_ip(&two))).await["pod"],
        "two",
        "the other is not touched"
    );
    cluster.end().await;
}

/// A pod on its way out must read as not ready before its process ends.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_goes_before_the_process_does() {
    let cluster = Cluster::start().await;
    let workload = "trap 'until [ -e \"$HOME/end\" ]; do sleep 0.02; done; exit 0' TERM; echo up; while :; do sleep 0.02; done";
    cluster
        .create("p", json!({"containers": [script(workload)]}))
        .await;
    let pod = cluster.until_ready("p").await;
    wait_for("it runs", async || cluster.log(&pod, "c", 0) == ["up"]).await;
    cluster.delete("p", 30).await;
    let leaving = cluster
        .until("p", "not ready", |pod| condition(pod, "Ready") == "False")
        .await;
    assert_eq!(phase(&leaving), "Running");
    assert!(
        container(&leaving)["state"]["running"].is_object(),
        "it still runs"
    );
    assert_eq!(container(&leaving)["ready"], false);
    let home = cluster
        .pods_dir()
        .join(pod["metadata"]["uid"].as_str().unwrap())
        .join("home");
    std::fs::write(home.join("end"), "").unwrap();
    cluster.until_gone("p").await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ignores_sigterm_is_killed_after_its_grace_with_its_daemons() {
    let cluster = Cluster::start().await;
    let stubborn = "trap '' TERM; (setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 100; done' &); echo up; while :; do sleep 100; done";
    cluster
        .create("slow", json!({"containers": [script(stubborn)]}))
        .await;
    cluster
        .create("forced", json!({"containers": [script(stubborn)]}))
        .await;
    for (name, grace) in [("slow", 1), ("forced", 0)] {
        let pod = cluster.until_ready(name).await;
        wait_for("it runs", async || cluster.log(&pod, "c", 0) == ["up"]).await;
        let sandbox = cluster
            .pods_dir()
            .join(pod["metadata"]["uid"].as_str().unwrap());
        wait_for("shim, shell, daemon", async || {
            processes_below(&sandbox).len() >= 3
        })
        .await;
        cluster.delete(name, grace).await;
        cluster.until_gone(name).await;
        wait_for("its processes are gone", async || {
            processes_below(&sandbox).is_empty()
        })
        .await;
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pre_stop_runs_before_sigterm() {
    let cluster = Cluster::start().await;
    let mut container = script(
        "trap 'echo term after $(cat $HOME/hook); exit 0' TERM; echo up; while :; do sleep 0.02; done",
    );
    container["lifecycle"] =
        json!({"preStop": {"exec": {"command": ["/bin/sh", "-c", "echo hook > $HOME/hook"]}}});
    cluster
        .create("p", json!({"containers": [container]}))
        .await;
    let pod = cluster.until_ready("p").await;
    wait_for("it runs", async || cluster.log(&pod, "c", 0) == ["up"]).await;
    // The folder goes with the pod: keep the log by a second name.
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let kept = cluster.dir.path().join("kept.log");
    std::fs::hard_link(cluster.pods_dir().join(uid).join("c/0.log"), &kept).unwrap();
    cluster.delete("p", 30).await;
    cluster.until_gone("p").await;
    let log = std::fs::read_to_string(kept).unwrap();
    assert!(log.ends_with(" stdout F term after hook\n"), "{log}");
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_images_back_off() {
    let cluster = Cluster::start().await;
    cluster
        .create(
            "p",
            json!({"containers": [{"name": "c", "image": "registry.example/app:1"}]}),
        )
        .await;
    let pod = cluster
        .until("p", "ErrImagePull", |pod| {
            waiting(pod, "ErrImagePull").is_some()
        })
        .await;
    assert_eq!(phase(&pod), "Pending");
    assert!(
        waiting(&pod, "ErrImagePull")
            .unwrap()
            .contains("registry.example/app:1: not found")
    );
    let pod = cluster
        .until("p", "ImagePullBackOff", |pod| {
            waiting(pod, "ImagePullBackOff").is_some()
        })
        .await;
    let message = waiting(&pod, "ImagePullBackOff").unwrap();
    assert!(
        message.starts_with("Back-off pulling image \"registry.example/app:1\": ErrImagePull: "),
        "{message}"
    );
    cluster.until_reason("p", "BackOff").await;
    assert_eq!(
        cluster.reasons("p").await,
        ["Pulling", "Failed", "Failed", "BackOff"]
    );
    cluster.delete("p", 30).await;
    cluster.until_gone("p").await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_image_is_being_created_for_its_time() {
    let cluster = Cluster::start().await;
    cluster
        .create("p", sample("nogoo9-sample:2.0_slow-pull-8s"))
        .await;
    cluster.until_reason("p", "Pulling").await;
    let pod = cluster
        .until("p", "being created", |pod| {
            waiting(pod, "ContainerCreating").is_some()
        })
        .await;
    assert_eq!(phase(&pod), "Pending");
    assert!(!cluster.reasons("p").await.contains(&"Pulled".to_owned()));
    let pod = cluster.until_ready("p").await;
    assert_eq!(
        get(format!("http://{}:3000/info", pod_ip(&pod))).await["version"],
        "2.0"
    );
    // Deleted in the middle of a pull: no waiting for it.
    cluster
        .create("q", sample("nogoo9-sample:2.0_slow-pull-60m"))
        .await;
    cluster.until_reason("q", "Pulling").await;
    cluster.delete("q", 30).await;
    cluster.until_gone("q").await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_loop_with_their_last_words() {
    let cluster = Cluster::start().await;
    let mut container = script("echo reason: no config >&2; exit 3");
    container["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    cluster
        .create("p", json!({"containers": [container]}))
        .await;
    let pod = cluster
        .until("p", "CrashLoopBackOff", |pod| {
            waiting(pod, "CrashLoopBackOff").is_some()
        })
        .await;
    let status = self::container(&pod);
    assert_eq!(status["restartCount"], 1, "the first restart comes at once");
    let last = &status["lastState"]["terminated"];
    assert_eq!(
        (&last["exitCode"], &last["reason"], &last["message"]),
        (&json!(3), &json!("Error"), &json!("reason: no config\n"))
    );
    assert!(
        waiting(&pod, "CrashLoopBackOff")
            .unwrap()
            .starts_with(&format!(
                "back-off 10s restarting failed container=c pod=p_{}(",
                cluster.namespace
            ))
    );
    assert_eq!(condition(&pod, "Ready"), "False");
    cluster.until_reason("p", "BackOff").await;
    // A program that does not exist reads like one that crashed.
    cluster.create("q", json!({"containers": [{"name": "c", "image": "nogoo9-sample:1", "command": ["no-such-program"]}]})).await;
    let pod = cluster
        .until("q", "StartError", |pod| {
            self::container(pod)["lastState"]["terminated"]["reason"] == "StartError"
        })
        .await;
    assert_eq!(
        self::container(&pod)["lastState"]["terminated"]["exitCode"],
        128
    );
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_config_map_holds_the_container_until_it_comes() {
    let cluster = Cluster::start().await;
    let mut container = script("echo $GREETING; exec sleep 1000");
    container["env"] = json!([{"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "greeting"}}}]);
    cluster
        .create("p", json!({"containers": [container]}))
        .await;
    let pod = cluster
        .until("p", "config error", |pod| {
            waiting(pod, "CreateContainerConfigError").is_some()
        })
        .await;
    assert_eq!(
        waiting(&pod, "CreateContainerConfigError"),
        Some("configmap \"m\" not found")
    );
    cluster
        .create_config_map("m", json!({"greeting": "good day"}))
        .await;
    let pod = cluster.until_ready("p").await;
    wait_for("it greets", async || {
        cluster.log(&pod, "c", 0) == ["good day"]
    })
    .await;
    assert_eq!(self::container(&pod)["restartCount"], 0);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn init_containers_run_first_and_a_job_succeeds() {
    let cluster = Cluster::start().await;
    let named = |name: &str, text: &str| {
        let mut container = script(text);
        container["name"] = json!(name);
        container
    };
    cluster.create("p", json!({"restartPolicy": "Never",
        "initContainers": [named("i1", "echo 1 >> $HOME/order"), named("i2", "echo 2 >> $HOME/order")],
        "containers": [named("c", "cat $HOME/order")]})).await;
    let pod = cluster
        .until("p", "succeeded", |pod| phase(pod) == "Succeeded")
        .await;
    assert_eq!(cluster.log(&pod, "c", 0), ["1", "2"]);
    assert_eq!(
        pod["status"]["initContainerStatuses"][1]["state"]["terminated"]["reason"],
        "Completed"
    );
    assert_eq!(self::container(&pod)["state"]["terminated"]["exitCode"], 0);

    cluster
        .create(
            "q",
            json!({"restartPolicy": "Never",
        "initContainers": [named("i", "exit 4")], "containers": [named("c", "echo never")]}),
        )
        .await;
    let pod = cluster
        .until("q", "failed", |pod| phase(pod) == "Failed")
        .await;
    assert_eq!(
        pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"],
        4
    );
    assert_eq!(cluster.log(&pod, "c", 0), Vec::<String>::new());
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn liveness_restarts_and_startup_holds_the_others_back() {
    let cluster = Cluster::start().await;
    // What the first run leaves when it is told to end lets the second live, from its first moment on.
    let mut live = script("trap 'touch $HOME/alive; exit 143' TERM; while :; do sleep 0.05; done");
    // A check that is slow has not failed.
    let there = |file: &str, failures: u32| {
        let test = format!("test -e $HOME/{file}");
        json!({"exec": {"command": ["/bin/sh", "-c", test]}, "periodSeconds": 1, "timeoutSeconds": 30, "failureThreshold": failures})
    };
    live["livenessProbe"] = there("alive", 2);
    cluster
        .create(
            "live",
            json!({"terminationGracePeriodSeconds": 30, "containers": [live]}),
        )
        .await;
    let mut start = script("exec sleep 1000");
    start["startupProbe"] = there("started", 1000);
    start["livenessProbe"] = there("started", 1);
    cluster
        .create("start", json!({"containers": [start]}))
        .await;

    let pod = cluster
        .until("live", "restarted", |pod| {
            container(pod)["restartCount"] == 1 && condition(pod, "Ready") == "True"
        })
        .await;
    assert_eq!(container(&pod)["lastState"]["terminated"]["exitCode"], 143);
    cluster.until_reason("live", "Killing").await;
    cluster.until_reason("live", "Unhealthy").await;

    cluster.until_reason("start", "Unhealthy").await;
    let pod = cluster
        .until("start", "running", |pod| {
            container(pod)["state"]["running"].is_object()
        })
        .await;
    assert_eq!(
        (&container(&pod)["started"], condition(&pod, "Ready")),
        (&json!(false), "False")
    );
    let home = cluster
        .pods_dir()
        .join(pod["metadata"]["uid"].as_str().unwrap())
        .join("home");
    std::fs::write(home.join("started"), "").unwrap();
    let pod = cluster.until_ready("start").await;
    assert_eq!(
        (
            &container(&pod)["started"],
            &container(&pod)["restartCount"]
        ),
        (&json!(true), &json!(0))
    );
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_serves_the_logs_of_this_run_and_the_last() {
    let cluster = Cluster::embedded().await;
    let text = "echo run; if [ -e $HOME/again ]; then exec sleep 1000; fi; touch $HOME/again; echo oops; exit 1";
    cluster
        .create("p", json!({"containers": [script(text)]}))
        .await;
    let restarted =
        |pod: &Value| container(pod)["restartCount"] == 1 && condition(pod, "Ready") == "True";
    cluster.until("p", "restarted", restarted).await;
    let logs = async |previous: bool| {
        let params = kube::api::LogParams {
            previous,
            ..Default::default()
        };
        cluster.pods().logs("p", &params).await.unwrap()
    };
    assert_eq!(logs(true).await, "run\noops\n");
    wait_for("the second run speaks", async || {
        logs(false).await == "run\n"
    })
    .await;
    cluster.end().await;
}
