//! Workspaces without pods: what control says of them, and to whom.

mod arriving;
mod start;

use crate::client::{Answer, NAVIGATE};
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;
use serde_json::{Value, json};

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
    let (host, cookie) = stage.alice(id);
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
    let (host, cookie) = stage.alice("dev");
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
    stage
        .run(&Spec::new("bobs", "bobs", 1, app.address).of("bob"))
        .await;
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
    stage
        .run(&Spec::new("bobs", "bobs", 1, app.address).of("bob"))
        .await;
    assert_eq!(stage.get("bobs", "/").await.timeless(), answers[0]);
}
