//! The button that starts one: whose press counts, where it leads, and what forms are answered.

use super::{alice, body, told};
use crate::proxy::{CONSOLE, Stage};
use serde_json::json;

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

/// A browser sends a form: it is told in a page, which never loads itself again.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_answered_in_words() {
    let stage = Stage::with(&["--hold-timeout", "3"]).await;
    let (_nothing, _) = stage.starting("app", "dev").await;
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
