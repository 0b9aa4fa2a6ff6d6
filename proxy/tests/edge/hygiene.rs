//! What pods get to see, and what they cannot do to others.

use crate::client::{Connection, request};
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;

/// Header lines of an echo, by name.
fn seen<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let prefix = format!("{name}: ");
    text.lines()
        .filter_map(|line| line.strip_prefix(prefix.as_str()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_see_the_caller_and_nothing_of_ours() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    let cookie = format!(
        "theme=dark; {}; nogoo9-nonce=x; __Host-nogoo9=y; lang=de",
        stage.cookie_on("alice", &host)
    );
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("X-User-Sub", "root"),
        ("X-User-Roles", "admin"),
        ("X_User_Sub", "root"),
        ("X-Forwarded-User", "root"),
        ("X-Forwarded-Email", "root@example.org"),
        ("X-Forwarded-For", "1.2.3.4"),
        ("X-Workspace-JWT", "x"),
        ("X-Auth-Request-User", "root"),
        ("Forwarded", "for=1.2.3.4"),
        ("X-Other", "stays"),
        ("Authorization", "Basic YTpi"),
    ];
    let text = stage.ask("GET", &host, "/", &headers).await.text();
    assert_eq!(seen(&text, "cookie"), ["theme=dark; lang=de"]);
    assert_eq!(seen(&text, "x-user-sub"), ["alice"]);
    assert_eq!(seen(&text, "x-user-roles"), ["user"]);
    assert_eq!(seen(&text, "x-other"), ["stays"]);
    assert_eq!(
        seen(&text, "authorization"),
        ["Basic YTpi"],
        "the application's own stays"
    );
    assert_eq!(seen(&text, "host"), [host.as_str()]);
    assert_eq!(seen(&text, "x-forwarded-host"), [host.as_str()]);
    assert_eq!(seen(&text, "x-forwarded-proto"), ["http"]);
    assert_eq!(seen(&text, "x-forwarded-for"), ["127.0.0.1"]);
    assert!(
        !text.contains("root") && !text.contains("1.2.3.4"),
        "{text}"
    );

    let bearer = format!("Bearer {}", stage.bearer("alice"));
    let text = stage
        .ask("GET", &host, "/", &[("Authorization", &bearer)])
        .await
        .text();
    assert!(text.starts_with("app\n"), "{text}");
    assert!(seen(&text, "authorization").is_empty(), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_may_do_without_identity() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    let pod = Spec::new("app", "dev", 1, app.address).with(&[("workspace-auth-mode", "no-auth")]);
    stage.run(&pod).await;
    let (host, cookie) = stage.alice("dev");
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("X-User-Sub", "root"),
    ];
    let text = stage.ask("GET", &host, "/", &headers).await.text();
    assert!(
        text.starts_with("app\n") && !text.contains("x-user"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_cannot_take_identity_away() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let (host, cookie) = stage.alice("dev");
    let mut connection = Connection::open(stage.address).await;
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Connection", "X-User-Sub, X-Other, close"),
        ("X-Other", "gone"),
    ];
    connection.send(request("GET", &host, "/", &headers)).await;
    let text = connection.answer().await.text();
    assert_eq!(seen(&text, "x-user-sub"), ["alice"]);
    assert!(seen(&text, "x-other").is_empty(), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_cannot_set_cookies_for_others() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let answer = stage
        .get("dev", "/answer?set-cookie=a=1;%20Domain=localhost;%20Path=/x;%20Secure&set-cookie=nogoo9=stolen&set-cookie=__Host-nogoo9-nonce=x&set-cookie==nogoo9=x&location=/y&service-worker-allowed=/")
        .await;
    assert_eq!(answer.all("set-cookie"), ["a=1; Path=/x; Secure"]);
    assert_eq!(
        answer.header("location"),
        Some("/y"),
        "host mode rewrites nothing"
    );
    assert_eq!(answer.header("service-worker-allowed"), Some("/"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_to_something_else_is_a_plain_request() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    let mut connection = Connection::open(stage.address).await;
    connection
        .send(request(
            "GET",
            &host,
            "/",
            &[("Connection", "Upgrade"), ("Upgrade", "x")],
        ))
        .await;
    assert_eq!(
        connection.answer().await.status,
        401,
        "an Upgrade header opens nothing"
    );
    let cookie = stage.cookie_on("alice", &host);
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Connection", "Upgrade"),
        ("Upgrade", "h2c"),
    ];
    let mut connection = Connection::open(stage.address).await;
    connection.send(request("GET", &host, "/", &headers)).await;
    let answer = connection.answer().await;
    assert_eq!(answer.status, 200);
    assert!(!answer.text().contains("upgrade"), "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_our_own_answers_say_so_and_a_workspaces_are_its_own() {
    let stage = Stage::over_tls().await;
    let (_app, _uid) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    let sts = "strict-transport-security";
    let plain = stage.cookie_on("alice", &host);
    let own = format!("__Host-{plain}");
    let ask = async |host: &str, path: &str, headers: &[(&str, &str)]| {
        stage.ask("GET", host, path, headers).await
    };
    let navigates = [("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Site", "none")];
    let site = ("Sec-Fetch-Site", "same-origin");
    // Ours: to sign in, refusals, pages, and what control says.
    let page = ask(&host, "/x", &navigates).await;
    let nonce = page.header("set-cookie").unwrap().to_owned();
    assert!(nonce.starts_with("__Host-nogoo9-nonce="), "{nonce}");
    assert!(nonce.ends_with("; Secure"), "{nonce}");
    assert!(!nonce.contains("Domain"), "{nonce}");
    let mut lost = navigates.to_vec();
    lost.push(("Cookie", &own));
    for (answer, status) in [
        (page, 302),
        (ask(&host, "/x", &[site]).await, 401),
        (ask(&host, "/.nogoo9/none", &lost).await, 404),
        (ask(CONSOLE, "/", &[]).await, 200),
        (ask("elsewhere.example", "/", &[]).await, 421),
    ] {
        assert_eq!(answer.status, status);
        assert_eq!(answer.all(sts), ["max-age=31536000"], "{status}");
    }
    // A cookie without the prefix, which any host beside this one could plant, is nobody's here.
    let planted = ask(&host, "/x", &[site, ("Cookie", &plain)]).await;
    assert_eq!(planted.status, 401);
    // A workspace's answers stay what it makes them.
    let seen = ask(&host, "/x", &[site, ("Cookie", &own)]).await;
    assert_eq!(seen.status, 200);
    let ours = [
        sts,
        "content-security-policy",
        "x-frame-options",
        "x-content-type-options",
        "referrer-policy",
        "permissions-policy",
        "cross-origin-opener-policy",
        "cache-control",
    ];
    for name in ours {
        assert_eq!(seen.header(name), None, "{name}");
    }
    let path = "/answer?strict-transport-security=max-age=5&x-frame-options=SAMEORIGIN";
    let said = ask(&host, path, &[site, ("Cookie", &own)]).await;
    assert_eq!(said.all(sts), ["max-age=5"]);
    assert_eq!(said.all("x-frame-options"), ["SAMEORIGIN"]);
}
