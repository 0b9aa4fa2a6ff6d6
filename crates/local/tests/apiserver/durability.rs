//! kill -9 loses nothing that was answered.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use nogoo9_local::apiserver::bind;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::support::*;

const DATA_DIR: &str = "APISERVER_TEST_DATA_DIR";

/// Not a test of its own: the process that the test below kills.
#[tokio::test]
async fn server_process() {
    let Ok(dir) = std::env::var(DATA_DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let bound = bind(config(dir, 0)).await.unwrap();
    std::fs::write(dir.join("address.tmp"), bound.address().to_string()).unwrap();
    std::fs::rename(dir.join("address.tmp"), dir.join("address")).unwrap();
    bound.serve(CancellationToken::new()).await;
}

async fn start_process(dir: &Path) -> (Child, Client) {
    // The file of the life before is no news.
    let file = dir.join("address");
    if file.exists() {
        std::fs::remove_file(&file).unwrap();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durability::server_process"])
        .env(DATA_DIR, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let address: SocketAddr = tokio::time::timeout(LONG, async {
        loop {
            if let Ok(text) = std::fs::read_to_string(&file) {
                return text.parse().unwrap();
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the process serves");
    let ca = std::fs::read_to_string(dir.join("pki/ca.crt")).unwrap();
    let client = client_of(address, &ca, "admin-token").await;
    (child, client)
}

#[tokio::test]
async fn every_answered_write_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut answered: BTreeMap<String, u64> = BTreeMap::new();
    let mut newest = 0;
    for life in 0..4 {
        let (mut child, client) = start_process(dir.path()).await;
        if life == 0 {
            make_namespace(&client).await;
        }
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
        let found = maps.list(&ListParams::default()).await.unwrap();
        let listed: u64 = found.metadata.resource_version.unwrap().parse().unwrap();
        assert!(
            listed >= newest,
            "life {life}: version {listed} after {newest}"
        );
        let found: BTreeMap<String, u64> = found
            .items
            .into_iter()
            .map(|map| {
                let version = map.metadata.resource_version.unwrap().parse().unwrap();
                (map.metadata.name.unwrap(), version)
            })
            .collect();
        for (name, version) in &answered {
            assert_eq!(found.get(name), Some(version), "life {life}: {name}");
        }

        // Writers run until the process is killed under them, after 40 answers.
        let (done, mut answers) = tokio::sync::mpsc::channel(1);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (maps, done) = (maps.clone(), done.clone());
                tokio::spawn(async move {
                    for n in 0.. {
                        let map: ConfigMap = serde_json::from_value(serde_json::json!({
                            "metadata": {"name": format!("life{life}-writer{writer}-{n}")},
                        }))
                        .unwrap();
                        let Ok(made) = maps.create(&PostParams::default(), &map).await else {
                            return;
                        };
                        let version: u64 = made.metadata.resource_version.unwrap().parse().unwrap();
                        if done
                            .send((made.metadata.name.unwrap(), version))
                            .await
                            .is_err()
                        {
                            return;
                        }
                    }
                })
            })
            .collect();
        drop(done);
        let mut count = 0;
        while let Some((name, version)) = answers.recv().await {
            newest = newest.max(version);
            answered.insert(name, version);
            count += 1;
            if count == 40 {
                child.start_kill().unwrap();
            }
        }
        child.wait().await.unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
        assert!(count >= 40, "life {life}: only {count} answers");
    }
    let versions: std::collections::BTreeSet<u64> = answered.values().copied().collect();
    assert_eq!(versions.len(), answered.len(), "no version was given twice");
}
