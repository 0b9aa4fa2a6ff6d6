//! One's own sessions: what the console's cookie comes to, and looking at them and ending them.

use crate::world::{Answer, World};
use http::Method;
use nogoo9_control::session::{Limits, SessionRecord, end};
use serde_json::json;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SAME_ORIGIN: (&str, &str) = ("sec-fetch-site", "same-origin");

/// A session of somebody that began so many seconds ago.
async fn session(world: &World, sub: &str, sid: &str, ago: i64) -> SessionRecord {
    let record = SessionRecord::begin(
        sid.to_owned(),
        sub.to_owned(),
        vec!["user".to_owned()],
        None,
        &Limits::default(),
        world.now() - ago,
    );
    world.cluster().create_session(&record).await.unwrap();
    record
}

async fn call(world: &World, cookie: &str, method: Method, path: &str) -> Answer {
    let request = world
        .http
        .request(method, format!("{}/api/v1{path}", world.url))
        .header("cookie", cookie)
        .header(SAME_ORIGIN.0, SAME_ORIGIN.1);
    world.send(request).await
}

#[tokio::test]
async fn a_console_cookie_is_renewed_in_passing_and_ends_with_its_session() {
    let world = World::start().await;
    let record = session(&world, "alice", "s1", 0).await;
    let capabilities = async |cookie: &str| {
        let answer = call(&world, cookie, Method::GET, "/capabilities").await;
        let set = answer.headers.get("set-cookie").cloned();
        let set = set.map(|value| value.to_str().unwrap().to_owned());
        (answer.status.as_u16(), set)
    };
    let fresh = world.cookie_of(&record, world.now() + 800);
    let due = world.cookie_of(&record, world.now() + 200);
    let stale = world.cookie_of(&record, world.now() - 1);
    assert_eq!(capabilities(&fresh).await, (200, None));
    for old in [&due, &stale] {
        // Nobody waits for long: what is not there in time comes with a later answer.
        let set = Mutex::new(None);
        world
            .until("a new cookie", || async {
                let (status, cookie) = capabilities(old).await;
                assert_eq!(status, 200);
                let mut set = set.lock().unwrap();
                *set = cookie;
                set.is_some()
            })
            .await;
        let set = set.into_inner().unwrap().unwrap();
        let (new, rest) = set.split_once(';').unwrap();
        assert!(
            rest.contains("; HttpOnly; SameSite=Lax") && !rest.contains("Max-Age=0;"),
            "{set}"
        );
        // The new one is fresh: it needs no other.
        assert_eq!(capabilities(new).await, (200, None));
    }
    // The page itself passes it on, too.
    let page = world
        .http
        .get(&world.url)
        .header("cookie", &stale)
        .header("sec-fetch-site", "none")
        .header("sec-fetch-mode", "navigate");
    let page = world.send(page).await;
    assert!(page.body.contains("data-signed-in=\"yes\""));
    assert!(page.headers.contains_key("set-cookie"));
    assert_eq!(page.headers["cache-control"], "no-store");

    let ended = call(
        &world,
        &fresh,
        Method::DELETE,
        &format!("/sessions/{}", record.id()),
    )
    .await;
    assert_eq!(
        (ended.status.as_u16(), ended.json()),
        (200, json!({"ended": 1}))
    );
    // It was its own: this browser is signed out at once.
    let gone = ended.headers["set-cookie"].to_str().unwrap();
    assert!(
        gone.starts_with("nogoo9=; ") && gone.contains("Max-Age=0;"),
        "{gone}"
    );
    // What counts by itself does so for the rest of its quarter of an hour.
    assert_eq!(capabilities(&fresh).await, (200, None));
    for old in [&due, &stale] {
        world
            .until("the end of the session", || async {
                capabilities(old).await == (401, None)
            })
            .await;
    }
    // One of an earlier version, which has no record, counts until it ends.
    assert_eq!(capabilities(&world.cookie("alice")).await, (200, None));
}

