//! Workspaces whose pods attack: whoever asks them gets an honest error, and everybody else is served.

use crate::PATIENCE;
use crate::client::{Connection, request};
use crate::cluster::Spec;
use crate::memory::resident;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What the client gets to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// An answer with this status that is whole.
    Whole(u16, &'static str),
    /// An answer that has begun, and whose end is missing for everybody to see.
    CutOff,
    /// Our own 502.
    BadGateway,
}
use Seen::{BadGateway, CutOff, Whole};

const BLOCK: usize = 64 * 1024;

/// A way to answer: its name, the bytes, and what the client sees of it. Behind `~` comes what is
/// repeated until the connection is closed.
const ATTACKS: &[(&str, &str, Seen)] = &[
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
struct Attacker {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Attacker {
    async fn start() -> Self {
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

/// All bytes of an answer, up to the end of the connection.
async fn all(stage: &Stage, method: &str, path: &str) -> Vec<u8> {
    let host = format!("evil.{CONSOLE}");
    let cookie = stage.cookie_on("alice", &host);
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Connection", "close"),
    ];
    let mut connection = Connection::open(stage.address).await;
    connection
        .send(request(method, &host, path, &headers))
        .await;
    let mut bytes = Vec::new();
    let mut block = vec![0; BLOCK];
    loop {
        let read = tokio::time::timeout(PATIENCE, connection.stream.read(&mut block));
        match read.await.unwrap_or_else(|_| panic!("{path} never ends")) {
            Ok(0) | Err(_) => return bytes,
            Ok(length) => bytes.extend_from_slice(&block[..length]),
        }
        assert!(
            bytes.len() < 64 << 20,
            "{path} is let through without an end"
        );
    }
}

/// What a careful client makes of an answer.
fn judge(bytes: &[u8]) -> (Option<(u16, String)>, String) {
    let mut rest = bytes;
    loop {
        let Some(at) = rest.windows(4).position(|window| window == b"\r\n\r\n") else {
            return (None, String::new());
        };
        let head = String::from_utf8_lossy(&rest[..at]).to_ascii_lowercase();
        rest = &rest[at + 4..];
        let status: u16 = head[9..12].parse().unwrap();
        if status == 101 {
            return (Some((101, String::new())), head);
        }
        if status < 200 {
            continue;
        }
        let lines = || head.split("\r\n");
        let value = |name: &str| lines().find_map(|line| line.strip_prefix(name));
        let length = value("content-length: ").map(|text| text.parse::<usize>().unwrap());
        let chunked = value("transfer-encoding: chunked").is_some();
        assert!(!(chunked && length.is_some()), "two framings: {head}");
        let body = if matches!(status, 204 | 304) {
            rest.is_empty().then(Vec::new)
        } else if chunked {
            unchunk(rest)
        } else {
            match length {
                Some(length) => (rest.len() == length).then(|| rest.to_vec()),
                None => Some(rest.to_vec()),
            }
        };
        let body = body.map(|body| (status, String::from_utf8_lossy(&body).into_owned()));
        return (body, head);
    }
}

fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let at = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..at]).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[at + 2..];
        if size == 0 {
            return (rest == b"\r\n").then_some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

/// Open files of the proxy.
fn files(stage: &Stage) -> usize {
    let files = format!("/proc/{}/fd", stage.child.id().unwrap());
    std::fs::read_dir(files).unwrap().count()
}

async fn stage() -> (Stage, Upstream, Attacker) {
    let stage = Stage::start().await;
    let (calm, _) = stage.serving("calm", "calm", 1).await;
    let evil = Attacker::start().await;
    let uid = stage
        .cluster
        .run(&Spec::new("evil", "evil", 1, evil.address))
        .await;
    stage.routed("evil", Some(&uid)).await;
    (stage, calm, evil)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_attacks_is_told_of_and_harms_nobody_else() {
    let (stage, calm, evil) = stage().await;
    // What it takes to serve at all is taken before it is measured.
    for _ in 0..5 {
        assert!(all(&stage, "GET", "/plain").await.ends_with(b"plain"));
    }
    let (before, took) = (files(&stage), resident(&stage));
    let mut wrong = Vec::new();
    for (name, _, wanted) in ATTACKS {
        let attacked = all(&stage, "GET", &format!("/{name}")).await;
        let (answer, head) = judge(&attacked);
        let seen = match &answer {
            Some((502, body)) if body.contains("bad_gateway") => BadGateway,
            Some((status, body)) if matches!(wanted, Whole(s, b) if s == status && b == body) => {
                *wanted
            }
            Some((status, body)) => {
                wrong.push(format!("{name}: {status} {body:?} for {wanted:?}"));
                continue;
            }
            None => CutOff,
        };
        if seen != *wanted {
            let begin = String::from_utf8_lossy(&attacked[..attacked.len().min(200)]).into_owned();
            wrong.push(format!("{name}: {seen:?} for {wanted:?}: {begin:?}"));
        }
        if head.contains("set-cookie") {
            wrong.push(format!("{name}: a cookie: {head}"));
        }
        // Everybody else is served, and so is whoever asks this one for something sensible.
        assert_eq!(stage.get("calm", "/x").await.status, 200, "after {name}");
        let plain = all(&stage, "GET", "/plain").await;
        assert!(plain.ends_with(b"plain"), "after {name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(calm.requests(), ATTACKS.len(), "each exactly once");
    crate::eventually("every connection to be closed", || async {
        evil.open.load(Ordering::SeqCst) <= 1 && stage.metric("open_requests").await == 0
    })
    .await;
    crate::eventually("the open files of before", || async {
        files(&stage) <= before + 2
    })
    .await;
    let grown = resident(&stage).saturating_sub(took);
    assert!(grown < 64 << 20, "{grown} bytes more than {took}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_an_answer_to_head_is_no_answer() {
    let (stage, _calm, _evil) = stage().await;
    let host = format!("evil.{CONSOLE}");
    let cookie = stage.cookie_on("alice", &host);
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    let mut connection = Connection::open(stage.address).await;
    for _ in 0..20 {
        connection
            .send(request("HEAD", &host, "/head", &headers))
            .await;
        assert_eq!(connection.head().await.status, 200);
        connection
            .send(request("GET", &host, "/plain", &headers))
            .await;
        let answer = connection.answer().await;
        assert_eq!(answer.text(), "plain", "{answer:?}");
    }
    let reset = all(&stage, "GET", "/reset").await;
    assert_eq!(judge(&reset).0, None, "{reset:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_drip_or_never_answer_hold_nothing_of_others() {
    let (stage, calm, evil) = stage().await;
    let before = files(&stage);
    let mut waiting = Vec::new();
    for n in 0..60 {
        let path = if n % 2 == 0 { "/never" } else { "/drip" };
        waiting.push(stage.begin("GET", "evil", path, "").await);
    }
    crate::eventually("all of them", || async {
        stage.metric("open_requests").await == 60
    })
    .await;
    for _ in 0..50 {
        assert_eq!(stage.get("calm", "/x").await.status, 200);
    }
    assert_eq!(calm.requests(), 50);
    // Their clients lose patience.
    drop(waiting);
    crate::eventually("every connection to be closed", || async {
        stage.metric("open_requests").await == 0 && evil.open.load(Ordering::SeqCst) == 0
    })
    .await;
    crate::eventually("the open files of before", || async {
        files(&stage) <= before + 2
    })
    .await;
}
