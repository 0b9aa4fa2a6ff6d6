//! gRPC through the edge, between the official client and server for Node.js (`tests/clients`).

use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use serde_json::json;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

fn clients() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/clients");
    assert!(
        folder.join("node_modules/@grpc/grpc-js").is_dir(),
        "no @grpc/grpc-js; run: scripts/deps.sh test"
    );
    folder
}

fn node(script: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(clients().join(script)).kill_on_drop(true);
    command
}

/// A server, which ends with its handle; and its port.
async fn server() -> (Child, u16) {
    let mut server = node("grpc_server.mjs");
    server.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = server.spawn().expect("node");
    let mut port = String::new();
    let mut lines = BufReader::new(server.stdout.take().unwrap());
    lines.read_line(&mut port).await.unwrap();
    let port = port.trim().parse().expect("the server's port");
    (server, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_call() {
    let stage = Stage::with(&["--h2c"]).await;
    let (_server, port) = server().await;
    let address = ([127, 0, 0, 1], port).into();
    let annotations = [("workspace-protocol", "h2c")];
    let pod = Spec::new("grpc", "dev", 1, address).with(&annotations);
    stage.run(&pod).await;
    let output = node("grpc_client.mjs")
        .env("ADDRESS", stage.address.to_string())
        .env("HOST", format!("dev.{CONSOLE}"))
        .env("TOKEN", stage.bearer("alice"))
        .output();
    let output = tokio::time::timeout(crate::PATIENCE, output).await;
    let output = output.expect("the client ends").unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let mut came: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // What a server may say ahead of a client that takes nothing: windows and buffers on the way.
    let ahead = came["pour"]["kept"].take().as_u64().unwrap();
    println!("{ahead} bytes ahead of a client that takes nothing");
    assert!(ahead < 16 * 1024 * 1024, "{ahead} of 32 MiB");
    let wanted = json!({
        "echo": {"code": 0, "answer": "hello", "first": "yes", "trailer": "kept"},
        "user": "alice",
        "large": {"code": 0, "same": true},
        "fail": {"code": 9, "details": "not so: 100 % ü", "trailer": "kept"},
        "count": {"code": 0, "details": "OK", "trailer": "kept", "messages": 1000, "ordered": true},
        "broken": {"code": 10, "details": "enough", "messages": 3},
        "sum": {"code": 0, "answer": "3276800", "trailer": "kept", "first": null},
        "chat": {"code": 0, "last": "99 heard"},
        "deadline": came["deadline"].clone(),
        "left": {"code": 1, "messages": 3},
        "cancelled": 2,
        "pour": {"code": 0, "messages": 512, "trailer": "kept", "kept": null},
    });
    let mut wanted = wanted;
    // `undefined` is not written.
    wanted["sum"].as_object_mut().unwrap().remove("first");
    assert_eq!(came["deadline"]["code"], 4, "{came}");
    assert_eq!(came, wanted);
}
