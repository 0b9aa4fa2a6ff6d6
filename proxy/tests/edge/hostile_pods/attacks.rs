//! Ways of a pod to attack, and the pod that knows them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What the client gets to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// An answer with this status that is whole.
    Whole(u16, &'static str),
    /// An answer that has begun, and whose end is missing for everybody to see.
    CutOff,
    /// Our own 502.
    BadGateway,
}
pub(super) use Seen::{BadGateway, CutOff, Whole};

pub(super) const BLOCK: usize = 64 * 1024;

/// A way to answer: its name, the bytes, and what the client sees of it. Behind `~` comes what is
/// repeated until the connection is closed.
pub(super) const ATTACKS: &[(&str, &str, Seen)] = &[
    (
        "endless-headers",
        "HTTP/1.1 200 OK\r\n~x-more: and more and more\r\n",
        BadGateway,
    ),
    (
        "endless-header-line",
        "HTTP/1.1 200 OK\r\nx: ~aaaaaaaa",
        BadGateway,
    ),
    ("endless-status-line", "HTTP/1.1 200 ~aaaaaaaa", BadGateway),
    ("no-http", "SSH-2.0-OpenSSH_9.6\r\n\r\n", BadGateway),
    ("nothing", "", BadGateway),
    ("half-a-head", "HTTP/1.1 200 OK\r\nContent-Le", BadGateway),
    (
        "no-status",
        "HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n",
        BadGateway,
    ),
    (
        "unasked-101",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello",
        BadGateway,
    ),
    (
        "unasked-101-x",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello",
        BadGateway,
    ),
    (
        "endless-1xx",
        "~HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
        CutOff,
    ),
    (
        "two-lengths",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        BadGateway,
    ),
    (
        "equal-lengths",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        BadGateway,
    ),
    (
        "list-of-lengths",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        BadGateway,
    ),
    (
        "coded-chunks",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        BadGateway,
    ),
    (
        "chunks-of-chunks",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        BadGateway,
    ),
    (
        "no-coding",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhello",
        BadGateway,
    ),
    (
        "chunks-in-1.0",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        BadGateway,
    ),
    (
        "bad-length",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        BadGateway,
    ),
    (
        "huge-length",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nhello",
        BadGateway,
    ),
    (
        "null-in-header",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\nContent-Length: 5\r\n\r\nhello",
        BadGateway,
    ),
    (
        "bare-cr",
        "HTTP/1.1 302 Found\r\nLocation: /x\rSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n",
        BadGateway,
    ),
    (
        "bad-chunk",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\nmore\r\n",
        CutOff,
    ),
    (
        "chunk-overflow",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nFFFFFFFFFFFFFFFFFF\r\nmore",
        CutOff,
    ),
    (
        "chunk-without-end",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        CutOff,
    ),
    (
        "endless-chunk-size",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n~00000000",
        CutOff,
    ),
    (
        "endless-chunk-extension",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5;~xxxxxxxx",
        CutOff,
    ),
    (
        "endless-trailers",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n~x-more: and more\r\n",
        CutOff,
    ),
    (
        "short-body",
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        CutOff,
    ),
    (
        "short-gzip",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 50\r\n\r\n\x1f\x08hello",
        CutOff,
    ),
    (
        "long-body",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, and more than was announced",
        Whole(200, "hello"),
    ),
    (
        "two-answers",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
        Whole(200, "hello"),
    ),
    (
        "both-framings",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Whole(200, "hello"),
    ),
    (
        "204-with-body",
        "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
        Whole(204, ""),
    ),
    (
        "304-with-body",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello",
        Whole(304, ""),
    ),
    (
        "until-the-end",
        "HTTP/1.0 200 OK\r\n\r\nhello",
        Whole(200, "hello"),
    ),
    (
        "cookies",
        "HTTP/1.1 200 OK\r\nSet-Cookie: __Host-nogoo9=x; Path=/; Secure\r\nSet-Cookie: nogoo9=x\r\nSet-Cookie: =nogoo9=x\r\nContent-Length: 5\r\n\r\nhello",
        Whole(200, "hello"),
    ),
];

/// A pod that answers as its path says; it reads no more than the head.
pub(super) struct Attacker {
    pub(super) address: SocketAddr,
    pub(super) open: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Attacker {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, stopped) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let this = Self {
            address,
            open: open.clone(),
            stopped: stopped.clone(),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                open.fetch_add(1, Ordering::SeqCst);
                let counted = Open(open.clone());
                tokio::spawn(async move {
                    let _counted = counted;
                    let _ = attack(stream).await;
                });
            }
        });
        this
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
    }
}

async fn attack(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let name = path.trim_start_matches('/');
    match name {
        "never" => {
            // Until it is closed by the other side.
            while stream.read(&mut [0; 1024]).await? > 0 {}
            return Ok(());
        }
        "drip" => {
            let begin = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
            stream.write_all(begin.as_bytes()).await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
        "reset" => {
            let begin = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello";
            stream.write_all(begin.as_bytes()).await?;
            stream.set_zero_linger()?;
            return Ok(());
        }
        "head" => {
            let both = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
            stream.write_all(both.as_bytes()).await?;
            return Ok(());
        }
        _ => {}
    }
    let Some((_, bytes, _)) = ATTACKS.iter().find(|(known, ..)| *known == name) else {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain";
        return stream.write_all(whole.as_bytes()).await;
    };
    let (begin, endless) = match bytes.split_once('~') {
        Some((begin, endless)) => (begin, Some(endless)),
        None => (*bytes, None),
    };
    stream.write_all(begin.as_bytes()).await?;
    if let Some(endless) = endless {
        let block = endless.repeat(BLOCK / endless.len());
        loop {
            stream.write_all(block.as_bytes()).await?;
        }
    }
    // Half-closed: what more comes is read, and the end is the other side's.
    stream.shutdown().await?;
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}
