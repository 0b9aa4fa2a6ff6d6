//! A workspace that does to the edge what no program should (`HOSTILE=1`): benches measure what its
//! neighbours notice. Only its health check is as it must be, so that requests come to it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Connections at once; more wait.
const MOST: usize = 512;
/// Longest attack on one connection.
const LONGEST: Duration = Duration::from_secs(30);
/// Longest request head that it reads.
const HEAD: usize = 64 * 1024;
/// Between two bytes of an answer that drips.
const DRIP: Duration = Duration::from_millis(200);

/// What it does, by turns.
const ATTACKS: [Attack; 9] = [
    Attack::EndlessHeaders,
    Attack::BadChunks,
    Attack::Unasked101,
    Attack::HalfClosed,
    Attack::SlowDrip,
    Attack::OurCookies,
    Attack::ShortGzip,
    Attack::NoAnswer,
    Attack::NoHttp,
];

#[derive(Debug, Clone, Copy)]
enum Attack {
    /// A head without end.
    EndlessHeaders,
    /// A chunk whose size is no number.
    BadChunks,
    /// Another protocol that nobody asked for, and bytes in it.
    Unasked101,
    /// Fewer bytes than promised, and then silence on a connection that is half closed.
    HalfClosed,
    /// An answer that comes byte by byte.
    SlowDrip,
    /// Cookies with the edge's own names, for all hosts.
    OurCookies,
    /// Compressed, it says, and of another length.
    ShortGzip,
    /// The end of the connection.
    NoAnswer,
    /// Bytes that are no HTTP at all.
    NoHttp,
}

/// Serves until the process ends.
pub(super) async fn serve(address: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tracing::warn!(%address, "HOSTILE=1: answers are attacks");
    let (turn, room) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(Semaphore::new(MOST)),
    );
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return Ok(());
        };
        let (stream, _) = listener.accept().await?;
        let turn = Arc::clone(&turn);
        tokio::spawn(async move {
            // However the other side takes it.
            let _ended = timeout(LONGEST, answer(stream, &turn)).await;
            drop(place);
        });
    }
}

async fn answer(mut stream: TcpStream, turn: &AtomicUsize) -> io::Result<()> {
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        head.extend_from_slice(buffer.get(..read).unwrap_or_default());
    }
    if head.starts_with(b"GET /healthz") {
        let healthy = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n";
        return stream.write_all(healthy).await;
    }
    let next = turn.fetch_add(1, Ordering::Relaxed) % ATTACKS.len();
    match ATTACKS.get(next) {
        Some(attack) => attack.on(&mut stream).await,
        None => Ok(()),
    }
}

impl Attack {
    async fn on(self, stream: &mut TcpStream) -> io::Result<()> {
        match self {
            Self::EndlessHeaders => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
                loop {
                    let line = [b"X-Filler: ".as_slice(), &[b'x'; 8000], b"\r\n"].concat();
                    stream.write_all(&line).await?;
                }
            }
            Self::BadChunks => {
                let bad = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nbytes\r\n";
                stream.write_all(bad).await
            }
            Self::Unasked101 => {
                let head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                             Upgrade: websocket\r\n\r\n\x81\x05hello";
                stream.write_all(head).await?;
                sleep(LONGEST).await;
                Ok(())
            }
            Self::HalfClosed => {
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nnot all";
                stream.write_all(head).await?;
                stream.shutdown().await?;
                sleep(LONGEST).await;
                Ok(())
            }
            Self::SlowDrip => {
                for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
                    .iter()
                    .chain(&[b'.'; 90])
                {
                    stream.write_all(&[*byte]).await?;
                    sleep(DRIP).await;
                }
                Ok(())
            }
            Self::OurCookies => {
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\
                             Set-Cookie: __Host-nogoo9=theirs; Secure; Path=/\r\n\
                             Set-Cookie: nogoo9=theirs; Domain=localhost; Path=/\r\n\r\n";
                stream.write_all(head).await
            }
            Self::ShortGzip => {
                let head =
                    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 500\r\n\r\n\
                             \x1f\x8b\x08\x00 this is none";
                stream.write_all(head).await
            }
            Self::NoAnswer => Ok(()),
            Self::NoHttp => stream.write_all(&[0xff; 2000]).await,
        }
    }
}
