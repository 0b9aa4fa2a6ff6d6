//! An HTTP/1.1 server that misbehaves by path.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

pub(crate) const BODY: &str = "hello, world";

#[derive(Debug, Default)]
struct Shared {
    requests: AtomicU64,
    connections: AtomicU64,
    open: AtomicU64,
    pod: Mutex<String>,
}

pub(crate) struct Server {
    port: u16,
    shared: Arc<Shared>,
    _accept: AbortOnDropHandle<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            pod: Mutex::new("pod-a".into()),
            ..Shared::default()
        });
        let accept = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            port,
            shared,
            _accept: AbortOnDropHandle::new(accept),
        }
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://localhost:{}{path}", self.port)).unwrap()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn open(&self) -> u64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    pub(crate) fn set_pod(&self, pod: &str) {
        *self.shared.pod.lock().unwrap() = pod.to_owned();
    }

    pub(crate) async fn wait_open(&self, connections: u64) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.open() != connections {
            assert!(
                Instant::now() < deadline,
                "{} connections are open instead of {connections}",
                self.open()
            );
            sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            shared.open.fetch_add(1, Ordering::SeqCst);
            let _ = serve(stream, &shared).await;
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// The request's target, once its head and body are read.
async fn request(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
    let (mut target, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if target.is_none() {
            target = line.split(' ').nth(1).map(str::to_owned);
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    stream.read_exact(&mut vec![0; length]).await?;
    Ok(target)
}

async fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut served = 0;
    while let Some(target) = request(&mut stream).await? {
        let first = shared.requests.fetch_add(1, Ordering::SeqCst) == 0;
        served += 1;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let argument = || {
            query
                .split_once('=')
                .and_then(|(_, value)| value.parse::<u64>().ok())
        };
        let pod = shared.pod.lock().unwrap().clone();
        let whole = format!(
            "HTTP/1.1 200 OK\r\nx-pod: {pod}\r\ncontent-length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        let promise = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart";
        match path {
            "/status" => {
                let code = argument().unwrap();
                let answer = format!("HTTP/1.1 {code} Because\r\ncontent-length: 4\r\n\r\nbody");
                stream.write_all(answer.as_bytes()).await?;
            }
            "/slow-first" if first || argument() == Some(5000) => {
                sleep(Duration::from_millis(argument().unwrap())).await;
                stream.write_all(whole.as_bytes()).await?;
            }
            "/reset-head" => return stream.get_ref().set_zero_linger(),
            "/half-head" => return stream.write_all(b"HTTP/1.1 200 OK\r\nx-po").await,
            "/reset-body" => {
                stream.write_all(promise.as_bytes()).await?;
                // Let the client take the head in: a reset may overtake what is unread.
                sleep(Duration::from_millis(50)).await;
                return stream.get_ref().set_zero_linger();
            }
            "/short-body" => return stream.write_all(promise.as_bytes()).await,
            "/stuck-body" => {
                stream.write_all(promise.as_bytes()).await?;
                // Until the client gives up.
                stream.read_to_end(&mut Vec::new()).await?;
            }
            "/garbage" => return stream.write_all(b"SMTP ready\r\n\r\n").await,
            "/then-close" => return stream.write_all(whole.as_bytes()).await,
            "/close-on-second" if served == 2 => {
                sleep(Duration::from_millis(argument().unwrap_or(0))).await;
                return Ok(());
            }
            _ => stream.write_all(whole.as_bytes()).await?,
        }
    }
    Ok(())
}
