//! Clusters that do not answer, and ports that others hold.

use super::{CONTROL, PROXY, SOON, kubeconfig_to_nowhere, nothing_left, run};
use nogoo9_tests::{Observation, Process, binary, until};
use std::process::Stdio;
use tokio::process::Command;

#[tokio::test]
async fn a_cluster_that_does_not_answer() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = kubeconfig_to_nowhere(dir.path());
    let (code, text) = run(
        dir.path(),
        "nogoo9-control",
        &[&CONTROL[..], &["--kubeconfig", &nowhere]].concat(),
    )
    .await;
    assert!(
        code == 1
            && text.contains(&format!("error: --kubeconfig {nowhere}: "))
            && text.contains("check the address"),
        "{text}"
    );
    let (code, text) = run(
        dir.path(),
        "nogoo9",
        &[
            "up",
            "--data-dir",
            "site",
            "--listen",
            "127.0.0.1:0",
            "--kubeconfig",
            &nowhere,
        ],
    )
    .await;
    assert!(
        code == 1 && text.contains(&format!("--kubeconfig {nowhere}: ")),
        "{text}"
    );
    assert!(!text.contains("secret-of-the-kubeconfig"), "{text}");
    std::fs::write(dir.path().join("broken"), "clusters: 7").unwrap();
    for (program, flags) in [
        ("nogoo9-proxy", &PROXY[..]),
        ("nogoo9-control", &CONTROL[..]),
    ] {
        let (code, text) = run(
            dir.path(),
            program,
            &[flags, &["--kubeconfig", "broken"]].concat(),
        )
        .await;
        assert!(
            code != 0 && text.contains("--kubeconfig"),
            "{program}: {text}"
        );
    }
    nothing_left(dir.path()).await;
}

/// The proxy goes on without an API server, which may only be late: it says so, and is not ready.
#[tokio::test]
async fn a_proxy_without_a_cluster_is_not_ready() {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let nowhere = kubeconfig_to_nowhere(dir.path());
    // An address of its own, which no program that takes any free port is ever given.
    let [.., high, low] = std::process::id().to_be_bytes();
    let admin = format!("127.99.{high}.{low}:9019");
    let mut flags = PROXY.to_vec();
    flags[3] = &admin;
    let mut proxy = Command::new(binary("nogoo9-proxy").unwrap())
        .args(&flags)
        .args(["--kubeconfig", &nowhere])
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let ready = until("an answer of the admin listener", SOON, || async {
        let answer = reqwest::get(format!("http://{admin}/readyz")).await;
        Ok(match answer {
            Ok(answer) => Observation::Holds((answer.status().as_u16(), answer.text().await?)),
            Err(error) => Observation::NotYet(error.to_string()),
        })
    })
    .await
    .unwrap();
    assert!(ready.0 == 503 && ready.1.contains("pods"), "{ready:?}");
    Process::of(proxy.id().unwrap().try_into().unwrap())
        .unwrap()
        .signal(nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    let status = tokio::time::timeout(SOON, proxy.wait())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn ports_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let (code, text) = run(
        dir.path(),
        "nogoo9",
        &[
            "up",
            "--data-dir",
            "site",
            "--listen",
            &addr,
            "--ready-file",
            "ready",
        ],
    )
    .await;
    assert!(
        code == 1 && text.contains(&format!("--listen {addr}: the port is in use; stop")),
        "{text}"
    );
    assert!(!dir.path().join("ready").exists());
    for flag in [1, 3] {
        let mut flags = PROXY.to_vec();
        flags[flag] = &addr;
        let nowhere = kubeconfig_to_nowhere(dir.path());
        let (code, text) = run(
            dir.path(),
            "nogoo9-proxy",
            &[&flags[..], &["--kubeconfig", &nowhere]].concat(),
        )
        .await;
        assert!(
            code == 1 && text.contains(&format!("{} {addr}: the port is in use", flags[flag - 1])),
            "{text}"
        );
    }
    nothing_left(dir.path()).await;
}
