//! The embedded API server as kubectl sees it: a pod's life, and what else there is beside this file.

mod apply;
mod kinds;
mod streams;

use crate::support::*;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Preconditions};

const POD: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: main
    image: nogoo9-sample:1.0
    env: [{name: A, value: '1'}]
    resources: {limits: {cpu: 1}}
";

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

async fn cluster(dir: &tempfile::TempDir) -> (Server, Kubectl) {
    let server = Server::start(dir.path()).await;
    let client = server.client().await;
    make_namespace(&client).await;
    make_node(&client, "local").await;
    let kubectl = server.kubectl();
    (server, kubectl)
}

#[tokio::test]
async fn create_show_change_and_delete() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubectl) = cluster(&dir).await;
    let pods: Api<Pod> = pods(&server.client().await);

    assert_eq!(
        kubectl.ok_with(&["create", "-f", "-"], POD).await,
        "pod/web created\n"
    );
    let again = kubectl.fails(&["create", "-f", "-"], POD).await;
    assert!(
        again.contains("AlreadyExists") && again.contains("pods \"web\" already exists"),
        "{again}"
    );
    until(&pods, "web", |pod| {
        pod.spec.as_ref().unwrap().node_name.is_some()
    })
    .await;

    let table = kubectl.ok(&["get", "pods"]).await;
    let lines: Vec<Vec<&str>> = table.lines().map(words).collect();
    assert_eq!(lines[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(lines[1][..4], ["web", "0/1", "Pending", "0"]);
    assert_eq!(lines.len(), 2);

    make_ready(&pods, "web").await;
    let waited = kubectl
        .ok(&["wait", "--for=condition=Ready", "pod/web", "--timeout=120s"])
        .await;
    assert_eq!(waited, "pod/web condition met\n");
    let table = kubectl
        .ok(&["get", "pod", "web", "-o", "wide", "--no-headers"])
        .await;
    let row = words(&table);
    assert_eq!(row[..4], ["web", "1/1", "Running", "0"]);
    assert_eq!(row[5..7], ["127.64.0.9", "local"]);

    kubectl.ok(&["label", "pod", "web", "tier=front"]).await;
    kubectl
        .ok(&["label", "pod", "web", "app=db", "--overwrite"])
        .await;
    kubectl
        .ok(&["annotate", "pod", "web", "note=hello world"])
        .await;
    let patch = r#"{"spec":{"containers":[{"name":"main","image":"nogoo9-sample:2.0"}]}}"#;
    assert_eq!(
        kubectl.ok(&["patch", "pod", "web", "-p", patch]).await,
        "pod/web patched\n"
    );
    let shown = kubectl
        .ok(&["get", "pod", "web", "-o",
            "jsonpath={.metadata.labels.app}|{.metadata.labels.tier}|{.metadata.annotations.note}|{.spec.containers[0].image}|{.spec.containers[0].env[0].name}"])
        .await;
    assert_eq!(shown, "db|front|hello world|nogoo9-sample:2.0|A");
    assert_eq!(
        kubectl
            .ok(&["get", "pods", "-l", "app=web", "-o", "name"])
            .await,
        ""
    );
    assert_eq!(
        kubectl
            .ok(&["get", "pods", "-l", "app in (db),tier", "-o", "name"])
            .await,
        "pod/web\n"
    );
    assert_eq!(
        kubectl
            .ok(&[
                "get",
                "pods",
                "-A",
                "--field-selector",
                "spec.nodeName=local",
                "-o",
                "name"
            ])
            .await,
        "pod/web\n"
    );
    let yaml = kubectl.ok(&["get", "pod", "web", "-o", "yaml"]).await;
    assert!(
        yaml.contains("qosClass: Guaranteed") || yaml.contains("qosClass: Burstable"),
        "{yaml}"
    );

    let described = kubectl.ok(&["describe", "pod", "web"]).await;
    for expected in [
        "Successfully assigned workspaces/web to local",
        "nogoo9-sample:2.0",
        "Node:",
    ] {
        assert!(
            described.contains(expected),
            "{expected} is not in {described}"
        );
    }
    let refused = kubectl
        .fails(
            &[
                "patch",
                "pod",
                "web",
                "-p",
                r#"{"spec":{"nodeName":"other"}}"#,
            ],
            "",
        )
        .await;
    assert!(
        refused.contains("pod updates may not change fields other than"),
        "{refused}"
    );

    // kubectl waits until the kubelet has finished the deletion, which this test plays.
    let mut deleting = kubectl.command(&["delete", "pod", "web"]).spawn().unwrap();
    let marked = until(&pods, "web", |pod| {
        pod.metadata.deletion_timestamp.is_some()
    })
    .await;
    let table = kubectl.ok(&["get", "pods", "--no-headers"]).await;
    assert_eq!(words(&table)[2], "Terminating");
    assert!(
        deleting.try_wait().unwrap().is_none(),
        "kubectl did not wait"
    );
    let uid = marked.metadata.uid.clone();
    let finish = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid,
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    pods.delete("web", &finish).await.unwrap();
    let output = tokio::time::timeout(LONG, deleting.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "pod \"web\" deleted\n"
    );
    let gone = kubectl.fails(&["get", "pod", "web"], "").await;
    assert_eq!(
        gone,
        "Error from server (NotFound): pods \"web\" not found\n"
    );
    server.stop().await;
}
