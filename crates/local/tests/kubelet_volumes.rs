//! Volumes on the process kubelet: folders, and claims, which one pod holds at a time, are handed over
//! byte for byte by a recreate, and are gone with their object; and what a kubelet says when others
//! said something else of its pods.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a failed step fails the test

#[path = "kubelet_support/cluster.rs"]
mod kubelet_support;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kubelet_support::*;
use serde_json::{Value, json};
use std::path::PathBuf;

fn with_claim(claim: &str, text: &str) -> Value {
    let mut container = script(text);
    container["volumeMounts"] = json!([{"name": "d", "mountPath": "/d"}]);
    json!({"terminationGracePeriodSeconds": 5, "containers": [container],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]})
}

fn claims(cluster: &Cluster) -> Api<PersistentVolumeClaim> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// The folders of a claim, one for each uid.
fn folders(cluster: &Cluster, claim: &str) -> Vec<PathBuf> {
    let folder = cluster
        .dir
        .path()
        .join("claims")
        .join(&cluster.namespace)
        .join(claim);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

const SERVE: &str = "echo up; exec sleep 1000";

/// As an upgrade by recreate does it: the successor waits behind a gate until the old pod is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_recreate_hands_the_folder_over_byte_for_byte() {
    let cluster = Cluster::start().await;
    for mode in ["ReadWriteOnce", "ReadWriteOncePod"] {
        let claim = mode.to_lowercase();
        let (old, new) = (format!("{claim}-old"), format!("{claim}-new"));
        cluster.create_claim(&claim, mode).await;
        cluster.create(&old, with_claim(&claim, SERVE)).await;
        cluster.until_ready(&old).await;
        let folder = folders(&cluster, &claim);
        assert_eq!(folder.len(), 1);
        // All that a file can be: every byte, no end of line, nothing at all, deep below, a link.
        let bytes: Vec<u8> = (0..=255_u8).cycle().take(300_000).collect();
        std::fs::create_dir_all(folder[0].join("a/b")).unwrap();
        std::fs::write(folder[0].join("a/b/bytes"), &bytes).unwrap();
        std::fs::write(folder[0].join("empty"), b"").unwrap();
        std::os::unix::fs::symlink("a/b/bytes", folder[0].join("link")).unwrap();

        let mut gated = with_claim(
            &claim,
            "cat \"$NOGOO9_VOLUME_D/link\" > \"$HOME/seen\"; echo read; exec sleep 1000",
        );
        gated["schedulingGates"] = json!([{"name": "nogoo9/upgrade"}]);
        cluster.create_unbound(&new, gated).await;
        let waiting = cluster
            .until(&new, "gated", |pod| {
                condition(pod, "PodScheduled") == "False"
            })
            .await;
        assert!(waiting["spec"].get("nodeName").is_none());
        cluster.delete(&old, 5).await;
        cluster.until_gone(&old).await;
        let open = json!([
            {"op": "test", "path": "/spec/schedulingGates", "value": [{"name": "nogoo9/upgrade"}]},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]);
        let open = Patch::Json::<()>(serde_json::from_value(open).unwrap());
        cluster
            .pods()
            .patch(&new, &PatchParams::default(), &open)
            .await
            .unwrap();
        cluster.bind(&new).await;
        let pod = cluster.until_ready(&new).await;
        wait_for("it has read", async || {
            cluster.log(&pod, "c", 0) == ["read"]
        })
        .await;
        assert_eq!(folders(&cluster, &claim), folder, "the same folder");
        let home = cluster
            .pods_dir()
            .join(pod["metadata"]["uid"].as_str().unwrap())
            .join("home");
        assert!(
            std::fs::read(home.join("seen")).unwrap() == bytes,
            "byte for byte"
        );
        assert_eq!(std::fs::read(folder[0].join("empty")).unwrap(), b"");
        assert!(
            !cluster
                .reasons(&new)
                .await
                .contains(&"FailedMount".to_owned())
        );
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_goes_with_the_claim_and_a_new_one_is_empty() {
    let mut cluster = Cluster::start().await;
    cluster.create_claim("data", "ReadWriteOnce").await;
    cluster
        .create(
            "first",
            with_claim(
                "data",
                "echo mine > $NOGOO9_VOLUME_D/f; echo up; exec sleep 1000",
            ),
        )
        .await;
    let first = cluster.until_ready("first").await;
    wait_for("it has written", async || {
        cluster.log(&first, "c", 0) == ["up"]
    })
    .await;
    let old = folders(&cluster, "data");
    claims(&cluster)
        .delete("data", &DeleteParams::default())
        .await
        .unwrap();
    assert!(old[0].join("f").exists(), "in use");
    cluster.delete("first", 5).await;
    cluster.until_gone("first").await;
    wait_for("the claim is gone", async || {
        claims(&cluster).get_opt("data").await.unwrap().is_none()
    })
    .await;
    wait_for("its folder is gone", async || !old[0].exists()).await;

    cluster.create_claim("data", "ReadWriteOnce").await;
    cluster
        .create(
            "second",
            with_claim("data", "ls -A $NOGOO9_VOLUME_D; echo up; exec sleep 1000"),
        )
        .await;
    let second = cluster.until_ready("second").await;
    wait_for("it has looked", async || {
        cluster.log(&second, "c", 0) == ["up"]
    })
    .await;
    let new = folders(&cluster, "data");
    assert_ne!(new, old);

    // Deleted while no kubelet ran: the next one removes the folder.
    cluster.delete("second", 5).await;
    cluster.until_gone("second").await;
    cluster.stop_kubelet().await;
    claims(&cluster)
        .delete("data", &DeleteParams::default())
        .await
        .unwrap();
    wait_for("the claim is gone", async || {
        claims(&cluster).get_opt("data").await.unwrap().is_none()
    })
    .await;
    assert!(new[0].exists());
    cluster.start_kubelet();
    wait_for("its folder is gone", async || !new[0].exists()).await;
    cluster.end().await;
}

/// A node controller says so of all pods on a node that was silent.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_others_called_unready_is_ready_again() {
    let cluster = Cluster::start().await;
    cluster
        .create("p", json!({"containers": [script(SERVE)]}))
        .await;
    let before = cluster.until_ready("p").await;
    let unready = json!({"status": {"conditions": [{
        "type": "Ready", "status": "False", "lastTransitionTime": "2100-01-01T00:00:00Z",
    }]}});
    let after = cluster
        .pods()
        .patch_status("p", &PatchParams::default(), &Patch::Strategic(unready))
        .await
        .unwrap();
    assert_eq!(
        condition(&serde_json::to_value(after).unwrap(), "Ready"),
        "False"
    );
    let after = cluster.until_ready("p").await;
    assert_eq!(container(&after)["restartCount"], 0);
    assert_eq!(
        container(&after)["state"],
        container(&before)["state"],
        "nothing happened to it"
    );
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_folders_named_by_variables() {
    let cluster = Cluster::start().await;
    cluster
        .create_config_map("m", json!({"app.conf": "x = 1"}))
        .await;
    let mut container = script(
        "cat $NOGOO9_VOLUME_CONF/app.conf; echo; cat $NOGOO9_VOLUME_ME/name; echo; echo kept > $NOGOO9_VOLUME_SCRATCH/f && cat $NOGOO9_VOLUME_SCRATCH/f; exec sleep 1000",
    );
    container["volumeMounts"] = json!([{"name": "conf", "mountPath": "/c"}, {"name": "me", "mountPath": "/m"}, {"name": "scratch", "mountPath": "/s", "subPath": "a"}]);
    cluster.create("p", json!({"containers": [container], "volumes": [
        {"name": "conf", "configMap": {"name": "m"}},
        {"name": "me", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "scratch", "emptyDir": {}},
    ]})).await;
    let pod = cluster.until_ready("p").await;
    wait_for("it read them", async || {
        cluster.log(&pod, "c", 0) == ["x = 1", "p", "kept"]
    })
    .await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exclusive_claim_is_one_pods_at_a_time_and_keeps_its_data() {
    let cluster = Cluster::start().await;
    cluster.create_claim("data", "ReadWriteOnce").await;
    let with_claim = |text: &str| {
        let mut container = script(text);
        container["volumeMounts"] = json!([{"name": "d", "mountPath": "/d"}]);
        json!({"terminationGracePeriodSeconds": 1, "containers": [container],
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]})
    };
    cluster
        .create(
            "first",
            with_claim("echo mine > $NOGOO9_VOLUME_D/f; exec sleep 1000"),
        )
        .await;
    cluster.until_ready("first").await;
    cluster
        .create(
            "second",
            with_claim("cat $NOGOO9_VOLUME_D/f; exec sleep 1000"),
        )
        .await;
    cluster.until_reason("second", "FailedMount").await;
    let pod = cluster
        .until("second", "waits", |pod| {
            waiting(pod, "ContainerCreating").is_some()
        })
        .await;
    assert!(
        waiting(&pod, "ContainerCreating")
            .unwrap()
            .starts_with("Multi-Attach error"),
        "{pod}"
    );
    cluster.delete("first", 1).await;
    cluster.until_gone("first").await;
    let pod = cluster.until_ready("second").await;
    wait_for("it reads what was written", async || {
        cluster.log(&pod, "c", 0) == ["mine"]
    })
    .await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_nothing_is_ready_holds_its_claim_and_is_no_process() {
    let cluster = Cluster::start().await;
    cluster.create_claim("data", "ReadWriteOnce").await;
    let nothing = |name: &str| {
        json!({"containers": [{"name": "c", "image": "nogoo9-nothing:1.0",
            "volumeMounts": [{"name": "d", "mountPath": name}]}],
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]})
    };
    cluster.create("first", nothing("/a")).await;
    let first = cluster.until_ready("first").await;
    assert_eq!(first["status"]["phase"], "Running");
    assert!(!pod_ip(&first).is_empty(), "{first}");
    let refused = tokio::net::TcpStream::connect((pod_ip(&first), 1)).await;
    assert_eq!(
        refused.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );
    cluster.create("second", nothing("/b")).await;
    cluster.until_reason("second", "FailedMount").await;
    // It ends when it is told to, whatever its grace.
    cluster.delete("first", 3600).await;
    cluster.until_gone("first").await;
    let second = cluster.until_ready("second").await;
    assert_ne!(pod_ip(&first), pod_ip(&second));

    let mut spec = nothing("/c");
    spec["containers"][0]["command"] = json!(["/no/such/program"]);
    spec["volumes"] = json!([]);
    spec["containers"][0]["volumeMounts"] = json!([]);
    cluster.create("third", spec).await;
    let third = cluster
        .until("third", "cannot start", |pod| {
            container(pod)["lastState"]["terminated"]["reason"] == "StartError"
        })
        .await;
    assert_eq!(container(&third)["ready"], false);
    cluster.end().await;
}
