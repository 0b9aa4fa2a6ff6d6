//! `nogoo9 demo` as people run it: an instance of its own, upgrades under load, one table.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use nogoo9_tests::{Census, Observation, binary, until};
use serde_json::Value;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// Far longer than two upgrades take.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn shows_that_nobody_notices_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (data, json) = (folder.path().join("data"), folder.path().join("demo.json"));
    let child = Command::new(binary("nogoo9").unwrap())
        .args([
            "demo",
            "--upgrades",
            "2",
            "--requests",
            "3000",
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
        assert!(
            table.lines().any(|line| line.starts_with(row)),
            "{row}: {table}"
        );
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["problems"], serde_json::json!([]));
    assert!(report["http"]["requests"].as_u64().unwrap() >= 3000);
    assert_eq!(report["http"]["failures"], 0);
    let upgrades = report["upgrades"].as_array().unwrap();
    assert_eq!(upgrades.len(), 2);
    assert_eq!(
        upgrades[1]["previousPodName"], upgrades[0]["podName"],
        "each replaces the one before"
    );
    for upgrade in upgrades {
        let at = |moment: &str| upgrade[moment].as_u64().unwrap();
        assert!(
            at("answeredUs") < at("firstAnswerUs"),
            "the call does not wait for the pod: {upgrade}"
        );
        assert!(
            at("committedUs") <= at("movedUs") && at("movedUs") <= at("doneUs"),
            "{upgrade}"
        );
    }

    until("every process of the demo to end", LONG, || async {
        let census = Census::take(None, &data)?;
        let running = census.running();
        Ok(Observation::when(running.is_empty(), (), running))
    })
    .await
    .unwrap();
}
