//! What a session has open at one proxy, its requests through another one follow as well.

use super::{AFFINITY, new, old};
use crate::address::free;
use crate::client::{Connection, request};
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::{CONSOLE, Partner, Stage, TOKEN};
use crate::sockets;
use crate::upstream::Upstream;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Who answers a cookie's browser at a proxy.
async fn who(at: SocketAddr, cookie: &str, method: &str) -> String {
    let host = format!("dev.{CONSOLE}");
    let headers = [
        ("Cookie", cookie),
        ("Sec-Fetch-Site", "same-origin"),
        ("Connection", "close"),
    ];
    let mut connection = Connection::open(at).await;
    connection.send(request(method, &host, "/", &headers)).await;
    let answer = connection.answer().await.text();
    answer.lines().next().unwrap_or_default().to_owned()
}

fn mine(stage: &Stage) -> String {
    stage.cookie_on("alice", &format!("dev.{CONSOLE}"))
}

/// The cookie of another session of alice's.
fn other(stage: &Stage, sid: &str) -> String {
    let host = format!("dev.{CONSOLE}");
    format!("nogoo9={}", stage.token_fresh_for(sid, "user", &host, 600))
}

/// The successor takes over, at both.
async fn succeed(stage: &Stage, partner: &Partner) -> Upstream {
    let new = new(stage).await;
    let routes = stage.admin("/routes").await;
    let uid = routes["routes"]["dev"]["active"].as_str().unwrap();
    partner.routed("dev", uid).await;
    new
}

/// The old pod, at both; and its uid.
async fn begin(stage: &Stage, partner: &Partner) -> (Upstream, String) {
    let old = old(stage, true).await;
    let routes = stage.admin("/routes").await;
    let uid = routes["routes"]["dev"]["active"].as_str().unwrap();
    partner.routed("dev", uid).await;
    (old, uid.to_owned())
}

