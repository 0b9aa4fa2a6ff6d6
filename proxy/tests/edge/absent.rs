//! Workspaces without pods: what control says of them, and to whom.

use crate::client::{Answer, Connection, request};
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;
use serde_json::{Value, json};

const NAVIGATE: [(&str, &str); 3] = [
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-Site", "none"),
];

/// What is held here ends by what comes, not by the clock.
const PATIENT: [&str; 2] = ["--hold-timeout", "300"];

fn told(status: &str) -> Value {
    json!({"version": 1, "status": status, "message": format!("It is {status}."), "canStart": true})
}

/// Alice's browser, on the workspace's host.
async fn alice(
    stage: &Stage,
    method: &str,
    id: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let host = format!("{id}.{CONSOLE}");
    let cookie = stage.cookie_on("alice", &host);
    let mut all = headers.to_vec();
    all.push(("Cookie", &cookie));
    stage.ask(method, &host, path, &all).await
}

fn body(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{}", answer.text()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_one_shows_its_owner_a_button() {
    let stage = Stage::start().await;
    stage.control.tells("dev", 200, &told("stopped"));
    let page = alice(&stage, "GET", "dev", "/a?b=c", &NAVIGATE).await;
    assert_eq!((page.status, page.header("retry-after")), (503, None));
    assert!(
        page.text().contains("dev is stopped")
            && page
                .text()
                .contains("<form method=\"post\" action=\"/.nogoo9/start?return=/a%3Fb%3Dc\">"),
        "{}",
        page.text()
    );
    let own = [("Sec-Fetch-Site", "same-origin")];
    let program = alice(&stage, "POST", "dev", "/a", &own).await;
    assert_eq!(program.status, 503);
    assert_eq!(body(&program)["code"], "stopped");
    let status = alice(&stage, "GET", "dev", "/.nogoo9/status", &own).await;
    assert_eq!(status.status, 200);
    assert_eq!(
        body(&status),
        json!({"status": "stopped", "message": "It is stopped."})
    );

    // In path mode the same, below the prefix.
    let cookie = stage.cookie_on("alice", CONSOLE);
    let mut headers = NAVIGATE.to_vec();
    headers.push(("Cookie", &cookie));
    let page = stage.ask("GET", CONSOLE, "/route/dev/x", &headers).await;
    assert!(
        page.text()
            .contains("action=\"/route/dev/.nogoo9/start?return=/route/dev/x\""),
        "{}",
        page.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn control_gets_the_callers_own_word_and_nothing_else() {
    let stage = Stage::start().await;
    let host = format!("dev.{CONSOLE}");
    let cookie = stage.cookie_on("alice", &host);
    let both = format!("theirs=1; {cookie}");
    let headers = [
        ("Cookie", both.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-User-Sub", "root"),
        ("X-Application", "secret"),
    ];
    let answer = stage.ask("DELETE", &host, "/a/b?c", &headers).await;
    assert_eq!(answer.status, 404);
    let questions = stage.control.questions();
    assert_eq!(questions.len(), 1);
    let question = &questions[0];
    assert!(
        question.starts_with("GET /.nogoo9/absent/dev\n"),
        "{question}"
    );
    for line in [
        format!("\ncookie: {cookie}\n"),
        format!("\nx-forwarded-host: {host}\n"),
        "\nsec-fetch-site: same-origin\n".to_owned(),
    ] {
        assert!(question.contains(&line), "{line} in {question}");
    }
    for never in ["theirs", "evil", "root", "secret"] {
        assert!(!question.contains(never), "{never} in {question}");
    }
    let token = format!("Bearer {}", stage.bearer("alice"));
    let by_path = [("Authorization", token.as_str())];
    stage.ask("GET", CONSOLE, "/route/a%zb/", &by_path).await;
    let question = stage.control.questions().pop().unwrap();
    assert!(
        question.starts_with("GET /.nogoo9/absent/a%25zb\n"),
        "{question}"
    );
    assert!(question.contains(&format!("\nauthorization: {token}\n")));
    assert!(question.contains(&format!("\nx-forwarded-host: {CONSOLE}\n")));
}

#[tokio::test(flavor = "multi_thread")]
async fn not_theirs_stays_so_whatever_control_says() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    let uid = stage
        .cluster
        .run(&Spec::new("bobs", "bobs", 1, app.address).of("bob"))
        .await;
    stage.routed("bobs", Some(&uid)).await;
    stage.control.tells("bobs", 200, &told("stopped"));
    for headers in [&NAVIGATE[..], &[("Sec-Fetch-Site", "same-origin")]] {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/.nogoo9/status"),
            ("GET", "/.nogoo9/start"),
            ("POST", "/.nogoo9/start"),
        ] {
            let bobs = alice(&stage, method, "bobs", path, headers).await;
            let none = alice(&stage, method, "none", path, headers).await;
            assert_eq!(bobs.timeless(), none.timeless(), "{method} {path}");
            assert_eq!(bobs.status, 404, "{method} {path}");
        }
    }
    // Both were asked of control, so that they take the same time.
    let asked = |id: &str| {
        let questions = stage.control.questions();
        let about = |question: &&String| question.contains(&format!("/{id}\n"));
        questions.iter().filter(about).count()
    };
    assert_eq!(asked("bobs"), 6);
    assert_eq!(asked("none"), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_passed_on_and_leads_back() {
    let stage = Stage::start().await;
    stage.control.tells("dev", 200, &told("starting"));
    let origin = format!("http://dev.{CONSOLE}");
    let form = [
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
        ("Sec-Fetch-Site", "same-origin"),
        ("Origin", origin.as_str()),
        ("Content-Length", "0"),
    ];
    for (back, location) in [
        ("/a%3Fb%3Dc", "/a?b=c"),
        ("https%3A%2F%2Fevil.example%2F", "/"),
        ("//evil.example", "/"),
        ("/%5Cevil.example", "/"),
        ("/.nogoo9/start", "/"),
        ("", "/"),
    ] {
        let path = format!("/.nogoo9/start?return={back}");
        let answer = alice(&stage, "POST", "dev", &path, &form).await;
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, Some(location)),
            "{back}"
        );
    }
    let question = stage.control.questions().pop().unwrap();
    assert!(
        question.starts_with("POST /.nogoo9/start/dev\n"),
        "{question}"
    );
    assert!(
        question.contains(&format!("\norigin: {origin}\n")),
        "{question}"
    );
    let script = [
        ("Sec-Fetch-Site", "same-origin"),
        ("Sec-Fetch-Mode", "cors"),
    ];
    let answer = alice(&stage, "POST", "dev", "/.nogoo9/start", &script).await;
    assert_eq!(answer.status, 200);
    assert_eq!(body(&answer)["status"], "starting");

    // Control's refusal is shown as it is.
    let refusal =
        json!({"code": "forbidden", "message": "Forbidden: <this> needs the role 'user'"});
    stage.control.tells("dev", 403, &refusal);
    let answer = alice(&stage, "POST", "dev", "/.nogoo9/start", &script).await;
    assert_eq!((answer.status, body(&answer)), (403, refusal));
    let page = alice(&stage, "POST", "dev", "/.nogoo9/start", &form).await;
    assert_eq!(page.status, 403);
    assert!(
        page.text().contains("Forbidden: &lt;this&gt; needs"),
        "{}",
        page.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_starts_for_somebody_else() {
    let stage = Stage::start().await;
    stage.control.tells("dev", 200, &told("starting"));
    let sibling = format!("http://other.{CONSOLE}");
    let form = [
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
        ("Sec-Fetch-Site", "same-site"),
        ("Origin", sibling.as_str()),
    ];
    // The cookie does not count: whoever it is signs in, and comes to a page with a button.
    let answer = alice(&stage, "POST", "dev", "/.nogoo9/start?return=/x", &form).await;
    assert_eq!(answer.status, 302);
    assert!(answer.header("location").unwrap().contains("&return=/x&"));
    let script = [
        ("Sec-Fetch-Site", "same-site"),
        ("Origin", sibling.as_str()),
    ];
    assert_eq!(
        alice(&stage, "POST", "dev", "/.nogoo9/start", &script)
            .await
            .status,
        401
    );
    // What lies between proxy and control is not reachable.
    let token = format!("Bearer {}", stage.bearer("alice"));
    for path in [
        "/.nogoo9/absent/dev",
        "/.nogoo9/start/dev",
        "/.nogoo9/login",
    ] {
        for host in [CONSOLE, "127.0.0.1"] {
            let answer = stage
                .ask("POST", host, path, &[("Authorization", &token)])
                .await;
            assert_eq!(answer.status, 404, "{host} {path}");
        }
    }
    for path in ["/.nogoo9/absent/dev", "/.nogoo9/start/dev"] {
        let own = [("Sec-Fetch-Site", "same-origin")];
        assert_eq!(
            alice(&stage, "POST", "dev", path, &own).await.status,
            404,
            "{path}"
        );
    }
    assert_eq!(
        (stage.control.questions().len(), stage.control.requests()),
        (0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_starts_is_held_until_it_has_a_pod() {
    let stage = Stage::with(&PATIENT).await;
    stage.control.tells("dev", 200, &told("starting"));
    let page = alice(&stage, "GET", "dev", "/", &NAVIGATE).await;
    assert_eq!((page.status, page.header("retry-after")), (503, Some("2")));
    assert!(
        page.text().contains("It is starting.")
            && page.text().contains("data-status=\"/.nogoo9/status\""),
        "{}",
        page.text()
    );
    let mut written = stage.begin("POST", "dev", "/x", "hello").await;
    stage.held(1).await;
    let app = Upstream::start("app").await;
    let pod = Spec::new("app", "dev", 1, app.address);
    stage.cluster.create(&pod).await;
    stage.routed("dev", None).await;
    stage.held(1).await;
    stage.cluster.set_ready(&pod, true).await;
    let answer = written.answer().await.text();
    assert!(
        answer.starts_with("app\nPOST /x\n") && answer.ends_with("\nhello"),
        "{answer}"
    );
    stage.held(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_never_comes_has_an_end() {
    let stage = Stage::with(&["--hold-timeout", "1", "--hold-max-per-workspace", "1"]).await;
    stage.control.tells("dev", 200, &told("starting"));
    let answer = stage.get("dev", "/").await;
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("5"))
    );
    assert_eq!(body(&answer)["code"], "starting");
    // What cannot start by itself is said at once.
    for status in ["stopping", "deleting", "stopped"] {
        stage.control.tells("dev", 200, &told(status));
        assert_eq!(body(&stage.get("dev", "/").await)["code"], status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_arrives_as_somebody_elses_is_not_there() {
    let stage = Stage::with(&PATIENT).await;
    stage.control.tells("dev", 200, &told("starting"));
    let mut held = stage.begin("GET", "dev", "/", "").await;
    stage.held(1).await;
    let app = Upstream::start("app").await;
    stage
        .cluster
        .run(&Spec::new("app", "dev", 1, app.address).of("bob"))
        .await;
    assert_eq!(held.answer().await.status, 404);
    assert_eq!(app.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_just_stopped_says_so() {
    let stage = Stage::with(&PATIENT).await;
    let _app = stage.serving("app", "dev", 1).await;
    stage.control.tells("dev", 200, &told("stopping"));
    stage.cluster.terminate("app").await;
    stage.routed("dev", None).await;
    assert_eq!(body(&stage.get("dev", "/").await)["code"], "stopping");
    // It had a place meanwhile.
    assert_eq!(stage.metric("holds_total{end=\"Told\"}").await, 1);
    let own = [("Sec-Fetch-Site", "same-origin")];
    let status = alice(&stage, "GET", "dev", "/.nogoo9/status", &own).await;
    assert_eq!(body(&status)["status"], "stopping");
    stage.control.tells("dev", 200, &told("stopped"));
    stage.cluster.finish("app").await;
    crate::eventually("the last word", || async {
        body(&stage.get("dev", "/").await)["code"] == "stopped"
    })
    .await;
    // One that was to run on is held for its next pod.
    stage.control.tells("dev", 200, &told("starting"));
    let asked = stage.control.questions().len();
    let mut held = stage.begin("GET", "dev", "/", "").await;
    stage.held(1).await;
    // The next one waits beside it, and control is not asked once more.
    let mut beside = stage.begin("GET", "dev", "/", "").await;
    stage.held(2).await;
    assert_eq!(stage.control.questions().len(), asked + 1);
    let again = Upstream::start("again").await;
    stage
        .cluster
        .run(&Spec::new("again", "dev", 2, again.address))
        .await;
    assert!(held.answer().await.text().starts_with("again\n"));
    assert!(beside.answer().await.text().starts_with("again\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_control_nobody_knows() {
    let stage = Stage::start().await;
    // It answers, and not in words that are understood.
    stage.control.tells("dev", 200, &json!("what?"));
    stage
        .control
        .tells("two", 500, &json!({"code": "broken", "message": "x"}));
    stage
        .control
        .tells("bob", 503, &json!({"code": "unavailable", "message": "x"}));
    let mut answers = Vec::new();
    for id in ["dev", "two", "bob"] {
        answers.push(stage.get(id, "/").await.timeless());
    }
    stage.control.kill();
    answers.push(stage.get("dev", "/").await.timeless());
    for answer in &answers {
        assert_eq!(
            (answer.status, answer.header("retry-after")),
            (503, Some("5"))
        );
        assert_eq!(answer, &answers[0]);
    }
    assert_eq!(stage.metric("asked_total{answer=\"Unreachable\"}").await, 3);
    // Another's is no exception.
    let app = Upstream::start("app").await;
    let uid = stage
        .cluster
        .run(&Spec::new("bobs", "bobs", 1, app.address).of("bob"))
        .await;
    stage.routed("bobs", Some(&uid)).await;
    assert_eq!(stage.get("bobs", "/").await.timeless(), answers[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_are_told_as_programs_are() {
    let stage = Stage::with(&PATIENT).await;
    stage.control.tells("dev", 200, &told("stopped"));
    let host = format!("dev.{CONSOLE}");
    let cookie = stage.cookie_on("alice", &host);
    let mut socket = Connection::open(stage.address).await;
    let mut headers = vec![
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    headers.push(("Cookie", &cookie));
    socket
        .send(request("GET", &host, "/socket", &headers))
        .await;
    let refused = socket.answer().await;
    assert_eq!(
        (refused.status, &body(&refused)["code"]),
        (503, &json!("stopped"))
    );
    stage.control.tells("dev", 200, &told("starting"));
    let mut socket = Connection::open(stage.address).await;
    socket
        .send(request("GET", &host, "/socket", &headers))
        .await;
    stage.held(1).await;
    let _app = stage.serving("app", "dev", 1).await;
    assert_eq!(socket.head().await.status, 101);
}

/// A browser sends a form: it is told in a page, which never loads itself again.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_answered_in_words() {
    let stage = Stage::with(&["--hold-timeout", "3"]).await;
    let nothing = Upstream::start("nothing").await;
    let pod = Spec::new("app", "dev", 1, nothing.address);
    stage.cluster.create(&pod).await;
    stage.routed("dev", None).await;
    for status in ["stopped", "stopping", "starting"] {
        stage.control.tells(status, 200, &told(status));
    }
    let form = [
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
        ("Sec-Fetch-Site", "same-origin"),
        ("Content-Length", "0"),
    ];
    // As old browsers say it.
    let old = [
        ("Accept", "text/html,*/*"),
        ("Sec-Fetch-Site", "same-origin"),
        ("Content-Length", "0"),
    ];
    for headers in [&form[..], &old] {
        for id in ["dev", "stopped", "stopping", "starting"] {
            let page = alice(&stage, "POST", id, "/sent/there", headers).await;
            let text = page.text();
            assert_eq!(
                (page.status, page.header("content-type")),
                (503, Some("text/html; charset=utf-8")),
                "{id}: {text}"
            );
            let words = [
                "What you sent was not taken",
                "o back, and try again",
                "o back and try again",
            ];
            assert!(text.contains(words[0]), "{id}: {text}");
            assert!(
                words[1..].iter().any(|words| text.contains(words)),
                "{id}: {text}"
            );
            for reload in ["<script", "http-equiv", "data-status"] {
                assert!(!text.contains(reload), "{id}: {text}");
            }
            // The button leads to a page that can be looked at.
            let button = text.contains("action=\"/.nogoo9/start?return=/\"");
            assert_eq!(button, id == "stopped", "{id}: {text}");
        }
        // Whoever is not signed in gets there beside what was sent.
        let host = format!("dev.{CONSOLE}");
        let page = stage.ask("POST", &host, "/sent/there", headers).await;
        let text = page.text();
        assert_eq!((page.status, page.header("location")), (401, None));
        assert!(page.header("www-authenticate").is_some());
        assert!(
            text.contains(&format!("<a href=\"http://{host}/\" target=\"_blank\""))
                && text.contains("go back from here and try again"),
            "{text}"
        );
    }
    // A script reads its answer, and no page.
    let script = [
        ("Sec-Fetch-Mode", "cors"),
        ("Sec-Fetch-Site", "same-origin"),
        ("Accept", "text/html"),
    ];
    let answer = alice(&stage, "POST", "stopped", "/x", &script).await;
    assert_eq!(body(&answer)["code"], "stopped");
}

/// Control has just said that it starts; the table still knows the pod that went.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_starts_again_after_a_stop_says_so() {
    let stage = Stage::with(&PATIENT).await;
    let _app = stage.serving("app", "dev", 1).await;
    stage.control.tells("dev", 200, &told("starting"));
    stage.cluster.terminate("app").await;
    stage.cluster.finish("app").await;
    stage.routed("dev", None).await;
    let page = alice(&stage, "GET", "dev", "/", &NAVIGATE).await.text();
    assert!(
        page.contains("<p id=\"s\">It is starting.</p>") && page.contains("data-status"),
        "{page}"
    );
    // Where nobody says anything, it is told as the table has it.
    stage.control.kill();
    let page = alice(&stage, "GET", "dev", "/", &NAVIGATE).await.text();
    assert!(page.contains("It is going away or coming back."), "{page}");
}
