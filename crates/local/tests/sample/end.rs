//! How it ends, and failures on demand.

use crate::support::{Sample, bounded, close_code, output_until, type_in};
use std::net::Ipv4Addr;
use std::process::Command;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

#[tokio::test]
async fn asked_to_end_it_finishes_what_it_began() {
    let mut sample = Sample::start(&[]);
    let mut echo = sample.socket("/echo").await;
    let mut shell = sample.socket("/shell").await;
    type_in(&mut shell, "echo $((6*7))-up\n").await;
    output_until(&mut shell, "42-up").await;
    let mut in_flight = reqwest::get(sample.url("/chunks?n=2&ms=1000"))
        .await
        .unwrap();
    assert_eq!(
        in_flight.chunk().await.unwrap().unwrap(),
        "chunk 0\n",
        "it has begun"
    );
    sample.terminate();
    assert_eq!(close_code(&mut echo).await, Some(CloseCode::Restart));
    assert_eq!(close_code(&mut shell).await, Some(CloseCode::Restart));
    assert_eq!(
        bounded("the rest", in_flight.text()).await.unwrap(),
        "chunk 1\n"
    );
    assert!(sample.wait().await.success());
}

#[tokio::test]
async fn failures_on_demand() {
    let late = Sample::start(&[("READY_DELAY_MS", "600000")]);
    assert_eq!(
        (late.status("/healthz").await, late.status("/info").await),
        (503, 200)
    );

    let mut dying = Sample::start(&[]);
    let answer = reqwest::Client::new().post(dying.url("/die")).send().await;
    assert!(answer.is_err(), "no answer comes");
    assert_eq!(dying.wait().await.code(), Some(1));

    let run = |env: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nogoo9-sample"));
        let output = command
            .env_clear()
            .envs(env.iter().copied())
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    assert_eq!(run(&[("CRASH", "1")]).0, Some(1));
    let (code, said) = run(&[("PORT", "http")]);
    assert_eq!(code, Some(2));
    assert!(said.contains("PORT=http: not a port number"), "{said}");
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, said) = run(&[("PORT", &port)]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("set POD_IP and PORT to a free address"),
        "{said}"
    );
}
