//! What the kubelet's pods survive, and what they must not: kills of the kubelet and of
//! shims, restarts, and an API server that goes away.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a failed step fails the test

#[path = "kubelet_support/cluster.rs"]
mod kubelet_support;

use std::process::{Child, Command, Stdio};

use kubelet_support::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nogoo9_local::kubelet::{self, KubeletError};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A kubelet in a process of its own, which can be killed for real.
struct KubeletProcess(Child);

impl KubeletProcess {
    fn start(cluster: &Cluster) -> Self {
        let file = cluster.dir.path().join("test.kubeconfig");
        std::fs::write(&file, &cluster.kubeconfig).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper_kubelet", "--ignored", "--nocapture"])
            .env("TEST_KUBELET_KUBECONFIG", file)
            .env("TEST_KUBELET_DIR", cluster.dir.path())
            .env("TEST_KUBELET_NODE", &cluster.node)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for KubeletProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run as a process by the tests below"]
async fn helper_kubelet() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig =
        std::fs::read_to_string(std::env::var_os("TEST_KUBELET_KUBECONFIG").unwrap()).unwrap();
    let dir = std::env::var_os("TEST_KUBELET_DIR").unwrap();
    let node = std::env::var("TEST_KUBELET_NODE").unwrap();
    let config = kubelet_config(client(&kubeconfig).await, dir.as_ref(), &node);
    kubelet::run(config, CancellationToken::new())
        .await
        .unwrap();
}

const DAEMON: &str = "(setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 100; done' &); echo up; while :; do sleep 100; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_kubelet_leaves_nothing_and_its_next_life_resumes() {
    let mut cluster = Cluster::without_kubelet().await;
    let kubelet = KubeletProcess::start(&cluster);
    cluster.create("app", sample("nogoo9-sample:1.0")).await;
    cluster
        .create("daemon", json!({"containers": [script(DAEMON)]}))
        .await;
    cluster
        .create(
            "job",
            json!({"restartPolicy": "Never", "containers": [script("echo once")]}),
        )
        .await;
    cluster
        .create("pulling", sample("nogoo9-sample:1.0_slow-pull-60m"))
        .await;
    let before = cluster.until_ready("app").await;
    let daemon = cluster.until_ready("daemon").await;
    wait_for("the daemon is up", async || {
        cluster.log(&daemon, "c", 0) == ["up"]
    })
    .await;
    cluster
        .until("job", "succeeded", |pod| {
            pod["status"]["phase"] == "Succeeded"
        })
        .await;
    wait_for("app and daemon, with their shims", async || {
        processes_below(&cluster.pods_dir()).len() >= 5
    })
    .await;

    kubelet.kill();
    wait_for("all processes are gone", async || {
        processes_below(&cluster.pods_dir()).is_empty()
    })
    .await;
    let stale = cluster.pods().get("app").await.unwrap();
    assert_eq!(
        condition(&serde_json::to_value(stale).unwrap(), "Ready"),
        "True",
        "nobody was left to say otherwise"
    );

