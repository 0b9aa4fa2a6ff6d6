//! Watches and logs, as they come.

use super::{POD, cluster, words};
use crate::support::*;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use tokio::io::{AsyncBufReadExt, BufReader};

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
