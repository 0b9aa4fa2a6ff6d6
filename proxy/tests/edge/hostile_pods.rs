//! Workspaces whose pods attack: whoever asks them gets an honest error, and everybody else is served.

mod attacks;

use crate::PATIENCE;
use crate::client::{Connection, own, request};
use crate::cluster::Spec;
use crate::memory::resident;
use crate::proxy::Stage;
use crate::upstream::Upstream;
use attacks::{ATTACKS, Attacker, BLOCK, BadGateway, CutOff, Whole};
use std::sync::atomic::Ordering;
use tokio::io::AsyncReadExt as _;

/// All bytes of an answer, up to the end of the connection.
async fn all(stage: &Stage, method: &str, path: &str) -> Vec<u8> {
    let (host, cookie) = stage.alice("evil");
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
    stage.run(&Spec::new("evil", "evil", 1, evil.address)).await;
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
    let (host, cookie) = stage.alice("evil");
    let headers = own(&cookie);
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
