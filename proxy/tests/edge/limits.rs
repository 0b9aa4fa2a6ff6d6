//! Too much of what is forged, from one address; and whose address that is.

use crate::client::Connection;
use crate::eventually;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;
use serde_json::Value;

const A: &str = "203.0.113.9";
const B: &str = "203.0.113.10";
/// What a script sends; navigation is sent to sign in.
const SCRIPT: (&str, &str) = ("Sec-Fetch-Site", "same-origin");

/// The same token under another signature.
fn forge(token: &str) -> String {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let other = if signature.starts_with('A') { 'B' } else { 'A' };
    format!("{signed}.{other}{}", &signature[1..])
}

/// A stage with alice's workspace `dev`.
async fn stage(flags: &[&str]) -> (Stage, Upstream) {
    let stage = Stage::with(flags).await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    (stage, app)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forged_is_limited_and_what_counts_never_is() {
    // One a minute: whatever comes after it within the minute is too much.
    let flags = ["--auth-failures-per-minute", "1"];
    let trusted = ["--trusted-proxies", "127.0.0.0/8"];
    let (stage, _app) = stage(&[flags, trusted].concat()).await;
    let host = format!("dev.{CONSOLE}");
    let ask = async |from: &str, headers: &[(&str, &str)]| {
        let chain = format!("10.9.8.7, {from}");
        let more = [SCRIPT, ("X-Forwarded-For", chain.as_str())];
        stage
            .ask("GET", &host, "/", &[headers, &more].concat())
            .await
    };
    let bearer = format!("Bearer {}", stage.bearer("alice"));
    let forged = forge(&bearer);
    let cookie = stage.cookie_on("alice", &host);
    let altered = forge(&cookie);
    assert_eq!(ask(A, &[("Authorization", &forged)]).await.status, 401);

    for credential in [("Authorization", &*forged), ("Cookie", &*altered)] {
        let limited = ask(A, &[credential]).await;
        assert_eq!(limited.status, 429, "{credential:?}");
        let wait: u64 = limited.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        assert_eq!(limited.header("cache-control"), Some("no-store"));
        let body: Value = serde_json::from_slice(&limited.body).unwrap();
        assert_eq!(body["code"], "too_many_failures");
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(&format!("{wait} s")), "{message}");
    }

    // What counts is let in, from that very address, however often; and what is no forgery is told
    // what it is.
    let expired = stage.short_cookie("alice", &host, -60);
    let elsewhere = stage.cookie_on("alice", &format!("other.{CONSOLE}"));
    for _ in 0..3 {
        assert_eq!(ask(A, &[("Authorization", &bearer)]).await.status, 200);
        assert_eq!(ask(A, &[("Cookie", &cookie)]).await.status, 200);
        for once_good in [&expired, &elsewhere] {
            assert_eq!(ask(A, &[("Cookie", once_good)]).await.status, 401);
        }
        assert_eq!(ask(A, &[]).await.status, 401);
    }
    // Whoever navigates is sent to where a good cookie comes from.
    let navigates = [
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
    ];
    let page = ask(A, &[&navigates[..], &[("Cookie", &altered)]].concat()).await;
    assert_eq!(page.status, 302, "{}", page.text());
    // A neighbour has a bucket of their own.
    assert_eq!(ask(B, &[("Authorization", &forged)]).await.status, 401);

    // Pods get to see the client, and nothing that it wrote itself.
    let echo = ask(B, &[("Cookie", &cookie)]).await.text();
    assert!(
        echo.contains(&format!("\nx-forwarded-for: {B}\n")),
        "{echo}"
    );

    let metrics = stage.metrics().await;
    for line in [
        "nogoo9_auth_failures_total{kind=\"bearer\",limited=\"false\"} 2",
        "nogoo9_auth_failures_total{kind=\"bearer\",limited=\"true\"} 1",
        "nogoo9_auth_failures_total{kind=\"cookie\",limited=\"true\"} 2",
    ] {
        assert!(metrics.contains(line), "{line} not in\n{metrics}");
    }
    let told = |from: &str, how: &str, reason: &str| {
        format!(
            "audit: audit what=\"request\" from=\"{from}\" how=\"{how}\" object=\"dev\" \
             result=\"refused\" reason=\"{reason}\""
        )
    };
    for record in [
        told(A, "bearer", "signature"),
        told(A, "bearer", "too_many_failures"),
        told(A, "session", "too_many_failures"),
        told(A, "session", "expired"),
        told(A, "session", "wrong_audience"),
        told(A, "none", "no_credential"),
        told(B, "bearer", "signature"),
    ] {
        eventually(&record, || async { stage.log().contains(&record) }).await;
    }
    let log = stage.log();
    let secrets = [&bearer, &forged, &cookie, &altered, &expired, &elsewhere];
    for secret in secrets {
        let signature = secret.rsplit('.').next().unwrap();
        assert!(!log.contains(signature), "a credential in the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_trusted_does_not_choose_their_address() {
    let (stage, _app) = stage(&["--auth-failures-per-minute", "1"]).await;
    let host = format!("dev.{CONSOLE}");
    let forged = forge(&format!("Bearer {}", stage.bearer("alice")));
    let mut answers = Vec::new();
    for from in [A, B] {
        let headers = [
            ("Authorization", forged.as_str()),
            ("X-Forwarded-For", from),
            ("Forwarded", "for=198.51.100.1"),
        ];
        answers.push(stage.ask("GET", &host, "/", &headers).await.status);
    }
    assert_eq!(answers, [401, 429]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_open_it_leaves_a_record() {
    let (stage, _app) = stage(&[]).await;
    let bob = format!("Bearer {}", stage.bearer("bob"));
    let headers = [
        ("Authorization", bob.as_str()),
        ("X-Request-Id", "r-1\" who=\"alice"),
    ];
    for id in ["dev", "none"] {
        let host = format!("{id}.{CONSOLE}");
        assert_eq!(stage.ask("GET", &host, "/", &headers).await.status, 404);
        let record = format!(
            "what=\"request\" who=\"bob\" from=\"127.0.0.1\" how=\"bearer\" object=\"{id}\" \
             result=\"refused\" reason=\"not_theirs\" request=\"r-1%22%20who=%22alice\""
        );
        eventually(&record, || async { stage.log().contains(&record) }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_credential_is_logged_however_much_is() {
    const SECRETS: [&str; 4] = ["c00kie", "b34rer", "b4sic", "qu3ry"];
    let (stage, _app) = stage(&["--log", "debug"]).await;
    let host = format!("dev.{CONSOLE}");
    let credentials = "Cookie: nogoo9=c00kie; app=c00kie\r\nAuthorization: Bearer b34rer\r\n\
                       Proxy-Authorization: Basic b4sic\r\n";
    for rest in [
        "\r\n",
        "X y: z\r\n\r\n",
        "X: a\rb\r\n\r\n",
        "Host: other\r\n\r\n",
        "Content-Length: x\r\n\r\n",
        "Transfer-Encoding: x\r\n\r\n",
    ] {
        let head = format!("GET /?token=qu3ry HTTP/1.1\r\nHost: {host}\r\n{credentials}{rest}");
        let mut connection = Connection::open(stage.address).await;
        connection.send(head).await;
        let status = connection.answer().await.status;
        assert!((400..500).contains(&status), "{rest:?}: {status}");
    }
    // One that is served, and is logged after all of them.
    let cookie = stage.cookie_on("alice", &host);
    let headers = [("Cookie", cookie.as_str()), ("X-App", "b34rer")];
    assert_eq!(
        stage
            .ask("GET", &host, "/last?qu3ry", &headers)
            .await
            .status,
        200
    );
    eventually("the line", || async { stage.log().contains("/last") }).await;
    let log = stage.log();
    assert!(log.contains("DEBUG"), "nothing beyond info was logged");
    for secret in SECRETS {
        assert!(!log.contains(secret), "{secret} in the log");
    }
}
