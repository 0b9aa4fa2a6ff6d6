//! One sample workspace, and what is said to it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

pub(crate) type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

const BOUND: Duration = Duration::from_secs(60);

pub(crate) struct Sample {
    pub(crate) child: Child,
    address: String,
    /// Address of its second port.
    pub(crate) docs: Option<String>,
    pub(crate) home: tempfile::TempDir,
}

impl Sample {
    pub(crate) fn start(env: &[(&str, &str)]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let home = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_nogoo9-sample"))
            .env_clear()
            .envs([
                ("POD_NAME", "ws-alice-demo"),
                ("WORKSPACE_ID", "demo"),
                ("VERSION", "1.0"),
                ("PORT", "0"),
                ("MESSAGE", "<hello>"),
            ])
            .env("HOME", home.path())
            .env("PATH", "/usr/bin:/bin")
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines
            .find_map(|line| line.ok().filter(|line| line.contains("is up")))
            .expect("it starts");
        // Its log must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let said = |field: &str| {
            let value = line.split(field).nth(1)?.split_whitespace().next()?;
            Some(value.to_owned())
        };
        let address = said(" address=").unwrap();
        let docs = said(" docs=");
        Self {
            child,
            address,
            docs,
            home,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let text = reqwest::get(self.url(path))
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) async fn status(&self, path: &str) -> u16 {
        reqwest::get(self.url(path))
            .await
            .unwrap()
            .status()
            .as_u16()
    }

    pub(crate) async fn socket(&self, path: &str) -> Socket {
        connect_async(format!("ws://{}{path}", self.address))
            .await
            .unwrap()
            .0
    }

    pub(crate) fn terminate(&self) {
        kill(
            Pid::from_raw(i32::try_from(self.child.id()).unwrap()),
            Signal::SIGTERM,
        )
        .unwrap();
    }

    pub(crate) async fn wait(&mut self) -> ExitStatus {
        bounded("it ends", async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) async fn bounded<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(BOUND, work).await {
        Ok(value) => value,
        Err(_) => panic!("not within {BOUND:?}: {what}"),
    }
}

/// Reads terminal output until it holds `text`.
pub(crate) async fn output_until(socket: &mut Socket, text: &str) -> String {
    let mut seen = String::new();
    bounded(text, async {
        while !seen.contains(text) {
            match socket.next().await.expect("open").unwrap() {
                Message::Binary(bytes) => seen.push_str(&String::from_utf8_lossy(&bytes)),
                other => panic!("{other:?} after {seen:?}"),
            }
        }
    })
    .await;
    seen
}

pub(crate) async fn type_in(socket: &mut Socket, text: &str) {
    socket
        .send(Message::Binary(text.to_owned().into()))
        .await
        .unwrap();
}

pub(crate) async fn close_code(socket: &mut Socket) -> Option<CloseCode> {
    bounded("the close", async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    })
    .await
}

/// The page itself.
pub(crate) async fn page(sample: &Sample) -> String {
    let answer = reqwest::get(sample.url("/")).await.unwrap();
    answer.text().await.unwrap()
}
