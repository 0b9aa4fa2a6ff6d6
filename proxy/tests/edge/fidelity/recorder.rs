//! A pod that keeps every byte it gets and answers what it is told to.

use super::message::{Message, Start};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// By which header a request says what it is answered with.
pub(crate) const CASE: &str = "x-case";

/// What a request is answered with.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// Sent once the head is there, before the body is read.
    pub(crate) at_head: Vec<u8>,
    /// Sent once the request is there as a whole.
    pub(crate) answer: Vec<u8>,
    /// Whether the connection ends with that.
    pub(crate) close: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            at_head: Vec::new(),
            answer: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
            close: false,
        }
    }
}

pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    scripts: HashMap<String, Script>,
    requests: Vec<Vec<u8>>,
    /// What came and was no whole request when the connection ended.
    fragments: Vec<Vec<u8>>,
}

impl Recorder {
    pub(crate) async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Mutex<Shared>>::default();
        let kept = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, kept.clone()));
            }
        });
        Self { address, shared }
    }

    /// Answers this to requests of that case.
    pub(crate) fn answers(&self, case: &str, script: Script) {
        let mut shared = self.shared.lock().unwrap();
        shared.scripts.insert(case.to_owned(), script);
    }

    /// Requests that have come since this was asked last, byte for byte.
    pub(crate) fn requests(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.shared.lock().unwrap().requests)
    }

    /// Whether something came that was never finished.
    pub(crate) fn has_fragments(&self) -> bool {
        !self.shared.lock().unwrap().fragments.is_empty()
    }

    /// What came since then and was never finished.
    pub(crate) fn fragments(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.shared.lock().unwrap().fragments)
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Mutex<Shared>>) {
    let mut got = Vec::new();
    let mut told = false;
    loop {
        let head = got.windows(4).position(|w| w == b"\r\n\r\n");
        if let Some(head) = head.filter(|_| !told) {
            told = true;
            let script = script(&got[..head + 4], &shared);
            if stream.write_all(&script.at_head).await.is_err() {
                return;
            }
        }
        match Message::read(&got, Start::Request) {
            Ok(Some((_, length))) => {
                let request: Vec<u8> = got.drain(..length).collect();
                let script = script(&request, &shared);
                shared.lock().unwrap().requests.push(request);
                told = false;
                if stream.write_all(&script.answer).await.is_err() || script.close {
                    return;
                }
                continue;
            }
            Ok(None) => {}
            Err(wrong) => {
                let text = String::from_utf8_lossy(&got).into_owned();
                let told = format!("{wrong}: {text}");
                shared.lock().unwrap().fragments.push(told.into_bytes());
                return;
            }
        }
        if stream.read_buf(&mut got).await.unwrap_or(0) == 0 {
            if !got.is_empty() {
                shared.lock().unwrap().fragments.push(got);
            }
            return;
        }
    }
}

fn script(request: &[u8], shared: &Mutex<Shared>) -> Script {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let name = format!("\r\n{CASE}: ");
    let case = text.split(&name).nth(1);
    let case = case.and_then(|rest| rest.split("\r\n").next());
    let shared = shared.lock().unwrap();
    let script = case.and_then(|case| shared.scripts.get(case));
    script.cloned().unwrap_or_default()
}
