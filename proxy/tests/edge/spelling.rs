//! Headers by which a client claims to be somebody, in every way to write them, down to the bytes that
//! a pod gets.

use crate::client::Connection;
use crate::cluster::Spec;
use crate::proxy::Stage;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A pod that keeps every byte it gets, and answers once a request is there as a whole.
struct Bytes {
    address: SocketAddr,
    got: Arc<Mutex<Vec<u8>>>,
}

impl Bytes {
    async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::<Mutex<Vec<u8>>>::default();
        let kept = got.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(keep(stream, kept.clone()));
            }
        });
        Self { address, got }
    }

    /// What has come since this was asked last.
    fn take(&self) -> String {
        let got = std::mem::take(&mut *self.got.lock().unwrap());
        String::from_utf8_lossy(&got).into_owned()
    }
}

async fn keep(mut stream: TcpStream, kept: Arc<Mutex<Vec<u8>>>) {
    let mut got = Vec::new();
    loop {
        let before = got.len();
        if stream.read_buf(&mut got).await.unwrap_or(0) == 0 {
            return;
        }
        kept.lock().unwrap().extend_from_slice(&got[before..]);
        let text = String::from_utf8_lossy(&got).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        if !head.contains("transfer-encoding: chunked") || body.ends_with("0\r\n\r\n") {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            if stream.write_all(answer).await.is_err() {
                return;
            }
            got.clear();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_claim_reaches_a_pod() {
    let stage = Stage::start().await;
    let pod = Bytes::listen().await;
    stage.run(&Spec::new("app", "dev", 1, pod.address)).await;
    let (host, cookie) = stage.alice("dev");
    for lines in [
        "X-User-Sub: root",
        "x-user-sub: root\r\nX-USER-SUB: root\r\nX-User-Sub: root",
        "X_User_Sub: root\r\nX-User_Sub: root\r\nx.user.sub: root\r\nX~User~Roles: root",
        "X-User-Sub:root\r\nX-User-Roles:\troot\t",
        "X-User-Sub:\r\nX-User-Roles: root",
        "X-User-Email: root\r\nX-User-Whatever: root",
        "X-Forwarded-User: root\r\nX-Forwarded-Email: root\r\nX_FORWARDED_GROUPS: root",
        "X-Forwarded-Access-Token: root\r\nX-Forwarded-Client-Cert: root",
        "X-Workspace-JWT: root\r\nX-Workspace-Jwt-Extra: root",
        "X-Auth-Request-User: root\r\nX-Auth-Request-Access-Token: root",
        "Remote-User: root\r\nRemote_User: root\r\nRemote-Groups: root\r\nX-Remote-User: root",
        "X-WebAuth-User: root\r\nX-Authentik-Username: root\r\nX-Authenticated-User: root",
        "X-Amzn-Oidc-Identity: root\r\nCf-Access-Jwt-Assertion: root\r\nTailscale-User-Login: root",
        "X-Goog-Authenticated-User-Email: root\r\nX-MS-CLIENT-PRINCIPAL-NAME: root",
        "Ssl-Client-S-Dn: root\r\nX-SSL-Client-CN: root\r\nX-Client-Cert: root",
        "X-Nogoo9-Caller: root\r\nForwarded: for=root\r\nX-Real-Ip: root\r\nTrue-Client-IP: root",
        "Proxy-Authorization: root\r\nX-User-Sub: root",
        // Nominated: neither may it be taken away by being called hop-by-hop.
        "Connection: x-user-sub, x-user-roles, x-named\r\nX-User-Sub: root\r\nX-Named: root",
        "Keep-Alive: root\r\nTE: root\r\nProxy-Connection: root",
        "Upgrade: root\r\nConnection: upgrade",
    ] {
        let head = format!(
            "GET /x HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n\
             {lines}\r\n\r\n"
        );
        let mut connection = Connection::open(stage.address).await;
        connection.send(head).await;
        let status = connection.head().await.status;
        let seen = pod.take().to_ascii_lowercase();
        assert_eq!(status, 200, "{lines}");
        assert!(!seen.contains("root"), "{lines}\n{seen}");
        for (name, value) in [("x-user-sub", "alice"), ("x-user-roles", "user")] {
            let ours = format!("\r\n{name}: {value}\r\n");
            assert_eq!(seen.matches(&ours).count(), 1, "{lines}\n{seen}");
            assert_eq!(seen.matches(name).count(), 1, "{lines}\n{seen}");
        }
    }
    // Names that are none, and lines that go on, are no HTTP: refused, or at least not passed on.
    for lines in [
        "X-User-Sub : root",
        "X-User-Sub\t: root",
        " X-User-Sub: root",
        "X-Other: a\r\n X-User-Sub: root",
        "X-Other: a\r\n\tX-User-Sub: root",
        "X-Other: a\rX-User-Sub: root",
        "X-Other: a\nX-User-Sub: root",
        "X-User-Sub\0: root",
        "X-Other: a\0X-User-Sub: root",
        "X-User\u{2010}Sub: root",
        ": root",
    ] {
        let head = format!(
            "GET /x HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n\
             {lines}\r\nConnection: close\r\n\r\n"
        );
        let mut connection = Connection::open(stage.address).await;
        connection.send(head).await;
        let answer = String::from_utf8_lossy(&connection.rest().await).into_owned();
        let seen = pod.take();
        assert!(!seen.contains("root"), "{lines:?}\n{seen}");
        let known = ["HTTP/1.1 400", "HTTP/1.1 200"];
        assert!(
            known.iter().any(|one| answer.starts_with(one)),
            "{lines:?}: {answer}"
        );
    }
    // Trailers come after everything was decided.
    let head = format!(
        "POST /x HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n\
         Trailer: X-User-Sub\r\nTransfer-Encoding: chunked\r\n\r\n\
         4\r\nbody\r\n0\r\nX-User-Sub: root\r\nX-User-Roles: root\r\n\r\n"
    );
    let mut connection = Connection::open(stage.address).await;
    connection.send(head).await;
    assert_eq!(connection.head().await.status, 200);
    let seen = pod.take();
    assert!(seen.contains("body") && !seen.contains("root"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_ours_reach_no_pod_however_they_are_sent() {
    let stage = Stage::start().await;
    let pod = Bytes::listen().await;
    stage.run(&Spec::new("app", "dev", 1, pod.address)).await;
    let (host, cookie) = stage.alice("dev");
    let personal = "ng9_abcdefghijklmnopqrstuvwxyz234567";
    let bearer = stage.bearer("alice");
    let basic = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
    let ask = async |authorization: &str, cookie: &str| {
        let head = format!(
            "GET /x HTTP/1.1\r\nHost: {host}\r\nSec-Fetch-Site: same-origin\r\n\
             Authorization: {authorization}\r\n{cookie}\r\n"
        );
        let mut connection = Connection::open(stage.address).await;
        connection.send(head).await;
        (connection.head().await.status, pod.take())
    };
    let cookie = format!("Cookie: {cookie}\r\n");
    for text in [
        format!("git:{personal}"),
        format!("{personal}:x-oauth-basic"),
        format!("__token__:{bearer}"),
    ] {
        // It proves nothing, and is no obstacle to what does.
        let authorization = format!("Basic {}", basic(&text));
        let (status, seen) = ask(&authorization, "").await;
        assert_eq!((status, seen.as_str()), (401, ""), "{text}");
        let (status, seen) = ask(&authorization, &cookie).await;
        let seen = seen.to_ascii_lowercase();
        assert_eq!(status, 200, "{text}");
        assert!(seen.contains("x-user-sub: alice"), "{seen}");
        assert!(!seen.contains("authorization"), "{seen}");
    }
    let own = format!("Basic {}", basic("git:its own password"));
    let (status, seen) = ask(&own, &cookie).await;
    assert_eq!(status, 200);
    assert!(
        seen.to_ascii_lowercase().contains("authorization: basic"),
        "{seen}"
    );
    assert!(seen.contains(own.trim_start_matches("Basic ")), "{seen}");
}
