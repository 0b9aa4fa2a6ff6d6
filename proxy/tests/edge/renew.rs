//! Browser sessions that are not fresh any more: renewed in passing, asked about first, refused.
//! Nothing here waits for a token to age: it is made as old as it is to be.

use crate::client::{Answer, Connection, navigates, own, request};
use crate::eventually;
use crate::frames::{self, Fate, Http2};
use crate::proxy::{CONSOLE, Stage};
use crate::sockets::{close, frame, opening, text};
use nogoo9_model::renew;

const HOST: &str = "dev.localhost:9009";
/// Counts by itself, and is to be renewed.
const DUE: i64 = 200;
/// Counts no more by itself.
const STALE: i64 = -5;

/// A request of a page of the workspace's own, with a session token.
async fn get(stage: &Stage, token: &str, path: &str) -> Answer {
    let cookie = format!("theirs=1; nogoo9={token}");
    let headers = own(&cookie);
    stage.ask("GET", HOST, path, &headers).await
}

fn new_token(answer: &renew::Answer) -> String {
    match answer {
        renew::Answer::Renewed { token, .. } => token.clone(),
        other => panic!("{other:?}"),
    }
}

/// The session token that an answer hands to the browser.
fn handed_on(answer: &Answer) -> Option<String> {
    let cookie = answer.all("set-cookie");
    let mut ours = cookie.iter().filter_map(|set| set.strip_prefix("nogoo9="));
    let set = ours.next()?;
    assert!(ours.next().is_none(), "{answer:?}");
    let (token, rest) = set.split_once(';').unwrap();
    assert!(rest.contains("; HttpOnly; SameSite=Lax"), "{set}");
    Some(token.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_renewed_in_passing() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let goes_on = stage.goes_on("s1", "user", HOST);
    let next = new_token(&goes_on);
    stage.control.says(HOST, goes_on);
    let due = stage.token_fresh_for("s1", "user", HOST, DUE);
    let path = "/answer?cache-control=public,%20max-age=60&set-cookie=own=1";
    // Nobody waits for it: some answer brings the next token.
    eventually("the next token", || async {
        let answer = get(&stage, &due, path).await;
        assert_eq!(answer.status, 200);
        let Some(token) = handed_on(&answer) else {
            assert_eq!(answer.header("cache-control"), Some("public, max-age=60"));
            return false;
        };
        assert_eq!(token, next);
        assert_eq!(answer.all("cache-control"), ["private, max-age=60"]);
        assert!(answer.all("set-cookie").contains(&"own=1"));
        true
    })
    .await;
    // Control was asked once, by the browser's own token, on its own host.
    let asked = stage.control.asked();
    assert_eq!(asked.len(), 1);
    let held = renew::Held {
        host: HOST.to_owned(),
        token: due.clone(),
    };
    assert_eq!(asked[0], [held]);
    // A page that still sends the old one gets the next one at once; whoever has it needs none.
    assert_eq!(handed_on(&get(&stage, &due, "/").await), Some(next.clone()));
    let answer = get(&stage, &next, path).await;
    assert_eq!(handed_on(&answer), None);
    assert_eq!(answer.header("cache-control"), Some("public, max-age=60"));
    assert_eq!(stage.control.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn past_its_quarter_of_an_hour_control_is_asked_first() {
    let stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    let goes_on = stage.goes_on("s1", "viewer", HOST);
    let next = new_token(&goes_on);
    stage.control.says(HOST, goes_on);
    let stale = stage.token_fresh_for("s1", "user", HOST, STALE);
    let answer = get(&stage, &stale, "/").await;
    assert_eq!(answer.status, 200);
    assert_eq!(handed_on(&answer), Some(next));
    // The pod hears of the roles of now, and of no token, old or new.
    let seen = answer.text();
    assert!(seen.contains("x-user-roles: viewer\n"), "{seen}");
    assert!(seen.contains("cookie: theirs=1\n"), "{seen}");
    assert_eq!(get(&stage, &stale, "/").await.status, 200);
    assert_eq!(stage.control.asked().len(), 1);
    // What the proxy says itself brings it along, too.
    let status = get(&stage, &stale, "/.nogoo9/status").await;
    assert_eq!(
        (status.status, status.header("cache-control")),
        (200, Some("no-store"))
    );
    assert!(handed_on(&status).is_some());
    assert_eq!(app.requests(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_over_opens_nothing() {
    let stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    stage.control.says(HOST, renew::Answer::Refused);
    let stale = stage.token_fresh_for("s1", "user", HOST, STALE);
    for path in ["/", "/.nogoo9/status"] {
        let answer = get(&stage, &stale, path).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.all("set-cookie").is_empty());
    }
    // A person is sent to sign in.
    let cookie = format!("nogoo9={stale}");
    let navigation = navigates(&cookie);
    let answer = stage.ask("GET", HOST, "/", &navigation).await;
    assert_eq!(answer.status, 302);
    let to = answer.header("location").unwrap();
    assert!(to.contains("/auth/open?host=dev"), "{to}");
    // It is final: nobody asks again, and a token that is still fresh is no better.
    assert_eq!(stage.control.asked().len(), 1);
    let due = stage.token_fresh_for("s1", "user", HOST, DUE);
    assert_eq!(get(&stage, &due, "/").await.status, 401);
    assert_eq!(stage.control.asked().len(), 1);
    assert_eq!(app.requests(), 0);
    // Another session of the same person is another matter.
    stage.control.says(HOST, stage.goes_on("s2", "user", HOST));
    let other = stage.token_fresh_for("s2", "user", HOST, STALE);
    assert_eq!(get(&stage, &other, "/").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_control_sessions_are_accepted_for_the_grace() {
    let stage = Stage::with(&["--session-grace", "600"]).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    assert_eq!(stage.metric("sessions_graced_total").await, 0);
    // Control cannot tell, which is as good as none.
    let stale = stage.token_fresh_for("s1", "user", HOST, STALE);
    let answer = get(&stage, &stale, "/").await;
    assert_eq!((answer.status, handed_on(&answer)), (200, None));
    assert_eq!(stage.control.asked().len(), 1);
    assert!(stage.metric("sessions_graced_total").await >= 1);
    stage.control.kill();
    let within = stage.token_fresh_for("s2", "user", HOST, -500);
    assert_eq!(get(&stage, &within, "/").await.status, 200);
    let beyond = stage.token_fresh_for("s3", "user", HOST, -700);
    let answer = get(&stage, &beyond, "/").await;
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("5"))
    );
    assert_eq!(answer.header("content-type"), Some("application/json"));
    // A person reads a page.
    let cookie = format!("nogoo9={beyond}");
    let navigates = ("Sec-Fetch-Mode", "navigate");
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "none"),
        navigates,
    ];
    let page = stage.ask("GET", HOST, "/", &headers).await;
    assert_eq!(page.status, 503);
    let html = page.header("content-type");
    assert_eq!(html, Some("text/html; charset=utf-8"));
    // Fresh ones, and bearers, are nobody's business but their own.
    let fresh = stage.token_fresh_for("s4", "user", HOST, 800);
    assert_eq!(get(&stage, &fresh, "/").await.status, 200);
    let bearer = format!("Bearer {}", stage.bearer("alice"));
    let by_bearer = [("Authorization", bearer.as_str())];
    assert_eq!(stage.ask("GET", HOST, "/", &by_bearer).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_flight_serves_all_that_wait() {
    let stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    stage.control.says(HOST, stage.goes_on("s1", "user", HOST));
    stage.control.says_slowly();
    let stale = stage.token_fresh_for("s1", "user", HOST, STALE);
    let cookie = format!("nogoo9={stale}");
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Connection", "close"),
    ];
    let mut waiting = Vec::new();
    for _ in 0..5 {
        let mut connection = Connection::open(stage.address).await;
        connection.send(request("GET", HOST, "/", &headers)).await;
        waiting.push(connection);
    }
    eventually("the question", || async {
        stage.control.asked().len() == 1
    })
    .await;
    assert_eq!(app.requests(), 0);
    stage.control.release();
    for connection in &mut waiting {
        let answer = connection.answer().await;
        assert_eq!(answer.status, 200);
        assert!(handed_on(&answer).is_some());
    }
    assert_eq!(stage.control.asked().len(), 1);
}

/// A socket of alice's that was opened by that token, and has heard the application's name.
async fn socket(stage: &Stage, token: &str) -> Connection {
    let mut socket = Connection::open(stage.address).await;
    socket.send(opening(&format!("nogoo9={token}"), HOST)).await;
    assert_eq!(socket.head().await.status, 101);
    assert_eq!(text(&mut socket).await, "app");
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn open_sockets_are_asked_about_and_end_with_their_session() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    // One whose session goes on notices nothing.
    stage.control.says(HOST, stage.goes_on("s1", "user", HOST));
    let due = stage.token_fresh_for("s1", "user", HOST, DUE);
    let mut goes_on = socket(&stage, &due).await;
    eventually("the question", || async {
        stage.control.asked().len() == 1
    })
    .await;

    stage.control.says(HOST, renew::Answer::Refused);
    let due = stage.token_fresh_for("s2", "user", HOST, DUE);
    let mut over = Connection::open(stage.address).await;
    over.send(opening(&format!("nogoo9={due}"), HOST)).await;
    assert_eq!(over.head().await.status, 101);
    // Perhaps before the application has said its name.
    let heard = over.rest().await;
    assert!(heard.ends_with(&close(1008)), "{heard:?}");
    // No other can be opened by it.
    let mut another = Connection::open(stage.address).await;
    another.send(opening(&format!("nogoo9={due}"), HOST)).await;
    assert_eq!(another.answer().await.status, 401);

    goes_on.send(frame(1, b"still here")).await;
    assert_eq!(text(&mut goes_on).await, "still here");
    let asked = stage.control.asked();
    assert_eq!(asked.iter().flatten().count(), 2, "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_stream_ends_with_its_session() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    // One whose session goes on stays, whatever becomes of others.
    stage.control.says(HOST, stage.goes_on("s1", "user", HOST));
    let mut goes_on = stream(&stage, &stage.token_fresh_for("s1", "user", HOST, DUE)).await;
    eventually("the question", || async {
        stage.control.asked().len() == 1
    })
    .await;
    stage.control.says(HOST, renew::Answer::Refused);
    stage.control.says_slowly();
    let mut over = stream(&stage, &stage.token_fresh_for("s2", "user", HOST, DUE)).await;
    // The application says nothing more, and whoever reads does nothing; it is broken off, not ended.
    stage.control.release();
    assert_eq!(over.rest().await, b"");
    assert_eq!(stage.control.asked().iter().flatten().count(), 2);
    assert!(goes_on.is_silent());
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http2_it_ends_alone() {
    let stage = Stage::with(&["--h2c"]).await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    stage.control.says(HOST, renew::Answer::Refused);
    stage.control.says_slowly();
    let mut client = Http2::open(stage.address).await;
    let begin = async |client: &mut Http2, token: &str| {
        let cookie = format!("nogoo9={token}");
        let fields: [(&[u8], &[u8]); 6] = [
            (b":method", b"GET"),
            (b":scheme", b"http"),
            (b":path", b"/events"),
            (b":authority", HOST.as_bytes()),
            (b"cookie", cookie.as_bytes()),
            (b"sec-fetch-site", b"same-origin"),
        ];
        let stream = client.request(&fields, frames::END_STREAM).await;
        assert_eq!(client.fate(stream).await, Fate::Answered(200));
        while client.body(stream).is_empty() {
            client.read().await.unwrap();
        }
        assert_eq!(client.body(stream), b"data: one\n\n");
        stream
    };
    let goes_on = begin(&mut client, &stage.token_fresh_for("s1", "user", HOST, 800)).await;
    let over = begin(&mut client, &stage.token_fresh_for("s2", "user", HOST, DUE)).await;
    // The application says nothing more: the one is reset, and the other one still there.
    stage.control.release();
    loop {
        let frame = client.read().await.expect("the connection stays");
        if frame.stream == over && frame.kind == frames::RESET {
            break;
        }
        assert_ne!(frame.stream, goes_on, "{frame:?}");
    }
    app.release();
    while client.body(goes_on) != b"data: one\n\ndata: two\n\n" {
        client.read().await.expect("the connection stays");
    }
    assert_eq!(client.body(over), b"data: one\n\n");
}

/// A stream of events of alice's that was opened by that token, and has brought the first one.
async fn stream(stage: &Stage, token: &str) -> Connection {
    let cookie = format!("nogoo9={token}");
    let headers = own(&cookie);
    let mut stream = Connection::open(stage.address).await;
    stream.send(request("GET", HOST, "/events", &headers)).await;
    assert_eq!(stream.head().await.status, 200);
    assert_eq!(stream.chunk().await, b"data: one\n\n");
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_begins_after_the_session_has_ended_is_none() {
    let stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    stage.control.says(HOST, renew::Answer::Refused);
    // Not before the request is at its pod, which asks for it in passing.
    stage.control.says_slowly();
    let due = stage.token_fresh_for("s1", "user", HOST, DUE);
    let cookie = format!("nogoo9={due}");
    let headers = own(&cookie);
    let mut slow = Connection::open(stage.address).await;
    slow.send(request("GET", HOST, "/slow", &headers)).await;
    eventually("the request to be there", || async { app.requests() == 1 }).await;
    stage.control.release();
    eventually("the refusal", || async {
        get(&stage, &due, "/answer?x=y").await.status == 401
    })
    .await;
    app.release();
    assert_eq!(slow.answer().await.status, 401);
}

/// Nobody can be asked about a bearer token.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_bearer_opens_does_not_outlive_its_age() {
    let stage = Stage::with(&["--max-bearer-age", "1"]).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let fresh = stage.token_fresh_for("s1", "user", HOST, 800);
    let mut by_session = socket(&stage, &fresh).await;
    let bearer = format!("Bearer {}", stage.bearer("alice"));
    let mut by_bearer = Connection::open(stage.address).await;
    let handshake = opening("own=1", HOST).replace(
        "Cookie: own=1",
        &format!("Cookie: own=1\r\nAuthorization: {bearer}"),
    );
    by_bearer.send(&handshake).await;
    assert_eq!(by_bearer.head().await.status, 101);
    // Its token counts for minutes yet.
    let heard = by_bearer.rest().await;
    assert!(heard.ends_with(&close(1008)), "{heard:?}");
    by_session.send(frame(1, b"still here")).await;
    assert_eq!(text(&mut by_session).await, "still here");
    // And opens another one.
    let mut again = Connection::open(stage.address).await;
    again.send(&handshake).await;
    assert_eq!(again.head().await.status, 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_outside_gets_tokens() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let fresh = stage.token_fresh_for("s1", "user", HOST, 800);
    let cookie = format!("nogoo9={fresh}");
    let headers = own(&cookie);
    for host in [CONSOLE, HOST] {
        let answer = stage.ask("POST", host, renew::PATH, &headers).await;
        assert_eq!(answer.status, 404, "{host}");
    }
    assert!(stage.control.asked().is_empty());
}