/// How often others were asked and answered so.
async fn asked(partner: &Partner, answer: &str) -> u64 {
    let metrics = partner.metrics().await;
    let name = format!("nogoo9_proxy_peers_asked_total{{answer=\"{answer}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.map_or(0, |count| count.parse().unwrap())
}

async fn drop_it(mut socket: Connection) {
    socket.send(sockets::frame(1, b"drop")).await;
    socket.rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_follow_what_is_open_at_another_proxy_until_it_ends() {
    let stage = Stage::start().await;
    let partner = stage.partner(&["--peers", &stage.admin.to_string()]).await;
    let _old = begin(&stage, &partner).await;
    let socket = sockets::open(&stage, "dev", "old").await;
    let _new = succeed(&stage, &partner).await;
    let cookie = mine(&stage);
    for _ in 0..40 {
        assert_eq!(who(partner.address, &cookie, "GET").await, "old");
    }
    assert_eq!(who(partner.address, &cookie, "DELETE").await, "old");
    let another = other(&stage, "another");
    assert_eq!(who(partner.address, &another, "GET").await, "new");
    assert!(
        asked(&partner, "Holding").await < 40,
        "not for each request"
    );
    // One at the other proxy belongs with it, and is enough by itself.
    let host = format!("dev.{CONSOLE}");
    let mut second = Connection::open(partner.address).await;
    second.send(sockets::opening(&cookie, &host)).await;
    assert_eq!(second.head().await.status, 101);
    assert_eq!(sockets::text(&mut second).await, "old");
    drop_it(socket).await;
    let before = asked(&partner, "Holding").await + asked(&partner, "Nothing").await;
    for _ in 0..10 {
        assert_eq!(who(partner.address, &cookie, "GET").await, "old");
    }
    let after = asked(&partner, "Holding").await + asked(&partner, "Nothing").await;
    assert_eq!(before, after, "it knows by itself");
    drop_it(second).await;
    eventually("requests that go to the new pod", || async {
        who(partner.address, &cookie, "GET").await == "new"
    })
    .await;
    let before = asked(&partner, "Nothing").await;
    for _ in 0..20 {
        assert_eq!(who(partner.address, &cookie, "GET").await, "new");
    }
    assert_eq!(
        asked(&partner, "Nothing").await,
        before,
        "that was the last"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_pod_is_in_use_while_another_proxy_goes_by_what_it_was_told() {
    let stage = Stage::start().await;
    let partner = stage.partner(&["--peers", &stage.admin.to_string()]).await;
    let (_old, uid) = begin(&stage, &partner).await;
    let socket = sockets::open(&stage, "dev", "old").await;
    let _new = succeed(&stage, &partner).await;
    let open = || async {
        let told = stage.admin("/sessions?workspace=dev").await;
        told["sessions"][&uid].as_u64().unwrap_or(0)
    };
    assert_eq!(open().await, 1, "nobody has asked");
    assert_eq!(who(partner.address, &mine(&stage), "GET").await, "old");
    assert_eq!(open().await, 2);
    drop_it(socket).await;
    eventually("the socket's end", || async { open().await < 2 }).await;
    assert_eq!(stage.metric("open_sockets").await, 0);
    assert_eq!(open().await, 1, "it may be about to send a request");
    eventually("the lease's end", || async { open().await == 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_gives_no_answer_is_not_asked_for_each_session() {
    let stage = Stage::start().await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let peers = format!(
        "{},{},{}",
        free(),
        silent.local_addr().unwrap(),
        stage.admin
    );
    let partner = stage.partner(&["--peers", &peers]).await;
    let _old = begin(&stage, &partner).await;
    let _socket = sockets::open(&stage, "dev", "old").await;
    let _new = succeed(&stage, &partner).await;
    for n in 0..20 {
        let cookie = other(&stage, &format!("other{n}"));
        assert_eq!(who(partner.address, &cookie, "GET").await, "new");
    }
    assert_eq!(who(partner.address, &mine(&stage), "GET").await, "old");
    let unanswered = asked(&partner, "Silent").await;
    // Once each, and once more each for every few seconds that this took.
    assert!((2..20).contains(&unanswered), "{unanswered}");
    assert!(asked(&partner, "Nothing").await >= 20);
}

/// Something that answers as a proxy does, always the same, and notes what it was asked.
async fn peer(said: Value) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let questions = Arc::<Mutex<Vec<String>>>::default();
    let noted = questions.clone();
    let body = said.to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"}") && stream.read_buf(&mut bytes).await.unwrap_or(0) > 0 {}
            let question = String::from_utf8_lossy(&bytes).into_owned();
            noted.lock().unwrap().push(question);
            let length = body.len();
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    (address, questions)
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_asked_only_while_an_upgrade_drains_and_told_no_more_than_a_hash() {
    let old = Upstream::start("old").await;
    let said = json!({"pods": ["nobody's"], "past": true, "more": 1});
    let (address, questions) = peer(said).await;
    let stage = Stage::with(&["--peers", &address.to_string()]).await;
    let pod = Spec::new("old", "dev", 1, old.address).with(&AFFINITY);
    let uid = stage.run(&pod).await;
    let cookie = mine(&stage);
    assert_eq!(who(stage.address, &cookie, "GET").await, "old");
    assert!(questions.lock().unwrap().is_empty());
    let _new = new(&stage).await;
    // Its word is about pods that there are.
    assert_eq!(who(stage.address, &cookie, "GET").await, "new");
    let question = questions.lock().unwrap().remove(0);
    let (head, body) = question.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /holding HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("Bearer {TOKEN}")), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["workspace"], "dev");
    assert_eq!(body["pods"], json!([uid]));
    let hash = body["session"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    assert_eq!(body.as_object().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_asks_without_the_shared_token() {
    let stage = Stage::start().await;
    let body = json!({"workspace": "dev", "session": "0a".repeat(32), "pods": []}).to_string();
    let length = body.len().to_string();
    let ask = |token: &'static str, body: String, length: String| {
        let admin = stage.admin;
        async move {
            let headers = [
                ("Authorization", token),
                ("Content-Type", "application/json"),
                ("Content-Length", &length),
                ("Connection", "close"),
            ];
            let mut connection = Connection::open(admin).await;
            let head = request("POST", "admin", "/holding", &headers);
            connection.send(format!("{head}{body}")).await;
            connection.answer().await.status
        }
    };
    assert_eq!(ask("Bearer wrong", body.clone(), length.clone()).await, 401);
    let token: &'static str = format!("Bearer {TOKEN}").leak();
    assert_eq!(ask(token, body.clone(), length).await, 200);
    let bad = body.replace("0a", "0A");
    let length = bad.len().to_string();
    assert_eq!(ask(token, bad, length).await, 400);
}
