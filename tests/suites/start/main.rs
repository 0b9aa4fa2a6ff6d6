//! Starts that cannot succeed: each says which flag or object is wrong and what to do, ends with the
//! right code, and leaves nothing half-started.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod configuration;
mod local;
mod surroundings;
mod templates;

use nogoo9_tests::{Census, Observation, binary, until};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// Longest time for a program that should end by itself.
const SOON: Duration = Duration::from_secs(120);

/// Runs a program to its end, in an environment without settings of ours.
async fn run(dir: &Path, program: &str, args: &[&str]) -> (i32, String) {
    let child = Command::new(binary(program).unwrap())
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
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
    } = tokio::time::timeout(SOON, child.wait_with_output())
        .await
        .unwrap_or_else(|_| panic!("{program} {args:?} runs on"))
        .unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.code().unwrap_or(-1), text)
}

/// No process of this folder runs, as soon as the last of them has had time to go.
async fn nothing_left(dir: &Path) {
    until("every process of the folder to end", SOON, || async {
        let census = Census::take(None, dir)?;
        let running = census.running();
        Ok(Observation::when(running.is_empty(), (), running))
    })
    .await
    .unwrap();
}

/// A kubeconfig whose cluster answers nobody: a port that no program of ours ever gets.
fn kubeconfig_to_nowhere(dir: &Path) -> String {
    let path = dir.join("nowhere.kubeconfig");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{name: c, cluster: {server: \"https://127.0.0.1:9\"}}]\n\
         users: [{name: u, user: {token: secret-of-the-kubeconfig}}]\n\
         contexts: [{name: c, context: {cluster: c, user: u}}]\n";
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

const PROXY: [&str; 12] = [
    "--listen",
    "127.0.0.1:0",
    "--admin-listen",
    "127.0.0.1:0",
    "--public-url",
    "http://localhost:9009",
    "--issuer",
    "http://127.0.0.1:9",
    "--control-url",
    "http://127.0.0.1:9",
    "--workspace-domain",
    "localhost",
];
const CONTROL: [&str; 14] = [
    "--listen",
    "127.0.0.1:0",
    "--admin-listen",
    "127.0.0.1:0",
    "--public-url",
    "http://localhost:9009",
    "--issuer",
    "http://127.0.0.1:9",
    "--client-id",
    "nogoo9",
    "--workspace-domain",
    "localhost",
    "--proxy-admin",
    "http://127.0.0.1:9",
];
