//! A client that sends exactly the bytes it is told to.

use crate::PATIENCE;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case, in order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.headers
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Without the date, which moves.
    pub(crate) fn timeless(&self) -> Self {
        let headers = self
            .headers
            .iter()
            .filter(|(name, _)| name != "date")
            .cloned()
            .collect();
        Self {
            headers,
            ..self.clone()
        }
    }
}

/// A connection that can send several requests.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
            buffer: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The head of the next answer.
    pub(crate) async fn head(&mut self) -> Answer {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(
                self.more().await,
                "the connection ended in a head: {:?}",
                String::from_utf8_lossy(&self.buffer)
            );
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines
            .next()
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        let headers = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Answer {
            status,
            headers,
            body: Vec::new(),
        }
    }

    /// The next answer, if one comes before the connection ends.
    pub(crate) async fn try_answer(&mut self) -> Option<Answer> {
        while self.buffer.is_empty() {
            if !self.more().await {
                return None;
            }
        }
        Some(self.answer().await)
    }

    /// The next answer as a whole.
    pub(crate) async fn answer(&mut self) -> Answer {
        let mut answer = self.head().await;
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let chunk = self.chunk().await;
                if chunk.is_empty() {
                    return answer;
                }
                answer.body.extend_from_slice(&chunk);
            }
        }
        match answer.header("content-length") {
            Some(length) => {
                let length = length.parse().unwrap();
                answer.body = self.exactly(length).await;
            }
            None if answer.status == 204 || answer.status == 304 => {}
            None => answer.body = self.rest().await,
        }
        answer
    }

    /// The next chunk of a chunked body; the last one is empty.
    pub(crate) async fn chunk(&mut self) -> Vec<u8> {
        let size = self.line().await;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = self.exactly(size + 2).await;
        assert_eq!(chunk.split_off(size), b"\r\n");
        chunk
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|w| w == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..at + 2).collect();
                return String::from_utf8(line).unwrap();
            }
            assert!(self.more().await, "the connection ended in a line");
        }
    }

    pub(crate) async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length {
            assert!(
                self.more().await,
                "the connection ended before {length} bytes"
            );
        }
        self.buffer.drain(..length).collect()
    }

    /// Everything up to the end of the connection.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await {}
        std::mem::take(&mut self.buffer)
    }

    /// Whether it is open, and nothing has come that was not read yet.
    pub(crate) fn is_silent(&mut self) -> bool {
        let mut more = [0; 1];
        let read = self.stream.try_read(&mut more);
        self.buffer.is_empty()
            && read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    async fn more(&mut self) -> bool {
        let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.buffer)).await;
        read.expect("no answer came").unwrap_or(0) > 0
    }
}

/// A request: method, target, host and more header lines, without a body.
pub(crate) fn request(method: &str, host: &str, target: &str, headers: &[(&str, &str)]) -> String {
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text
}

/// What a browser says of a request that opens a page.
pub(crate) const NAVIGATE: [(&str, &str); 3] = [
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-Site", "none"),
];

/// Headers of such a request, by whoever has that cookie.
pub(crate) fn navigates(cookie: &str) -> [(&str, &str); 4] {
    let [mode, dest, site] = NAVIGATE;
    [("Cookie", cookie), mode, dest, site]
}

/// Headers of a request that a page makes where it is from.
pub(crate) fn own(cookie: &str) -> [(&str, &str); 2] {
    [("Cookie", cookie), ("Sec-Fetch-Site", "same-origin")]
}
