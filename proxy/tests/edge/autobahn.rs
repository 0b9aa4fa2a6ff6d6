//! Autobahn's testsuite through the edge as a middle hop, where it is installed (`make autobahn`): each
//! case has the same result as directly at the same server, which is Autobahn's own.

use crate::address::free;
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use std::process::Stdio;
use tokio::net::TcpStream;
use tokio::process::Command;

/// The folder that the testsuite's packages are in, and the Python 2.7 that runs it.
const PACKAGES: &str = "NOGOO9_TEST_AUTOBAHN";
const PYTHON: &str = "NOGOO9_TEST_PYTHON2";

#[tokio::test(flavor = "multi_thread")]
async fn every_case_has_the_result_that_it_has_without_the_edge() {
    let Ok(packages) = std::env::var(PACKAGES) else {
        println!("not run: {PACKAGES} names no folder; see `make autobahn`");
        return;
    };
    let python = std::env::var(PYTHON).unwrap_or_else(|_| "python2.7".to_owned());
    let server = free();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/autobahn/run.py");
    let mut echo = Command::new(&python);
    echo.arg(script)
        .env("PYTHONPATH", &packages)
        .env("SERVE", server.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let _echo = echo.spawn().unwrap();
    crate::eventually("Autobahn's server", || async {
        TcpStream::connect(server).await.is_ok()
    })
    .await;
    let stage = Stage::start().await;
    stage.run(&Spec::new("app", "dev", 1, server)).await;
    let host = format!("dev.{CONSOLE}");
    let out = tempfile::tempdir().unwrap();
    let given =
        |name: &str, otherwise: &str| std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    let run = Command::new(&python)
        .arg(script)
        .env("PYTHONPATH", &packages)
        .env("DIRECT", server.to_string())
        .env("EDGE", stage.address.to_string())
        .env("HOST", &host)
        .env("COOKIE", stage.cookie_on("alice", &host))
        .env("CASES", given("CASES", r#"["*"]"#))
        .env("EXCLUDE", given("EXCLUDE", "[]"))
        .env("OUT", out.path())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let last: Vec<&str> = said.lines().rev().take(20).collect();
    for line in last.iter().rev() {
        println!("{line}");
    }
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
}
