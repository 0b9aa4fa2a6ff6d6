//! The embedded API server as kubectl sees it.

use crate::support::*;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Preconditions};
use tokio::io::{AsyncBufReadExt, BufReader};

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

#[tokio::test]
async fn apply_and_strict_fields() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubectl) = cluster(&dir).await;
    let map = |value: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{a: '{value}', b: keep}}\n"
        )
    };
    assert_eq!(
        kubectl.ok_with(&["apply", "-f", "-"], &map("1")).await,
        "configmap/c created\n"
    );
    assert_eq!(
        kubectl.ok_with(&["apply", "-f", "-"], &map("1")).await,
        "configmap/c unchanged\n"
    );
    assert_eq!(
        kubectl.ok_with(&["apply", "-f", "-"], &map("2")).await,
        "configmap/c configured\n"
    );
    let less = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '2'}\n";
    kubectl.ok_with(&["apply", "-f", "-"], less).await;
    let data = kubectl
        .ok(&["get", "cm", "c", "-o", "jsonpath={.data}"])
        .await;
    assert_eq!(data, r#"{"a":"2"}"#);

    kubectl.ok_with(&["apply", "-f", "-"], POD).await;
    let newer = POD.replace("sample:1.0", "sample:2.0");
    assert_eq!(
        kubectl.ok_with(&["apply", "-f", "-"], &newer).await,
        "pod/web configured\n"
    );
    let image = kubectl
        .ok(&[
            "get",
            "pod",
            "web",
            "-o",
            "jsonpath={.spec.containers[*].image}",
        ])
        .await;
    assert_eq!(image, "nogoo9-sample:2.0");

    let dry = kubectl
        .ok_with(&["apply", "-f", "-", "--dry-run=server"], &map("3"))
        .await;
    assert_eq!(dry, "configmap/c configured (server dry run)\n");
    let data = kubectl
        .ok(&["get", "cm", "c", "-o", "jsonpath={.data}"])
        .await;
    assert_eq!(data, r#"{"a":"2"}"#);

    let typo = POD
        .replace("name: web", "name: typo")
        .replace("image:", "imagee:");
    let refused = kubectl.fails(&["create", "-f", "-"], &typo).await;
    assert!(
        refused.contains("strict decoding error: unknown field \"spec.containers[0].imagee\""),
        "{refused}"
    );
    let missing = POD
        .replace("name: web", "name: Web_1")
        .replace("    image: nogoo9-sample:1.0\n", "");
    let refused = kubectl.fails(&["create", "-f", "-"], &missing).await;
    assert!(
        refused.contains("The Pod \"Web_1\" is invalid"),
        "{refused}"
    );
    assert!(
        refused.contains("* spec.containers[0].image: Required value"),
        "{refused}"
    );
    assert!(
        refused
            .contains("* metadata.name: Invalid value: \"Web_1\": a lowercase RFC 1123 subdomain"),
        "{refused}"
    );
    let refused = kubectl
        .fails(&["apply", "--server-side", "-f", "-"], &map("4"))
        .await;
    assert!(
        refused.contains("server-side apply is not offered"),
        "{refused}"
    );
    server.stop().await;
}

#[tokio::test]
async fn watching_and_logs() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubectl) = cluster(&dir).await;
    let pods: Api<Pod> = pods(&server.client().await);

    // A pod from before, so that its row shows when the watch has begun.
    let early = POD.replace("name: web", "name: early");
    kubectl.ok_with(&["create", "-f", "-"], &early).await;
    let mut watching = kubectl.command(&["get", "pods", "-w"]).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut seen: Vec<String> = Vec::new();
    while seen.last().map(String::as_str) != Some("web Running") {
        let line = tokio::time::timeout(LONG, lines.next_line())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let row = words(&line);
        if row[0] == "early" && seen.len() == 1 {
            kubectl.ok_with(&["create", "-f", "-"], POD).await;
            until(&pods, "web", |pod| {
                pod.spec.as_ref().unwrap().node_name.is_some()
            })
            .await;
            make_ready(&pods, "web").await;
        }
        if row[0] != "early" {
            seen.push(format!("{} {}", row[0], row[2]));
        }
    }
    // Created, placed, running.
    assert_eq!(
        seen,
        ["NAME STATUS", "web Pending", "web Pending", "web Running"]
    );
    watching.kill().await.unwrap();

    let waiting = kubectl.fails(&["logs", "web"], "").await;
    assert!(
        waiting.contains("container \"main\" in pod \"web\" is waiting to start"),
        "{waiting}"
    );
    let uid = pods.get("web").await.unwrap().metadata.uid.unwrap();
    let folder = dir.path().join("pods").join(&uid).join("main");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("0.log"),
        "2026-01-01T00:00:00.000000000Z stdout F first life\n",
    )
    .unwrap();
    let text: String = (0..5)
        .map(|n| format!("2026-01-01T00:00:0{n}.000000000Z stdout F line {n}\n"))
        .collect();
    std::fs::write(folder.join("1.log"), text).unwrap();
    assert_eq!(
        kubectl.ok(&["logs", "web"]).await,
        "line 0\nline 1\nline 2\nline 3\nline 4\n"
    );
    assert_eq!(
        kubectl.ok(&["logs", "web", "--tail=2"]).await,
        "line 3\nline 4\n"
    );
    assert_eq!(kubectl.ok(&["logs", "web", "-p"]).await, "first life\n");
    assert_eq!(
        kubectl
            .ok(&["logs", "web", "--tail=1", "--timestamps"])
            .await,
        "2026-01-01T00:00:04.000000000Z line 4\n"
    );
    assert_eq!(
        kubectl.ok(&["logs", "web", "--limit-bytes=8"]).await,
        "line 0\nl"
    );
    assert_eq!(
        kubectl
            .ok(&["logs", "web", "--since-time=2026-01-01T00:00:03Z"])
            .await,
        "line 3\nline 4\n"
    );

    let mut following = kubectl
        .command(&["logs", "-f", "web", "--tail=1"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let first = tokio::time::timeout(LONG, lines.next_line())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(first.as_deref(), Some("line 4"));
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(folder.join("1.log"))
        .unwrap();
    std::io::Write::write_all(&mut file, b"2026-01-01T00:00:09.000000000Z stdout F last\n")
        .unwrap();
    let next = tokio::time::timeout(LONG, lines.next_line())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(next.as_deref(), Some("last"));
    // The pod goes: following ends by itself.
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    pods.delete("web", &now).await.unwrap();
    let end = tokio::time::timeout(LONG, lines.next_line())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(end, None);
    let status = tokio::time::timeout(LONG, following.wait())
        .await
        .unwrap()
        .unwrap();
    assert!(status.success());
    server.stop().await;
}

#[tokio::test]
async fn tables_of_every_kind() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubectl) = cluster(&dir).await;
    let objects = r"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: v}}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}}
