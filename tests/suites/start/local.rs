//! `nogoo9 up`: where it refuses to start, and what it leaves when it is stopped early.

use super::{SOON, nothing_left, run};
use nogoo9_tests::{Observation, Options, Process, Site, binary, until};
use std::process::Stdio;
use tokio::process::Command;

#[tokio::test]
async fn places_that_local_mode_refuses() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("photos")).unwrap();
    std::fs::write(dir.path().join("photos/cat.jpg"), "meow").unwrap();
    for (args, word) in [
        (
            ["--data-dir", "site", "--listen", "0.0.0.0:0"],
            "--listen 0.0.0.0:0: ",
        ),
        (
            ["--data-dir", "photos", "--listen", "127.0.0.1:0"],
            "--data-dir photos: ",
        ),
        (
            ["--data-dir", "photos/cat.jpg", "--listen", "127.0.0.1:0"],
            "--data-dir photos/cat.jpg: ",
        ),
    ] {
        let (code, text) = run(dir.path(), "nogoo9", &[&["up"], &args[..]].concat()).await;
        assert!(code == 1 && text.contains(word), "{text}");
    }
    let (code, text) = run(
        dir.path(),
        "nogoo9",
        &[
            "up",
            "--data-dir",
            "new",
            "--listen",
            "127.0.0.1:0",
            "--ready-file",
            "no/such/folder",
        ],
    )
    .await;
    assert!(
        code == 1 && text.contains("--ready-file ") && text.contains("no/such/folder: "),
        "{text}"
    );
    assert_eq!(
        std::fs::read_to_string(dir.path().join("photos/cat.jpg")).unwrap(),
        "meow"
    );
    nothing_left(dir.path()).await;
}

#[tokio::test]
async fn one_instance_a_folder() {
    let site = Site::up(Options::default()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let data = site.data_dir().display().to_string();
    let (code, text) = run(
        dir.path(),
        "nogoo9",
        &["up", "--data-dir", &data, "--listen", "127.0.0.1:0"],
    )
    .await;
    let pid = site.pid("up").unwrap().unwrap().to_string();
    assert!(
        code == 1 && text.contains(&format!("--data-dir {data}")) && text.contains(&pid),
        "{text}"
    );
    // The one that runs has not noticed.
    let capabilities = site
        .api("alice")
        .await
        .unwrap()
        .get("/api/v1/capabilities")
        .await
        .unwrap();
    assert_eq!(
        (capabilities.status, &capabilities.body["sub"]),
        (200, &serde_json::json!("alice"))
    );
    let (code, text) = run(
        dir.path(),
        "nogoo9",
        &["token", "mallory", "--data-dir", &data],
    )
    .await;
    assert!(
        code == 1 && text.contains("mallory") && text.contains("alice"),
        "names who there is: {text}"
    );
    site.stop().await.unwrap();
}

/// Stopped at any moment of its start, it leaves nothing.
#[tokio::test]
async fn stopped_while_it_starts() {
    for wait_for in [
        "data/up.lock",
        "data/logs/apiserver.log",
        "data/logs/proxy.log",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut up = Command::new(binary("nogoo9").unwrap())
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        until(wait_for, SOON, || async {
            Ok(Observation::when(
                dir.path().join(wait_for).exists(),
                (),
                "not there",
            ))
        })
        .await
        .unwrap();
        Process::of(up.id().unwrap().try_into().unwrap())
            .unwrap()
            .signal(nix::sys::signal::Signal::SIGTERM)
            .unwrap();
        tokio::time::timeout(SOON, up.wait())
            .await
            .unwrap()
            .unwrap();
        nothing_left(dir.path()).await;
    }
}