#[tokio::test]
async fn people_see_their_own_sessions_and_end_them() {
    let world = World::start().await;
    let old = session(&world, "alice", "s1", 600).await;
    let current = session(&world, "alice", "s2", 60).await;
    let more = session(&world, "alice", "s3", 1800).await;
    let over = session(&world, "alice", "s4", 7200).await;
    let bobs = session(&world, "bob", "s5", 60).await;
    let cookie = world.cookie_of(&current, world.now() + 800);
    let list = async |cookie: &str| {
        let answer = call(&world, cookie, Method::GET, "/sessions").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let sessions = answer.json()["sessions"].as_array().unwrap().clone();
        let seen = sessions.iter().map(|one| {
            let id = one["id"].as_str().unwrap().to_owned();
            (id, one["current"].as_bool().unwrap())
        });
        seen.collect::<Vec<_>>()
    };
    assert_eq!(
        list(&cookie).await,
        [(current.id(), true), (old.id(), false), (more.id(), false)]
    );
    let one = &call(&world, &cookie, Method::GET, "/sessions").await.json()["sessions"][0];
    let at = |seconds| jiff::Timestamp::from_second(seconds).unwrap().to_string();
    assert_eq!(
        *one,
        json!({"id": current.id(), "current": true, "createdAt": at(current.started),
            "lastSeenAt": at(current.seen), "endsAt": at(current.ends)})
    );
    // By a bearer token too, which is none of them.
    let seen = world.get("alice", "/sessions").await;
    assert!(
        seen["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["current"] == false)
    );

    let end_by = async |cookie: &str, id: &str| {
        let path = format!("/sessions/{id}");
        call(&world, cookie, Method::DELETE, &path).await
    };
    // Another's is as good as none.
    let none = end_by(&cookie, &"a".repeat(26)).await.without_date();
    assert_eq!(none.status, 403);
    for id in [&bobs.id(), &over.id(), "x", "..%2Fnogoo9-session-keys"] {
        assert_eq!(end_by(&cookie, id).await.without_date(), none, "{id}");
    }
    // Nobody else's page ends anything.
    let foreign = world
        .http
        .delete(format!("{}/api/v1/sessions", world.url))
        .header("cookie", &cookie)
        .header("sec-fetch-site", "same-site");
    assert_eq!(world.send(foreign).await.status, 401);
    assert_eq!(list(&cookie).await.len(), 3);

    assert_eq!(end_by(&cookie, &old.id()).await.json(), json!({"ended": 1}));
    assert_eq!(end_by(&cookie, &old.id()).await.without_date(), none);
    let others = call(&world, &cookie, Method::DELETE, "/sessions").await;
    assert_eq!(others.json(), json!({"ended": 1}));
    assert_eq!(list(&cookie).await, [(current.id(), true)]);
    // Whoever got hold of an access token signs nobody out by it.
    let made = json!({"name": "nightly"});
    let made = world
        .api("alice", Method::POST, "/tokens", Some(made))
        .await;
    let token = made.json()["token"].as_str().unwrap().to_owned();
    for path in [
        "/sessions".to_owned(),
        format!("/sessions/{}", current.id()),
    ] {
        let url = format!("{}/api/v1{path}", world.url);
        let by_token = world.http.delete(url).bearer_auth(&token);
        assert_eq!(world.send(by_token).await.status, 403, "{path}");
    }
    assert_eq!(list(&cookie).await, [(current.id(), true)]);
    let bobs_cookie = world.cookie_of(&bobs, world.now() + 800);
    assert_eq!(list(&bobs_cookie).await, [(bobs.id(), true)]);
    // With a bearer token, there is none to keep.
    let all = world.api("alice", Method::DELETE, "/sessions", None).await;
    assert_eq!(all.json(), json!({"ended": 1}));
    assert!(list(&cookie).await.is_empty());
}

#[tokio::test]
async fn a_session_that_was_ended_gets_no_stream() {
    let world = World::start().await;
    let record = session(&world, "alice", "s1", 0).await;
    let now = world.now();
    end(&world.cluster(), &record.id(), now).await.unwrap();
    let stale = world.cookie_of(&record, now - 1);
    let events = call(&world, &stale, Method::GET, "/events").await;
    assert_eq!(events.status, 401);
}

/// Signing out in one tab while another's request is under way: its answer brings nothing back.
#[tokio::test]
async fn a_late_answer_brings_no_session_back() {
    let world = World::start().await;
    let cluster = world.cluster();
    let host = world.url.trim_start_matches("http://");
    for (sid, ended) in [("s1", false), ("s2", true)] {
        let record = session(&world, "alice", sid, 600).await;
        let stale = world.cookie_of(&record, world.now() - 1);
        let body = json!({"name": sid}).to_string();
        let head = format!(
            "POST /api/v1/tokens HTTP/1.1\r\nhost: {host}\r\ncookie: {stale}\r\n\
             sec-fetch-site: same-origin\r\norigin: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            world.url,
            body.len()
        );
        let mut tab = TcpStream::connect(host).await.unwrap();
        tab.write_all(head.as_bytes()).await.unwrap();
        // Renewed before all of the request is there.
        world
            .until("the renewal", || async {
                let stored = cluster.session(&record.id()).await.unwrap();
                stored.unwrap().value.seen > record.seen
            })
            .await;
        if ended {
            end(&cluster, &record.id(), world.now()).await.unwrap();
        }
        tab.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tab.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
        assert_eq!(
            answer.contains("\r\nset-cookie: nogoo9="),
            !ended,
            "{answer}"
        );
    }
}
