//! `nogoo9 demo` as people run it: an instance of its own, all three kinds of upgrade under load, a
//! table each.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use nogoo9_tests::{Census, Observation, binary, until};
use serde_json::Value;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// Far longer than some upgrades of each kind take.
const LONG: Duration = Duration::from_secs(400);

#[tokio::test]
async fn shows_that_nobody_notices_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (data, json) = (folder.path().join("data"), folder.path().join("demo.json"));
    let child = Command::new(binary("nogoo9").unwrap())
        .args([
            "demo",
            "--upgrades",
            "2",
            "--recreates",
            "2",
            "--workspaces",
            "3",
            "--max-parallel",
            "2",
            "--requests",
            "3000",
            "--rate",
            "200",
            "--connections",
            "8",
        ])
        .arg("--data-dir")
        .arg(&data)
        .arg("--json")
        .arg(&json)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let Output {
        status,
        stdout,
        stderr,
    } = tokio::time::timeout(LONG, child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    let (table, progress) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(status.success(), "{table}\n{progress}");

    for column in ["requests", "failed", "p50", "p99", "max", "sockets kept"] {
        assert!(table.contains(column), "{column}: {table}");
    }
    for row in ["before", "during", "after", "total"] {
        let rows = table.lines().filter(|line| line.starts_with(row));
        assert_eq!(rows.count(), 3, "{row}, once for each kind: {table}");
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["problems"], serde_json::json!([]));
    let acts = report["acts"].as_array().unwrap();
    let modes: Vec<_> = acts
        .iter()
        .map(|act| act["mode"].as_str().unwrap())
        .collect();
    assert_eq!(modes, ["side-by-side", "recreate", "bulk"]);
    let number = |value: &Value| value.as_u64().unwrap();
    let requests: u64 = acts
        .iter()
        .map(|act| number(&act["http"]["requests"]))
        .sum();
    assert!(requests >= 3000, "{requests}");
    for act in acts {
        assert_eq!(act["http"]["failures"], 0, "{act}");
        for upgrade in act["upgrades"].as_array().unwrap() {
            let at = |moment: &str| number(&upgrade[moment]);
            assert!(
                at("answeredUs") < at("firstAnswerUs"),
                "the call does not wait for the pod: {upgrade}"
            );
            assert!(
                at("committedUs") <= at("movedUs") && at("movedUs") <= at("doneUs"),
                "{upgrade}"
            );
        }
    }
    let upgrades = |act: usize| acts[act]["upgrades"].as_array().unwrap();
    let fates = |act: usize, fate: &str| {
        let sockets = acts[act]["sockets"].as_array().unwrap();
        sockets
            .iter()
            .filter(|socket| socket["fate"] == fate)
            .count()
    };
    for act in [0, 1] {
        assert_eq!(upgrades(act).len(), 2);
        assert_eq!(
            upgrades(act)[1]["previousPodName"],
            upgrades(act)[0]["podName"],
            "each replaces the one before"
        );
    }
    // Six at a time, opened anew after each of two upgrades.
    assert_eq!((fates(0, "kept"), fates(0, "sentBack")), (18, 0));
    assert_eq!((fates(1, "kept"), fates(1, "sentBack")), (6, 12));
    assert!(
        number(&acts[1]["held"]) > 0,
        "requests waited for the pod that holds the volume"
    );
    assert_eq!(upgrades(2).len(), 3, "every workspace once");
    assert_eq!((fates(2, "kept"), fates(2, "sentBack")), (12, 0));

    until("every process of the demo to end", LONG, || async {
        let census = Census::take(None, &data)?;
        let running = census.running();
        Ok(Observation::when(running.is_empty(), (), running))
    })
    .await
    .unwrap();
}
