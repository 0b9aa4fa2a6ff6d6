//! WebSocket servers: an echo with one fault each, a shell, and some that refuse.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

/// What goes wrong, counted by the lines of one socket, from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    None,
    Drop(u64),
    Repeat(u64),
    SwapWithNext(u64),
    Replace(u64, &'static str),
    CloseAfter(u64, u16, &'static str),
    CutAfter(u64),
}

#[derive(Debug, Clone)]
enum Role {
    Echo(Fault),
    Shell {
        program: &'static str,
        pod: &'static str,
    },
    Refuse(&'static str),
    Silent,
}

#[derive(Debug, Default)]
struct Seen {
    /// The close frame that each ended socket received.
    closes: Mutex<Vec<Option<(u16, String)>>>,
    controls: Mutex<Vec<String>>,
}

pub(crate) struct Server {
    port: u16,
    seen: Arc<Seen>,
    _accept: AbortOnDropHandle<()>,
}

impl Server {
    pub(crate) async fn echo(fault: Fault) -> Self {
        Self::start(Role::Echo(fault)).await
    }

    pub(crate) async fn shell(program: &'static str, pod: &'static str) -> Self {
        Self::start(Role::Shell { program, pod }).await
    }

    pub(crate) async fn refusing(answer: &'static str) -> Self {
        Self::start(Role::Refuse(answer)).await
    }

    pub(crate) async fn silent() -> Self {
        Self::start(Role::Silent).await
    }

    async fn start(role: Role) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Seen::default());
        let accept = tokio::spawn(accept(listener, role, Arc::clone(&seen)));
        Self {
            port,
            seen,
            _accept: AbortOnDropHandle::new(accept),
        }
    }

    pub(crate) fn url(&self) -> Url {
        Url::parse(&format!("http://localhost:{}/echo", self.port)).unwrap()
    }

    pub(crate) fn closes(&self) -> Vec<Option<(u16, String)>> {
        self.seen.closes.lock().unwrap().clone()
    }

    pub(crate) fn controls(&self) -> Vec<String> {
        self.seen.controls.lock().unwrap().clone()
    }

    pub(crate) async fn wait_ended(&self, sockets: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.closes().len() < sockets {
            assert!(
                Instant::now() < deadline,
                "{} sockets ended",
                self.closes().len()
            );
            sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn accept(listener: TcpListener, role: Role, seen: Arc<Seen>) {
    let mut sockets = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (role, seen) = (role.clone(), Arc::clone(&seen));
        sockets.spawn(async move {
            match role {
                Role::Echo(fault) => {
                    let close = echo(stream, fault).await;
                    seen.closes.lock().unwrap().push(close);
                }
                Role::Shell { program, pod } => shell(stream, program, pod, &seen).await,
                Role::Refuse(answer) => refuse(stream, answer).await,
                Role::Silent => {
                    let mut stream = stream;
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                }
            }
        });
    }
}

async fn refuse(mut stream: TcpStream, answer: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
}

async fn echo(stream: TcpStream, fault: Fault) -> Option<(u16, String)> {
    // The library's signature.
    #[allow(clippy::result_large_err, clippy::unnecessary_wraps)]
    fn pod(_: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
        response
            .headers_mut()
            .insert("x-pod", "pod-a".parse().unwrap());
        Ok(response)
    }
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, pod)
        .await
        .unwrap();
    let mut n = 0;
    let mut held = None;
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Close(frame) = message {
            // The answer to it.
            let _ = socket.flush().await;
            return frame.map(|f| (f.code.into(), f.reason.to_string()));
        }
        let answers = match fault {
            Fault::Drop(at) if at == n => vec![],
            Fault::Repeat(at) if at == n => vec![message.clone(), message],
            Fault::Replace(at, text) if at == n => vec![Message::text(text)],
            Fault::SwapWithNext(at) if at == n => {
                held = Some(message);
                vec![]
            }
            Fault::CutAfter(at) if at == n => return None,
            Fault::CloseAfter(at, code, reason) if at == n => {
                let frame = CloseFrame {
                    code: code.into(),
                    reason: reason.into(),
                };
                socket.close(Some(frame)).await.unwrap();
                while let Some(Ok(_)) = socket.next().await {}
                return None;
            }
            _ => std::iter::once(message).chain(held.take()).collect(),
        };
        n += 1;
        for answer in answers {
            if socket.send(answer).await.is_err() {
                return None;
            }
        }
    }
    None
}

async fn shell(stream: TcpStream, program: &str, pod: &str, seen: &Seen) {
    let socket = tokio_tungstenite::accept_async(stream).await.unwrap();
    let (mut out, mut typed) = socket.split();
    let (pty, pts) = pty_process::open().unwrap();
    pty.resize(pty_process::Size::new(24, 80)).unwrap();
    let command = pty_process::Command::new(program)
        .env_clear()
        .kill_on_drop(true);
    let mut child = command
        .env("POD_NAME", pod)
        .env("TERM", "xterm")
        .spawn(pts)
        .unwrap();
    let (mut screen, mut keys) = pty.into_split();
    let mut buffer = vec![0; 4096];
    loop {
        tokio::select! {
            read = screen.read(&mut buffer) => match read {
                Ok(n) if n > 0 => out.send(Message::binary(buffer[..n].to_vec())).await.unwrap(),
                _ => break,
            },
            message = typed.next() => match message {
                Some(Ok(Message::Binary(bytes))) => keys.write_all(&bytes).await.unwrap(),
                Some(Ok(Message::Text(text))) => seen.controls.lock().unwrap().push(text.to_string()),
                Some(Ok(Message::Close(_))) => {
                    let _ = out.flush().await;
                    break;
                }
                _ => break,
            },
        }
    }
    child.kill().await.unwrap();
}