    // Deleted while no kubelet ran: the next one finishes it.
    cluster.delete("daemon", 30).await;
    cluster.start_kubelet();
    let after = cluster
        .until("app", "restarted", |pod| {
            container(pod)["restartCount"] == 1 && condition(pod, "Ready") == "True"
        })
        .await;
    assert_eq!(pod_ip(&after), pod_ip(&before), "the address stays");
    let last = &container(&after)["lastState"]["terminated"];
    assert_eq!(
        (&last["exitCode"], &last["reason"]),
        (&json!(137), &json!("Error"))
    );
    assert_eq!(after["status"]["startTime"], before["status"]["startTime"]);
    cluster.until_gone("daemon").await;
    let job = cluster.pods().get("job").await.unwrap();
    let job = serde_json::to_value(job).unwrap();
    assert_eq!(
        (&job["status"]["phase"], &container(&job)["restartCount"]),
        (&json!("Succeeded"), &json!(0)),
        "a job runs once"
    );
    assert_eq!(cluster.log(&job, "c", 0), ["once"], "its log stays");
    let pulling = cluster.pods().get("pulling").await.unwrap();
    assert_eq!(
        container(&serde_json::to_value(pulling).unwrap())["restartCount"],
        0,
        "it never ran"
    );
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_is_a_crash_and_its_daemons_die() {
    let cluster = Cluster::start().await;
    cluster
        .create("p", json!({"containers": [script(DAEMON)]}))
        .await;
    let pod = cluster.until_ready("p").await;
    wait_for("it is up", async || cluster.log(&pod, "c", 0) == ["up"]).await;
    let sandbox = cluster
        .pods_dir()
        .join(pod["metadata"]["uid"].as_str().unwrap());
    let before = pids(&sandbox);
    let shim = before
        .iter()
        .find(|(_, line)| line.contains("nogoo9-pod-shim"))
        .unwrap()
        .0;
    kill(shim, Signal::SIGKILL).unwrap();
    let pod = cluster
        .until("p", "restarted", |pod| {
            container(pod)["restartCount"] == 1 && condition(pod, "Ready") == "True"
        })
        .await;
    assert_eq!(container(&pod)["lastState"]["terminated"]["exitCode"], 137);
    let after = pids(&sandbox);
    let old: Vec<_> = before
        .iter()
        .filter(|process| after.contains(process))
        .collect();
    assert!(old.is_empty(), "left over: {old:?}");
    cluster.end().await;
}

fn pids(sandbox: &std::path::Path) -> Vec<(Pid, String)> {
    let mark = format!("NOGOO9_SANDBOX={}/", sandbox.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment
            .split(|byte| *byte == 0)
            .any(|entry| entry.starts_with(mark.as_bytes()))
        {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((
                Pid::from_raw(pid),
                String::from_utf8_lossy(&line).replace('\0', " "),
            ));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_on_without_the_api_server_and_are_reported_once_it_is_back() {
    let mut cluster = Cluster::embedded().await;
    cluster.create("app", sample("nogoo9-sample:1.0")).await;
    let mut container =
        script("until [ -e $HOME/crash ]; do sleep 0.02; done; rm $HOME/crash; exit 9");
    container["name"] = json!("c");
    cluster
        .create("crash", json!({"containers": [container]}))
        .await;
    let app = cluster.until_ready("app").await;
    let crash = cluster.until_ready("crash").await;
    cluster.stop_server().await;

    let url = format!("http://{}:3000/info", pod_ip(&app));
    assert!(reqwest::get(&url).await.unwrap().status().is_success());
    // Crashes and is restarted while nobody listens.
    let dir = cluster
        .pods_dir()
        .join(crash["metadata"]["uid"].as_str().unwrap());
    std::fs::write(dir.join("home/crash"), "").unwrap();
    wait_for("it runs again", async || dir.join("c/1.log").exists()).await;

    cluster.restart_server().await;
    let pod = cluster
        .until("crash", "the restart is reported", |pod| {
            self::container(pod)["restartCount"] == 1 && condition(pod, "Ready") == "True"
        })
        .await;
    assert_eq!(
        self::container(&pod)["lastState"]["terminated"]["exitCode"],
        9
    );
    // The watch works again, too.
    cluster.create("new", sample("nogoo9-sample:2.0")).await;
    cluster.until_ready("new").await;
    let app = cluster.until_ready("app").await;
    assert_eq!(self::container(&app)["restartCount"], 0, "it never noticed");
    assert!(reqwest::get(&url).await.unwrap().status().is_success());
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_the_kubelet_stops_processes_and_leaves_objects_alone() {
    let mut cluster = Cluster::start().await;
    cluster.create("app", sample("nogoo9-sample:1.0")).await;
    cluster.create("stubborn", json!({"terminationGracePeriodSeconds": 1, "containers": [script(&format!("trap '' TERM; {DAEMON}"))]})).await;
    let before = cluster.until_ready("app").await;
    cluster.until_ready("stubborn").await;
    cluster.stop_kubelet().await;
    assert_eq!(processes_below(&cluster.pods_dir()), Vec::<String>::new());
    let after = serde_json::to_value(cluster.pods().get("app").await.unwrap()).unwrap();
    assert_eq!(after["status"], before["status"]);
    cluster.start_kubelet();
    cluster
        .until("app", "runs again", |pod| {
            container(pod)["restartCount"] == 1 && condition(pod, "Ready") == "True"
        })
        .await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_kubelet_a_folder() {
    let cluster = Cluster::start().await;
    cluster
        .create("p", json!({"containers": [script("exec sleep 1000")]}))
        .await;
    cluster.until_ready("p").await;
    let config = kubelet_config(cluster.client.clone(), cluster.dir.path(), &cluster.node);
    let error = kubelet::run(config, CancellationToken::new())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, KubeletError::Busy { path } if path == cluster.dir.path()),
        "{error}"
    );
    assert!(
        !processes_below(&cluster.pods_dir()).is_empty(),
        "the first one's pods are not touched"
    );
    cluster.end().await;
}
