//! A pod that keeps every byte that it gets, reads it as strictly as HTTP/1.1 can be read, and answers
//! each request with nothing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// One request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Request line.
    pub(crate) line: String,
    /// Header lines, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// What came between the head and the next request, chunks as they are.
    pub(crate) body: Vec<u8>,
    /// Whether the connection ended before it did.
    pub(crate) is_part: bool,
}

impl Recorded {
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.headers.iter().filter(|(n, _)| n == name);
        lines.map(|(_, value)| value.as_str()).collect()
    }
}

pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    came: Arc<Mutex<Vec<Recorded>>>,
}

impl Recorder {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let came = Arc::<Mutex<Vec<Recorded>>>::default();
        let all = came.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(record(stream, all.clone()));
            }
        });
        Self { address, came }
    }

    /// What came since this was last asked.
    pub(crate) fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.came.lock().unwrap())
    }
}

async fn record(mut stream: TcpStream, all: Arc<Mutex<Vec<Recorded>>>) {
    let mut bytes = Vec::new();
    loop {
        while let Some((request, length)) = parse(&bytes) {
            bytes.drain(..length);
            all.lock().unwrap().push(request);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            // What is no whole request is one all the same, if there is anything.
            if !bytes.is_empty() {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let (line, rest) = text.split_once("\r\n").unwrap_or((&text, ""));
                all.lock().unwrap().push(Recorded {
                    line: line.to_owned(),
                    headers: Vec::new(),
                    body: rest.as_bytes().to_vec(),
                    is_part: true,
                });
            }
            return;
        }
    }
}

/// The request that these bytes begin with, and its length.
fn parse(bytes: &[u8]) -> Option<(Recorded, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap_or((line, "")))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut request = Recorded {
        line,
        headers,
        body: Vec::new(),
        is_part: false,
    };
    let rest = &bytes[end + 4..];
    let length = if request.all("transfer-encoding") == ["chunked"] {
        chunked(rest)?
    } else {
        let length = request.all("content-length");
        length.first().map_or(0, |length| length.parse().unwrap())
    };
    request.body = rest.get(..length)?.to_vec();
    Some((request, end + 4 + length))
}

/// Bytes of a chunked body, with its trailers.
fn chunked(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[at..at + line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        at += line + 2;
        if size > 0 {
            at += size + 2;
            if bytes.len() < at {
                return None;
            }
            continue;
        }
        loop {
            let line = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
            at += line + 2;
            if line == 0 {
                return Some(at);
            }
        }
    }
}
