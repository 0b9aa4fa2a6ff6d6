//! Mistakes in the configuration are told, all at once and by flag.

use crate::proxy::command;

async fn run(args: &[&str]) -> (Option<i32>, String) {
    let output = tokio::time::timeout(crate::PATIENCE, command().args(args).output())
        .await
        .expect("it did not end")
        .unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[tokio::test]
async fn all_mistakes_at_once() {
    let (code, text) = run(&[
        "--listen",
        "nowhere",
        "--hold-timeout",
        "0",
        "--control-url",
        "https://x",
        "--h2c=perhaps",
        "--trusted-proxies=10.0.0.0/8,10.0.0.0/33",
        "--auth-failures-per-minute=many",
    ])
    .await;
    assert_eq!(code, Some(2), "{text}");
    for flag in [
        "--listen:",
        "--hold-timeout:",
        "--control-url:",
        "--h2c:",
        "--trusted-proxies: `10.0.0.0/33` is no network",
        "--auth-failures-per-minute:",
        "--public-url:",
        "--issuer:",
    ] {
        assert!(text.contains(flag), "{flag} not in:\n{text}");
    }
}

#[tokio::test]
async fn a_good_configuration_is_checked_without_running() {
    let good = [
        "--public-url",
        "http://localhost:9009",
        "--control-url",
        "http://127.0.0.1:9010",
        "--issuer",
        "http://127.0.0.1:9011",
        "--trusted-proxies=10.0.0.0/8,fd00::/8",
        "--trusted-proxies=192.0.2.7",
        "--auth-failures-per-minute=0",
        "--check-config",
    ];
    let (code, text) = run(&good).await;
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn a_port_in_use_names_its_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, text) = run(&[
        "--listen",
        &address,
        "--public-url",
        "http://localhost:9009",
        "--control-url",
        "http://127.0.0.1:9010",
        "--issuer",
        "http://127.0.0.1:9011",
    ])
    .await;
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains(&format!("--listen {address}: the port is in use")),
        "{text}"
    );
}