- {apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 3}}}
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
- {apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: l}, spec: {holderIdentity: me, leaseDurationSeconds: 15}}
- {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: e}, addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: [10.0.0.1]}]}
";
    kubectl.ok_with(&["create", "-f", "-"], objects).await;
    let bound = [
        "wait",
        "pvc/p",
        "--for=jsonpath={.status.phase}=Bound",
        "--timeout=60s",
    ];
    kubectl.ok(&bound).await;
    for (kind, expected) in [
        ("nodes", vec!["local", "Ready", "<none>"]),
        ("ns", vec!["default", "Active"]),
        ("secrets", vec!["s", "Opaque", "1"]),
        ("sa", vec!["sa", "0"]),
        ("quota", vec!["q", "pods:", "0/3"]),
        ("pvc", vec!["p", "Bound"]),
        ("leases", vec!["l", "me"]),
        ("endpointslices", vec!["e", "IPv4", "80", "10.0.0.1"]),
    ] {
        let table = kubectl.ok(&["get", kind, "--no-headers"]).await;
        let row = words(table.lines().next().unwrap_or_default());
        assert_eq!(
            row.get(..expected.len()),
            Some(&expected[..]),
            "{kind}: {table}"
        );
    }
    let value = kubectl
        .ok(&["get", "secret", "s", "-o", "jsonpath={.data.k}"])
        .await;
    assert_eq!(value, "dg==");
    let kinds = kubectl
        .ok(&["api-resources", "--no-headers", "-o", "name"])
        .await;
    assert!(
        kinds.contains("leases.coordination.k8s.io") && kinds.contains("events.events.k8s.io"),
        "{kinds}"
    );
    // kubectl may warn that it is older than the server.
    let version = kubectl.run(&["version", "-o", "json"], "").await.stdout;
    let version: serde_json::Value = serde_json::from_slice(&version).unwrap();
    assert_eq!(version["serverVersion"]["gitVersion"], "v1.34.0+nogoo9");
    for verb in [
        ["describe", "node", "local"],
        ["describe", "ns", "workspaces"],
        ["describe", "pvc", "p"],
    ] {
        kubectl.ok(&verb).await;
    }
    assert_eq!(
        kubectl.ok(&["delete", "secret,sa", "--all"]).await,
        "secret \"s\" deleted\nserviceaccount \"sa\" deleted\n"
    );
    // These commands send protobuf.
    kubectl.ok(&["create", "ns", "short"]).await;
    kubectl
        .ok(&["create", "secret", "generic", "s2", "--from-literal=k=v"])
        .await;
    kubectl.ok(&["create", "sa", "sa2"]).await;
    kubectl
        .ok(&["create", "quota", "q2", "--hard=pods=2,count/configmaps=9"])
        .await;
    let made = kubectl
        .ok(&[
            "get",
            "secret/s2",
            "quota/q2",
            "-o",
            "jsonpath={.items[*].data.k} {.items[*].spec.hard}",
        ])
        .await;
    assert_eq!(made, r#"dg== {"count/configmaps":"9","pods":"2"}"#);
    kubectl
        .ok(&[
            "create",
            "configmap",
            "inside",
            "-n",
            "short",
            "--from-literal=a=b",
        ])
        .await;
    assert_eq!(
        kubectl.ok(&["delete", "ns", "short"]).await,
        "namespace \"short\" deleted\n"
    );
    let gone = kubectl
        .fails(&["get", "configmap", "inside", "-n", "short"], "")
        .await;
    assert!(gone.contains("NotFound"), "{gone}");
    server.stop().await;
}
