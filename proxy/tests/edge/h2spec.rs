//! h2spec, a conformance suite for HTTP/2, against the proxy in front of control (`make h2spec`).

use crate::proxy::Stage;
use std::path::Path;
use std::process::Stdio;
use tokio::process::Command;

/// What h2spec ends with, and what it says of each test that fails.
async fn run(stage: &Stage, flags: &[&str]) -> (String, Vec<String>) {
    let program = std::env::var_os("NOGOO9_H2SPEC").expect("NOGOO9_H2SPEC; run: make h2spec");
    let port = stage.address.port().to_string();
    let output = Command::new(program)
        .args(["--host", "localhost", "--port", &port, "--timeout", "20"])
        .args(flags)
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // They are told twice: as they come, and all together at the end.
    let (_, failures) = text.split_once("\nFailures:").unwrap_or((&text, ""));
    let failed = failures.lines().filter_map(|line| {
        let (_, failed) = line.split_once("× ")?;
        Some(failed.to_owned())
    });
    let failed: Vec<String> = failed.collect();
    let last = text.lines().rev().find(|line| line.contains(" tests, "));
    let last = last.unwrap_or_else(|| panic!("no summary in:\n{text}"));
    println!("{last}");
    (last.to_owned(), failed)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs h2spec: make h2spec"]
async fn in_clear() {
    let stage = Stage::public("http", &["--path-mode", "--h2c"]).await;
    let (summary, failed) = run(&stage, &[]).await;
    // HTTP/1 is spoken beside it, so what does not begin as HTTP/2 gets an answer in HTTP/1 (docs/edge.md).
    assert_eq!(failed, ["2: Sends invalid connection preface"]);
    assert!(
        summary.starts_with("145 tests, 144 passed, 0 skipped"),
        "{summary}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs h2spec: make h2spec"]
async fn over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = (folder.path().join("a.crt"), folder.path().join("a.key"));
    crate::tls::made(&["localhost"], 2050).write(&chain, &key);
    let text = |path: &Path| path.display().to_string();
    let (chain, key) = (text(&chain), text(&key));
    let stage = Stage::public("https", &["--tls-cert", &chain, "--tls-key", &key]).await;
    let (summary, failed) = run(&stage, &["--tls", "--insecure"]).await;
    assert_eq!(failed, [""; 0]);
    assert!(
        summary.contains(" passed, 0 skipped, 0 failed"),
        "{summary}"
    );
}
